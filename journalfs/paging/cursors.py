"""What the journal says about pages: positions consumed, pages completed, page transactions that count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from journalfs.format.record_types import MessageType

PageOfQueue = tuple[int, int]
"""(queue id, page number)."""


@dataclass(frozen=True, slots=True)
class SideRecord:
    """A live record of the message journal that is no message; `a`, `b`, `c` as its type defines them."""

    record_id: int
    user_type: int
    a: int
    b: int
    c: int


@dataclass(slots=True)
class Cursors:
    """Which records of which pages are consumed, by queue. Built from the journal's side records."""

    consumed: defaultdict[PageOfQueue, set[int]] = field(default_factory=lambda: defaultdict(set))
    delivering: defaultdict[PageOfQueue, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Consumed by a transaction that is prepared and undecided."""
    complete: set[PageOfQueue] = field(default_factory=set)
    transactions: dict[int, int] = field(default_factory=dict)
    """Page transactions that committed: id to (message, queue) pairs not consumed yet."""

    @classmethod
    def from_records(cls, live: Iterable[SideRecord], prepared: Iterable[SideRecord]) -> Cursors:
        """`live` are committed records; `prepared` are cursor acknowledgements of prepared transactions."""
        cursors = cls()
        for record in live:
            match record.user_type:
                case MessageType.ACKNOWLEDGE_CURSOR:
                    cursors.consumed[record.a, record.b].add(record.c)
                case MessageType.PAGE_COMPLETE:
                    cursors.complete.add((record.a, record.b))
                case MessageType.PAGE_TRANSACTION:
                    cursors.transactions[record.a] = record.b
                case _:
                    pass
        for record in prepared:
            if record.user_type == MessageType.ACKNOWLEDGE_CURSOR:
                cursors.delivering[record.a, record.b].add(record.c)
        return cursors

    def counts(self, tx_id: int) -> bool:
        """Whether a page record written under `tx_id` counts: outside a transaction, or its transaction
        committed.
        """
        return tx_id <= 0 or self.transactions.get(tx_id, 0) > 0

    def key(self, page: PageOfQueue) -> tuple[bool, frozenset[int], frozenset[int]]:
        """Equal keys mean that the same records of the page are live for the queue (page transactions
        aside).
        """
        return (
            page in self.complete,
            frozenset(self.consumed.get(page, ())),
            frozenset(self.delivering.get(page, ())),
        )
