"""A job of the cluster tests, in a process of its own: called with a store, a directory and settings
(JSON) that send the package along.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import journalfs.spark
from tests.spark.drivers import session


def where_from(batches: Iterator[Any]) -> Iterator[Any]:
    """Where a worker has journalfs from."""
    import pyarrow as pa  # noqa: PLC0415 - on a worker

    import journalfs.engine._native as core  # noqa: PLC0415

    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"file": journalfs.__file__, "core": core.__file__}])


def main(store: str, work: str, sending: str) -> dict[str, Any]:
    spark = session(work, "local-cluster[2,1,1024]", **json.loads(sending))
    journalfs.spark.register(spark)
    of_workers = (
        spark.range(0, 4, 1, 4).mapInArrow(where_from, "file string, core string").distinct().collect()
    )
    reader = spark.read.format("journalfs").option("index", "false").option("partitionBytes", "20k")
    read = reader.load(store).select("queue", "id").collect()
    live = journalfs.spark.live_messages(spark, store).select("queue", "id").collect()
    spark.stop()
    return {
        "workers": [list(row) for row in of_workers],
        "read": sorted(list(row) for row in read),
        "live": sorted(list(row) for row in live),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
