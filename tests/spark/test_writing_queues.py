"""Spark's own writers publish: a job's rows become messages when it commits, and none before."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.mount.conftest import until
from tests.mounting import MountedStore, QueueOnDisk, is_tail, journalfs, mounted_for_writing
from tests.spark.committer import HadoopJob
from tests.writing.conftest import Address, bodies, new_store
from tests.writing.test_jobs import driver
from tests.writing.test_undo import undo

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


def transactions(address: Address) -> dict[int, int]:
    """Transactions that published to the first queue of an address, with their messages."""
    found: Counter[int] = Counter()
    committed: set[int] = set()
    slot = json.loads((address.first.path / ".status").read_text())["id"]
    for file in (address.mount.path / ".journalfs" / "journal").glob("*.jsonl"):
        for record in map(json.loads, file.read_bytes().splitlines()):
            if record["kind"] == "COMMIT":
                committed.add(record["tx"])
            elif record.get("userTypeName") == "ADD_REF" and record["queue"] == slot:
                found[record["tx"]] += 1
    assert found.keys() <= committed
    return dict(sorted(found.items()))


def has_open(process: int, folder: Path) -> bool:
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if descriptor.readlink().is_relative_to(folder):
                return True
    return False


def left_behind(folder: Path) -> list[str]:
    """Names that Spark makes beside its output and that must be gone."""
    candidates = ["_temporary", "_SUCCESS", "._SUCCESS.crc", ".part-00000.crc", "_spark_metadata"]
    unexpected = [name for name in os.listdir(folder) if not name.startswith("part-") and not is_tail(name)]
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
@pytest.mark.parametrize("version", ["1", "2"])
def test_each_file_of_a_job_is_one_transaction(rows: DataFrame, address: Address, version: str) -> None:
    before = set(transactions(address))
    rows.write.mode("append").option(VERSION, version).json(str(address.first.path))
    found = [messages for tx, messages in transactions(address).items() if tx not in before]
    assert found == [ROWS // 4] * 4


@pytest.mark.rule("S-89")
@pytest.mark.parametrize(("kind", "version"), [("json", "1"), ("text", "2")])
def test_an_attempt_that_failed_leaves_nothing(
    rows: DataFrame, address: Address, kind: str, version: str
) -> None:
    """Each task fails once when it has written its rows, and is done again."""

    def fails_at_its_end(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext  # noqa: PLC0415 - in a worker

        yield from batches
        context = TaskContext.get()
        assert context is not None
        assert context.attemptNumber() > 0, "the first attempt"

    lines = rows.selectExpr("""concat('{"number":', number, '}') AS value""") if kind == "text" else rows
    failing = lines.mapInArrow(fails_at_its_end, lines.schema)
    failing.write.mode("append").format(kind).option(VERSION, version).save(str(address.first.path))
    assert numbers(address.first) == list(range(ROWS))
    assert left_behind(address.first.path) == []


@pytest.mark.rule("S-89")
@pytest.mark.parametrize("version", ["1", "2"])
def test_one_of_several_attempts_at_a_task_is_published(
    spark: SparkSession, address: Address, version: str
) -> None:
    """The committer itself, as Spark calls it for a task that it runs twice at the same time: the first to
    end is committed, the other aborted; a third, whose process was killed, says nothing any more.
    """
    job = HadoopJob(spark, address.first.path, version)
    attempts = [job.attempt(number) for number in range(3)]
    streams = [attempt.create(f"part-00000-{number}.txt") for number, attempt in enumerate(attempts)]
    for number, stream in enumerate(streams):
        stream.write(bytearray(f"attempt {number}\n".encode()))
    for stream in streams[:2]:
        stream.close()
    attempts[1].commit()
    attempts[0].abort()
    job.commit()
    assert bodies(address.first) == ["attempt 1"]
    assert left_behind(address.first.path) == []


@pytest.mark.rule("S-89", "S-125")
@pytest.mark.parametrize("version", ["1", "2"])
def test_what_a_killed_driver_left_is_not_published_by_the_next(
    rows: DataFrame, address: Address, version: str
) -> None:
    with driver(address.first.path):
        pass
    rows.write.mode("append").option(VERSION, version).json(str(address.first.path))
    assert numbers(address.first) == list(range(ROWS))
    assert left_behind(address.first.path) == []


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


@pytest.mark.rule("S-89", "S-84")
def test_all_tasks_may_have_the_same_partition(rows: DataFrame, address: Address) -> None:
    one = rows.selectExpr("number", "'only' AS kind")
    one.write.mode("append").partitionBy("kind").json(str(address.first.path))
    assert numbers(address.first) == list(range(ROWS))


@pytest.mark.rule("S-89")
def test_partitions_need_the_first_version_of_the_committer(rows: DataFrame, address: Address) -> None:
    # A task that goes on while Spark removes what a failed job left can make its folders again.
    one_task = rows.coalesce(1)
    writer = one_task.write.mode("append").option(VERSION, "2").partitionBy("kind")
    with pytest.raises(Py4JJavaError, match="kind="):
        writer.json(str(address.first.path))
    assert address.first.lines() == []
    assert left_behind(address.first.path) == []
    assert any("a queue holds messages and no directories" in why for _, why in address.refusals())


@pytest.mark.rule("S-89")
def test_overwriting_empties_the_queue_first(rows: DataFrame, address: Address) -> None:
    (address.first.path / "in.json").write_text('{"number": -1}')
    rows.write.mode("overwrite").json(str(address.first.path))
    assert numbers(address.first) == list(range(ROWS))


@pytest.mark.rule("S-197", "S-280")
def test_overwriting_an_address_fails_and_undo_brings_its_messages_back(
    rows: DataFrame, address: Address
) -> None:
    (address.first.path / "in.json").write_text('{"number": -1}')
    with pytest.raises(Py4JJavaError):
        rows.selectExpr("text").write.mode("overwrite").text(str(address.path))
    assert address.first.path.name in undo(address.mount.path)
    assert numbers(address.first) == [-1]
    rows.write.mode("append").json(str(address.first.path))
    assert numbers(address.first) == [-1, *range(ROWS)]


@pytest.mark.rule("S-169")
@pytest.mark.parametrize("view", [".where/number > 4", ".scheduled", ".failed", ".delivering"])
def test_overwriting_a_view_is_refused_before_anything_is_removed(
    rows: DataFrame, address: Address, view: str
) -> None:
    later = '{"body":"x","scheduledTime":4000000000000,"properties":{"number":9}}\n'
    (address.first.path / "in.jsonl").write_text('{"body":"y","properties":{"number":9}}\n' + later)
    with pytest.raises(Py4JJavaError):
        rows.write.mode("overwrite").json(str(address.first.path / view))
    assert len(address.first.lines()) == 2


@pytest.mark.rule("S-89")
def test_a_job_that_fails_publishes_nothing(rows: DataFrame, address: Address) -> None:
    """Not even what tasks have committed. One that goes on while Spark removes what a failed job left could
    make its folders again, so all others are done by then.
    """
    queue = address.first.path

    def fails_at_the_end(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext  # noqa: PLC0415 - in a worker

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 3:
            until(lambda: len(list(queue.glob("_temporary/0/task_*"))) == 3, "the other tasks are committed")
            raise OSError("no")

    with pytest.raises(PySparkException, match="OSError: no"):
        rows.mapInArrow(fails_at_the_end, rows.schema).write.mode("append").json(str(queue))
    assert address.first.lines() == []
    assert left_behind(queue) == []
    rows.write.mode("append").json(str(queue))
    assert numbers(address.first) == list(range(ROWS))


@pytest.mark.rule("S-89", "S-79")
def test_a_job_whose_commit_is_refused_publishes_whole_files(
    spark: SparkSession, rows: DataFrame, address: Address
) -> None:
    """The address is full when one of four files is in it."""
    os.setxattr(address.path, "user.journalfs.max-size-messages", b"100")
    os.setxattr(address.path, "user.journalfs.address-full-policy", b"FAIL")
    with pytest.raises(Py4JJavaError, match="Disk quota exceeded"):
        rows.write.mode("append").json(str(address.first.path))
    assert len(numbers(address.first)) == ROWS // 4
    assert left_behind(address.first.path) == []
    assert any("to copy would publish in pieces" in why for _, why in address.refusals())
    # Hadoop leaves what it could not copy open until it is collected; meanwhile nobody could unmount.
    java: Any = spark.sparkContext._jvm
    process = java.java.lang.ProcessHandle.current().pid()

    def is_let_go() -> bool:
        java.System.gc()
        return not has_open(process, address.path)

    until(is_let_go, "the file that was copied is closed")


@pytest.mark.rule("S-89")
def test_batches_of_a_stream_are_appended(
    spark: SparkSession, rows: DataFrame, address: Address, tmp_path: Path
) -> None:
    """Once each over restarts. A batch that fails after it was published is published again: Spark says so of
    `foreachBatch`.
    """
    rows.write.json(str(tmp_path / "in"))
    failing = [True]

    def publish(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").json(str(address.first.path))
        if failing.pop():
            raise OSError("after it was published")
        failing.append(False)

    def run() -> None:
        stream = spark.readStream.schema("number long").json(str(tmp_path / "in"))
        query = stream.writeStream.foreachBatch(publish).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()

    with pytest.raises(StreamingQueryException):
        run()
    failing.append(False)
    run()
    run()
    assert numbers(address.first) == sorted([*range(ROWS)] * 2)
    assert left_behind(address.first.path) == []


@pytest.mark.rule("S-81")
def test_a_file_sink_is_refused(spark: SparkSession, address: Address, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    writer = stream.writeStream.format("json").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Py4JJavaError, match=r"mkdir of .*_spark_metadata failed"):
        writer.start(str(address.first.path)).processAllAvailable()
    assert address.first.lines() == []
    assert any(what.endswith("_spark_metadata: EPERM") for what, _ in address.refusals())


@pytest.mark.long
@pytest.mark.rule("S-197")
@pytest.mark.parametrize("name", [".messages", ".all.jsonl", "part"])
def test_overwriting_what_no_job_can_write_is_undone_by_one_command(
    rows: DataFrame, address: Address, name: str
) -> None:
    (address.first.path / "in.txt").write_text("one\ntwo\nthree\n")
    if name == "part":
        until(lambda: any(one.startswith("part") for one in os.listdir(address.first.path)), "a part")
        (name,) = (one for one in os.listdir(address.first.path) if one.startswith("part"))
    with pytest.raises(Py4JJavaError):
        rows.write.mode("overwrite").json(str(address.first.path / name))
    assert address.first.lines() == []
    said = [event.get("reason", "") for event in address.mount.events()]
    assert any("journalfs undo" in one for one in said)
    assert journalfs("undo", address.mount.path).returncode == 0
    assert bodies(address.first) == ["one", "two", "three"]
