"""Jobs and streams of a real session, through `format("journalfs")` both ways."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, raise_error, when

from tests.spark.rows import lines_of
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
    assert not list((store / "journalfs" / "spark").iterdir())

    failing = frame.withColumn("body", when(col("id") == 999, raise_error("no")).otherwise(col("body")))
    with pytest.raises(PySparkException, match="no"):
        failing.write.format("journalfs").mode("append").option("queues", "b").save(str(store))
    assert len(lines_of(store)) == 1000
    assert not list((store / "journalfs" / "spark").iterdir())
    with pytest.raises(PySparkException, match="write in mode append"):
        frame.write.format("journalfs").mode("overwrite").option("queues", "b").save(str(store))


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
