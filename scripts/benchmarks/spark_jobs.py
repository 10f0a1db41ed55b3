"""The Spark side of the measurements: one session, jobs on the mount and on plain files in turn.

    python -m scripts.benchmarks.spark_jobs MOUNTED_QUEUE DIRECTORY RUNS STATE...

Prints one line of JSON: by job and state, the seconds of each run on either side.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from scripts.benchmarks.measure import drop_caches, seconds

SCHEMA = "queue string, id long, timestamp long, priority int, body string"
WARM_UP_ROUNDS = 2
"""The JVM compiles the scanning code during the first ones."""


def text_count(spark: SparkSession, path: str) -> int:
    return spark.read.text(path).count()


def text_length(spark: SparkSession, path: str) -> int:
    return int(spark.read.text(path).agg(F.sum(F.length("value"))).collect()[0][0])


def json_body(spark: SparkSession, path: str) -> int:
    return int(spark.read.schema(SCHEMA).json(path).agg(F.sum(F.length("body"))).collect()[0][0])


JOBS: dict[str, Callable[[SparkSession, str], int]] = {
    "text-count": text_count,
    "text-length": text_length,
    "json-body": json_body,
}


def _session(scratch: str) -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.Builder().master("local[*]").appName("journalfs-bench")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": scratch,
        "spark.local.dir": scratch,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(mounted: str, disk: str, runs: int, states: list[str]) -> dict[str, dict[str, list[float]]]:
    taken: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        spark = _session(scratch)
        for state in states:
            for name, job in JOBS.items():
                values: dict[str, list[float]] = {"journalfs": [], "disk": []}
                answers = set()
                for round_number in range(WARM_UP_ROUNDS + runs):
                    sides = [("journalfs", mounted), ("disk", disk)]
                    for side, path in sides if round_number % 2 == 0 else reversed(sides):
                        if state == "cold":
                            drop_caches()
                        took_s = seconds(lambda job=job, path=path: answers.add(job(spark, path)))
                        if round_number >= WARM_UP_ROUNDS:
                            values[side].append(took_s)
                assert len(answers) == 1, f"{name}: the sides differ: {answers}"
                taken[f"{name}-{state}"] = values
        spark.stop()
    return taken


if __name__ == "__main__":
    print(json.dumps(main(str(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]), sys.argv[4:])))
