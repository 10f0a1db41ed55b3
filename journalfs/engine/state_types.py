"""Values that `LiveState` hands out."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple, Self, overload

import msgspec

from journalfs.engine._native import ffi
from journalfs.engine.status import check


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue as the journal knows it. Paged messages are not counted here."""

    slot: int
    queue_id: int
    live_count: int
    delivering_count: int
    """Messages that a prepared transaction has acknowledged; not in `live_count`."""
    live_bytes: int
    """Sizes of the live messages' own files."""
    owned: int
    """Messages that count in this queue: a message that is in several counts in one of them, which is another
    one once it has left that.
    """
    owned_large: int
    """Of these, those whose record has only the header of a core message."""
    owned_bytes: int
    """Lengths of the bodies of their records, of those that have only a header twice."""
    left: int
    """How often a message was taken away since the state was made; an index does not keep it."""
    version: int
    """Grows with each change of the queue."""
    next_part: int
    """Above the number of any part it had."""


class RefInfo(msgspec.Struct, frozen=True):
    """One message in one queue."""

    message_id: int
    message_index: int
    queue_slot: int
    part: int
    """0: in the tail."""
    file_slot: int
    offset: int
    """Where the body of the message's record begins in its file."""
    body_bytes: int
    source: int
    """0: a persister byte and its payload (type 45), 1: a bare core header (type 30)."""
    delivery_count: int
    scheduled_ms: int
    """As set by the latest record of type 36, past or not, else as the message says itself; 0: none."""
    own_scheduled_ms: int
    """The time that the message states itself, past or not; 0: it states none, or is not measured."""
    delivering: bool
    measured: bool
    """False: the fields below are not known yet."""
    tail_bytes: int
    file_bytes: int
    timestamp_ms: int
    priority: int
    suffix: int
    flags: int


class Unmeasured(msgspec.Struct, frozen=True):
    """A message whose measure needs its large-message file."""

    message_index: int
    message_id: int
    file_slot: int
    offset: int
    body_bytes: int
    source: int


class Listing(msgspec.Struct, frozen=True):
    """Columns of a directory listing, one entry a reference."""

    ids: array[int]
    sizes: array[int]
    """Bytes of the message's own file."""
    mtimes_ms: array[int]
    suffixes: array[int]

    @classmethod
    def filled(cls, count: int, fill: Callable[[Any], int], doing: str) -> Self:
        """Return the columns of `count` references. `fill` gets a `jfs_listing` to fill in; it is not called
        for 0.
        """
        found = cls(
            array("q", bytes(8 * count)),
            array("Q", bytes(8 * count)),
            array("q", bytes(8 * count)),
            array("B", bytes(count)),
        )
        if count:
            columns = ffi.new("jfs_listing *")
            # Held until the call is over: assigning to a struct's field keeps nothing alive.
            held = [
                ffi.from_buffer("int64_t[]", found.ids),
                ffi.from_buffer("uint64_t[]", found.sizes),
                ffi.from_buffer("int64_t[]", found.mtimes_ms),
                ffi.from_buffer("uint8_t[]", found.suffixes),
            ]
            columns.ids, columns.sizes, columns.mtimes_ms, columns.suffixes = held
            check(fill(columns), doing)
        return found


class PartInfo(msgspec.Struct, frozen=True):
    """A sealed part."""

    number: int
    live_count: int
    live_bytes: int
    """Rendered bytes of its lines without the prefix `{"queue":...` of each."""
    mtime_ms: int
    """When it was sealed."""


class Sealed(msgspec.Struct, frozen=True):
    """The parts that sealing made. Not `complete`: numbers ran out, and the rest is still in the tail."""

    parts: list[PartInfo]
    complete: bool


class Operation(msgspec.Struct, frozen=True):
    """A record as it takes effect: part of an open transaction, or live by itself.

    `kind` is the plain record kind (11 add, 12 update, 16 delete), 0 for a record too short for its type.
    """

    kind: int
    user_type: int
    record_id: int
    file_slot: int
    body_offset: int
    body_bytes: int
    a: int
    b: int
    c: int


