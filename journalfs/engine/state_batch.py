"""Questions to a live state about many references at once, and parts carried over from an earlier one."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from journalfs.engine._native import ffi, lib
from journalfs.engine.lines import uninitialized
from journalfs.engine.state import LiveState
from journalfs.engine.state_types import PartInfo
from journalfs.engine.status import OK, check
from journalfs.ids import MessageId

ID_BYTES_MAX = 10
"""An id takes a byte where it follows the one before, and at most this."""


def file_slots(state: LiveState, refs: array[int], file_count: int) -> list[int]:
    """File slots, below `file_count`, in which the messages of `refs` lie. Raises CoreRefused if one is
    gone.
    """
    used = ffi.new("uint8_t[]", max(file_count, 1))
    view = ffi.from_buffer("uint32_t[]", refs) if refs else ffi.NULL
    check(lib.jfs_state_ref_files(state.pointer, view, len(refs), used, file_count), "looking for messages")
    # Few files of possibly thousands hold what one open file shows.
    marks, slots = bytes(ffi.buffer(used, file_count)), []
    at = marks.find(1)
    while at >= 0:
        slots.append(at)
        at = marks.find(1, at + 1)
    return slots


def large_positions(state: LiveState, refs: array[int]) -> list[int]:
    """Positions within `refs` of messages whose bodies are in large-message files."""
    if not refs:
        return []
    out = uninitialized("uint32_t[]", len(refs))
    found = ffi.new("uint32_t *")
    view = ffi.from_buffer("uint32_t[]", refs)
    check(lib.jfs_state_large_refs(state.pointer, view, len(refs), out, found), "looking for large messages")
    return list(out[0 : found[0]])


def large_messages(state: LiveState, refs: array[int]) -> dict[int, MessageId]:
    """Return the large messages among some references, with the messages' ids, by position."""
    return {at: MessageId(state.ref(refs[at]).message_id) for at in large_positions(state, refs)}


def message_ids(state: LiveState, refs: array[int]) -> array[int]:
    """Ids of the messages of `refs`. Raises CoreRefused if one is gone."""
    ids = array("q", bytes(8 * len(refs)))
    if refs:
        columns = ffi.new("jfs_listing *")
        held = ffi.from_buffer("int64_t[]", ids)
        columns.ids = held
        view = ffi.from_buffer("uint32_t[]", refs)
        check(lib.jfs_state_listing(state.pointer, view, len(refs), columns), "listing messages")
    return ids


@dataclass(frozen=True, slots=True)
class Places:
    """Where messages are in a queue, one item for each."""

    refs: array[int]
    """`NOWHERE` for those that are not there."""
    scheduled_ms: array[int]
    """The times at which the messages are due, as their queue knows them; 0: it knows none."""


NOWHERE: Final[int] = lib.JFS_NONE


def places(state: LiveState, slot: int, ids: array[int], *, live: bool) -> Places:
    """Look messages up in a queue; `live`: leave out those that a prepared transaction has acknowledged."""
    found = Places(array("I", bytes(4 * len(ids))), array("q", bytes(8 * len(ids))))
    if ids:
        include = lib.JFS_INCLUDE_LIVE if live else lib.JFS_INCLUDE_ALL
        view = ffi.from_buffer("int64_t[]", ids)
        refs, times = (
            ffi.from_buffer("uint32_t[]", found.refs),
            ffi.from_buffer("int64_t[]", found.scheduled_ms),
        )
        status = lib.jfs_state_places(state.pointer, slot, include, view, len(ids), refs, times)
        check(status, f"looking at queue slot {slot}")
    return found


def keep_aside(state: LiveState, slot: int, ids: array[int], *, aside: bool) -> None:
    """Keep messages of a queue out of sight, as what a prepared transaction acknowledges, or show them."""
    if ids:
        view = ffi.from_buffer("int64_t[]", ids)
        check(lib.jfs_state_keep_aside(state.pointer, slot, view, len(ids), aside), "keeping messages aside")


UNREFERENCED: Final[int] = lib.JFS_UNREFERENCED
UNREFERENCED_LARGE: Final[int] = lib.JFS_UNREFERENCED_LARGE


def unreferenced(state: LiveState, ids: array[int]) -> bytes:
    """For each message `UNREFERENCED` if no queue has it, with `UNREFERENCED_LARGE` if it may have a body
    file of its own; else 0.
    """
    found = ffi.new("uint8_t[]", max(len(ids), 1))
    if ids:
        lib.jfs_state_unreferenced(state.pointer, ffi.from_buffer("int64_t[]", ids), len(ids), found)
    return bytes(ffi.buffer(found, len(ids)))


_DAMAGED: Final = bytes(bool(flags & lib.JFS_MESSAGE_DAMAGED) for flags in range(256))
"""By flags of a message: 1 where they say so."""


def damaged(state: LiveState, ids: array[int], slot: int) -> bytes:
    """For each message of a queue 1 if it is known not to be whole, else 0."""
    refs = places(state, slot, ids, live=False).refs
    flags = bytearray(len(refs))
    if refs:
        view, out = ffi.from_buffer("uint32_t[]", refs), ffi.from_buffer("uint8_t[]", flags)
        check(lib.jfs_state_message_flags(state.pointer, view, len(refs), out), "looking for damage")
    return bytes(flags).translate(_DAMAGED)


