"""Spark's two ways to write a directory over, on real mounts: no row is lost, queues stay what they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tests.mounting import MountedStore, QueueOnDisk, mounted_for_writing
from tests.writing.conftest import Address, bodies, new_store

RING = "user.journalfs.ring-size"
KIND = "user.journalfs.routing-type"


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MountedStore]:
    folder = tmp_path_factory.mktemp("overwriting")
    with mounted_for_writing(new_store(folder / "store"), folder / "mnt") as mounted:
        yield mounted


@pytest.fixture
def address(mount: MountedStore) -> Address:
    return Address(mount)


def rows(spark: SparkSession, begin: int, end: int) -> DataFrame:
    """Numbers in two tasks, with a column for the partition."""
    return spark.range(begin, end, 1, 2).selectExpr("id AS number", "id % 2 AS pd")


def numbers(queue: QueueOnDisk) -> list[int]:
    return sorted(json.loads(body)["number"] for body in bodies(queue))


@pytest.mark.rule("S-173", "S-89")
def test_a_queue_that_is_written_over_keeps_its_kind_and_settings(
    spark: SparkSession, address: Address
) -> None:
    queue = address.first.path
    os.setxattr(address.path, "user.journalfs.routing-types", b"ANYCAST,MULTICAST")
    for name, value in ((KIND, b"ANYCAST"), (RING, b"1000"), ("user.journalfs.max-consumers", b"3")):
        os.setxattr(queue, name, value)
    for begin in (0, 10):
        rows(spark, begin, begin + 10).write.mode("overwrite").json(str(queue))
        assert numbers(address.first) == list(range(begin, begin + 10))
        assert os.getxattr(queue, KIND) == b"ANYCAST"
        assert os.getxattr(queue, RING) == b"1000"
        assert os.getxattr(queue, "user.journalfs.max-consumers") == b"3"
    assert bodies(address.second) == []


@pytest.mark.rule("S-174", "S-451")
def test_dynamic_partitions_go_to_the_queues_of_their_names(spark: SparkSession, mount: MountedStore) -> None:
    folder = mount.path / "partitioned"
    queues = [QueueOnDisk(folder / name) for name in ("pd=0", "pd=1")]
    queues[0].path.mkdir(parents=True)
    os.setxattr(queues[0].path, RING, b"1000")

    def overwrite(frame: DataFrame, path: Path) -> None:
        writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy("pd").json(str(path))

    overwrite(rows(spark, 0, 10), folder)
    os.setxattr(queues[1].path, RING, b"1000")
    assert [numbers(queue) for queue in queues] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    overwrite(rows(spark, 10, 20).where("pd = 1"), folder)
    assert [numbers(queue) for queue in queues] == [[0, 2, 4, 6, 8], [11, 13, 15, 17, 19]]
    assert [os.getxattr(queue.path, RING) for queue in queues] == [b"1000"] * 2
    with pytest.raises(Py4JJavaError, match="pd=0"):
        overwrite(rows(spark, 0, 10), queues[0].path)
    assert numbers(queues[0]) == [0, 2, 4, 6, 8]
