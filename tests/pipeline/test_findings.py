"""What an audit finds odd: a store that has each of it, which no store that is used as intended has."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from journalfs.format.record_types import RecordKind
from journalfs.pipeline.audit import audit
from journalfs.pipeline.messages import Source
from tests.differential.encode import record
from tests.differential.encode_messages import text_message
from tests.pipeline.stores import store_with
from tests.spark.rows import lines_of
from tests.spark.writing import publish
from tests.store.appending import ACK, ADD, COMMIT, MESSAGE, UPDATE_TX, JournalAppender

QUEUE = 4711
LAST_FILE = 99
PREPARED, UNFINISHED, ROLLED_BACK, UNPUBLISHED, UNROUTED, QUEUELESS = range(80_001, 80_007)
NO_LONGER = "its record is no longer in the files: compacted, or used again"


def odd_store(path: Path) -> tuple[Path, list[int]]:
    """A store with all that is odd, and the ids of its messages with a duplicate id."""
    # It remembers one duplicate id, so it takes the first one again.
    store = store_with(path, id_cache_size=1)
    for duplicate_id in ("d", "e", "d"):
        publish(store, "to", [{"body": "x", "duplicateId": duplicate_id}])
    ids = [line["id"] for line, _ in lines_of(store)]
    last = JournalAppender.create(store / "journal" / f"activemq-data-{LAST_FILE}.amq", LAST_FILE)
    last.send_in_transaction(1, PREPARED, QUEUE)
    last.append(record(RecordKind.PREPARE, LAST_FILE, tx_id=1, count=2))
    last.send_in_transaction(2, UNFINISHED, QUEUE)
    last.send_in_transaction(3, ROLLED_BACK, QUEUE)
    last.append(record(RecordKind.ROLLBACK, LAST_FILE, tx_id=3))
    for tx, message_id in ((4, UNPUBLISHED), (5, UNROUTED)):
        body = struct.pack(">q", QUEUE)
        last.append(
            record(UPDATE_TX, LAST_FILE, tx_id=tx, record_id=message_id, user_type=ACK, body=body),
            record(COMMIT, LAST_FILE, tx_id=tx, count=1),
        )
    for message_id in (UNROUTED, QUEUELESS):
        body = text_message(message_id, "x")
        last.append(record(ADD, LAST_FILE, record_id=message_id, user_type=MESSAGE, body=body))
    return store, ids


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sequence[Row], list[int]]:
    store, ids = odd_store(tmp_path_factory.mktemp("odd") / "store")
    audited = audit(spark, Source(str(store)))
    rows = audited.findings.collect()
    audited.close()
    return rows, ids


@pytest.mark.parametrize(
    ("finding", "ids", "detail"),
    [
        ("queueless", [QUEUELESS], "published, but to no queue"),
        ("prepared", [PREPARED], "its transaction waits for a decision"),
        ("uncommitted", [UNFINISHED, ROLLED_BACK], "its transaction was rolled back, or never ended"),
        ("unpublished", [UNPUBLISHED], NO_LONGER),
        ("unrouted", [UNPUBLISHED, UNROUTED], "its way into the queue is not in the files"),
    ],
)
def test_what_is_odd_of_messages(
    found: tuple[Sequence[Row], list[int]], finding: str, ids: list[int], detail: str
) -> None:
    rows = [row for row in found[0] if row.finding == finding]
    assert sorted(row.id for row in rows) == ids
    assert {row.detail for row in rows} == {detail}


def test_a_duplicate_id_that_was_taken_twice(found: tuple[Sequence[Row], list[int]]) -> None:
    rows, ids = found
    (duplicate,) = (row for row in rows if row.finding == "duplicate")
    assert duplicate.id == ids[0]
    assert duplicate.detail == f"at to with id d: messages [{ids[0]},{ids[2]}]"


def test_files_that_are_not_there(found: tuple[Sequence[Row], list[int]]) -> None:
    (gap,) = (row for row in found[0] if row.finding == "gap")
    assert (gap.id, gap.queue) == (None, None)
    begin, end = gap.detail.removeprefix("no records of the files ").split(" to ")
    assert 1 < int(begin) < int(end) == LAST_FILE - 1


def test_nothing_else_is_found(found: tuple[Sequence[Row], list[int]]) -> None:
    known = {"duplicate", "gap", "queueless", "prepared", "uncommitted", "unpublished", "unrouted"}
    assert {row.finding for row in found[0]} == known
