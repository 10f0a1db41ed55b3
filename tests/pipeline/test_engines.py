"""Both engines give the same reports, and which of them is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from journalfs.errors import EXIT_WRONG_CALL, WrongCall
from journalfs.pipeline.archive import archive_and_count, archived
from journalfs.pipeline.archive_here import archive_here
from journalfs.pipeline.balance import Rows
from journalfs.pipeline.dlq import dead_letters
from journalfs.pipeline.engines import AUTO, LOCAL, SPARK, LocalEngine, SparkEngine, chosen
from journalfs.pipeline.folders import LocalFolder
from journalfs.pipeline.messages import Source
from journalfs.pipeline.stats import stats
from journalfs.pipeline.xxhash64 import xxhash64
from tests.cli.running import journalfs
from tests.frozen import FILE_STORES, PristineStores
from tests.spark.writing import publish, written_store

NOW = 1_800_000_000_000
QUICK = ("amqp-mqtt-stomp-openwire",)
ARCHIVED = ("orders-basic",)


@pytest.mark.rule("S-456")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.long) for one in FILE_STORES]
)
def test_both_engines_say_the_same(spark: SparkSession, stores: PristineStores, name: str) -> None:
    source = Source(str(stores[name]))
    local, other = LocalEngine(), SparkEngine(spark)
    found = stats(local, source, NOW)
    assert found == stats(other, source, NOW)
    assert found.messages > 0
    assert dead_letters(local, source) == dead_letters(other, source)


@pytest.mark.rule("S-456")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [one if one in ARCHIVED else pytest.param(one, marks=pytest.mark.long) for one in FILE_STORES]
)
def test_both_engines_archive_the_same(
    spark: SparkSession, stores: PristineStores, tmp_path: Path, name: str
) -> None:
    source = Source(str(stores[name]))
    folder, other = LocalFolder(tmp_path / "here"), LocalFolder(tmp_path / "spark")
    here, counted = archive_here(source, folder)
    there, same = archive_and_count(spark, source, other)
    assert here is not None
    assert there is not None
    assert (here.run, here.messages, counted) == (there.run, there.messages, same)
    assert places(folder) == places(other)
    assert rows(spark, folder) == rows(spark, other)
    # What one has archived the other knows.
    assert archive_here(source, other) == (None, same)
    assert archive_and_count(spark, source, folder) == (None, same)


def places(folder: LocalFolder) -> set[str]:
    return {str(path.parent.relative_to(folder.path)) for path in folder.path.rglob("*.parquet")}


def rows(spark: SparkSession, folder: LocalFolder) -> list[str]:
    return sorted(map(str, archived(spark, folder).collect()))


def test_the_hash_is_spark_s(spark: SparkSession) -> None:
    texts = ["", *("é" * size for size in (1, 2, 5, 9, 15, 16, 17, 31, 100)), "line " * 77]
    frame = spark.createDataFrame([(one,) for one in texts], "line string")
    found = [row.found for row in frame.select(f.xxhash64("line").alias("found")).collect()]
    assert [xxhash64(one.encode(), 42) for one in texts] == found


@pytest.mark.rule("S-456")
def test_runs_here_add_what_is_new(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}], 'q"=2': [{"body": "2", "priority": 9}]})
    folder = LocalFolder(tmp_path / "archive")
    run, counted = archive_here(Source(str(store), (), "JMSPriority > 5"), folder)
    assert run is not None
    assert (run.run, run.messages, counted) == (1, 1, {'q"=2': Rows(1)})
    publish(store, "a", [{"body": "3"}])
    run, counted = archive_here(Source(str(store)), folder)
    assert run is not None
    assert (run.run, run.messages, counted) == (2, 2, {"a": Rows(2), 'q"=2': Rows(1)})
    assert archive_here(Source(str(store)), folder) == (None, counted)
    assert folder.names() == ["run=000001", "run=000002"]


@pytest.mark.rule("S-456")
def test_a_report_of_a_store_of_this_machine_needs_no_java(tmp_path: Path) -> None:
    store = written_store(tmp_path, {"a": [{"body": "1"}, {"body": "22"}]})
    lacking = {"PATH": str(Path(sys.executable).parent)}
    for name, said in (("stats", "a\ta\t2\t3\t"), ("dlq", "")):
        command = [sys.executable, "-m", "journalfs", "pipeline", name, str(store)]
        done = subprocess.run(command, check=True, env=lacking, capture_output=True, text=True, timeout=120)
        assert done.stdout.startswith(said)
        assert done.stderr == ""


def test_which_engine_is_used() -> None:
    def of(engine: str, *paths: str, master: str | None = None, **settings: str) -> str:
        return chosen(engine, paths=paths, master=master, settings=settings)

    assert (of(AUTO, "/store"), of(LOCAL, "/store"), of(SPARK, "/store")) == (LOCAL, LOCAL, SPARK)
    assert of(AUTO, "/store", "hdfs://host/out") == SPARK
    assert of(AUTO, "/store", master="local[2]") == of(AUTO, "/store", conf="x") == SPARK
    with pytest.raises(WrongCall, match="only Hadoop gets to s3a://b/store"):
        of(LOCAL, "s3a://b/store")
    with pytest.raises(WrongCall, match="--master and --conf are Spark's"):
        of(LOCAL, "/store", master="local[2]")


def test_what_spark_alone_does_refuses_the_local_engine(tmp_path: Path) -> None:
    done = journalfs("pipeline", "audit", "--engine", LOCAL, tmp_path)
    assert done.returncode == EXIT_WRONG_CALL
    assert "needs Spark; leave --engine out" in done.stderr
