"""`format("journalfs")` in a real session: planned, sent to tasks and read there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.frozen import ExpectedStores, PristineStores
from tests.spark.rows import check_row, lines_of
from tests.spark.writing import publish, written_store
from tests.tools.make_store import StoreMade

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def reading(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    reader = spark.read.format("journalfs").option("index", "false")
    return reader.options(**{name: str(value) for name, value in options.items()}).load(str(path))


def test_rows_are_the_messages_that_the_broker_listed(
    spark: SparkSession, stores: PristineStores, expected: ExpectedStores
) -> None:
    store = "large-and-paged"
    rows = reading(spark, stores[store], partitionBytes="200k").collect()
    listed = [
        (queue["name"], message["id"]) for queue in expected[store]["queues"] for message in queue["messages"]
    ]
    assert Counter((row.queue, row.id) for row in rows) == Counter(listed)
    lines = {(line["queue"], line["id"]): line for line, _ in lines_of(stores[store])}
    for row in rows:
        found = row.asDict(recursive=True)
        for name in ("timestamp", "expiration", "scheduledTime"):
            # Spark gives times without a zone, in the session's; here that of this process.
            found[name] = None if found[name] is None else found[name].astimezone()
        check_row(found, lines[row.queue, row.id])


def test_a_frame_may_be_read_again_whatever_was_filtered(spark: SparkSession, many: StoreMade) -> None:
    """Spark plans a read of one frame once: a filter that had gone into the plan would be in all of them."""
    frame = reading(spark, many.data, columns="id,priority")
    every = sum(len(queue.live) for queue in many.queues)
    assert frame.count() == every
    high = frame.filter("priority > 4")
    filtered = high.count()
    assert 0 < filtered < every
    assert (frame.count(), len(frame.collect())) == (every, every)
    assert high.unionAll(frame).count() == filtered + every
    again = reading(spark, many.data, columns="id,priority")
    assert again.filter("priority > 4").unionAll(again).count() == filtered + every


def test_the_setting_for_other_sources_changes_nothing(spark: SparkSession, many: StoreMade) -> None:
    """Spark keeps the plan of a frame's first filtered read: a source that took filters would miscount."""
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = reading(spark, many.data, columns="id,priority")
        every = sum(len(queue.live) for queue in many.queues)
        assert 0 < frame.filter("priority > 4").count() < every == frame.count()
    finally:
        spark.conf.unset(PUSHDOWN)


def test_a_frame_keeps_what_was_live_when_it_was_first_used(spark: SparkSession, tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}]})
    frame = reading(spark, store)
    assert frame.count() == 1
    publish(store, "a", [{"body": "2"}])
    assert (frame.count(), reading(spark, store).count()) == (1, 2)


def test_a_mount_its_addresses_and_its_queues_are_paths_too(
    spark: SparkSession, many: StoreMade, many_mounted: Path
) -> None:
    queue = many.queues[3]
    live = {one.name: Counter(one.live) for one in many.queues}
    whole = reading(spark, many_mounted, columns="queue,id").collect()
    assert Counter(row.queue for row in whole) == Counter({name: len(ids) for name, ids in live.items()})
    of_queue = reading(spark, many_mounted / queue.address / queue.name, columns="id").collect()
    assert Counter(row.id for row in of_queue) == live[queue.name]
    of_address = reading(spark, many_mounted / queue.address, columns="queue").collect()
    assert {row.queue for row in of_address} == {
        one.name for one in many.queues if one.address == queue.address
    }
    with pytest.raises(PySparkException, match="a mount's root, an address's or a queue's directory"):
        reading(spark, many_mounted / queue.address / queue.name / ".messages").collect()


def test_typed_columns_of_properties(spark: SparkSession, many: StoreMade) -> None:
    reader = spark.read.format("journalfs").schema(
        "ID long, color string, weight double, properties map<string,string>"
    )
    rows = (
        reader.option("index", "false").option("queues", many.queues[0].name).load(str(many.data)).collect()
    )
    assert {row.ID for row in rows} == set(many.queues[0].live)
    assert all(row.color == row.properties.get("color") for row in rows)
    assert len({row.color for row in rows}) > 1


def test_an_empty_answer_has_the_columns(spark: SparkSession, many: StoreMade) -> None:
    frame = reading(spark, many.data, selector="nothing = 'like this'", columns="id,body")
    assert frame.columns == ["id", "body"]
    assert frame.collect() == []


def test_errors_say_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="no message store here"):
        reading(spark, tmp_path).collect()
    with pytest.raises(PySparkException, match="has no such option"):
        reading(spark, tmp_path, colour="red")
