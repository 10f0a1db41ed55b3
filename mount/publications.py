"""What is being published after its file was closed, and who has to wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from journalfs_mount.limits import PUBLICATION_WAIT_S


class Publications:
    """The last close of a file reaches nobody: the kernel does not wait for it. So whatever comes after it
    and concerns the same address waits here, and a shell reads its own writes.
    """

    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: dict[trio.Event, str] = {}

    def __bool__(self) -> bool:
        return bool(self._under_way)

    @contextmanager
    def begun(self, address_name: str) -> Iterator[None]:
        """While entered, something is being published in this address."""
        done = trio.Event()
        self._under_way[done] = address_name
        try:
            yield
        finally:
            del self._under_way[done]
            done.set()

    async def settled(self, concerns: Callable[[str], bool]) -> None:
        """Wait for what was begun before this call in an address that concerns the caller.

        Not for ever: nobody could interrupt the wait, and what keeps a message from being published may be
        what the caller is about to take away.
        """
        before = [done for done, address_name in self._under_way.items() if concerns(address_name)]
        with trio.move_on_after(PUBLICATION_WAIT_S):
            for done in before:
                await done.wait()
