"""The live set by joins is the mount's, on every store, whatever brokers left in it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from journalfs.spark import live_messages
from tests.frozen import FILE_STORES, ExpectedStores, PristineStores
from tests.spark.conftest import MountStore
from tests.spark.reading import envelopes, queue_directories
from tests.spark.rows import check_row

QUICK = ("transactions", "large-and-paged")


def check_live(spark: SparkSession, store: Path, mounted: Path) -> int:
    lines = {
        (line["queue"], line.get("id")): line
        for queue in queue_directories(mounted)
        for line in envelopes(queue)
    }
    rows = live_messages(spark, str(store)).collect()
    assert Counter((row.queue, row.id) for row in rows) == Counter(lines.keys())
    for row in rows:
        found = row.asDict(recursive=True)
        for name in ("timestamp", "expiration", "scheduledTime"):
            found[name] = None if found[name] is None else found[name].astimezone()
        check_row(found, lines[row.queue, row.id])
    return len(rows)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "store", [one if one in QUICK else pytest.param(one, marks=pytest.mark.long) for one in FILE_STORES]
)
def test_the_live_set_by_joins_is_what_the_mount_shows(
    spark: SparkSession, stores: PristineStores, expected: ExpectedStores, mount_store: MountStore, store: str
) -> None:
    listed = sum(len(queue["messages"]) for queue in expected[store]["queues"])
    assert check_live(spark, stores[store], mount_store(stores[store])) >= listed > 0
