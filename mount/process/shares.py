"""What each user may hold of what a mount has only so much of, so that nobody takes everybody's."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from enum import StrEnum
from typing import Final, NamedTuple

import trio

from journalfs.api import Memory
from journalfs_mount.errnos import refuse

OWNER: ContextVar[int] = ContextVar("owner", default=0)
"""The user whose request a task serves."""


class Asker(NamedTuple):
    """The user who makes a request, the user's group, and the thread that waits for the answer."""

    uid: int
    gid: int
    thread: int


THE_MOUNT: Final = Asker(0, 0, 0)

ASKER: ContextVar[Asker] = ContextVar("asker", default=THE_MOUNT)
"""Who asks for what a task does. What the mount does by itself counts as root's."""


class Share(StrEnum):
    """What is shared, by the setting that says how much of it a user may have."""

    WAITING = "user-waiting-max"
    """Requests that wait for something that others do."""
    STREAMS = "user-streams-max"
    """`.follow` and `.take` that are open."""
    OPEN = "user-open-max"
    """Files and directories that are open."""
    OPEN_BYTES = "user-open-bytes-max"
    """Memory that open files and directories hold: lists of messages, and what is read ahead."""
    SELECTIONS = "user-selections-max"
    """Requests for which it has to be found out first what a selector chooses, or how long messages are."""


RESERVED_SHARE: Final = 4
"""One of so many places is for root and the user who mounted alone."""

_ERRNO: Final = {
    Share.WAITING: errno.EAGAIN,
    Share.STREAMS: errno.EDQUOT,
    Share.OPEN: errno.EDQUOT,
    Share.OPEN_BYTES: errno.EDQUOT,
    Share.SELECTIONS: errno.EAGAIN,
}


class Shares:
    """Counts by user. Root and the user who mounted have no share: all that is left is theirs."""

    def __init__(
        self, limits: Mapping[str, int], tell: Callable[[str, str], object] = lambda setting, reason: None
    ) -> None:
        """`tell` is told of each refusal: the setting, and why."""
        self.tell = tell
        self._max = {share: limits[share] for share in Share if share in limits}
        self._held: dict[Share, Counter[int]] = {share: Counter() for share in Share}
        self._lists: Counter[tuple[int, int]] = Counter()
        """How often each user has each list open, by the list's identity."""
        self._unlimited = {0, os.getuid(), os.geteuid()}

    def is_limited(self, user: int) -> bool:
        return user not in self._unlimited

    def allows(self, share: Share, user: int) -> bool:
        """Whether one more may be `user`'s."""
        allowed = self._max.get(share)
        return allowed is None or user in self._unlimited or self._held[share][user] < allowed

    def take(self, share: Share, user: int) -> None:
        """One more is `user`'s, until `give_back`. Refused when its share is spent."""
        held = self._held[share]
        if not self.allows(share, user):
            self.tell(str(share), f"user {user} has {held[user]} of these, and it allows no more")
            raise refuse(_ERRNO[share])
        held[user] += 1

    def take_memory(self, user: int, memory: Memory) -> None:
        """What an opening holds is `user`'s until `give_back_memory`; a list that several openings share
        counts once. Refused when the share is spent: but whoever holds nothing may have any one list.
        """
        held = self._held[Share.OPEN_BYTES]
        if not self.allows_memory(user, memory):
            most = self._max[Share.OPEN_BYTES]
            reason = f"user {user} has files open that hold {held[user]} bytes, and it allows {most}"
            self.tell(str(Share.OPEN_BYTES), reason)
            raise refuse(_ERRNO[Share.OPEN_BYTES])
        more = self._more(user, memory)
        if more:
            held[user] += more
        if memory.shared is not None:
            self._lists[user, id(memory.shared)] += 1

    def allows_memory(self, user: int, memory: Memory) -> bool:
        """Whether what an opening holds may be `user`'s."""
        most, held = self._max.get(Share.OPEN_BYTES), self._held[Share.OPEN_BYTES][user]
        if most is None or user in self._unlimited or not held:
            return True
        return held + self._more(user, memory) <= most

    def _more(self, user: int, memory: Memory) -> int:
        """What the user holds more by an opening."""
        has_list = self._lists[user, id(memory.shared)] > 0
        return memory.own_bytes + (0 if has_list else memory.shared_bytes)

    def give_back_memory(self, user: int, memory: Memory) -> None:
        held, key = self._held[Share.OPEN_BYTES], (user, id(memory.shared))
        less = memory.own_bytes
        if memory.shared is not None:
            self._lists[key] -= 1
            if not self._lists[key]:
                del self._lists[key]
                less += memory.shared_bytes
        if less:
            held[user] -= less
        if not held[user]:
            del held[user]

    def hold(self, share: Share, user: int) -> None:
        """One more is `user`'s already."""
        self._held[share][user] += 1

    def room(self, places: int, user: int) -> int:
        """How many of all places may be taken before a user finds none: some are left for root and the user
        who mounted.
        """
        return places if user in self._unlimited else places - places // RESERVED_SHARE

    def give_back(self, share: Share, user: int) -> None:
        held = self._held[share]
        held[user] -= 1
        if not held[user]:
            del held[user]

    def report(self) -> Mapping[str, object]:
        """The limits, and what users hold."""
        return {
            str(share): {
                "max": self._max.get(share),
                "held": {str(user): count for user, count in sorted(held.items())},
            }
            for share, held in self._held.items()
        }


# Long work of one user rests while others ask for something, so that each has its share of the turns.

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
