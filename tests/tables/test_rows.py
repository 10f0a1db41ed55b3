"""Rows of a journal's table as records of files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.records.files.directory import read_directory
from journalfs.records.older.derived import RewritingFiles
from journalfs.records.older.rewriting import TableRows, copied_rows
from journalfs.records.tables.filling import records_in
from journalfs.records.tables.following import ID_MAX

FILE_BYTES = 300
MESSAGE, REFERENCE = MessageType.MESSAGE, MessageType.ADD_REFERENCE

ROWS = [
    (1, RecordKind.ADD, 0, MESSAGE, b"first"),
    (1, RecordKind.ADD, 0, REFERENCE, b"queue"),  # as a broker's table calls it
    *((id, RecordKind.ADD_TX, 90, MESSAGE, b"x" * 100) for id in range(2, 6)),
    (-1, RecordKind.PREPARE, 90, -1, b"xid"),
    (9, RecordKind.ADD_TX, 91, MESSAGE, b"y" * 1000),  # longer than a file
    (-1, RecordKind.COMMIT, 91, -1, b""),
    (-1, RecordKind.COMMIT, 90, -1, b""),
]


def test_rows_fill_files_and_ends_count_what_is_in_theirs(tmp_path: Path) -> None:
    files = RewritingFiles(tmp_path, "activemq-data", "amq", FILE_BYTES)
    for some in (ROWS[:3], ROWS[3:]):
        files.take_rows(TableRows(*zip(*some, strict=True)))
    files.close()
    found = [(one.kind, one.tx_id, one.body) for one in records_in(tmp_path, "amq")]
    kinds = [kind for _, kind, *_ in ROWS]
    kinds[1] = RecordKind.UPDATE
    assert found == [(kind, tx, body) for kind, (_, _, tx, _, body) in zip(kinds, ROWS, strict=True)]
    journal = read_directory(tmp_path, extension="amq", relative_to=tmp_path).files
    assert len(journal) >= 4
    for file in journal:
        of_tx = dict.fromkeys((0, 90, 91), 0)
        with MappedFile(file.path) as mapped:
            for record in scan_journal(mapped, rid=file.rid, version=file.version):
                of_tx[record.tx_id] += record.kind == RecordKind.ADD_TX
                if record.kind in (RecordKind.PREPARE, RecordKind.COMMIT):
                    assert record.count == of_tx[record.tx_id]


def copied(*fields: bytes | None) -> bytes:
    """A row as PostgreSQL copies it in binary."""
    said = (struct.pack(">i", -1) if one is None else struct.pack(">i", len(one)) + one for one in fields)
    return struct.pack(">h", len(fields)) + b"".join(said)


def numbers(record_id: int, kind: int, tx: int, user_type: int) -> tuple[bytes, ...]:
    return (
        struct.pack(">q", record_id),
        struct.pack(">h", kind),
        struct.pack(">q", tx),
        struct.pack(">h", user_type),
    )


def test_copied_rows_are_taken_apart() -> None:
    rows = b"".join(
        copied(
            *numbers(one, kind, tx, user_type),
            *((b"", body) if kind == RecordKind.PREPARE else (body or None, None)),
            struct.pack(">q", seq),
        )
        for seq, (one, kind, tx, user_type, body) in enumerate(ROWS)
    )
    found = copied_rows(rows, len(ROWS), ID_MAX)
    assert found is not None
    assert list(found[0].each()) == ROWS
    assert list(found[1]) == list(range(len(ROWS)))
    assert all(copied_rows(rows[:end], len(ROWS), ID_MAX) is None for end in range(len(rows)))


@pytest.mark.parametrize(
    "fields",
    [
        (*numbers(1, 11, 0, 256), b"", b"", b"\0" * 8),
        (*numbers(ID_MAX + 1, 11, 0, 45), b"", b"", b"\0" * 8),
        (*numbers(1, 13, -ID_MAX - 1, 45), b"", b"", b"\0" * 8),
        (*numbers(1, 11, 0, 45), b"", b"", None),
        (None, *numbers(1, 11, 0, 45)[1:], b"", b"", b"\0" * 8),
        (b"123", *numbers(1, 11, 0, 45)[1:], b"", b"", b"\0" * 8),
        (*numbers(1, 11, 0, 45), b"", b""),
    ],
)
def test_copied_rows_that_no_broker_writes_are_for_others(fields: tuple[bytes | None, ...]) -> None:
    assert copied_rows(copied(*fields), 1, ID_MAX) is None
