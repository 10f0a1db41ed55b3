"""What a task of `format("journalfs")` makes of every message, without a session: what its line says."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from journalfs.errors import Gone, NoSuchName, SelectorError, StaleView, WrongCall
from journalfs.spark.options import Options
from journalfs.spark.schema import COLUMNS, check_schema, usual_schema
from journalfs.spark.source import BatchReader, JournalfsSource
from tests.frozen import FILE_STORES, PristineStores
from tests.spark.rows import check_row, lines_of, read_without_spark, rows_of, time_of
from tests.tools.make_store import StoreMade, StoreSpec, make_store

EVERY = usual_schema(list(COLUMNS))


@pytest.mark.parametrize("store", FILE_STORES)
def test_every_row_says_what_its_line_says(stores: PristineStores, store: str) -> None:
    """Also when batches and partitions hold a few messages only."""
    lines = {(line["queue"], line.get("id")): (line, raw) for line, raw in lines_of(stores[store])}
    rows = read_without_spark(stores[store], EVERY, batch_bytes=20_000, partition_bytes=50_000)
    assert len(rows) == len(lines)
    for row in rows:
        line, raw = lines[row["queue"], row["id"]]
        check_row(row, line)
        assert json.loads(row["envelope"]) == line
        assert row["envelope"].encode() == raw
        assert (row["rawMessage"] is not None) == ("message_base64" in line)


def test_batches_and_partitions_are_as_large_as_asked(stores: PristineStores) -> None:
    schema = usual_schema(["id", "body"])
    one = BatchReader(Options(path=str(stores["killed"]), index=False), schema)
    many = BatchReader(Options(path=str(stores["killed"]), index=False, partition_bytes=20_000), schema)
    assert len(one.partitions()) == 1
    assert len(many.partitions()) > 20
    assert sorted(row["id"] for row in rows_of(one)) == sorted(row["id"] for row in rows_of(many))
    small = BatchReader(Options(path=str(stores["killed"]), index=False, batch_bytes=4000), schema)
    batches = [batch for part in small.partitions() for batch in small.read(part)]
    assert len(batches) > 20
    assert max(batch.column("body").nbytes for batch in batches) < 100_000


def test_declared_columns_are_typed(stores: PristineStores) -> None:
    declared = StructType(
        [
            StructField("id", LongType()),
            StructField("timestamp", LongType()),
            StructField("body", BinaryType()),
            StructField("n", IntegerType()),
        ]
    )
    check_schema(declared)
    rows = {row["id"]: row for row in read_without_spark(stores["orders-basic"], declared, queues=("DLQ",))}
    lines = [line for line, _ in lines_of(stores["orders-basic"]) if line["queue"] == "DLQ"]
    assert len(rows) == len(lines) > 1
    for line in lines:
        row = rows[line["id"]]
        assert row["timestamp"] == line["timestamp"]
        assert row["body"].decode() == line["body"]
        assert row["n"] == line["properties"]["n"]


PROPERTIES = {
    "b": ("boolean", True),
    "tiny": ("byte", -5),
    "big": ("long", 2**40),
    "wide": ("double", 1.5),
    "text": ("string", "x"),
    "when": ("long", 1_700_000_000_000),
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one message that has a property of every kind, and one that has none."""
    from tests.spark.writing import written_store  # noqa: PLC0415

    properties = {name: value for name, (_, value) in PROPERTIES.items()}
    types = {name: kind for name, (kind, _) in PROPERTIES.items() if kind not in ("string", "boolean")}
    lines: list[dict[str, Any]] = [
        {"body": "one", "properties": properties, "propertyTypes": types},
        {"body": "two"},
    ]
    return written_store(tmp_path_factory.mktemp("typed"), {"a": lines})


