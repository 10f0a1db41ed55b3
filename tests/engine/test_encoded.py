"""Encoded lines that are longer than what is made at once."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.recordview import PIECE_BYTES, encoded_lines
from journalfs.engine.scan import scan_journal
from journalfs.engine.stage import NewRecord, encode
from journalfs.format.record_types import RecordKind


@pytest.mark.rule("S-217")
def test_a_line_longer_than_a_piece(tmp_path: Path) -> None:
    body = bytes(range(256)) * (PIECE_BYTES // 250)
    records = [NewRecord(RecordKind.ADD, 1, user_type=45, body=body), NewRecord(RecordKind.DELETE, 1)]
    path = tmp_path / "file"
    path.write_bytes(struct.pack(">iiq", 2, 0, 7) + encode(records, rid=7))
    with MappedFile(path) as file:
        lines = b"".join(bytes(piece) for piece in encoded_lines(file, scan_journal(file, rid=7, version=2)))
    long, short, rest = lines.split(b"\n")
    assert base64.urlsafe_b64decode(long.partition(b",data@")[2]) == body
    assert (short, rest) == (b"operation@DeleteRecord,id@1", b"")
