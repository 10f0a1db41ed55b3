"""Spark reads queues as directories of JSON lines: every live message once, as the lines have it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from tests.frozen import ExpectedStores, PristineStores
from tests.spark.conftest import MountStore
from tests.spark.reading import envelopes, literal, part_lines, queue_directories
from tests.tools.make_store import StoreMade

KEYS = ("queue", "address", "id", "protocol", "durable", "priority", "timestamp", "body")
_TYPES = ("string", "string", "long", "string", "boolean", "int", "long", "string")
SCHEMA = ", ".join(f"{key} {kind}" for key, kind in zip(KEYS, _TYPES, strict=True))


def test_text_rows_are_the_lines_of_every_queue(spark: SparkSession, orders: Path) -> None:
    """Also of queues whose names must be encoded, or are patterns to Spark."""
    queues = queue_directories(orders)
    assert len(queues) > 30
    for queue in queues:
        rows = spark.read.text(literal(queue)).collect() if part_lines(queue) else []
        assert Counter(row.value for row in rows) == Counter(part_lines(queue)), queue.name


def test_json_rows_equal_the_envelopes(spark: SparkSession, orders: Path) -> None:
    queue = orders / "orders" / "orders"
    rows = spark.read.schema(SCHEMA).json(literal(queue)).collect()
    wanted = [Row(**{key: envelope.get(key) for key in KEYS}) for envelope in envelopes(queue)]
    assert len(wanted) == 47
    assert sorted(rows, key=lambda row: row.id) == sorted(wanted, key=lambda row: row.id)


def test_an_inferred_schema_has_the_keys_of_the_envelopes(spark: SparkSession, orders: Path) -> None:
    queue = orders / "typed" / "typed"
    frame = spark.read.json(literal(queue))
    assert set(frame.columns) == set().union(*map(set, envelopes(queue)))
    assert frame.count() == len(part_lines(queue)) == 28


@pytest.mark.parametrize("store", ["orders-basic", "large-and-paged", "transactions", "compacted"])
def test_spark_sees_the_messages_that_the_broker_listed(
    spark: SparkSession, mount_store: MountStore, stores: PristineStores, expected: ExpectedStores, store: str
) -> None:
    mountpoint = mount_store(stores[store])
    # Not by a pattern: Spark cannot expand one beside a name with a colon, as some of these queues have.
    queues = [literal(queue) for queue in queue_directories(mountpoint)]
    rows = spark.read.schema(SCHEMA).json(queues).select("queue", "id").collect()
    listed = [
        (queue["name"], message["id"]) for queue in expected[store]["queues"] for message in queue["messages"]
    ]
    assert Counter((row.queue, row.id) for row in rows) == Counter(listed)


def test_globs_choose_addresses_and_queues(spark: SparkSession, many: StoreMade, many_mounted: Path) -> None:
    def ids(pattern: str) -> Counter[tuple[str, int]]:
        rows = spark.read.schema(SCHEMA).json(f"{many_mounted}/{pattern}").select("queue", "id").collect()
        return Counter((row.queue, row.id) for row in rows)

    def live(*queues: str) -> Counter[tuple[str, int]]:
        return Counter((queue.name, i) for queue in many.queues if queue.name in queues for i in queue.live)

    every = {queue.name for queue in many.queues}
    assert len(every) == 6
    assert ids("*/*") == live(*every)
    assert ids("scale.001/*") == live("scale.001.sub-0", "scale.001.sub-1")
    assert ids("*/*.sub-0") == live(*(name for name in every if name.endswith(".sub-0")))
    assert ids("scale.00{0,2}/*.sub-1/part-*") == live("scale.000.sub-1", "scale.002.sub-1")
    assert ids("scale.000/scale.000.sub-0/part-*.jsonl") == live("scale.000.sub-0")


def test_bodies_come_through_unchanged(spark: SparkSession, many: StoreMade, many_mounted: Path) -> None:
    queue = many.queues[0]
    rows = spark.read.schema(SCHEMA).json(f"{many_mounted}/{queue.address}/{queue.name}").collect()
    assert {row.id: row.body for row in rows} == {i: many.body(i) for i in queue.live}


def test_message_files_as_binary_rows(spark: SparkSession, orders: Path) -> None:
    """`.messages` as the root of a read: one row a message, its length and content those of the file."""
    messages = orders / "orders" / "orders" / ".messages"
    rows = spark.read.format("binaryFile").load(literal(messages)).collect()
    files = {file.name: file.read_bytes() for file in messages.iterdir()}
    assert len(files) == 47
    assert {row.path.rsplit("/", 1)[1]: bytes(row.content) for row in rows} == files
    assert all(row.length == len(row.content) for row in rows)


def test_message_files_are_chosen_by_suffix(spark: SparkSession, many: StoreMade, many_mounted: Path) -> None:
    queue = many.queues[1]
    frame = spark.read.format("binaryFile").option("pathGlobFilter", "*.txt")
    rows = (
        frame.load(f"{many_mounted}/{queue.address}/{queue.name}/.messages")
        .select("path", "length")
        .collect()
    )
    assert {int(row.path.rsplit("/", 1)[1].removesuffix(".txt")) for row in rows} == set(queue.live)
    lengths = {i: len(many.body(i).encode()) for i in queue.live}
    assert {int(row.path.rsplit("/", 1)[1].removesuffix(".txt")): row.length for row in rows} == lengths


def test_operators_of_a_selector_are_patterns_without_a_backslash(
    spark: SparkSession, many: StoreMade, many_mounted: Path
) -> None:
    queue = many_mounted / many.queues[0].address / many.queues[0].name
    wanted = sorted(line["id"] for line in envelopes(queue) if line["priority"] * 2 > 8)
    rows = spark.read.schema("id long").json(f"{queue}/.where/JMSPriority \\* 2 > 8").collect()
    assert sorted(row.id for row in rows) == wanted != []
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        spark.read.text(f"{queue}/.where/JMSPriority * 2 > 8")


def test_a_queue_is_read_as_parts_only(spark: SparkSession, many_mounted: Path, many: StoreMade) -> None:
    """The tail, the message files and the control files are no rows, whichever way a queue is read."""
    queue = many.queues[2]
    path = f"{many_mounted}/{queue.address}/{queue.name}"
    names = {
        row.path.rsplit("/", 1)[1]
        for row in spark.read.format("binaryFile").load(path).select("path").collect()
    }
    assert names
    assert all(name.startswith("part-") for name in names)
    recursive = spark.read.option("recursiveFileLookup", "true").text(path)
    assert recursive.count() == len(queue.live)
