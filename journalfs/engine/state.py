"""The live set of a message journal: which messages are in which queues, and where their records lie.

The set itself is C arrays of less than 100 bytes a live message; this module names it for Python and hands
out indexes in arrays. An index is valid until the next `apply`, `finish` or `load`. Nothing here is thread-
safe.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any, Literal, Self

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import (
    ROOM_FIRST,
    MappedFile,
    id_list,
    index_list,
    struct_array,
    struct_bytes,
    struct_list,
    u32_pointer,
)
from journalfs.engine.lines import LineBatch, line_prefix, uninitialized
from journalfs.engine.scan import Scan
from journalfs.engine.state_types import (
    Anomaly,
    AnomalyKind,
    Listing,
    Operation,
    Operations,
    PageChange,
    PartInfo,
    QueueInfo,
    RefInfo,
    Sealed,
    StateCounts,
    TransactionInfo,
    Unmeasured,
)
from journalfs.engine.status import FULL, check
from journalfs.limits import PART_NUMBER_MAX, SETTLED_OPERATIONS

# Mapped files by slot, in the form in which the core takes them.

SPANS_FIRST = 16


def spans_of(files: Mapping[int, MappedFile]) -> tuple[Any, int]:
    """Return a `jfs_span[]` by slot, and its length. The caller that passes it to C must keep the files."""
    count = max(files, default=-1) + 1
    spans = ffi.new("jfs_span[]", max(count, 1))
    for slot, file in files.items():
        _fill(spans[slot], file.pointer, file.size_bytes)
    return spans, count


def _fill(span: Any, pointer: Any, size_bytes: int) -> None:
    span.bytes = pointer
    span.size_bytes = size_bytes


class NamedFiles:
    """Files that are named one by one, whose spans are kept: one more does not cost a look at all of them."""

    __slots__ = ("_pointers", "_room", "_spans", "files")

    def __init__(self, files: Iterable[tuple[int, MappedFile]] = ()) -> None:
        self.files: dict[int, MappedFile] = {}
        self._room = SPANS_FIRST
        self._spans: Any = ffi.new("jfs_span[]", self._room)
        self._pointers: dict[int, Any] = {}
        """The mappings that the spans point to. They are kept: a file may be mapped again while C still reads
        the earlier mapping.
        """
        for slot, file in files:
            self.put(slot, file)

    def put(self, slot: int, file: MappedFile) -> None:
        """Name a file as it is mapped now. Call it again after the file was mapped again."""
        if slot >= self._room:
            self._grow(slot + 1)
        self.files[slot] = file
        self._pointers[slot] = file.pointer
        _fill(self._spans[slot], file.pointer, file.size_bytes)

    def drop(self, slot: int) -> None:
        if self.files.pop(slot, None) is not None:
            _fill(self._spans[slot], ffi.NULL, 0)
            del self._pointers[slot]

    def spans(self) -> tuple[Any, int]:
        """As `spans_of` gives them; good until the next change."""
        return self._spans, self._room

    def _grow(self, needed: int) -> None:
        room = max(needed, 2 * self._room)
        spans = ffi.new("jfs_span[]", room)
        ffi.memmove(spans, self._spans, ffi.sizeof("jfs_span") * self._room)
        self._spans, self._room = spans, room


Order = Literal["arrival", "delivery"]
Include = Literal["live", "delivering", "all"]

_NUMBERS = Struct("=qqqq16x")
"""Record id and numbers of a `jfs_operation`, which begins with them."""

_CHANGES = Struct("=qqqq12xBb2x")
"""And its kind and type."""

ANY_NUMBER = range(1, PART_NUMBER_MAX)

_ORDERS = {"arrival": lib.JFS_ORDER_ARRIVAL, "delivery": lib.JFS_ORDER_DELIVERY}
_INCLUDES = {
    "live": lib.JFS_INCLUDE_LIVE,
    "delivering": lib.JFS_INCLUDE_DELIVERING,
    "all": lib.JFS_INCLUDE_ALL,
}


class LiveState:
    """Live messages, their references in queues, open transactions and other live records.

    Load: `apply` each file's scan in replay order, then `finish`, then `measure`. After that `apply` may be
    called again with records that a broker appended; its effects are immediate, and `measure` is due again
    before lines are read. After MemoryError or FileTorn from `apply` the state is incomplete: build a new
    one.
    """

    __slots__ = ("_files", "pointer")

    def __init__(self) -> None:
        out = ffi.new("jfs_state **")
        check(lib.jfs_state_new(out), "making a live state")
        self.pointer = ffi.gc(out[0], lib.jfs_state_free)
        self._files = NamedFiles()

    def _indexes(self, call: Any, *of: int, room: int = ROOM_FIRST) -> array[int]:
        fill = partial(call, self.pointer, *of)
        return index_list(fill, f"listing references of {of}", room=room)

    def _listed(self, kind: str, call: Any, *of: int) -> Iterator[Any]:
        return struct_list(kind, partial(call, self.pointer, *of), f"listing {kind} of {of}")

    def _content(self, call: Any, *of: Any, room: int = ROOM_FIRST) -> bytes:
        fill = partial(call, self.pointer, *of)
        return struct_bytes("jfs_operation", fill, f"listing records of {of}", room=room)

    # ---- files ----

    def set_file(self, file_slot: int, file: MappedFile) -> None:
        """Say which file a slot is (`apply` does so itself); needed for every used slot after `load`."""
        self._files.put(file_slot, file)

    def forget_file(self, file_slot: int) -> None:
        """Let go of a file that nothing live lies in."""
        self._files.drop(file_slot)

    def files(self) -> Mapping[int, MappedFile]:
        """The files that `apply` and `set_file` named, by slot."""
        return self._files.files

    def used_files(self, file_count: int) -> list[int]:
        """File slots below `file_count` in which anything live, or of an open transaction, lies."""
        used = ffi.new("uint8_t[]", max(file_count, 1))
        lib.jfs_state_used_files(self.pointer, used, file_count)
        return [slot for slot in range(file_count) if used[slot]]

    # ---- loading and following ----

    def apply(self, file_slot: int, file: MappedFile, scan: Scan) -> None:
        """Apply the scan's records in their order. Calls must come in replay order of the files."""
        self._files.put(file_slot, file)
        span = ffi.new("jfs_span *", {"bytes": file.pointer, "size_bytes": file.size_bytes})
        records = scan.pointer
        check(
            lib.jfs_state_apply(self.pointer, file_slot, span, records.records, records.count),
            f"applying {file.path}",
        )

    def foresee(self) -> None:
        """Measure messages before their transaction commits, so that a commit takes little time. Only for a
        journal that this process writes: there the bodies of large messages exist before the records.
        """
        lib.jfs_state_foresee(self.pointer)

    def settle(self, operations: int) -> bool:
        """Do some of what long transactions left to do, which nobody sees; for about so many of their
        operations. Whether there is more.
        """
        return bool(lib.jfs_state_settle(self.pointer, operations))

    def finish(self, *, following: bool = False) -> None:
        """End the initial load.

        Deletes take effect on all records of their ids; unfinished transactions are reported (they stay open,
        in case a broker ends them later); messages without references are reported and dropped, unless
        `following`: then a broker is at work and may be about to give them some.
        """
        check(lib.jfs_state_finish(self.pointer, following), "ending the load of the journal")

    def measure(self, files: Mapping[int, MappedFile] | None = None) -> list[Unmeasured]:
        """Measure the messages that need it; return those whose bodies are in large-message files.

        For those call `set_measure`. `files` defaults to those given to `apply` and `set_file`.
        """
        spans, count = self._files.spans() if files is None else spans_of(files)
        check(lib.jfs_state_measure(self.pointer, spans, count), "measuring messages")
        return self.unmeasured()

    def unmeasured(self) -> list[Unmeasured]:
        """Live messages that have no measure."""
        return [
            Unmeasured(u.message, u.message_id, u.file_slot, u.body_offset, u.body_bytes, u.source)
            for u in self._listed("jfs_unmeasured", lib.jfs_state_unmeasured)
        ]

    def set_measure(self, message_index: int, message_id: int, measure: Any) -> None:
        """Give a message its `jfs_measure`. Raises CoreRefused if the index is another message's."""
        check(
            lib.jfs_state_set_measure(self.pointer, message_index, message_id, measure),
            f"measuring message {message_id}",
        )

    # ---- queues ----

    def register_queue(self, queue_id: int) -> int:
        """Return the queue's slot, giving it the next one if it has none."""
        slot = ffi.new("uint32_t *")
        check(lib.jfs_state_register_queue(self.pointer, queue_id, slot), "registering a queue")
        return int(slot[0])

    def bind_queues(self, queue_ids: Iterable[int]) -> None:
        """Say that bindings name these queues, which get slots in this order."""
        ids = array("q", queue_ids)
        status = lib.jfs_state_bind(self.pointer, ffi.from_buffer("int64_t[]", ids), len(ids))
        check(status, "registering queues")

    def unbind_queues(self, queue_ids: Iterable[int] | None) -> None:
        """Say that no binding names these queues any more; None: any queue."""
        ids = array("q", queue_ids or ())
        given = ffi.NULL if queue_ids is None else ffi.from_buffer("int64_t[]", ids)
        lib.jfs_state_unbind(self.pointer, given, len(ids))

    def queues(self) -> list[QueueInfo]:
        """Every queue that was registered or named by a reference, in order of slot."""
        found = self._listed("jfs_queue_info", lib.jfs_state_queues)
        return [_queue_info(slot, q) for slot, q in enumerate(found)]

    def unbound_messages(self) -> dict[int, int]:
        """How many messages queues have that no binding names, live or being delivered, by id."""
        found = self._listed("jfs_queue_info", lib.jfs_state_unbound)
        return {q.queue_id: q.live_count + q.delivering_count for q in found}

    def sums(self, queue_ids: array[int] | None, weights: array[int] | None = None) -> Any:
        """Return the sums over queues, as a `jfs_queue_sums`: ids as array('q'), None for all queues; weights
        as array('i').
        """
        out = ffi.new("jfs_queue_sums *")
        ids = ffi.NULL if queue_ids is None else ffi.from_buffer("int64_t[]", queue_ids)
        heavy = ffi.NULL if weights is None else ffi.from_buffer("int32_t[]", weights)
        lib.jfs_state_sum(self.pointer, ids, heavy, 0 if queue_ids is None else len(queue_ids), out)
        return out

    def changed_queues(self, seen: array[int]) -> array[int]:
        """Return the ids of the queues that changed since a call with the same `seen`, as array('q'). `seen`
        holds versions by slot, as array('Q'), empty at first; the call extends and updates it.
        """
        count = ffi.new("uint32_t *", len(seen))
        while True:
            seen.frombytes(bytes(8 * (count[0] - len(seen))))
            out = array("q", bytes(8 * len(seen)))
            versions, ids = ffi.from_buffer("uint64_t[]", seen), ffi.from_buffer("int64_t[]", out)
            status = lib.jfs_state_queues_changed(self.pointer, versions, ids, len(seen), count)
            ffi.release(versions)  # who holds it keeps the array from growing
            if status == FULL:
                continue
            check(status, "looking for queues that changed")
            del ids, out[count[0] :]
            return out

    def queue(self, slot: int) -> QueueInfo:
        """One queue. Raises CoreRefused if there is no such slot."""
        q = ffi.new("jfs_queue_info *")
        check(lib.jfs_state_queue(self.pointer, slot, q), f"looking at queue slot {slot}")
        return _queue_info(slot, q)

    def oldest_ms(self, slot: int) -> int:
        """Earliest timestamp of a live message of the queue, in epoch milliseconds; 0: none has one."""
        out = ffi.new("int64_t *")
        check(lib.jfs_state_oldest(self.pointer, slot, out), f"looking at queue slot {slot}")
        return int(out[0])

    # ---- references ----

    def refs(self, slot: int, order: Order = "arrival", include: Include = "live") -> array[int]:
        """Reference indexes of a queue. Delivery order is priority 9 to 0, then arrival."""
        info = self.queue(slot)
        room = info.live_count + info.delivering_count

        return self._indexes(lib.jfs_state_refs, slot, _ORDERS[order], _INCLUDES[include], room=room)

    def scheduled(self, slot: int, now_ms: int) -> array[int]:
        """Live references whose delivery is set for after `now_ms`, by time, then arrival."""
        return self._indexes(lib.jfs_state_scheduled, slot, now_ms)

    def failed(self, slot: int, attempts: int) -> array[int]:
        """Live references that were delivered in vain at least `attempts` times (above 0), by arrival."""
        return self._indexes(lib.jfs_state_failed, slot, attempts)

    def ref(self, ref: int) -> RefInfo:
        """Everything the index knows of one reference. Raises CoreRefused if it is gone."""
        r = ffi.new("jfs_ref_info *")
        check(lib.jfs_state_ref(self.pointer, ref, r), f"looking at reference {ref}")
        return RefInfo(
            message_id=r.message_id,
            message_index=r.message,
            queue_slot=r.queue,
            part=r.part,
            file_slot=r.file_slot,
            offset=r.body_offset,
            body_bytes=r.body_bytes,
            source=r.source,
            delivery_count=r.delivery_count,
            scheduled_ms=r.scheduled_ms,
            own_scheduled_ms=r.own_scheduled_ms,
            delivering=r.state == lib.JFS_REF_DELIVERING,
            measured=bool(r.measured),
            tail_bytes=r.tail_bytes,
            file_bytes=r.file_bytes,
            timestamp_ms=r.timestamp_ms,
            priority=r.priority,
            suffix=r.suffix,
            flags=r.flags,
        )

    def find(self, slot: int, message_id: int) -> int:
        """Index of the message's reference in the queue, also if it is delivering; -1: not there."""
        out = ffi.new("uint32_t *")
        check(lib.jfs_state_find(self.pointer, slot, message_id, out), f"looking at queue slot {slot}")
        return -1 if out[0] == lib.JFS_NONE else int(out[0])

    def message_refs(self, message_id: int) -> array[int]:
        """References of one message in all queues; empty if it is not live."""
        return self._indexes(lib.jfs_state_message_refs, message_id)

    def expired(self, now_ms: int) -> array[int]:
        """Return the ids of live messages that expired by `now_ms`, in no order. No other
        message is looked at.
        """
        return id_list(partial(lib.jfs_state_expired, self.pointer, now_ms), "looking for expiries")

    def large_ids(self) -> array[int]:
        """Ids of live messages with a large-message file; complete after `measure`."""
        return id_list(partial(lib.jfs_state_large_ids, self.pointer), "listing large messages")

    def damaged_ids(self) -> array[int]:
        """Return the ids of live messages that cannot be read whole; complete after `measure`."""
        return id_list(partial(lib.jfs_state_damaged_ids, self.pointer), "listing damaged messages")

    # ---- lines ----

    def listing(self, refs: array[int]) -> Listing:
        """Return the columns of a directory listing for each reference."""
        count, numbers = len(refs), u32_pointer(refs)
        return Listing.filled(
            count,
            lambda columns: lib.jfs_state_listing(self.pointer, numbers, count, columns),
            "listing messages",
        )

    def line_starts(
        self, refs: array[int], prefix_bytes: int, *, sealed: bool, now_ms: int = 0
    ) -> array[int]:
        """Return where each line begins, and at last their total: n + 1 numbers. No message is read.

        `prefix_bytes` is the length of `{"queue":...` in front of every line. Lines of a part (`sealed`) keep
        the delivery count and schedule they were sealed with; others name a schedule if it is after `now_ms`.
        """
        starts = array("Q", bytes(8 * (len(refs) + 1)))
        check(
            lib.jfs_state_line_starts(
                self.pointer,
                u32_pointer(refs),
                len(refs),
                self._line_options(prefix_bytes, sealed, now_ms),
                ffi.from_buffer("uint64_t[]", starts),
            ),
            "measuring lines",
        )
        return starts

    def fill_lines(
        self,
        refs: array[int],
        files: Mapping[int, MappedFile] | None = None,
        *,
        sealed: bool,
        now_ms: int = 0,
    ) -> tuple[Any, list[Any]]:
        """Return a `jfs_line[]` for the references, and the mappings it points into: keep both together.

        Large bodies are left out: the caller that renders the lines adds them.
        """
        held = self._files.files if files is None else files
        spans, count = spans_of(held)
        lines = uninitialized("jfs_line[]", max(len(refs), 1))
        check(
            lib.jfs_state_fill_lines(
                self.pointer,
                u32_pointer(refs),
                len(refs),
                self._line_options(0, sealed, now_ms),
                spans,
                count,
                lines,
            ),
            "reading messages",
        )
        return lines, [file.pointer for file in held.values()]

    def line_batch(self, refs: array[int], queue: str | None, *, sealed: bool, now_ms: int = 0) -> LineBatch:
        """The lines of the references, to be read at any offset. Large bodies are to be set by the caller."""
        lines, held = self.fill_lines(refs, sealed=sealed, now_ms=now_ms)
        starts = self.line_starts(refs, len(line_prefix(queue)), sealed=sealed, now_ms=now_ms)
        return LineBatch(lines, len(refs), queue=queue, starts=starts, keep=held)

    @staticmethod
    def _line_options(prefix_bytes: int, sealed: bool, now_ms: int) -> Any:
        return ffi.new(
            "jfs_line_options *", {"prefix_bytes": prefix_bytes, "now_ms": now_ms, "sealed": sealed}
        )

    # ---- parts ----

    def seal(
        self, slot: int, now_ms: int, *, max_messages: int, max_bytes: int, numbers: range = ANY_NUMBER
    ) -> Sealed:
        """Put everything in the tail into new parts, whose numbers are of `numbers`.

        Stops before a message without a measure, or when numbers ran out. A line longer than `max_bytes` gets
        a part of its own.
        """
        made = ffi.new("uint32_t *")
        limits = ffi.new("jfs_seal_limits *", (max_bytes, max_messages, numbers.start, numbers.stop))
        status = lib.jfs_state_seal(self.pointer, slot, now_ms, limits, made)
        if status != FULL:
            check(status, f"sealing queue slot {slot}")
        return Sealed(self.parts(slot)[-made[0] :] if made[0] else [], complete=status != FULL)

    def parts(self, slot: int) -> list[PartInfo]:
        """The parts of a queue that still hold messages, by number."""
        return [
            PartInfo(p.number, p.live_count, p.live_bytes, p.mtime_ms)
            for p in self._listed("jfs_part_info", lib.jfs_state_parts, slot)
        ]

    def part_refs(self, slot: int, number: int) -> array[int]:
        """Live references of a part in order of arrival; empty if there is no such part."""
        return self._indexes(lib.jfs_state_part_refs, slot, number)

    def tail_refs(self, slot: int) -> array[int]:
        """Live references that no part holds, in order of arrival."""
        return self._indexes(lib.jfs_state_tail_refs, slot)

    # ---- transactions, other records, anomalies ----

    def transactions(self) -> list[TransactionInfo]:
        """Prepared transactions in order of first appearance."""
        return self._transactions(_is_prepared)

    def open_transactions(self) -> list[TransactionInfo]:
        """Every transaction that neither committed nor rolled back."""
        return self._transactions(lambda tx: not _is_ended(tx))

    def undecided(self, wanted: Callable[[int, bool], bool]) -> list[TransactionInfo]:
        """Return the transactions that are neither prepared nor rolled back; nothing of them counts. `wanted`
        is asked before the operations of one are copied, with its number and whether records of it are lost,
        since a transaction that is being staged may have millions.
        """
        return self._transactions(lambda tx: not _is_prepared(tx) and wanted(tx.tx_id, _is_incomplete(tx)))

    def prepared(self) -> int:
        """How many are prepared."""
        return sum(map(_is_prepared, self._tx_infos()))

    def _transactions(self, wanted: Callable[[Any], bool]) -> list[TransactionInfo]:
        return [
            TransactionInfo(
                tx_id=tx.tx_id,
                prepared=_is_prepared(tx),
                incomplete=_is_incomplete(tx),
                file_slot=tx.file_slot,
                extra_offset=tx.extra_offset,
                extra_bytes=tx.extra_bytes,
                operations=self._operations(tx.tx_id, tx.operations),
            )
            for tx in self._tx_infos()
            if wanted(tx)
        ]

    def _tx_infos(self) -> Iterator[Any]:
        return self._listed("jfs_tx_info", lib.jfs_state_transactions)

    def _operations(self, tx_id: int, count: int) -> Operations:
        return Operations(self._content(lib.jfs_state_operations, tx_id, room=max(count, 1)))

    def side(self, user_type: int | None = None) -> Iterator[Operation]:
        """Return live records that are no messages, of one user type or all, in journal order.

        `a`, `b` and `c` are the numbers of the payload: 35 a=transaction, b=messages left; 39 a=queue,
        b=page, c=number; 42 a=queue, b=page, c=count; 40 a=queue, b=messages, c=bytes; 41 a=queue, b=delta,
        c=bytes; 43 a=queue, b=page; 29 a=message. Others are 0.
        """
        wanted = lib.JFS_ANY_TYPE if user_type is None else user_type

        return iter(Operations(self._content(lib.jfs_state_side, wanted)))

    def side_numbers(self, user_type: int) -> Iterator[tuple[int, int, int, int]]:
        """Return the numbers of all live records of one type: record id, `a`, `b` and `c`."""
        return _NUMBERS.iter_unpack(self._content(lib.jfs_state_side, user_type))

    def page_changes(self) -> Iterator[PageChange] | None:
        """Return the changes of page transactions, positions in pages and completed pages since the last
        call. None if they are not known, as at the first call: then look at all of them.
        """
        lost = ffi.new("uint8_t *")

        def fill(out: Any, room: int, count: Any) -> int:
            return int(lib.jfs_state_page_changes(self.pointer, out, room, count, lost))

        content = struct_bytes("jfs_operation", fill, "listing changes")
        return None if lost[0] else map(PageChange._make, _CHANGES.iter_unpack(content))

    def anomalies(self) -> list[Anomaly]:
        """Return records that the journal should not hold, in the order they were found; `counts().anomalies`
        says if there were more.
        """
        return [
            Anomaly(AnomalyKind(a.kind), a.a, a.b, a.file_slot, a.offset)
            for a in self._listed("jfs_anomaly", lib.jfs_state_anomalies)
        ]

    def counts(self) -> StateCounts:
        """How much there is of everything."""
        c = ffi.new("jfs_state_counts *")
        lib.jfs_state_count(self.pointer, c)
        return StateCounts(
            messages=c.messages,
            references=c.references,
            queues=c.queues,
            side_records=c.side_records,
            side_version=c.side_version,
            transactions=c.transactions,
            anomalies=c.anomalies,
            highest_id=c.highest_id,
            finished=bool(c.finished),
            memory_bytes=lib.jfs_state_memory(self.pointer),
        )

    # ---- checkpoint ----

    def save(self) -> bytes:
        """The whole state as bytes for `load`; only after `finish`. The caller adds checksum and files."""
        while self.settle(SETTLED_OPERATIONS):
            pass
        size_bytes = lib.jfs_state_save_bytes(self.pointer)
        out = bytearray(size_bytes)
        check(
            lib.jfs_state_save(self.pointer, ffi.from_buffer("uint8_t[]", out), size_bytes),
            "writing a checkpoint",
        )
        return bytes(out)

    @classmethod
    def load(
        cls, saved: bytes | bytearray | memoryview, files: Sequence[tuple[int, MappedFile]] = ()
    ) -> Self:
        """A state from what `save` gave; `files` are the file slots it names. Raises CoreRefused.

        The bytes may be hostile: a state that does not fit together is refused.
        """
        out = ffi.new("jfs_state **")
        check(
            lib.jfs_state_load(ffi.from_buffer("uint8_t[]", saved), len(saved), out), "reading a checkpoint"
        )
        state = cls.__new__(cls)
        state.pointer = ffi.gc(out[0], lib.jfs_state_free)
        state._files = NamedFiles(files)
        return state


