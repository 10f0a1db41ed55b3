"""How much of the disk a user's staged files take, in bytes and inodes, so that nobody fills it for all.

What somebody writes is taken from what that user has left, and given back by nobody: when nothing is left,
what is staged is counted again. A file without content takes an inode all the same, of which a file system
may have few: 12,766 empty names once used up all of an ext4.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import trio

from journalfs.api import in_a_thread
from journalfs_mount.errnos import Refused
from journalfs_mount.process.shares import OWNER, Shares

ENTRY_BYTES: Final = 4096
"""What a name takes, however little is written."""

GRANTED_BYTES_MAX: Final = 1 << 30
"""After so much it is counted again: the disk may have filled up otherwise."""

GRANTED_FILES_MAX: Final = 1024
"""Likewise."""

REFUSED_S: Final = 1.0
"""Whoever was refused is not counted again before."""

SETTING: Final = "user-staged-bytes-max"
FILES_SETTING: Final = "user-staged-files-max"

SNAPSHOT_FILES: Final = 8
"""What a snapshot takes at the least: its directories, its description, and a copy of each journal's end."""

DRAFT_FILES: Final = 4
"""What a transaction that was begun takes before anything is written to it: three directories and a list."""


class Room(NamedTuple):
    """Room on a disk."""

    size_bytes: int
    files: int

    def less(self, other: Room) -> Room:
        return Room(self.size_bytes - other.size_bytes, self.files - other.files)

    def holds(self, other: Room) -> bool:
        return self.size_bytes >= other.size_bytes and self.files >= other.files


class StagedHandle(Protocol):
    """Something staged that is open."""

    user: int

    def nameless_bytes(self) -> int:
        """What it takes beside what names lead to."""


class Area(Protocol):
    def used(self, user: int) -> Room: ...

    def free(self) -> Room: ...


@dataclass(slots=True)
class StagedRoom:
    limits: Mapping[str, int]
    """Of one user, by the names of settings. Negative: half of what is free, and of what is staged."""
    shares: Shares
    area: Callable[[], Area]
    """Where it lies. It is asked in a thread."""
    besides: Callable[[int], Callable[[], Room]]
    """What else of a user's takes room: transactions that were begun, and snapshots. Measured in a thread."""
    opened: set[StagedHandle] = field(default_factory=set)
    """What is open takes room when its name has gone, too."""
    _left: dict[int, Room] = field(default_factory=dict)
    _refused: dict[int, tuple[float, str]] = field(default_factory=dict)
    """Until when a user is refused without being counted, and which setting says so."""
    _counting: trio.Lock = field(default_factory=trio.Lock)

    async def take(self, length_bytes: int, files: int = 0) -> None:
        """Room for what a user is about to write, and for new names. EDQUOT when the user has none; root, and
        who mounted, have all there is.
        """
        user, wanted = OWNER.get(), Room(length_bytes, files)
        if not self.shares.is_limited(user):
            return
        if not self._left_of(user).holds(wanted):
            async with self._counting:
                if not self._left_of(user).holds(wanted):
                    await self._count(user, wanted)
        self._left[user] = self._left_of(user).less(wanted)

    async def take_entries(self, files: int = 1) -> None:
        """Room for new names."""
        await self.take(files * ENTRY_BYTES, files)

    def took(self, used: Room) -> None:
        """What the user's request has just made takes so much, of which nobody knew before."""
        user = OWNER.get()
        self._left[user] = self._left_of(user).less(used)

    def _left_of(self, user: int) -> Room:
        return self._left.get(user, Room(0, 0))

    async def _count(self, user: int, wanted: Room) -> None:
        refused_s, setting = self._refused.get(user, (0.0, SETTING))
        if trio.current_time() >= refused_s:
            besides = self.besides(user)
            left = await in_a_thread(lambda: self._counted(user, besides))
            granted = Room(max(GRANTED_BYTES_MAX, wanted.size_bytes), max(GRANTED_FILES_MAX, wanted.files))
            self._left[user] = Room(*map(min, left, granted))
            if left.holds(wanted):
                return
            setting = SETTING if left.size_bytes < wanted.size_bytes else FILES_SETTING
            self._refused[user] = trio.current_time() + REFUSED_S, setting
        reason = f"user {user} has staged as much as one may ({setting}): publish or remove some of it"
        self.shares.tell(setting, reason)
        raise Refused(errno.EDQUOT, reason)

    def _counted(self, user: int, measure: Callable[[], Room]) -> Room:
        """What a user has left."""
        opened = sum(one.nameless_bytes() for one in tuple(self.opened) if one.user == user)
        staged, besides, free = self.area().used(user), measure(), self.area().free()
        used = Room(staged.size_bytes + opened + besides.size_bytes, staged.files + besides.files)
        limits = Room(self.limits.get(SETTING, -1), self.limits.get(FILES_SETTING, -1))
        halves = [(are_free + are_used) // 2 for are_free, are_used in zip(free, used, strict=True)]
        most = [limit if limit >= 0 else half for limit, half in zip(limits, halves, strict=True)]
        return Room(*most).less(used)
