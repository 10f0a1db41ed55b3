"""When the tail of a queue is to become parts.

There may be thousands of queues, and something changes in few of them: only those are looked at, and tails
that wait.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import chain
from time import monotonic_ns
from typing import Final, NamedTuple

from journalfs.clock import NS_PER_MS
from journalfs.ids import QueueId
from journalfs.limits import TAIL_IDLE_MS, TAIL_WAIT_MS
from journalfs.live.core import Core
from journalfs.views.queues import StoreQueue

LOOKED_AT_MAX: Final = 1024
"""Queues that are looked at in one turn. One message may go to many thousands."""

LOOKED_AT_MIN: Final = 64
LOOKED_AT_NS: Final = 20_000_000
"""Once so many are, no more are looked at when so much time is over: parts may have to be made of each."""


class _Waiting(NamedTuple):
    """A tail that is to become parts, by the clock that is never set back."""

    since_ms: int
    grown_ms: int
    messages: int


class Tails:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiting: dict[QueueId, _Waiting] = {}
        self._to_look_at: set[QueueId] = set()
        self._latest = QueueId(-1)
        """The last one that was looked at."""
        self._epoch = core.epoch
        self._versions = array("Q")
        """Of queues in the live state, as of the last look."""
        self._page_versions: dict[str, int] = {}
        """Versions of the pages of addresses that page, at the last look."""

    def __bool__(self) -> bool:
        """Whether any has to be looked at, even if nothing changes."""
        return bool(self._waiting or self._to_look_at)

    def look_at(self, queue_id: QueueId) -> None:
        """A queue is shown that was not before."""
        self._to_look_at.add(queue_id)

    def sealed(self, queue_id: QueueId, *, wholly: bool) -> None:
        """The tail of a queue became parts, as far as it could."""
        self._waiting.pop(queue_id, None)
        if wholly:
            self._to_look_at.discard(queue_id)
        else:
            self._to_look_at.add(queue_id)

    def seen(self) -> None:
        """Note that the present tails are sealed as far as they can be: only later changes are looked at."""
        self._changed()
        self._changed_pages()

    def due(self, queues: Mapping[QueueId, StoreQueue]) -> Iterator[StoreQueue]:
        """Return the queues whose tail waited long enough, or got nothing new for a while. At most so many
        are returned; the next calls return the others.
        """
        for gone in self._waiting.keys() - queues.keys():
            del self._waiting[gone]
        self._to_look_at |= self._waiting.keys() | self._changed()
        pages = self._changed_pages()
        if pages:
            self._to_look_at |= {one for one, queue in queues.items() if queue.model.address in pages}
        self._to_look_at &= queues.keys()
        ordered = sorted(self._to_look_at)
        first = bisect_right(ordered, self._latest)
        until_ns = monotonic_ns() + LOOKED_AT_NS
        for looked_at, queue_id in enumerate(chain(ordered[first:], ordered[:first])):
            if looked_at >= LOOKED_AT_MAX or (looked_at >= LOOKED_AT_MIN and monotonic_ns() >= until_ns):
                break
            self._latest = queue_id
            if not queues[queue_id].content.is_settled():
                continue  # a tail that it takes long to measure waits for that
            is_due = self._is_due(queue_id, queues[queue_id])
            self._to_look_at.discard(queue_id)  # not before: a look may fail
            if is_due:
                yield queues[queue_id]

    def _is_due(self, queue_id: QueueId, queue: StoreQueue) -> bool:
        now_ms = self._core.clock.monotonic_ns() // NS_PER_MS  # the other clock may be set back
        tail = queue.tail()
        messages = tail.messages
        if not messages:
            self._waiting.pop(queue_id, None)
            return False
        since_ms, grown_ms, before = self._waiting.get(queue_id, (now_ms, now_ms, 0))
        if messages != before:
            grown_ms = now_ms
        self._waiting[queue_id] = _Waiting(since_ms, grown_ms, messages)
        if queue.has_full_tail():
            return True
        return now_ms - since_ms >= TAIL_WAIT_MS or now_ms - grown_ms >= TAIL_IDLE_MS

    def _changed(self) -> set[QueueId]:
        if self._core.epoch != self._epoch:
            self._epoch, self._versions = self._core.epoch, array("Q")
        return set(map(QueueId, self._core.loader.state.changed_queues(self._versions)))

    def _changed_pages(self) -> set[str]:
        before = self._page_versions
        self._page_versions = {address: paged.version for address, paged in self._core.pages.items()}
        return {address for address, version in self._page_versions.items() if before.get(address) != version}
