"""What a job of Spark sees of a queue that changes between its plan and its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tests.mount.conftest import until
from tests.mounting import MountedStore, QueueOnDisk, mounted_for_writing
from tests.writing.conftest import Address, new_store

SCHEMA = "id long, body string"
MESSAGES = 200


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    folder = tmp_path_factory.mktemp("reading-live")
    with mounted_for_writing(new_store(folder / "store"), folder / "mnt") as mounted:
        yield mounted


@pytest.fixture
def queue(mount: MountedStore) -> QueueOnDisk:
    """A queue of two parts: the first with many messages, the other with one."""
    first = Address(mount).first
    publish(first, [f"message {number} {'x' * 100}" for number in range(MESSAGES)])
    publish(first, ["last"])
    return first


def publish(queue: QueueOnDisk, bodies: list[str]) -> None:
    """Publish lines, and wait until they are in a part."""
    (queue.path / "in.txt").write_text("".join(f"{body}\n" for body in bodies))
    until(lambda: (queue.path / "_tail.jsonl").stat().st_size == 0, "the tail becomes a part")


def parts(queue: QueueOnDisk) -> list[Path]:
    return sorted(queue.path.glob("part-*"))


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_what_comes_after_the_plan_is_seen_by_the_next(spark: SparkSession, queue: QueueOnDisk) -> None:
    planned = spark.read.schema(SCHEMA).json(str(queue.path))
    before = sorted(queue.listed_ids())
    publish(queue, ["new"])
    assert ids(planned) == before
    assert ids(spark.read.schema(SCHEMA).json(str(queue.path))) == sorted(queue.listed_ids())
    assert len(queue.listed_ids()) == len(before) + 1


def planned_in_splits(spark: SparkSession, queue: QueueOnDisk, split_bytes: int) -> DataFrame:
    session = spark.newSession()
    session.conf.set("spark.sql.files.maxPartitionBytes", split_bytes)
    session.conf.set("spark.sql.files.openCostInBytes", split_bytes)
    planned = session.read.schema(SCHEMA).json(str(queue.path))
    # Tasks are laid out when a plan is first asked for them.
    assert (planned.rdd.getNumPartitions() > 10) is (split_bytes < 10_000)
    return planned


def acknowledge_some(queue: QueueOnDisk) -> None:
    for name in queue.listed()[:MESSAGES:3]:
        (queue.path / ".messages" / name).unlink()


def test_what_was_acknowledged_since_the_plan_is_left_out(spark: SparkSession, queue: QueueOnDisk) -> None:
    planned = planned_in_splits(spark, queue, 64_000_000)
    acknowledge_some(queue)
    assert ids(planned) == sorted(queue.listed_ids()) != []


def test_ranges_of_a_part_that_became_shorter(spark: SparkSession, queue: QueueOnDisk) -> None:
    """A range behind its end fails the job: beside consumers a snapshot serves better, or undivided parts."""
    planned = planned_in_splits(spark, queue, 1_000)
    acknowledge_some(queue)
    with pytest.raises(Py4JJavaError, match="after EOF"):
        planned.collect()


def test_a_part_that_went_since_the_plan(spark: SparkSession, queue: QueueOnDisk) -> None:
    strict = spark.read.schema(SCHEMA).json(str(queue.path))
    lenient = spark.read.schema(SCHEMA).option("ignoreMissingFiles", "true").json(str(queue.path))
    parts(queue)[0].unlink()
    assert len(queue.listed_ids()) == 1
    with pytest.raises(Py4JJavaError, match="FILE_NOT_EXIST"):
        strict.collect()
    assert ids(lenient) == queue.listed_ids()
