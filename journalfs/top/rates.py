"""How many messages a second come to each queue and leave it, from counts at several moments.

The journal says how many left; how many came follows from that and from what is there. Of messages in pages
only the difference is known: one that came and went between two looks is in neither rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from journalfs.store.queue_counts import QueueCounts

WINDOW_S: Final = 10.0
"""Rates are of so many seconds: longer ones are late, shorter ones jump."""


class Rate(NamedTuple):
    """Messages a second."""

    came: float
    left: float


STILL: Final = Rate(0.0, 0.0)


class _Moment(NamedTuple):
    time_s: float
    came: int
    left: int


class Rates:
    """Of all queues. Only those that changed within the window take memory."""

    def __init__(self) -> None:
        self._counts: Iterable[QueueCounts] = ()
        self._last: dict[int, QueueCounts] = {}
        self._moments: dict[int, deque[_Moment]] = {}
        self._time_s: float | None = None
        self.known = False
        """True once there were two looks."""

    @property
    def moving(self) -> int:
        """Queues that changed within the window."""
        return len(self._moments)

    def feed(self, time_s: float, counts: Iterable[QueueCounts]) -> None:
        """Take over a look at all queues; `time_s` of a clock that never goes back."""
        before, before_s = self._last, self._time_s
        if counts is not self._counts:
            self._last, self._counts = {one.id: one for one in counts}, counts
        self._time_s = time_s
        if before_s is None:
            return
        self.known = True
        for queue_id, now in self._last.items() if self._last is not before else ():
            then = before.get(queue_id)
            if then is not None and then is not now:
                self._add(now, then, time_s, before_s)
        for queue_id, moments in list(self._moments.items()):
            while len(moments) > 1 and moments[1].time_s <= time_s - WINDOW_S:
                moments.popleft()
            is_still = moments[-1].time_s <= time_s - WINDOW_S
            if queue_id not in self._last or is_still:
                del self._moments[queue_id]

    def _add(self, now: QueueCounts, then: QueueCounts, time_s: float, before_s: float) -> None:
        left = now.left - then.left
        came = _in_journal(now) - _in_journal(then) + left
        if left < 0 or came < 0:
            self._moments.pop(now.id, None)  # the journal was read again, and counts anew
            return
        paged = now.paged - then.paged
        came, left = came + max(0, paged), left + max(0, -paged)
        if not came and not left:
            return
        moments = self._moments.setdefault(now.id, deque([_Moment(before_s, 0, 0)]))
        moments.append(_Moment(time_s, moments[-1].came + came, moments[-1].left + left))

    def of(self, queue_id: int) -> Rate:
        moments = self._moments.get(queue_id)
        if not moments or self._time_s is None:
            return STILL
        first, last = moments[0], moments[-1]
        seconds = min(WINDOW_S, self._time_s - first.time_s)
        if seconds <= 0:
            return STILL
        return Rate((last.came - first.came) / seconds, (last.left - first.left) / seconds)


def _in_journal(counts: QueueCounts) -> int:
    return counts.messages - counts.paged + counts.delivering
