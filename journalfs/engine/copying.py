"""Moving whole records from one journal file to another."""

from __future__ import annotations

from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.backend import Viewed
from journalfs.engine.checksums import CHECKSUM_BYTES, checksum_record
from journalfs.engine.status import check
from journalfs.ids import rid_of
from journalfs.limits import JOURNAL_HEADER_BYTES

COVERED_BYTES_MAX: Final = 256 * 1024
"""A checksum covers little more than this, so that damage is said to be where it is."""


def copy_bytes(view: Viewed, offset: int, length: int) -> bytes:
    """Bytes of a file that the C core can see; the range is one that a scan reported. Raises FileTorn."""
    out = ffi.new("uint8_t[]", length)
    check(lib.jfs_copy(out, view.pointer + offset, length), "reading a journal file")
    return bytes(ffi.buffer(out, length))


class RecordCopier:
    """Fills new files with copies, in memory. The outputs begin with room for a header."""

    def __init__(self, *, first_id: int, file_size_bytes: int, checksums: bool = False) -> None:
        self._first_id = first_id
        self._size = file_size_bytes
        self._checksums = checksums
        self._covered = JOURNAL_HEADER_BYTES
        self.outputs: list[bytearray] = []
        self._written = ffi.new("uint64_t *")

    @property
    def number(self) -> int:
        """Which output is being filled, from 0; -1 before the first."""
        return len(self.outputs) - 1

    def next_output(self) -> None:
        """Go on in another file."""
        self._cover()
        self._covered = JOURNAL_HEADER_BYTES
        self.outputs.append(bytearray(JOURNAL_HEADER_BYTES))

    def make_room(self, length: int) -> None:
        """Go on in another file unless that much fits in this one."""
        if self.outputs and len(self.outputs[-1]) - self._covered >= COVERED_BYTES_MAX:
            self._cover()
        reserve = CHECKSUM_BYTES if self._checksums else 0
        if not self.outputs or len(self.outputs[-1]) + length + reserve > self._size:
            self.next_output()

    def finish(self) -> list[bytearray]:
        """The outputs, each as long as its content."""
        self._cover()
        return self.outputs

    def _cover(self) -> None:
        """End what was copied since the last checksum with one. A record that fills a whole file leaves it no
        room.
        """
        if not self._checksums or not self.outputs:
            return
        output = self.outputs[-1]
        if self._covered < len(output) <= self._size - CHECKSUM_BYTES:
            output += checksum_record(output, self._covered, self._first_id + self.number)
            self._covered = len(output)

    def copy(self, view: Viewed, record: Any, *, version: int, compact_count: int, count: int) -> None:
        """Append a copy; `make_room` was called for it."""
        output = self.outputs[-1]
        start = len(output)
        output.extend(bytes(record.length + 1))
        rid = rid_of(self._first_id + self.number)
        target = ffi.from_buffer("uint8_t[]", output)
        status = lib.jfs_record_copy(
            target + start,
            record.length + 1,
            view.pointer,
            ffi.addressof(record),
            version,
            rid,
            compact_count,
            count,
            self._written,
        )
        ffi.release(target)
        check(status, "copying a record")
        del output[start + self._written[0] :]
