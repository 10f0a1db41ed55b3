"""Parts larger than a split are cut at byte offsets; each message still comes exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import MountStore
from tests.tools.make_store import StoreMade, StoreSpec, make_store


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> StoreMade:
    """One queue with bodies of very different lengths, some of them not ASCII."""
    spec = StoreSpec(messages=20_000, body_chars=400, body_spread=0.95, acked_fraction=0.1)
    return make_store(tmp_path_factory.mktemp("big"), spec)


@pytest.fixture
def split_bytes(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[int]:
    """Splits of the size given, for one test."""
    size: int = request.param
    spark.conf.set("spark.sql.files.maxPartitionBytes", size)
    spark.conf.set("spark.sql.files.openCostInBytes", 0)
    yield size
    spark.conf.unset("spark.sql.files.maxPartitionBytes")
    spark.conf.unset("spark.sql.files.openCostInBytes")


@pytest.mark.parametrize("split_bytes", [1_000_003, 65_536, 262_144], indirect=True)
def test_every_message_comes_once_from_splits(
    spark: SparkSession, big: StoreMade, mount_store: MountStore, split_bytes: int
) -> None:
    queue = mount_store(big.data) / "scale" / "scale"
    size = sum(part.stat().st_size for part in queue.glob("part-*.jsonl"))
    frame = spark.read.schema("id long, body string").json(str(queue))
    assert frame.rdd.getNumPartitions() >= size // split_bytes
    rows = frame.collect()
    assert Counter(row.id for row in rows) == Counter(big.queues[0].live)
    assert {row.id: row.body for row in rows} == {i: big.body(i) for i in big.queues[0].live}


@pytest.mark.parametrize("split_bytes", [4096], indirect=True)
def test_splits_may_be_as_small_as_a_page(
    spark: SparkSession, many: StoreMade, many_mounted: Path, split_bytes: int
) -> None:
    queue = many.queues[0]
    frame = spark.read.schema("id long").json(f"{many_mounted}/{queue.address}/{queue.name}")
    assert frame.rdd.getNumPartitions() > 100
    assert Counter(row.id for row in frame.collect()) == Counter(queue.live)
