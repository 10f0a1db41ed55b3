"""What the journal says about pages: positions consumed, pages completed, page transactions that count."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from journalfs.format.record_types import MessageType

PageOfQueue = tuple[int, int]
"""(queue id, page number)."""

Numbers = tuple[int, int, int]
"""Of a live record of the message journal that is no message, as its type defines them."""


@dataclass(frozen=True, slots=True)
class SideRecord:
    """A record that a prepared transaction adds; `a`, `b`, `c` as its type defines them."""

    user_type: int
    a: int
    b: int
    c: int


@dataclass(slots=True)
class Cursors:
    """Which records of which pages are consumed, by queue. Built from the journal's side records, and not
    changed any more: who holds one has what was true at that moment.
    """

    consumed: defaultdict[PageOfQueue, set[int]] = field(default_factory=lambda: defaultdict(set))
    delivering: defaultdict[PageOfQueue, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Consumed by a transaction that is prepared and undecided."""
    complete: set[PageOfQueue] = field(default_factory=set)
    transactions: dict[int, int] = field(default_factory=dict)
    """Page transactions that committed: id to (message, queue) pairs not consumed yet."""
    undecided: set[int] = field(default_factory=set)
    """Page transactions that are prepared: whether their messages count is not known yet."""
    _counting: list[int] = field(default_factory=list)
    """Page transactions that count, rising."""
    _sums: list[int] = field(default_factory=list)
    """Sums of the first ones of them, from none on."""

    @classmethod
    def from_records(
        cls,
        acknowledged: Iterable[Numbers],
        completed: Iterable[Numbers],
        transactions: Iterable[Numbers],
        prepared: Iterable[SideRecord],
        before: Cursors | None = None,
    ) -> Cursors:
        """The first three are live records of those types; `prepared` are those that prepared transactions
        add. What is as it was `before` is the same object, so that comparing is quick.
        """
        cursors = cls()
        for queue, page, number in acknowledged:
            cursors.consumed[queue, page].add(number)
        cursors.complete.update((queue, page) for queue, page, _ in completed)
        cursors.transactions.update((tx_id, left) for tx_id, left, _ in transactions)
        for record in prepared:
            if record.user_type == MessageType.ACKNOWLEDGE_CURSOR:
                cursors.delivering[record.a, record.b].add(record.c)
            elif record.user_type == MessageType.PAGE_TRANSACTION:
                cursors.undecided.add(record.a)
        if before is not None:
            _take_same(cursors.consumed, before.consumed)
            _take_same(cursors.delivering, before.delivering)
        cursors._counting = sorted(tx_id for tx_id, left in cursors.transactions.items() if left > 0)
        cursors._sums = list(accumulate(cursors._counting, initial=0))
        return cursors

    def counts(self, tx_id: int) -> bool:
        """Whether a page record written under `tx_id` counts: outside a transaction, or its transaction
        committed.
        """
        return tx_id <= 0 or self.transactions.get(tx_id, 0) > 0

    def counting(self, first_tx: int, last_tx: int) -> tuple[int, int]:
        """Number and sum of the page transactions in a range that count: equal ones mean the same ones, since
        none that was done with comes again.
        """
        low = bisect.bisect_left(self._counting, first_tx)
        high = bisect.bisect_right(self._counting, last_tx)
        return high - low, self._sums[high] - self._sums[low]


def _take_same(now: dict[PageOfQueue, set[int]], before: dict[PageOfQueue, set[int]]) -> None:
    for place, numbers in now.items():
        known = before.get(place)
        if known == numbers:
            now[place] = known
