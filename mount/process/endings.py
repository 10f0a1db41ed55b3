"""Readers that closed a stream themselves, and what their processes do after it.

Shells put back their descriptors and interpreters close their files before they exit, well or not. So whether
what such a reader had is acknowledged is decided when its process has ended, when it reads on by another
opening, or when it goes on for a second: a process that lives has not failed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import trio
from pyfuse3 import FUSEError

from journalfs.api import Delivery, QueuePath, WritableStore
from journalfs_mount.errnos import Noted
from journalfs_mount.limits import CLOSED_S
from journalfs_mount.process.reader import Reader, Watched


@dataclass(eq=False)
class Ending:
    """A message whose reader closed the stream."""

    reader: Reader
    delivery: Delivery
    queue: QueuePath
    store: WritableStore
    path: str
    _turn: trio.Lock = field(default_factory=trio.Lock)
    _waiting: trio.CancelScope = field(default_factory=trio.CancelScope)
    _decided: bool = False

    def __post_init__(self) -> None:
        self.watched: Watched | None = self.reader.watched()

    def over(self) -> bool:
        """Whether the process has ended."""
        return self.watched is None or self.watched.ended()

    async def wait(self) -> None:
        """Return when the process has ended, or lives for so long that it has not failed."""
        self._waiting.deadline = trio.current_time() + CLOSED_S
        with self._waiting:
            if self.watched is not None:
                await trio.lowlevel.wait_readable(self.watched.descriptor)

    async def decide(self) -> None:
        """Acknowledge the message, or give it back if the process failed by now."""
        async with self._turn:
            if self._decided:
                return
            self._decided = True
            self._waiting.cancel()
            failed = self.watched is not None and self.watched.ended() and self.watched.failed()
            with contextlib.suppress(FUSEError), Noted(self.store.refused, lambda: self.path):
                if failed:
                    await self.delivery.give_back(failed=True)
                else:
                    await self.delivery.acknowledge()

    def close(self) -> None:
        if self.watched is not None:
            self.watched.close()
            self.watched = None


class Endings:
    """All that are not decided yet."""

    def __init__(self) -> None:
        self._pending: list[Ending] = []
        self._begun: trio.Event = trio.Event()
        self._nursery: trio.Nursery | None = None

    def __bool__(self) -> bool:
        return bool(self._pending)

    async def run(self) -> None:
        """Decide each in its time, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep_forever()

    def begin(self, ending: Ending) -> None:
        self._pending.append(ending)
        assert self._nursery is not None
        self._nursery.start_soon(self._see_to, ending)

    async def _see_to(self, ending: Ending) -> None:
        try:
            await ending.wait()
            await self._decide(ending)
        finally:
            ending.close()

    async def _decide(self, ending: Ending) -> None:
        await ending.decide()
        if ending in self._pending:
            self._pending.remove(ending)

    async def settled(self, concerns: Callable[[str], bool]) -> None:
        """Decide those whose process has ended: whoever asks may be the shell that waited for it."""
        for ending in [one for one in self._pending if concerns(one.queue[0]) and one.over()]:
            await self._decide(ending)

    async def came_back(self, reader: Reader, queue: QueuePath) -> None:
        """A process reads on in a queue, so what it had of it before is consumed."""
        for ending in [
            one for one in self._pending if one.queue == queue and one.reader.process == reader.process
        ]:
            await self._decide(ending)

    async def end(self) -> None:
        """The mount is over. What was closed is acknowledged unless its process failed by now."""
        for ending in list(self._pending):
            await self._decide(ending)
