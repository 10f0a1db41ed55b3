"""The Spark side of these measurements: one session, each question asked of every side in turn.

    python -m scripts.benchmarks.spark_source_jobs source|replay STORE MOUNTED_QUEUE RUNS [SETTING=VALUE...]

Settings are Spark's. Prints one line of JSON: by question and side, the seconds of each run.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

import journalfs.spark
from scripts.benchmarks.spark_jobs import WARM_UP_ROUNDS, session

Ask = Callable[[], object]

SIZES = "sum(octet_length(body))"
"""Spark knows how many bytes a text has. Counting characters takes longer than to read them, on any side."""

QUESTIONS: dict[str, tuple[str, Callable[[DataFrame], object]]] = {
    "body": ("body string", lambda rows: rows.selectExpr(SIZES).collect()),
    "headers": (
        "priority int, timestamp long",
        lambda rows: sorted(rows.groupBy("priority").agg(f.max("timestamp")).collect()),
    ),
    "few": (
        "priority int, body string",
        lambda rows: rows.filter("priority = 9").selectExpr(SIZES).collect(),
    ),
}


def of_mount(spark: SparkSession, queue: str, schema: str) -> DataFrame:
    return spark.read.schema(schema).json(queue)


def of_source(spark: SparkSession, store: str, schema: str) -> DataFrame:
    return spark.read.format("journalfs").schema(schema).load(store)


def of_replay(spark: SparkSession, store: str, schema: str) -> DataFrame:
    return journalfs.spark.live_messages(spark, store, schema=StructType.fromDDL(schema))


def take_turns(sides: Mapping[str, Ask], runs: int) -> dict[str, list[float]]:
    """Ask every side in turn; the seconds of each run. All must give the same answer."""
    values: dict[str, list[float]] = {side: [] for side in sides}
    answers: list[object] = []
    for round_number in range(WARM_UP_ROUNDS + runs):
        for side in sides if round_number % 2 == 0 else reversed(sides):
            start = time.perf_counter()
            answers.append(sides[side]())
            if round_number >= WARM_UP_ROUNDS:
                values[side].append(time.perf_counter() - start)
    assert all(answer == answers[0] for answer in answers), "the sides differ"
    return values


def main(
    what: str, store: str, queue: str, runs: int, settings: Mapping[str, str]
) -> dict[str, dict[str, list[float]]]:
    taken: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        spark = session(scratch, **settings)
        journalfs.spark.register(spark)
        for name in QUESTIONS if what == "source" else ["body"]:
            schema, ask = QUESTIONS[name]
            frames: dict[str, Callable[[], DataFrame]]
            if what == "source":
                frames = {
                    "journalfs": partial(of_source, spark, store, schema),
                    "mount": partial(of_mount, spark, queue, schema),
                }
            else:
                frames = {
                    "journalfs": partial(of_replay, spark, store, schema),
                    "source": partial(of_source, spark, store, schema),
                }
            asked = {side: partial(_asked, ask, make) for side, make in frames.items()}
            taken[name] = take_turns(asked, runs)
        spark.stop()
    return taken


def _asked(ask: Callable[[DataFrame], object], make: Callable[[], DataFrame]) -> object:
    return ask(make())


if __name__ == "__main__":
    given = dict(setting.split("=", 1) for setting in sys.argv[5:])
    print(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), given)))
