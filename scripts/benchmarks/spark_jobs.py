"""The Spark side of the measurements: one session, jobs on the mount and on plain files in turn.

    python -m scripts.benchmarks.spark_jobs MOUNTED_QUEUE DIRECTORY RUNS STATE...

Prints one line of JSON: by job and state, the seconds of each run on either side.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import length
from pyspark.sql.functions import sum as total

from scripts.benchmarks.measure import drop_caches

SCHEMA = "queue string, id long, timestamp long, priority int, body string"
WARM_UP_ROUNDS = 2
"""The JVM compiles the scanning code during the first ones."""


def text_count(spark: SparkSession, path: str) -> int:
    return spark.read.text(path).count()


def text_length(spark: SparkSession, path: str) -> int:
    return int(spark.read.text(path).agg(total(length("value"))).collect()[0][0])


def json_body(spark: SparkSession, path: str) -> int:
    return int(spark.read.schema(SCHEMA).json(path).agg(total(length("body"))).collect()[0][0])


JOBS: dict[str, Callable[[SparkSession, str], int]] = {
    "text-count": text_count,
    "text-length": text_length,
    "json-body": json_body,
}


def session(scratch: str, master: str = "local[*]", **others: str) -> SparkSession:
    """A session on this machine. `others` are more settings of Spark."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.Builder().master(master).appName("journalfs-bench")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": scratch,
        "spark.local.dir": scratch,
        **others,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def take_turns(
    spark: SparkSession,
    job: Callable[[SparkSession, str], int],
    paths: dict[str, str],
    runs: int,
    *,
    cold: bool,
) -> dict[str, list[float]]:
    """Run a job on every path in turn; returns the seconds of each run. All must give the same answer."""
    values: dict[str, list[float]] = {side: [] for side in paths}
    answers = set()
    for round_number in range(WARM_UP_ROUNDS + runs):
        for side in paths if round_number % 2 == 0 else reversed(paths):
            if cold:
                drop_caches()
            start = time.perf_counter()
            answers.add(job(spark, paths[side]))
            if round_number >= WARM_UP_ROUNDS:
                values[side].append(time.perf_counter() - start)
    assert len(answers) == 1, f"the sides differ: {answers}"
    return values


def main(mounted: str, disk: str, runs: int, states: list[str]) -> dict[str, dict[str, list[float]]]:
    taken: dict[str, dict[str, list[float]]] = {}
    paths = {"journalfs": mounted, "disk": disk}
    with tempfile.TemporaryDirectory() as scratch:
        spark = session(scratch)
        for state in states:
            for name, job in JOBS.items():
                taken[f"{name}-{state}"] = take_turns(spark, job, paths, runs, cold=state == "cold")
        spark.stop()
    return taken


if __name__ == "__main__":
    print(json.dumps(main(str(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]), sys.argv[4:])))
