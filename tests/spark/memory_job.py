"""What is live in a store, by joins, in an executor that has hardly any memory for them. Called with a store,
a directory to work in and the fraction of its heap that an executor may use.

Prints one line of JSON: for each queue its name, how many messages it has, the sum of their ids and that of
the checksums of their bodies; and what Spark spilled.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.functions import expr
from pyspark.sql.types import LongType, StringType, StructField, StructType

import journalfs.spark
from tests.spark.drivers import session

EXECUTOR_MIB = 512
SCHEMA = StructType([StructField("queue", StringType()), StructField("id", LongType())]).add("body", "string")


def metrics(events: Path) -> dict[str, int]:
    """Sums over all tasks, of bytes but for the last."""
    found = {"memorySpilled": 0, "diskSpilled": 0, "shuffled": 0, "executionMemoryMost": 0, "tasks": 0}
    for file in events.iterdir():
        for event in map(json.loads, file.read_text().splitlines()):
            task: dict[str, Any] | None = event.get("Task Metrics")
            if task is None:
                continue
            found["memorySpilled"] += task["Memory Bytes Spilled"]
            found["diskSpilled"] += task["Disk Bytes Spilled"]
            found["shuffled"] += task["Shuffle Write Metrics"]["Shuffle Bytes Written"]
            found["executionMemoryMost"] = max(found["executionMemoryMost"], task["Peak Execution Memory"])
            found["tasks"] += 1
    return found


def main(store: str, work: str, fraction: str) -> dict[str, Any]:
    events = Path(work, "events")
    events.mkdir()
    spark = session(
        work,
        "local-cluster[1,1,1024]",
        **{
            "spark.executor.memory": f"{EXECUTOR_MIB}m",
            "spark.memory.fraction": fraction,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        },
    )
    live = journalfs.spark.live_messages(spark, store, schema=SCHEMA)
    sums = ("count(*)", "sum(id)", "sum(crc32(encode(body, 'utf-8')))")
    rows = live.groupBy("queue").agg(*map(expr, sums)).collect()
    spark.stop()
    return {"queues": sorted([*row] for row in rows), **metrics(events)}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
