"""Names that are being written: each is there from its first opening to its last close, and no longer. And
those that files of staged directories were refused.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

import trio

from journalfs import door
from journalfs_mount.errnos import Refused
from journalfs_mount.limits import PUBLICATION_WAIT_S

NameKey: TypeAlias = tuple[str, str | None, bytes]
"""Address, queue (None: the address itself) and file name."""


FOR_GOOD: Final = frozenset((errno.EDQUOT, errno.ENOSPC, errno.EBADMSG, errno.EFBIG, errno.EIO, errno.EPERM))
"""What a rename is refused with when to try again at once would not help."""

REFUSED_MAX: Final = 256
"""Names that are kept, the last ones."""


class Writing(Protocol):
    """One of the handles by which a name is written."""

    @property
    def size_bytes(self) -> int: ...

    async def forget(self) -> int | None: ...


class WrittenName:
    """A name and who writes it. Every handle is a stream of its own: what two of them write is not mixed."""

    __slots__ = ("handles", "removed")

    def __init__(self) -> None:
        self.handles: list[Writing] = []
        self.removed = False
        """Removed while it was written, so what is not published yet goes with it."""

    @property
    def size_bytes(self) -> int:
        return self.handles[-1].size_bytes if self.handles else 0


class WrittenNames:
    """All names that are being written in one mount."""

    def __init__(self) -> None:
        self._names: dict[NameKey, WrittenName] = {}
        self._serial = 0

    def __bool__(self) -> bool:
        return bool(self._names)

    def find(self, key: NameKey) -> WrittenName | None:
        return self._names.get(key)

    def opened(self, key: NameKey, handle: Writing) -> WrittenName:
        name = self._names.setdefault(key, WrittenName())
        name.handles.append(handle)
        return name

    def closed(self, key: NameKey, name: WrittenName, handle: Writing) -> None:
        name.handles.remove(handle)
        if not name.handles and self._names.get(key) is name:
            del self._names[key]

    def remove(self, key: NameKey) -> list[Writing]:
        """Who writes it, under no name from here on."""
        name = self._names.pop(key, None)
        if name is None:
            return []
        name.removed = True
        return list(name.handles)

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial


class RefusedNames:
    """Names that files of staged directories were to get, and were refused for good. Nobody writes them as
    long as such a file is there: what is refused as a whole is not to be published in pieces by who copies
    where it cannot rename, as Hadoop does.
    """

    def __init__(self) -> None:
        self._names: dict[NameKey, tuple[bytes, int, int]] = {}
        """Path and number of the real file, and the errno."""

    def add(self, key: NameKey, path: bytes, number: int, error: int) -> None:
        self._names.pop(key, None)
        self._names[key] = (path, number, error)
        if len(self._names) > REFUSED_MAX:
            del self._names[next(iter(self._names))]

    def require_free(self, key: NameKey) -> None:
        """Raises `Refused`."""
        path, number, error = self._names.get(key, (b"", 0, 0))
        if not path:
            return
        if door.exists(path) and door.status(path).st_ino == number:
            raise Refused(error, "a staged file was refused this name, and to copy would publish in pieces")
        del self._names[key]


# What is being published after its file was closed, and who has to wait for it.


class Publications:
    """The last close of a file reaches nobody: the kernel does not wait for it. So whatever comes after it
    and concerns the same address waits here, and a shell reads its own writes.
    """

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
