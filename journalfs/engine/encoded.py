"""Records of a journal as encoded lines, many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.engine.status import check

PIECE_BYTES: Final = 4 << 20
"""Made at once, unless one line is longer."""


def encoded_lines(file: MappedFile, scan: Scan) -> Iterator[bytes]:
    """The lines of all records, in pieces. Raises `FileTorn`."""
    records, count = scan.pointer.records, len(scan)
    longest = max((records[index].body_bytes for index in range(count)), default=0)
    room = max(PIECE_BYTES, lib.JFS_ENCODED_FRONT_BYTES + (longest + 2) // 3 * 4)
    out, written, following = ffi.new("uint8_t[]", room), ffi.new("uint64_t *"), ffi.new("uint32_t *")
    while following[0] < count:
        status = lib.jfs_encoded_lines(file.pointer, scan.pointer, following, out, room, written)
        check(status, f"reading {file.path}")
        yield bytes(ffi.buffer(out, written[0]))
