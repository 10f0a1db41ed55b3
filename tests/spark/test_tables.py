"""A store in a database, read by Spark: each task reads a range of the table of messages for itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from journalfs.spark import live_messages
from tests.frozen import PristineStores
from tests.kinds import new_database
from tests.mounting import journalfs
from tests.tables.test_writing import shown


@pytest.fixture(
    params=[
        ("sqlite", "large-and-paged"),
        pytest.param(("sqlite", "transactions"), marks=pytest.mark.long),
        pytest.param(("postgresql", "large-and-paged"), marks=pytest.mark.long),
        pytest.param(("postgresql", "transactions"), marks=pytest.mark.long),
    ]
)
def url(request: pytest.FixtureRequest, stores: PristineStores, tmp_path: Path) -> str:
    kind, name = request.param
    made = new_database(request, kind, tmp_path)
    done = journalfs("convert", stores[name], made)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.rule("S-246")
def test_each_task_reads_its_own_range(spark: SparkSession, url: str) -> None:
    expected = shown(url)
    frame = spark.read.format("journalfs").option("partitionBytes", 8192).load(url)
    assert frame.rdd.getNumPartitions() > 3
    rows = frame.select("queue", "id", "body").collect()
    assert Counter((row.queue, row.id) for row in rows) == Counter(
        (line["queue"], line["id"]) for lines in expected.values() for line in lines
    )
    texts = {line["id"]: line["body"] for lines in expected.values() for line in lines if "body" in line}
    assert all(row.body == texts[row.id] for row in rows if isinstance(texts.get(row.id), str))
    (queue, *_) = (one for one, lines in expected.items() if lines)
    found = live_messages(spark, url)
    assert found.rdd.getNumPartitions() == spark.read.format("journalfs").load(url).rdd.getNumPartitions()
    assert sorted(map(repr, found.collect())) == sorted(
        map(repr, spark.read.format("journalfs").load(url).collect())
    )
    chosen = spark.read.format("journalfs").option("queues", queue).load(url)
    assert chosen.count() == len(expected[queue])
