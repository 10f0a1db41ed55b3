"""Open files and directories, by the handle numbers the kernel gives back."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from journalfs.api import NO_MEMORY, Memory
from journalfs_mount.errnos import refuse
from journalfs_mount.limits import HANDLES_MAX
from journalfs_mount.process.shares import Share, Shares

Opened = TypeVar("Opened")


def files_max() -> int:
    """How many files may be open at once, each of which may take a descriptor: a store that cannot open its
    own cannot go on.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HANDLES_MAX if most == resource.RLIM_INFINITY else min(HANDLES_MAX, most - most // 4)


class HandleTable(Generic[Opened]):
    """Numbers are never used twice, so a late request cannot reach another file's content."""

    def __init__(
        self,
        handles_max: int,
        shares: Shares | None = None,
        memory: Callable[[Opened], Memory] = lambda opened: NO_MEMORY,
    ) -> None:
        """`memory` returns the accounted memory that an open file holds."""
        self._opened: dict[int, Opened] = {}
        self._owners: dict[int, int] = {}
        self._memory = memory
        self._memories: dict[int, Memory] = {}
        """The memory of each open file that holds any."""
        self._shares = shares if shares is not None else Shares({})
        self._max = handles_max
        self._next = 1

    def __len__(self) -> int:
        return len(self._opened)

    def add(self, opened: Opened, owner: int = 0) -> int:
        """Keep what a user opened and return its number. ENFILE, not EMFILE: the limit is the mount's, not
        the caller's. EDQUOT when the user's share is spent.
        """
        if len(self._opened) >= self._shares.room(self._max, owner):
            raise refuse(errno.ENFILE)
        memory = self._memory(opened)
        self._shares.take(Share.OPEN, owner)
        try:
            self._shares.take_memory(owner, memory)
        except BaseException:
            self._shares.give_back(Share.OPEN, owner)
            raise
        number = self._next
        self._next += 1
        self._opened[number] = opened
        self._owners[number] = owner
        if memory is not NO_MEMORY:
            self._memories[number] = memory
        return number

    def recount(self, number: int) -> None:
        """Count the bytes of an open file again. Raises EDQUOT; then it counts as holding none."""
        owner, memory = self.owner(number), self._memory(self.get(number))
        self._shares.give_back_memory(owner, self._memories.pop(number, NO_MEMORY))
        self._shares.take_memory(owner, memory)
        self._memories[number] = memory

    def adopt(self, number: int, opened: Opened, owner: int) -> None:
        """Keep what was opened with a number that this table gives to none. That there was room for it was
        seen before."""
        self._shares.hold(Share.OPEN, owner)
        self._opened[number] = opened
        self._owners[number] = owner

    def has_room(self, owner: int, opened: Opened | None = None) -> bool:
        """Whether one more of a user's is taken."""
        if len(self._opened) >= self._shares.room(self._max, owner):
            return False
        if opened is not None and not self._shares.allows_memory(owner, self._memory(opened)):
            return False
        return self._shares.allows(Share.OPEN, owner)

    def owner(self, number: int) -> int:
        """The user who opened it."""
        return self._owners.get(number, 0)

    def get(self, number: int) -> Opened:
        opened = self._opened.get(number)
        if opened is None:
            raise refuse(errno.EBADF)
        return opened

    def remove(self, number: int) -> Opened | None:
        opened = self._opened.pop(number, None)
        if opened is not None:
            owner = self._owners.pop(number)
            self._shares.give_back(Share.OPEN, owner)
            self._shares.give_back_memory(owner, self._memories.pop(number, NO_MEMORY))
        return opened

    def __iter__(self) -> Iterator[Opened]:
        return iter(self._opened.values())

    def drain(self) -> list[Opened]:
        """Empty the table and return what was in it."""
        return [opened for number in list(self._opened) if (opened := self.remove(number)) is not None]
