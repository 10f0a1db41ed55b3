"""Messages of ActiveMQ 5 as records, made by the C core many at a time (docs/format/kahadb.md)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.older import Rewritten
from journalfs.engine.status import check

KAHADB: int = lib.JFS_OPENWIRE_KAHADB
AMQ: int = lib.JFS_OPENWIRE_AMQ
"""How the length of a message is found where nothing else says it."""


class OpenWireBatch:
    """Messages by where they lie, in the order in which they are to be written."""

    def __init__(self, *, layout: int, topic: bool) -> None:
        self._layout = layout
        self._topic = topic
        self.files: dict[int, int] = {}
        """Numbers of files, as messages name them, to the place in `_mapped`."""
        self._mapped: list[tuple[Any, int]] = []
        self._file = array("I")
        self._offset = array("Q")
        self._length = array("I")
        self._address = array("I")
        self._starts = array("I", [0])
        self._queues = array("q")
        self._addresses: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offset)

    def file(self, number: int, file: MappedFile) -> None:
        """Messages of file `number` lie in it."""
        self.files[number] = len(self._mapped)
        self._mapped.append((file.pointer, file.size_bytes))

    def add(self, places: Sequence[tuple[int, int, int]], address: bytes, queues: Sequence[int]) -> None:
        """Messages that all are for these queues, by file, offset and length, which is 0 where only what lies
        around it says so. `address` is encoded, a nullable SimpleString.
        """
        count = len(places)
        numbers, offsets, lengths = zip(*places, strict=True)
        self._file.extend(map(self.files.__getitem__, numbers))
        self._offset.extend(offsets)
        self._length.extend(lengths)
        self._address.extend([self._addresses.setdefault(address, len(self._addresses))] * count)
        first, each = len(self._queues), len(queues)
        self._queues.extend(array("q", queues) * count)
        self._starts.extend(first + each * number for number in range(1, count + 1))

    def records(
        self, first: int, *, message_id: int, rid: int, room_bytes: int, body_bytes_max: int
    ) -> tuple[Rewritten, int]:
        """Records of the messages from number `first` on, as many as are usual, can be read and fit into the
        room that the file has; and the number of the first of which none was made.
        """
        starts, encoded = array("I", [0]), bytearray()
        for address in self._addresses:
            encoded += address
            starts.append(len(encoded))
        files = ffi.new("const uint8_t *[]", [pointer for pointer, _ in self._mapped])
        sizes = ffi.new("uint64_t[]", [size_bytes for _, size_bytes in self._mapped])
        batch = ffi.new("jfs_openwire_batch *")
        kept = [
            _view("uint32_t[]", self._file),
            _view("uint64_t[]", self._offset),
            _view("uint32_t[]", self._length),
            _view("uint32_t[]", self._address),
            _view("uint32_t[]", self._starts),
            _view("int64_t[]", self._queues),
            _view("uint8_t[]", encoded),
            _view("uint32_t[]", starts),
        ]
        batch.file, batch.offset, batch.length, batch.address, batch.starts, batch.queues = kept[:6]
        batch.addresses, batch.address_starts = kept[6:]
        batch.files, batch.file_bytes, batch.file_count = files, sizes, len(self._mapped)
        batch.count, batch.address_count, batch.queue_count = len(self), len(starts) - 1, len(self._queues)
        batch.layout, batch.topic, batch.rid = self._layout, self._topic, rid
        batch.room_bytes, batch.body_bytes_max = room_bytes, body_bytes_max
        progress = ffi.new("jfs_openwire_progress *")
        progress.next, progress.message_id = first, message_id
        out = ffi.gc(ffi.new("jfs_older_out *"), lib.jfs_older_free)
        status = lib.jfs_openwire_records(batch, progress, out)
        if status != lib.JFS_TORN:
            check(status, "reading messages of ActiveMQ")
        out.size = out.whole
        return Rewritten(out), int(progress.next)


def _view(kind: str, content: Any) -> Any:
    return ffi.from_buffer(kind, content) if len(content) else ffi.NULL