def mark_unreadable(state: LiveState, file_slot: int, offset: int, length: int) -> None:
    """Messages whose records hold any of these bytes are damaged, and are to be measured again."""
    check(
        lib.jfs_state_unreadable(state.pointer, file_slot, offset, offset + length),
        "marking messages that cannot be read",
    )


def adopt_parts(state: LiveState, earlier: LiveState) -> None:
    """Give what is live in both states the place and the part it had; the rest comes behind, in the tail.

    `state` was finished and measured and has no parts yet. Raises CoreRefused if it has.
    """
    check(lib.jfs_state_adopt(state.pointer, earlier.pointer), "carrying parts over")


def part_ids(state: LiveState, slot: int, part: PartInfo) -> bytes:
    """The ids of a part's messages in about a byte each, for `keep_part`."""
    room = ID_BYTES_MAX * part.live_count
    out, size = uninitialized("uint8_t[]", max(room, 1)), ffi.new("uint64_t *")
    check(
        lib.jfs_state_part_ids(state.pointer, slot, part.number, out, room, size),
        f"listing part {part.number} of queue slot {slot}",
    )
    return bytes(ffi.buffer(out, size[0]))


def keep_part(state: LiveState, slot: int, number: int, mtime_ms: int, ids: bytes) -> None:
    """Put the named messages into this part, as far as they are in the tail or in a part with a lower number.
    Nothing happens if the queue has used the number.

    `state` must be finished and measured. Raises CoreRefused if the ids are cut off; those before count.
    """
    info = ffi.new("jfs_part_info *", {"number": number, "mtime_ms": mtime_ms})
    status = lib.jfs_state_keep_part(state.pointer, slot, info, ffi.from_buffer("uint8_t[]", ids), len(ids))
    check(status, f"finding the messages of part {number} of queue slot {slot}")


def lies_within(state: LiveState, ends: Mapping[int, int]) -> bool:
    """Whether every message of a part has a measure, and every record that the state refers to lies before
    the end of its file, given by file slot.
    """
    count = max(ends, default=-1) + 1
    numbers = ffi.new("uint64_t[]", max(count, 1))
    for slot, end in ends.items():
        numbers[slot] = end
    return bool(lib.jfs_state_lies_within(state.pointer, numbers, count) == OK)


# Where the records of many messages lie, asked of a live state at once: 32 bytes a message.

_PLACE: Final = struct.Struct("@qqIIIB3x")
"""`jfs_record_place`."""

PLACE_BYTES: Final = _PLACE.size


class RecordPlace(NamedTuple):
    """`due_ms`: when the message is due in its queue; 0: now. `source`: how its bytes begin."""

    message_id: MessageId
    due_ms: int
    file_slot: int
    offset: int
    size_bytes: int
    source: int


_one: Final = ffi.new("jfs_record_place *")
_bytes_of_one: Final = ffi.buffer(_one)


def one_place(state: LiveState, slot: int, message_id: int) -> tuple[bytes, int] | None:
    """Return the place of one message for `RecordPlaces.append`, and the slot of its file. None: it is not in
    the queue.
    """
    if lib.jfs_state_record_place(state.pointer, slot, message_id, _one):
        return None
    return bytes(_bytes_of_one), _one.file_slot


class RecordPlaces:
    """Of messages of one queue, in the order in which they were asked for, without those that were not there.
    `file_slots`: all that they lie in.
    """

    __slots__ = ("_items", "file_slots")

    def __init__(self) -> None:
        self._items = bytearray()
        self.file_slots: set[int] = set()

    def add(self, state: LiveState, slot: int, ids: array[int], slot_limit: int) -> None:
        """Add the places of messages that are in a queue now."""
        items, used = (
            uninitialized("jfs_record_place[]", len(ids)),
            ffi.new("uint8_t[]", max(slot_limit, 1)),
        )
        given, found = ffi.from_buffer("int64_t[]", ids), ffi.new("uint32_t *")
        status = lib.jfs_state_record_places(
            state.pointer, slot, given, len(ids), items, found, used, slot_limit
        )
        check(status, f"looking at queue slot {slot}")
        self._items += ffi.buffer(items, found[0] * PLACE_BYTES)
        marks = bytes(ffi.buffer(used, slot_limit))
        at = marks.find(1)
        while at >= 0:
            self.file_slots.add(at)
            at = marks.find(1, at + 1)

    def append(self, one: bytes, file_slot: int) -> None:
        """Add a place that `one_place` returned."""
        self._items += one
        self.file_slots.add(file_slot)

    def __len__(self) -> int:
        return len(self._items) // PLACE_BYTES

    def __iter__(self) -> Iterator[RecordPlace]:
        return map(RecordPlace._make, _PLACE.iter_unpack(self._items))

    def newest_first(self) -> Iterator[RecordPlace]:
        for at in range(len(self._items) - PLACE_BYTES, -1, -PLACE_BYTES):
            yield RecordPlace._make(_PLACE.unpack_from(self._items, at))
