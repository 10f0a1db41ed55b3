"""Long work of one user rests while others ask for something, so that each has its share of the turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from journalfs_mount.shares import OWNER

RECENT_S: Final = 0.25
"""Who asked for something within this time, or twice as long, is waiting for it or will ask again."""

SPARED_S: Final = 0.01
"""What a user who has not worked long has before it rests: one piece, and what surrounds it."""

PIECE_S_MAX: Final = 0.05
"""No longer is a piece taken to be: it waited for something else as well."""


class Pacing:
    """Whoever does long work calls `rest` between two pieces. While as many as n users ask for something, the
    work of one takes no more than one nth of the time, however many requests it is made of; who is alone
    never rests. Nobody waits for a request of somebody else to end: that may be when this work is done.
    """

    __slots__ = ("_now", "_rests_until", "_seen", "_seen_before", "_since", "ask")

    def __init__(self, now: Callable[[], float] = trio.current_time) -> None:
        self._now = now
        self._seen: set[int] = set()
        self._seen_before: set[int] = set()
        self._since = 0.0
        self._rests_until: dict[int, float] = {}
        """By user: when what it worked is made good by what it rested."""
        self.ask: Callable[[int], None] = self._seen.add
        """A user asks for something."""

    async def rest(self, busy_s: float) -> bool:
        """Let others go on after a piece of work for the user whose request this is (`OWNER`), which took so
        long. Whether there are others.
        """
        now, user = self._now(), OWNER.get()
        others = len(self._active(now) - {user})
        if not others:
            self._rests_until.pop(user, None)
            await trio.lowlevel.checkpoint()
            return False
        busy_s = min(busy_s, PIECE_S_MAX)
        until = max(self._rests_until.get(user, 0.0), now - busy_s - SPARED_S) + (1 + others) * busy_s
        self._rests_until[user] = until
        await trio.sleep(max(until - now, 0.0))
        return True

    def _active(self, now: float) -> set[int]:
        if now - self._since >= RECENT_S:
            is_recent = now - self._since < 2 * RECENT_S
            self._seen_before = self._seen if is_recent else set()
            self._seen, self._since = set(), now
            self.ask = self._seen.add
        return self._seen | self._seen_before
