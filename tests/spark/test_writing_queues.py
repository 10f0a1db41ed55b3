"""Spark's own writers publish: a job's rows become messages when it commits, and none before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, raise_error, when

from tests.mount.conftest import until
from tests.mounting import MountedStore, QueueOnDisk, mounted_for_writing
from tests.writing.conftest import Address, bodies, new_store

ROWS = 1000
VERSION = "mapreduce.fileoutputcommitter.algorithm.version"


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    folder = tmp_path_factory.mktemp("spark-writing")
    with mounted_for_writing(new_store(folder / "store"), folder / "mnt") as mounted:
        yield mounted


@pytest.fixture
def address(mount: MountedStore) -> Address:
    return Address(mount)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Rows in four tasks."""
    return spark.range(0, ROWS, 1, 4).selectExpr("id AS number", "id % 3 AS kind", "'ä\n' AS text")


def numbers(queue: QueueOnDisk) -> list[int]:
    return sorted(json.loads(body)["number"] for body in bodies(queue))


def left_behind(folder: Path) -> list[str]:
    """Names that Spark makes beside its output and that must be gone."""
    candidates = ["_temporary", "_SUCCESS", "._SUCCESS.crc", ".part-00000.crc", "_spark_metadata"]
    unexpected = [
        name for name in os.listdir(folder) if not name.startswith("part-") and name != "_tail.jsonl"
    ]
    return [name for name in candidates if (folder / name).exists()] + unexpected


@pytest.mark.rule("S-89")
@pytest.mark.parametrize("version", ["1", "2"])
def test_appending_publishes_every_row_once(rows: DataFrame, address: Address, version: str) -> None:
    for times in (1, 2, 3):
        rows.write.mode("append").option(VERSION, version).json(str(address.first.path))
        assert numbers(address.first) == sorted(list(range(ROWS)) * times)
        assert left_behind(address.first.path) == []
    assert json.loads(bodies(address.first)[0])["text"] == "ä\n"
    assert address.second.lines() == []


@pytest.mark.rule("S-89")
def test_spark_reads_what_it_wrote(spark: SparkSession, address: Address) -> None:
    lines = spark.range(ROWS).selectExpr("concat('row ', id) AS value")
    lines.write.mode("append").text(str(address.first.path))
    wanted = sorted(f"row {number}" for number in range(ROWS))
    assert sorted(bodies(address.first)) == wanted
    until(lambda: (address.first.path / "_tail.jsonl").stat().st_size == 0, "the tail becomes a part")
    read = spark.read.schema("body string").json(str(address.first.path))
    assert sorted(row.body for row in read.collect()) == wanted


@pytest.mark.rule("S-89")
def test_an_address_routes_what_spark_writes(rows: DataFrame, address: Address) -> None:
    rows.write.mode("append").json(str(address.path))
    assert numbers(address.first) == numbers(address.second) == list(range(ROWS))


@pytest.mark.rule("S-89")
def test_partitions_of_the_output_are_published(rows: DataFrame, address: Address) -> None:
    rows.write.mode("append").partitionBy("kind").json(str(address.first.path))
    assert numbers(address.first) == list(range(ROWS))
    assert left_behind(address.first.path) == []


@pytest.mark.rule("S-89")
def test_overwriting_empties_the_queue_first(rows: DataFrame, address: Address) -> None:
    (address.first.path / "in.json").write_text('{"number": -1}')
    rows.write.mode("overwrite").json(str(address.first.path))
    assert numbers(address.first) == list(range(ROWS))


@pytest.mark.rule("S-89")
def test_a_job_that_fails_publishes_nothing(rows: DataFrame, address: Address) -> None:
    failing = rows.withColumn(
        "number", when(col("number") == 999, raise_error("no")).otherwise(col("number"))
    )
    with pytest.raises(PySparkException):
        failing.write.mode("append").json(str(address.first.path))
    assert address.first.lines() == []
    assert left_behind(address.first.path) == []
    rows.write.mode("append").json(str(address.first.path))
    assert numbers(address.first) == list(range(ROWS))


@pytest.mark.rule("S-81")
def test_a_file_sink_is_refused(spark: SparkSession, address: Address, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    writer = stream.writeStream.format("json").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Py4JJavaError, match=r"mkdir of .*_spark_metadata failed"):
        writer.start(str(address.first.path)).processAllAvailable()
    assert address.first.lines() == []
    assert any(what.endswith("_spark_metadata: EPERM") for what, _ in address.refusals())