_OPERATION: Final = Struct("=qqqqIIIBb2x")


def _operation(fields: tuple[int, ...]) -> Operation:
    """Return an operation from the fields of a `jfs_operation`, in their order."""
    record_id, a, b, c, file_slot, body_offset, body_bytes, kind, user_type = fields
    return Operation(kind, user_type, record_id, file_slot, body_offset, body_bytes, a, b, c)


class Operations(Sequence[Operation]):
    """The operations of a transaction, 48 bytes each as C lays them out, since there may be millions."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __len__(self) -> int:
        return len(self._content) // _OPERATION.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operations) and self._content == other._content

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Operation]:
        return map(_operation, _OPERATION.iter_unpack(self._content))

    @overload
    def __getitem__(self, place: int) -> Operation: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Operation]: ...

    def __getitem__(self, place: int | slice) -> Operation | Sequence[Operation]:
        places = range(len(self))[place]
        return [self._at(one) for one in places] if isinstance(places, range) else self._at(places)

    def _at(self, place: int) -> Operation:
        return _operation(_OPERATION.unpack_from(self._content, place * _OPERATION.size))

    def file_slots(self) -> set[int]:
        """Of the files that they are in."""
        return set(memoryview(self._content).cast("I")[8 :: _OPERATION.size // 4])


class TransactionInfo(msgspec.Struct, frozen=True):
    """An open transaction. The location is that of the PREPARE's extra data (an Xid)."""

    tx_id: int
    prepared: bool
    incomplete: bool
    """True if its PREPARE or COMMIT counts records that are missing: nothing of the transaction counts."""
    file_slot: int
    extra_offset: int
    extra_bytes: int
    operations: Operations


class PageChange(NamedTuple):
    """A change of a record about pages. `kind`: ADD, UPDATE with its new numbers, or DELETE with its last
    ones. `a`, `b` and `c` as in `LiveState.side`.
    """

    record_id: int
    a: int
    b: int
    c: int
    kind: int
    user_type: int


class AnomalyKind(IntEnum):
    """Records that a journal should not hold. The meanings of the anomaly's `a` and `b` stand in brackets."""

    REF_OF_UNKNOWN = 1
    """A reference whose message was not seen before it (message, queue)."""
    ACK_OF_UNKNOWN = 2
    """An acknowledgement of a message that was not seen, nor deleted later (message, queue)."""
    UPDATE_OF_UNKNOWN = 3
    """A delivery count or schedule for a message that was not seen, nor deleted later (message, queue)."""
    ACK_WITHOUT_REF = 4
    """An acknowledgement of a message that was not in that queue (message, queue)."""
    COMMIT_INCOMPLETE = 5
    """A transaction dropped because records of it are missing (transaction, count it names)."""
    PREPARE_INCOMPLETE = 6
    """A PREPARE counts records that are missing (transaction, the count that it names)."""
    TX_UNFINISHED = 7
    """A transaction that was neither prepared nor ended: usual after a kill (transaction, its operations)."""
    NO_REFERENCES = 8
    """A message in no queue, dropped as a broker does: usual after a kill (message)."""
    SHORT_RECORD = 9
    """A record too short for its type, left out (record, user type)."""
    IN_DAMAGE = 10
    """A record that may be part of a damaged record's body; it counts all the same (record, kind)."""


class Anomaly(msgspec.Struct, frozen=True):
    """Something unusual, and where."""

    kind: AnomalyKind
    a: int
    b: int
    file_slot: int
    offset: int


class StateCounts(msgspec.Struct, frozen=True):
    """How much a state holds."""

    messages: int
    references: int
    queues: int
    side_records: int
    side_version: int
    """Grows with each change of a side record."""
    transactions: int
    anomalies: int
    """All that were found; the list keeps the first 65,536."""
    highest_id: int
    """Highest record id of any add or update seen; -1: none."""
    finished: bool
    memory_bytes: int
