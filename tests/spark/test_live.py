"""The live set by joins is the mount's, on every store, whatever brokers left in it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from journalfs.spark import live_messages
from journalfs.spark.schema import usual_schema
from tests.frozen import PristineStores
from tests.spark.rows import check_row, lines_of

QUICK = ("transactions", "large-and-paged")
LONG = ("orders-basic", "compacted", "killed", "retention", "amqp-mqtt-stomp-openwire")


def check_live(spark: SparkSession, store: Path, path: str | None = None) -> int:
    lines = {(line["queue"], line.get("id")): line for line, _ in lines_of(store)}
    schema = usual_schema([*usual_schema().names, "envelope"])
    rows = live_messages(spark, path or str(store), schema=schema).collect()
    assert Counter((row.queue, row.id) for row in rows) == Counter(lines.keys())
    for row in rows:
        found = row.asDict(recursive=True)
        for name in ("timestamp", "expiration", "scheduledTime"):
            found[name] = None if found[name] is None else found[name].astimezone()
        check_row(found, lines[row.queue, row.id])
        assert json.loads(row.envelope) == lines[row.queue, row.id]
    return len(rows)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", [*QUICK, *(pytest.param(one, marks=pytest.mark.long) for one in LONG)])
def test_the_live_set_by_joins_is_what_the_mount_shows(
    spark: SparkSession, stores: PristineStores, store: str
) -> None:
    assert check_live(spark, stores[store]) > 50
