"""All that was sent, in a `LiveState`: made of a piece of a history in place of a whole journal."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile, index_list, struct_list
from journalfs.engine.scan import Scan
from journalfs.engine.state import LiveState
from journalfs.engine.status import check

CAME, ACKNOWLEDGED, REMOVED = lib.JFS_END_CAME, lib.JFS_END_ACKNOWLEDGED, lib.JFS_END_REMOVED
NONE_STAYS = -1
ANY_ID = (1 << 63) - 1


class End(NamedTuple):
    """The end of a message's life in a queue, as a record tells it: it came to a queue, left one, or its own
    record was deleted.
    """

    message_id: int
    queue_id: int
    file_slot: int
    offset: int
    """Offset of the record's body; 0: it has none."""
    kind: int


class FileTimes(NamedTuple):
    """Of the messages of one file, in milliseconds since 1970; 0: none says a time."""

    first_ms: int
    """The first time that a message of the file states."""
    last_ms: int
    """When the last one came."""


class Piece(NamedTuple):
    """A piece of the body of a large message."""

    message_id: int
    offset: int
    length: int


def begin(state: LiveState) -> None:
    """Before anything is applied: all that is sent stays, and messages in EVENT records count."""
    lib.jfs_history_begin(state.pointer)


def follow(state: LiveState, first_slot: int) -> None:
    """Files from this slot on bring no messages, but places in queues and ends of those that are there, and
    of the transactions that brought some.
    """
    lib.jfs_history_follow(state.pointer, first_slot)


def undecided(state: LiveState) -> int:
    """Transactions that sent something before the files that are followed, and of which nothing says how they
    ended.
    """
    return int(lib.jfs_history_undecided(state.pointer))


def end(state: LiveState) -> None:
    """From here on only ends."""
    lib.jfs_history_end(state.pointer)


def ends(state: LiveState) -> list[End]:
    """In the order of the records that say so."""

    def fill(out: Any, room: int, count: Any) -> int:
        return int(lib.jfs_history_ends(state.pointer, out, room, count))

    found = struct_list("jfs_end", fill, "listing what became of messages")
    return [End(e.message_id, e.queue_id, e.file_slot, e.body_offset, e.kind) for e in found]


def say_sent(state: LiveState, times_ms: Mapping[int, int]) -> None:
    """When messages were sent that are not measured, by their ids."""
    ids, times = array("q", times_ms), array("q", times_ms.values())
    if ids:
        given = ffi.from_buffer("int64_t[]", ids), ffi.from_buffer("int64_t[]", times)
        lib.jfs_history_sent(state.pointer, *given, len(ids))


class Bounds(NamedTuple):
    """Messages that came in [from_ms, to_ms), in milliseconds since 1970, and whose ids are below that."""

    from_ms: int
    to_ms: int
    below_id: int


def keep(
    state: LiveState, bounds: Bounds, slot_ms: Sequence[int], slot_compacted: Sequence[bool]
) -> list[FileTimes]:
    """Remove all messages that are not within bounds. A message counts with the latest time that a message up
    to it in its file states, but with no later one than `slot_ms` has for the file's slot; NONE_STAYS removes
    all of that file. In a file of `slot_compacted` each message counts with its own time. Returns the times
    of each file, removed messages included.
    """
    slots = len(slot_ms)
    times, first, last = array("q", slot_ms), array("q", bytes(8 * slots)), array("q", bytes(8 * slots))
    held = [ffi.from_buffer("int64_t[]", one) if slots else ffi.NULL for one in (times, first, last)]
    values: dict[str, Any] = {**bounds._asdict(), "slots": slots}
    values |= zip(("slot_ms", "first_ms", "last_ms"), held, strict=True)
    compacted = ffi.from_buffer("uint8_t[]", bytes(slot_compacted)) if slots else ffi.NULL
    values["slot_compacted"] = compacted
    check(lib.jfs_history_keep(state.pointer, ffi.new("jfs_history_range *", values)), "choosing messages")
    return list(map(FileTimes, first, last))


def sort(state: LiveState) -> None:
    """Messages of each queue stand in the order of their ids from here on. Before there are parts."""
    check(lib.jfs_history_sort(state.pointer), "ordering messages")


def drop(state: LiveState, message_ids: Iterable[int]) -> None:
    ids = array("q", message_ids)
    lib.jfs_history_drop(state.pointer, ffi.from_buffer("int64_t[]", ids) if ids else ffi.NULL, len(ids))


def pieces(scan: Scan, message_ids: Iterable[int]) -> list[Piece]:
    """Return the places of the bodies of some messages, in their order."""
    ids = array("q", sorted(message_ids))
    if not ids:
        return []
    records, wanted = scan.pointer, ffi.from_buffer("int64_t[]", ids)

    def fill(out: Any, room: int, count: Any) -> int:
        status = lib.jfs_history_pieces(records.records, records.count, wanted, len(ids), out, room, count)
        return int(status)

    found = struct_list("jfs_piece", fill, "looking for pieces of bodies")
    return [Piece(p.message_id, p.body_offset, p.body_bytes) for p in found]


def copies(mapped: MappedFile, scan: Scan) -> array[int]:
    """Indexes of the records that are messages which say of which other one they are a copy; perhaps of
    more. Raises FileTorn.
    """
    span = ffi.new("jfs_span *", {"bytes": mapped.pointer, "size_bytes": mapped.size_bytes})
    records = scan.pointer

    def fill(out: Any, room: int, count: Any) -> int:
        return int(lib.jfs_history_copies(span, records.records, records.count, out, room, count))

    return index_list(fill, "looking for copies of messages")


def compacted_ids(scan: Scan) -> array[int]:
    """Of the messages that compaction wrote, in no order."""
    records, count = scan.pointer, ffi.new("uint32_t *")
    lib.jfs_history_compacted(records.records, records.count, ffi.NULL, 0, count)
    out = array("q", bytes(8 * count[0]))
    if out:
        held = ffi.from_buffer("int64_t[]", out)
        check(lib.jfs_history_compacted(records.records, records.count, held, len(out), count), "listing ids")
    return out


def mark_originals(scan: Scan, ids: array[int], found: bytearray) -> None:
    """Set what is in `found` beside those of some ids, which ascend, that a record adds which no compaction
    wrote.
    """
    records = scan.pointer
    if ids:
        held = ffi.from_buffer("int64_t[]", ids), len(ids), ffi.from_buffer("uint8_t[]", found)
        lib.jfs_history_originals(records.records, records.count, *held)
