"""Where the records of many messages lie, asked of a live state at once: 32 bytes a message."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from journalfs.engine._native import ffi, lib
from journalfs.engine.lines import uninitialized
from journalfs.engine.state import LiveState
from journalfs.engine.status import check
from journalfs.ids import MessageId

_PLACE: Final = struct.Struct("@qqIIIB3x")
"""`jfs_record_place`."""

PLACE_BYTES: Final = _PLACE.size


class RecordPlace(NamedTuple):
    """`due_ms`: when the message is due in its queue; 0: it is. `source`: how its bytes begin."""

    message_id: MessageId
    due_ms: int
    file_slot: int
    offset: int
    size_bytes: int
    source: int


_one: Final = ffi.new("jfs_record_place *")
_bytes_of_one: Final = ffi.buffer(_one)


def one_place(state: LiveState, slot: int, message_id: int) -> tuple[bytes, int] | None:
    """Of one message, for `RecordPlaces.append`, and the slot of its file. None: it is not in the queue."""
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
        """Those of messages that a queue has now."""
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
        """What `one_place` gave."""
        self._items += one
        self.file_slots.add(file_slot)

    def __len__(self) -> int:
        return len(self._items) // PLACE_BYTES

    def __iter__(self) -> Iterator[RecordPlace]:
        return map(RecordPlace._make, _PLACE.iter_unpack(self._items))

    def newest_first(self) -> Iterator[RecordPlace]:
        for at in range(len(self._items) - PLACE_BYTES, -1, -PLACE_BYTES):
            yield RecordPlace._make(_PLACE.unpack_from(self._items, at))
