"""Open files and directories, by the handle numbers the kernel gives back."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from typing import Generic, TypeVar

from journalfs_mount.errnos import refuse
from journalfs_mount.limits import HANDLES_MAX

Opened = TypeVar("Opened")


def files_max() -> int:
    """How many files may be open at once, each of which may take a descriptor: a store that cannot open its
    own cannot go on.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HANDLES_MAX if most == resource.RLIM_INFINITY else min(HANDLES_MAX, most - most // 4)


class HandleTable(Generic[Opened]):
    """Numbers are never used twice, so a late request cannot reach another file's content."""

    __slots__ = ("_max", "_next", "_opened")

    def __init__(self, handles_max: int) -> None:
        self._opened: dict[int, Opened] = {}
        self._max = handles_max
        self._next = 1

    def __len__(self) -> int:
        return len(self._opened)

    def add(self, opened: Opened) -> int:
        """Keep `opened` and return its number. ENFILE, not EMFILE: the limit is the mount's, not the
        caller's."""
        if len(self._opened) >= self._max:
            raise refuse(errno.ENFILE)
        number = self._next
        self._next += 1
        self._opened[number] = opened
        return number

    def get(self, number: int) -> Opened:
        opened = self._opened.get(number)
        if opened is None:
            raise refuse(errno.EBADF)
        return opened

    def remove(self, number: int) -> Opened | None:
        return self._opened.pop(number, None)

    def __iter__(self) -> Iterator[Opened]:
        return iter(self._opened.values())

    def drain(self) -> list[Opened]:
        """Empty the table and return what was in it."""
        opened = list(self._opened.values())
        self._opened.clear()
        return opened
