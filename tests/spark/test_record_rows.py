"""What a task makes of journal and page files, without a session: what the raw views of a mount say."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import scan_page
from journalfs.engine.recordview import PageView, RecordView
from journalfs.engine.scan import scan_journal
from journalfs.format.journal_file import read_header
from journalfs.spark.record_files import PAGES, RECORDS, _pages_of, _records_of
from tests.frozen import PristineStores

NUMBERS = ("queue", "pageTx", "message")
"""Keys of the raw view that come first in a record's body."""


def rows_of(decode: Any, schema: StructType, path: Path) -> list[dict[str, Any]]:
    files = pa.RecordBatch.from_pylist([{"path": str(path), "content": path.read_bytes()}])
    batches: Iterator[Any] = decode(schema, [files])
    found = []
    for batch in batches:
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def check_record(row: dict[str, Any], line: dict[str, Any]) -> None:
    for name in ("offset", "kind", "id", "tx", "userType", "bytes", "count"):
        assert row[name] == line.get(name), (name, line)
    assert row["compactCount"] == line.get("compactCount", 0)
    assert row["inDamage"] == line.get("inDamage", False)
    assert row["body"] == base64.b64decode(line.get("body_base64", ""))
    first = [line[name] for name in NUMBERS if name in line]
    if first and line["userType"] not in (22, 46):
        assert row["a"] == first[0], line
    for name, column in (("deliveryCount", "b"), ("scheduledTime", "b"), ("page", "b"), ("number", "c")):
        if name in line:
            assert row[column] == line[name], line


@pytest.mark.parametrize("store", ["orders-basic", "transactions", "compacted", "large-and-paged"])
def test_rows_of_journal_files_are_their_raw_views(stores: PristineStores, store: str) -> None:
    total = 0
    for path in sorted((stores[store]).rglob("journal/*.amq")):
        with MappedFile(path) as file:
            header = read_header(file.copy(0, 16))
            scan = scan_journal(file, rid=header.rid, version=header.version)
            view = RecordView(file, scan, path.name)
            lines = [json.loads(view.line(index)) for index in range(len(scan))]
        rows = rows_of(_records_of, RECORDS, path)
        assert len(rows) == len(lines)
        for row, line in zip(rows, lines, strict=True):
            check_record(row, line)
            assert row["fileId"] == header.file_id
        total += len(rows)
    assert total > 50


def test_rows_of_page_files_are_their_raw_views(stores: PristineStores) -> None:
    total = 0
    for path in sorted(stores["large-and-paged"].rglob("*.page")):
        with MappedFile(path) as file:
            scan = scan_page(file)
            view = PageView(file, scan, path.name, address="")
            lines = [json.loads(view.line(index)) for index in range(len(scan))]
        rows = rows_of(_pages_of, PAGES, path)
        for row, line in zip(rows, lines, strict=True):
            assert row["number"] == line["number"]
            assert row["id"] == line["id"]
            assert row["queues"] == line["queues"]
            assert row["body"] == base64.b64decode(line["body_base64"])
            assert (row["tx"] if row["tx"] > 0 else None) == line.get("tx")
        total += len(rows)
    assert total > 100


def test_a_file_without_a_header_is_placed_by_its_records(stores: PristineStores, tmp_path: Path) -> None:
    original = next(
        path
        for path in sorted(stores["orders-basic"].rglob("journal/*.amq"))
        if rows_of(_records_of, RECORDS, path)
    )
    damaged = tmp_path / original.name
    damaged.write_bytes(b"\xff" * 16 + original.read_bytes()[16:])
    before, after = (rows_of(_records_of, RECORDS, path) for path in (original, damaged))
    assert [row["fileId"] for row in after] == [row["fileId"] for row in before]
    assert [row["offset"] for row in after] == [row["offset"] for row in before]


def test_files_that_were_never_written_to_have_no_rows(tmp_path: Path) -> None:
    empty = tmp_path / "activemq-data-1.amq"
    for content in (b"", bytes(8), bytes(4096)):
        empty.write_bytes(content)
        assert rows_of(_records_of, RECORDS, empty) == []
