"""Records of a journal as encoded lines, many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import uninitialized
from journalfs.engine.scan import Scan
from journalfs.engine.status import check

PIECE_BYTES: Final = 1 << 20
"""Made at once, so few that the processor still has them when they are written. One line may be longer."""


def encoded_lines(file: MappedFile, scan: Scan) -> Iterator[Any]:
    """The lines of all records, in pieces, each valid until the next is asked for. Raises `FileTorn`."""
    count, room = len(scan), PIECE_BYTES
    out, written, following = uninitialized("uint8_t[]", room), ffi.new("uint64_t *"), ffi.new("uint32_t *")
    while following[0] < count:
        status = lib.jfs_encoded_lines(file.pointer, scan.pointer, following, out, room, written)
        check(status, f"reading {file.path}")
        if written[0]:
            yield ffi.buffer(out, written[0])
        elif following[0] < count:
            body_bytes = scan.pointer.records[following[0]].body_bytes
            room = lib.JFS_ENCODED_FRONT_BYTES + (body_bytes + 2) // 3 * 4
            out = uninitialized("uint8_t[]", room)
