"""Jobs and streams of a real session, through `format("journalfs")` both ways."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, raise_error, when

from journalfs.errors import NoRoute, StoreBusy
from journalfs.pipeline.session import in_one_line
from journalfs.store.write.opening import open_for_writing
from tests.broker.polling import eventually
from tests.mounting import mounted_for_writing
from tests.spark.mount_job import stream_of_store
from tests.spark.rows import lines_of
from tests.spark.test_mount_streams import DRIVER_S_MAX, driver
from tests.spark.writing import publish, written_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return written_store(tmp_path, {"a": [], "b": []})


def test_a_job_becomes_one_transaction(spark: SparkSession, store: Path) -> None:
    columns = ["concat('row ', id) AS body", "CAST(id % 10 AS INT) AS priority", "id"]
    frame = spark.range(0, 1000, 1, 3).selectExpr(*columns)
    frame.write.format("journalfs").mode("append").option("queues", "a::a").save(str(store))
    lines = [line for line, _ in lines_of(store)]
    assert sorted(line["body"] for line in lines) == sorted(f"row {number}" for number in range(1000))
    assert all(line["priority"] == int(line["body"].split()[1]) % 10 for line in lines)
    assert not list((store / "journalfs").glob("spark/*"))

    failing = frame.withColumn("body", when(col("id") == 999, raise_error("no")).otherwise(col("body")))
    with pytest.raises(PySparkException, match="no"):
        failing.write.format("journalfs").mode("append").option("queues", "b").save(str(store))
    assert len(lines_of(store)) == 1000
    assert not list((store / "journalfs").glob("spark/*"))
    with pytest.raises(PySparkException, match="write in mode append"):
        frame.write.format("journalfs").mode("overwrite").option("queues", "b").save(str(store))


def test_a_job_of_more_or_fewer_rows_than_it_must_have_publishes_nothing(
    spark: SparkSession, store: Path
) -> None:
    frame = spark.range(0, 5, 1, 2).selectExpr("concat('row ', id) AS body")
    writer = frame.write.format("journalfs").mode("append").option("queues", "a::a")
    for other in ("4", "6"):
        with pytest.raises(
            PySparkException, match=f"the job has 5 rows, not the {other} of option 'exactRows'"
        ):
            writer.option("exactRows", other).save(str(store))
    assert not lines_of(store)
    assert not list((store / "journalfs").glob("spark/*"))
    writer.option("exactRows", "5").save(str(store))
    assert len(lines_of(store)) == 5


@pytest.mark.parametrize("in_mount", [False, True])
def test_a_job_with_a_routing_type_that_no_queue_has_is_refused(
    spark: SparkSession, store: Path, tmp_path: Path, in_mount: bool
) -> None:
    stated = json.dumps({"body": "stated", "properties": {"_AMQ_ROUTING_TYPE": 0}})
    frame = spark.createDataFrame([('{"body":"plain"}',), (stated,)], ["envelope"])
    with ExitStack() as stack:
        place = stack.enter_context(mounted_for_writing(store, tmp_path / "mnt")).path if in_mount else store
        with pytest.raises(NoRoute, match=r"states routing type MULTICAST \(0\)"), in_one_line():
            frame.write.format("journalfs").mode("append").option("queues", "b").save(str(place))
    assert not lines_of(store)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_stream_whose_driver_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, store: Path, tmp_path: Path, kills: int
) -> None:
    """While it stores batches and acknowledges them, each of some messages."""
    work = tmp_path / "work"
    sent: list[str] = []
    for cycle in range(kills):
        more = [f"{cycle}.{number:02}" for number in range(30)]
        publish(store, "a", [{"body": body} for body in more])
        sent += more
        with driver("store", store, work) as said:
            for _ in range(cycle + 1):
                assert said.readline().startswith("BATCH")
        # Python processes of a killed Spark end when they notice.
        eventually(lambda: is_free(store), deadline_s=DRIVER_S_MAX, what="nobody has the store")
        left = {line["body"] for line, _ in lines_of(store)}
        stored = {row.body for row in spark.read.parquet(str(work / "out")).collect()}
        assert set(sent) - left <= stored, "acknowledged before it was stored"
    stream_of_store(spark, str(store), str(work), to_its_end=True)
    assert sorted(row.body for row in spark.read.parquet(str(work / "out")).collect()) == sent
    assert not lines_of(store)


def is_free(store: Path) -> bool:
    try:
        open_for_writing(store).close()
    except StoreBusy:
        return False
    return True


def test_a_stream_takes_each_message_once_and_acknowledges(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    def take_what_is_new() -> list[str]:
        reader = spark.readStream.format("journalfs").schema("id long, queue string, body string")
        reader = (
            reader.option("acknowledge", "true").option("maxMessagesPerTrigger", "20").option("queues", "a")
        )
        query = (
            reader.load(str(store))
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "state"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(row.body for row in spark.read.parquet(str(tmp_path / "out")).collect())

    publish(store, "a", [{"body": f"{number:03}"} for number in range(50)])
    publish(store, "b", [{"body": "another's"}])
    assert take_what_is_new() == [f"{number:03}" for number in range(50)]
    publish(store, "a", [{"body": "050"}])
    assert take_what_is_new() == [f"{number:03}" for number in range(51)]
    assert [line["body"] for line, _ in lines_of(store)] == ["another's"]
