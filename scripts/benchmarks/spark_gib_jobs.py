"""The Spark side of reading and writing a GiB: one session, every side in turn.

    python -m scripts.benchmarks.spark_gib_jobs read RUNS STORE MOUNTED_QUEUE LINES
    python -m scripts.benchmarks.spark_gib_jobs write RUNS MOUNT FILES ROWS

Prints one line of JSON: by side, the seconds of each run.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import journalfs.spark
from scripts.benchmarks.spark_jobs import session
from scripts.benchmarks.spark_source_jobs import SIZES, of_mount, of_replay, of_source, take_turns

SCHEMA = "body string"
ROW_BYTES = 1024


def read(spark: SparkSession, runs: int, store: str, queue: str, lines: str) -> dict[str, list[float]]:
    frames: dict[str, Callable[[], DataFrame]] = {
        "mount": partial(of_mount, spark, queue, SCHEMA),
        "source": partial(of_source, spark, store, SCHEMA),
        "replay": partial(of_replay, spark, store, SCHEMA),
        "disk": partial(of_mount, spark, lines, SCHEMA),
    }
    asked = {side: partial(_sizes, make) for side, make in frames.items()}
    return take_turns(asked, runs)


def _sizes(make: Callable[[], DataFrame]) -> object:
    return make().selectExpr(SIZES).collect()


def write(spark: SparkSession, runs: int, mount: str, files: str, rows: str) -> dict[str, list[float]]:
    """Each side is emptied, and the disk has written what waited, before it is its turn."""
    text = spark.range(0, int(rows), 1, 2).selectExpr(f"lpad(cast(id as string), {ROW_BYTES - 1}, 'x') body")
    source = text.write.format("journalfs").mode("append")
    asked: dict[str, Callable[[], None]] = {
        "mount": lambda: text.write.mode("append").text(f"{mount}/mount/mount"),
        "source": lambda: source.save(f"{mount}/source/source"),
        "disk": lambda: text.write.mode("append").text(files),
    }
    values: dict[str, list[float]] = {side: [] for side in asked}
    for round_number in range(1 + runs):
        for side in asked if round_number % 2 == 0 else reversed(asked):
            start = time.perf_counter()
            asked[side]()
            taken = time.perf_counter() - start
            if round_number:
                values[side].append(taken)
            if side == "disk":
                shutil.rmtree(files)
            else:
                _emptied(Path(mount) / side / side, int(rows))
    return values


def _emptied(queue: Path, rows: int) -> None:
    """Every row was published, and is removed."""
    status = json.loads((queue / ".status").read_text())
    assert status["messages"] == rows, status
    (queue / ".all.jsonl").unlink()


def main(what: str, runs: int, places: list[str]) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as scratch:
        spark = session(scratch)
        journalfs.spark.register(spark)
        try:
            return {"read": read, "write": write}[what](spark, runs, *places)
        finally:
            spark.stop()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])))