def _queue_info(slot: int, q: Any) -> QueueInfo:
    return QueueInfo(
        slot=slot,
        queue_id=q.queue_id,
        live_count=q.live_count,
        delivering_count=q.delivering_count,
        live_bytes=q.live_bytes,
        owned=q.owned,
        owned_large=q.owned_large,
        owned_bytes=q.owned_bytes,
        left=q.left,
        version=q.version,
        next_part=q.next_part,
    )


def _is_prepared(tx: Any) -> bool:
    return bool((tx.flags & (lib.JFS_TX_PREPARED | lib.JFS_TX_INVALID)) == lib.JFS_TX_PREPARED)


def _is_incomplete(tx: Any) -> bool:
    return bool(tx.flags & lib.JFS_TX_INVALID)


def _is_ended(tx: Any) -> bool:
    return bool(tx.flags & lib.JFS_TX_ENDED)


# What of a live state lies in one journal file, counted in C.


@dataclass(frozen=True, slots=True)
class QueueShare:
    """Messages of one queue whose records lie in the file."""

    queue_id: int
    messages: int
    delivering: int
    """Of these, acknowledged by a prepared transaction."""
    body_bytes: int
    oldest_ms: int
    """Earliest timestamp; 0: none has one."""


@dataclass(frozen=True, slots=True)
class TransactionShare:
    """An open transaction, and how many of its records lie in the file."""

    tx_id: int
    operations: int
    prepared: bool


