"""Rows of a journal's table as records of files."""

from __future__ import annotations

from pathlib import Path

from journalfs.engine.buffers import MappedFile
from journalfs.engine.older import TableRows
from journalfs.engine.scan import scan_journal
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.records.files.directory import read_directory
from journalfs.records.older.derived import JournalFiles
from journalfs.records.tables.filling import records_in

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
    files = JournalFiles(tmp_path, "activemq-data", "amq", FILE_BYTES)
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
