"""The journal's records about pages: consumed positions, completed pages, and page transactions
that count.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from journalfs.format.record_types import MessageType, RecordKind

if TYPE_CHECKING:
    from journalfs.engine.state_types import PageChange

PageOfQueue = tuple[int, int]
"""(queue id, page number)."""

Numbers = tuple[int, int, int, int]
"""The id of a live record that is no message, and its numbers, as the record's type defines them."""

NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SideRecord:
    """A record that a prepared transaction adds; `a`, `b`, `c` as its type defines them."""

    user_type: int
    a: int
    b: int
    c: int


@dataclass(slots=True)
class Moved:
    """The pages and queues for which the cursors of two moments differ."""

    places: set[PageOfQueue] = field(default_factory=set)
    transactions: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.places or self.transactions)


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Which records of a page are live for a queue, at one moment."""

    complete: bool
    """The queue is done with all of it."""
    gone: Set[int]
    """Records that it consumed."""
    held: Set[int]
    """Positions that a prepared transaction acknowledges."""
    dead: Set[int]
    """Transactions of the page that do not count."""

    def has(self, index: int) -> bool:
        """Whether a record that was live for the queue once still is."""
        return not self.complete and index not in self.gone and index not in self.held


_Sets: TypeAlias = dict[PageOfQueue, Set[int]]


class Cursors:
    """Which records of which pages are consumed, by queue. Kept up with the journal; sets that were handed
    out are not changed any more, so who has one has what was true at that moment.
    """

    __slots__ = ("_positions", "_twice", "complete", "consumed", "delivering", "transactions", "undecided")

    def __init__(self) -> None:
        self.consumed: _Sets = {}
        self.delivering: _Sets = {}
        """Consumed by a transaction that is prepared and undecided."""
        self.complete: dict[PageOfQueue, dict[int, int]] = {}
        """Records that say so, and how many records the page had then."""
        self.transactions: dict[int, tuple[int, int]] = {}
        """Page transactions that committed: the record of each, and (message, queue) pairs not consumed."""
        self.undecided: Set[int] = NONE
        """Page transactions that are prepared: whether their messages count is not known yet."""
        self._twice: Counter[tuple[int, int, int]] = Counter()
        """Further records of positions that have one."""
        self._positions: dict[PageOfQueue, array[int]] = {}
        """Records of positions, 8 bytes each; some of them may be deleted by now."""

    @classmethod
    def from_records(
        cls,
        acknowledged: Iterable[Numbers],
        completed: Iterable[Numbers],
        transactions: Iterable[Numbers],
    ) -> Cursors:
        """From the live records of those types."""
        cursors = cls()
        consumed: dict[PageOfQueue, set[int]] = {}
        for record, queue, page, number in acknowledged:
            numbers = consumed.setdefault((queue, page), set())
            if number in numbers:
                cursors._twice[queue, page, number] += 1
            numbers.add(number)
            cursors._positions.setdefault((queue, page), array("q")).append(record)
        cursors.consumed.update(consumed)
        for record, queue, page, records in completed:
            cursors.complete.setdefault((queue, page), {})[record] = records
        cursors.transactions.update((tx_id, (record, left)) for record, tx_id, left, _ in transactions)
        return cursors

    # ---- keeping up ----

    def take(self, changes: Iterable[PageChange]) -> Moved:
        """Take over what became of the records."""
        moved = Moved()
        own: dict[PageOfQueue, set[int]] = {}
        for change in changes:
            place = (change.a, change.b)
            if change.user_type == MessageType.PAGE_TRANSACTION:
                self._take_transaction(change, moved)
            elif change.user_type == MessageType.PAGE_COMPLETE:
                self._take_complete(change)
                moved.places.add(place)
            else:
                numbers = own.get(place)
                if numbers is None:
                    numbers = own[place] = set(self.consumed.get(place, NONE))
                self._take_position(change, numbers)
        moved.places |= own.keys()
        for place, numbers in own.items():
            if numbers:
                self.consumed[place] = numbers
            else:
                self.consumed.pop(place, None)
                self._positions.pop(place, None)
        return moved

    def _take_complete(self, change: PageChange) -> None:
        place = (change.a, change.b)
        if change.kind != RecordKind.DELETE:
            self.complete.setdefault(place, {})[change.record_id] = change.c
        elif place in self.complete:
            self.complete[place].pop(change.record_id, None)
            if not self.complete[place]:
                del self.complete[place]

    def _take_position(self, change: PageChange, numbers: set[int]) -> None:
        position = (change.a, change.b, change.c)
        if change.kind != RecordKind.DELETE:
            if change.c in numbers:
                self._twice[position] += 1
            numbers.add(change.c)
            self._positions.setdefault((change.a, change.b), array("q")).append(change.record_id)
        elif self._twice[position] > 0:
            self._twice[position] -= 1
        else:
            del self._twice[position]
            numbers.discard(change.c)

    def _take_transaction(self, change: PageChange, moved: Moved) -> None:
        counted = self.counts(change.a)
        if change.kind != RecordKind.DELETE:
            self.transactions[change.a] = (change.record_id, change.b)
        elif self.transactions.get(change.a, (0, 0))[0] == change.record_id:
            del self.transactions[change.a]
        if self.counts(change.a) != counted:
            moved.transactions.add(change.a)

    def take_prepared(self, prepared: Iterable[SideRecord]) -> Moved:
        """Take over what prepared transactions add, which is all that they do now."""
        delivering: dict[PageOfQueue, set[int]] = {}
        undecided: set[int] = set()
        for record in prepared:
            if record.user_type == MessageType.ACKNOWLEDGE_CURSOR:
                delivering.setdefault((record.a, record.b), set()).add(record.c)
            elif record.user_type == MessageType.PAGE_TRANSACTION:
                undecided.add(record.a)
        moved = Moved(_differing(self.delivering, delivering), {*undecided} ^ {*self.undecided})
        self.delivering, self.undecided = dict(delivering), undecided
        return moved

    def moved_from(self, before: Cursors) -> Moved:
        """Return what differs between these cursors and others."""
        places = _differing(before.consumed, self.consumed) | _differing(before.delivering, self.delivering)
        places |= before.complete.keys() ^ self.complete.keys()
        transactions = {
            tx_id
            for tx_id in before.transactions.keys() | self.transactions.keys()
            if before.counts(tx_id) != self.counts(tx_id)
        }
        return Moved(places, transactions | ({*before.undecided} ^ {*self.undecided}))

    # ---- asking ----

    def counts(self, tx_id: int) -> bool:
        """Whether a page record written under `tx_id` counts: outside a transaction, or its transaction
        committed.
        """
        return tx_id <= 0 or self.transactions.get(tx_id, (0, 0))[1] > 0

    def places(self) -> set[PageOfQueue]:
        """Of which there are positions or that are complete."""
        return {*self.consumed, *self.complete}

    def positions(self, place: PageOfQueue) -> array[int]:
        """Records of positions in a page. Some may be deleted by now."""
        return array("q", self._positions.get(place, ()))

    def records(self, place: PageOfQueue) -> Iterator[int]:
        """Return the records of a queue's consumed positions in a page, and those that say that the page is
        complete.
        """
        yield from self.positions(place)
        yield from sorted(self.complete.get(place, ()))

    def reach_beyond(self, queues: Iterable[int], page: int, records: int) -> bool:
        """Return True if a queue consumed more of a page than the `records` that it has: some of the page is
        lost.
        """
        for place in ((queue, page) for queue in queues):
            if any(had > records for had in self.complete.get(place, {}).values()):
                return True
            consumed = chain(self.consumed.get(place, NONE), self.delivering.get(place, NONE))
            if any(index >= records for index in consumed):
                return True
        return False

    def standing(self, place: PageOfQueue, tx_ids: Iterable[int]) -> Standing:
        """Return the cursors' statement about a page for a queue; `tx_ids` are the page's transactions."""
        return Standing(
            place in self.complete,
            self.consumed.get(place, NONE),
            self.delivering.get(place, NONE),
            frozenset(tx_id for tx_id in tx_ids if not self.counts(tx_id)) or NONE,
        )


def _differing(
    before: Mapping[PageOfQueue, Set[int]], now: Mapping[PageOfQueue, Set[int]]
) -> set[PageOfQueue]:
    return {place for place in before.keys() | now.keys() if before.get(place, NONE) != now.get(place, NONE)}
