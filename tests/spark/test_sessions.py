"""Sessions that share a context, and calls of Spark that the format has not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, PythonException, StreamingQueryException
from pyspark.sql import SparkSession

from journalfs.errors import NotAStore
from journalfs.spark import live_messages, page_records, records, register
from tests.mounting import MountedStore, mounted_for_writing
from tests.spark.rows import lines_of
from tests.spark.writing import written_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return written_store(tmp_path, {"a": [{"body": "1"}, {"body": "2"}]})


def test_each_session_can_have_the_format(spark: SparkSession, store: Path) -> None:
    """Also where another has it already; and that one stays the active one."""
    active = SparkSession.getActiveSession()
    other = spark.newSession()
    register(other)
    register(other)
    assert SparkSession.getActiveSession() is active
    for session in (other, spark):
        frame = session.read.format("journalfs").option("index", "false").load(str(store))
        assert frame.filter("priority >= 4").count() == 2
    frame = other.createDataFrame([("3",)], "body string")
    frame.write.format("journalfs").mode("append").option("queues", "a").save(str(store))
    assert len(lines_of(store)) == 3


def test_calls_that_the_format_has_not_are_told(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="one path at a time: load each, and join them with union"):
        spark.read.format("journalfs").load([str(store), str(store)])
    for how in (f"OPTIONS (path '{store}')", f"LOCATION '{store}'"):
        with pytest.raises(PySparkException, match=r"keeps no tables.*CREATE TEMPORARY VIEW"):
            spark.sql(f"CREATE TABLE messages USING journalfs {how}")
    with pytest.raises(PySparkException, match=r"needs a path.*CREATE TEMPORARY VIEW"):
        spark.range(1).selectExpr("'x' AS body").write.format("journalfs").mode("append").saveAsTable("saved")
    spark.sql(f"CREATE TEMPORARY VIEW messages USING journalfs OPTIONS (path '{store}')")
    try:
        assert spark.table("messages").count() == 2
    finally:
        spark.catalog.dropTempView("messages")

    wrong = spark.readStream.format("journalfs").option("history", "today").load(str(store))
    sink = wrong.writeStream.format("memory").queryName("wrong")
    with pytest.raises(StreamingQueryException, match="'history': a stream does nothing with it"):
        sink.option("checkpointLocation", str(tmp_path / "wrong")).start().awaitTermination(60)

    stream = spark.readStream.format("journalfs").load(str(store)).writeStream.format("journalfs")
    stream = stream.option("checkpointLocation", str(tmp_path / "state")).option("queues", "a")
    with pytest.raises(StreamingQueryException, match=r"not written by streams: .*foreachBatch"):
        stream.start(str(store)).awaitTermination(60)


@pytest.fixture
def mounted(store: Path, tmp_path: Path) -> Iterator[MountedStore]:
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        yield mount


def test_a_mount_has_no_files_of_a_journal(spark: SparkSession, store: Path, mounted: MountedStore) -> None:
    snapshot = mounted.path / ".journalfs" / "snapshots" / "monday"
    snapshot.mkdir()
    for path in (mounted.path, mounted.path / "a" / "a", snapshot, snapshot / "a"):
        for call in (live_messages, records, page_records):
            with pytest.raises(
                NotAStore, match=r'this is in a mount.*read it with format\("journalfs"\)'
            ) as refused:
                call(spark, str(path))
            assert str(store) in str(refused.value).partition("give")[2]


def test_files_that_are_no_records(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text('{"body":"x"}\n' * 10)
    journal = str(store / "journal")
    with pytest.raises(
        PythonException, match=r"other\.txt: this is no journal file; give those of a journal"
    ):
        records(spark, [journal, str(other)]).count()
    with pytest.raises(PythonException, match=r"other\.txt: this is no page file; give those of pages"):
        page_records(spark, str(other)).count()
    every = records(spark, journal).count()
    assert every > 0
    damaged = tmp_path / "damaged.amq"
    damaged.write_text("all of it was overwritten")
    assert records(spark, [journal, str(damaged)]).count() == every