@pytest.mark.parametrize(
    ("name", "declared", "value"),
    [
        ("b", BooleanType(), True),
        ("b", LongType(), None),
        ("tiny", ByteType(), -5),
        ("tiny", DoubleType(), -5.0),
        ("big", LongType(), 2**40),
        ("big", IntegerType(), None),
        ("big", StringType(), str(2**40)),
        ("wide", DoubleType(), 1.5),
        ("wide", LongType(), None),
        ("text", StringType(), "x"),
        ("text", LongType(), None),
        ("when", TimestampType(), time_of(1_700_000_000_000)),
        ("missing", StringType(), None),
    ],
)
def test_properties_become_columns_of_the_declared_type(
    typed: Path, name: str, declared: Any, value: object
) -> None:
    schema = StructType([StructField("body", StringType()), StructField(name, declared)])
    rows = {row["body"]: row[name] for row in read_without_spark(typed, schema)}
    assert rows == {"one": value, "two": None}


def test_a_selector_chooses_messages(stores: PristineStores) -> None:
    schema = usual_schema(["id", "queue", "priority"])
    chosen = read_without_spark(stores["orders-basic"], schema, selector="JMSPriority > 4")
    every = read_without_spark(stores["orders-basic"], schema)
    assert chosen == [row for row in every if row["priority"] > 4] != []


def test_queues_are_chosen_by_their_names(stores: PristineStores) -> None:
    def queues(*names: str) -> set[str]:
        return {
            row["queue"]
            for row in read_without_spark(stores["orders-basic"], usual_schema(["queue"]), queues=names)
        }

    assert queues("DLQ::DLQ") == queues("DLQ") == {"DLQ"}
    assert queues("DLQ", "orders") == {"DLQ", "orders"}
    with pytest.raises(NoSuchName, match="nobody"):
        queues("nobody")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "needs a path"),
        ({"path": "x", "quues": "a"}, "no such option"),
        ({"path": "x", "index": "maybe"}, "neither true nor false"),
        ({"path": "x", "partitionBytes": "many"}, "no number of bytes"),
        ({"path": "x", "partitionbytes": "many"}, "option 'partitionBytes': "),
        ({"path": "x", "MAXMESSAGESPERTRIGGER": "0"}, "option 'maxMessagesPerTrigger': "),
        ({"path": "x", "columns": "id,colour"}, "no column 'colour'"),
        ({"path": "hdfs://host/journal"}, "under one path"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], reason: str) -> None:
    source = JournalfsSource(options)
    with pytest.raises(WrongCall, match=reason):
        source.reader(source.schema()).partitions()


def test_a_wrong_selector_is_refused_before_anything_is_read() -> None:
    with pytest.raises(SelectorError):
        JournalfsSource({"path": "x", "selector": "a >"}).schema()


def test_columns_that_cannot_be_filled_are_refused() -> None:
    with pytest.raises(WrongCall, match="'id' cannot be string"):
        check_schema(StructType([StructField("id", StringType())]))
    with pytest.raises(WrongCall, match="is a property"):
        check_schema(StructType([StructField("color", usual_schema())]))


@pytest.fixture
def small(tmp_path: Path) -> StoreMade:
    return make_store(tmp_path / "small", StoreSpec(messages=200, paged_messages=20))


def test_a_journal_file_used_again_since_the_plan_is_noticed(small: StoreMade) -> None:
    reader = BatchReader(Options(path=str(small.data), index=False), usual_schema())
    planned = reader.partitions()
    journal = min((small.data / "journal").glob("*.amq"))
    with journal.open("r+b") as file:
        file.seek(8)
        file.write((99).to_bytes(8))
    with pytest.raises(StaleView):
        list(reader.read(planned[0]))


def test_a_file_taken_away_since_the_plan_is_noticed(small: StoreMade) -> None:
    reader = BatchReader(Options(path=str(small.data), index=False), usual_schema())
    planned = reader.partitions()
    shutil.rmtree(small.data / "journal")
    with pytest.raises(Gone):
        [list(reader.read(part)) for part in planned]


def test_reading_leaves_no_file_open(small: StoreMade) -> None:
    reader = BatchReader(Options(path=str(small.data), index=False), usual_schema())
    before = len(os.listdir("/proc/self/fd"))
    assert len(list(rows_of(reader))) == 220
    assert len(os.listdir("/proc/self/fd")) <= before