def queue_shares(state: LiveState, file_slot: int) -> tuple[Iterator[QueueShare], int]:
    """Queues with messages in the file, by slot; and how many messages in it any queue has."""
    referenced, queues = ffi.new("uint32_t *"), 0

    def fill(out: Any, room: int, count: Any) -> int:
        nonlocal queues
        status = int(lib.jfs_state_explain_queues(state.pointer, file_slot, out, room, count, referenced))
        queues = count[0]
        return status

    found = struct_array("jfs_queue_share", fill, "counting the messages of a journal file")
    shares = (
        QueueShare(one.queue_id, one.messages, one.delivering, one.body_bytes, one.oldest_ms)
        for one in (found[number] for number in range(queues))
    )
    return shares, int(referenced[0])


def other_records(state: LiveState, file_slot: int) -> Mapping[int, int]:
    """Live records in the file that are no messages: how many of each user type."""
    by_type = ffi.new("uint32_t[]", lib.JFS_USER_TYPES)
    lib.jfs_state_explain_others(state.pointer, file_slot, by_type)
    return {
        user_type if user_type < 128 else user_type - 256: int(count)
        for user_type, count in enumerate(by_type)
        if count
    }


def transaction_shares(state: LiveState, file_slot: int) -> list[TransactionShare]:
    """Open transactions with records in the file, prepared or not."""

    def fill(out: Any, room: int, count: Any) -> int:
        return int(lib.jfs_state_explain_txs(state.pointer, file_slot, out, room, count))

    return [
        TransactionShare(one.tx_id, one.operations, bool(one.flags & lib.JFS_TX_PREPARED))
        for one in struct_list("jfs_tx_share", fill, "counting the transactions of a journal file")
    ]
