"""How much of the disk a user's staged files take, so that nobody fills it for everybody.

What somebody writes is taken from what that user has left, and given back by nobody: when nothing is left,
what is staged is counted anew.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import trio

from journalfs.api import in_a_thread
from journalfs_mount.errnos import Refused
from journalfs_mount.process.shares import OWNER, Shares

ENTRY_BYTES: Final = 4096
"""What a name takes, however little is written."""

GRANTED_BYTES_MAX: Final = 1 << 30
"""After so much it is counted again: the disk may have filled up otherwise."""

REFUSED_S: Final = 1.0
"""Whoever was refused is not counted again before."""

SETTING: Final = "user-staged-bytes-max"


class StagedHandle(Protocol):
    """Something staged that is open."""

    user: int

    def nameless_bytes(self) -> int:
        """What it takes beside what names lead to."""


class Area(Protocol):
    def used_bytes(self, user: int) -> int: ...

    def free_bytes(self) -> int: ...


@dataclass(slots=True)
class StagedRoom:
    limit_bytes: int
    """Of one user. Negative: half of what is free, and of what the user has staged."""
    shares: Shares
    area: Callable[[], Area]
    """Where it lies. It is asked in a thread."""
    opened: set[StagedHandle] = field(default_factory=set)
    """What is open takes room when its name has gone, too."""
    _left: dict[int, int] = field(default_factory=dict)
    _refused: dict[int, float] = field(default_factory=dict)
    _counting: trio.Lock = field(default_factory=trio.Lock)

    async def take(self, length_bytes: int) -> None:
        """Room for what a user is about to write. EDQUOT when the user has none; root, and who mounted, have
        all there is.
        """
        user = OWNER.get()
        if not self.shares.is_limited(user):
            return
        if self._left.get(user, 0) < length_bytes:
            async with self._counting:
                if self._left.get(user, 0) < length_bytes:
                    await self._count(user, length_bytes)
        self._left[user] = self._left.get(user, 0) - length_bytes

    async def _count(self, user: int, length_bytes: int) -> None:
        if trio.current_time() >= self._refused.get(user, 0.0):
            left = await in_a_thread(lambda: self._left_of(user))
            self._left[user] = min(left, max(GRANTED_BYTES_MAX, length_bytes))
            if left >= length_bytes:
                return
            self._refused[user] = trio.current_time() + REFUSED_S
        reason = f"user {user} has staged as much as one may ({SETTING}): publish or remove some of it"
        self.shares.tell(SETTING, reason)
        raise Refused(errno.EDQUOT, reason)

    def _left_of(self, user: int) -> int:
        opened = sum(one.nameless_bytes() for one in tuple(self.opened) if one.user == user)
        used = self.area().used_bytes(user) + opened
        if self.limit_bytes >= 0:
            return self.limit_bytes - used
        return (self.area().free_bytes() + used) // 2 - used
