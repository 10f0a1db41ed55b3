"""Jobs whose first task is slow at its first attempt, on a cluster that then begins a second one beside it.
Called with the cluster's URL, a store, two queues of a mount and a directory to work in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import journalfs.spark
from tests.spark.drivers import session

ROWS, TASKS = 400, 8
SPECULATES = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}
VERSION = "mapreduce.fileoutputcommitter.algorithm.version"


def slow_at_first(mark: str, ends: bool, batches: Iterator[Any]) -> Iterator[Any]:
    """The first attempt at the first task has all its rows written, and waits until there is another one; it
    then ends as that does, or never.
    """
    import os  # noqa: PLC0415 - on a worker, which has nothing of the tests
    import threading  # noqa: PLC0415

    from pyspark import TaskContext  # noqa: PLC0415

    yield from batches
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 0 and context.attemptNumber() == 0:
        while not os.path.exists(mark) or not ends:
            threading.Event().wait(0.005)
    elif context.partitionId() == 0:
        open(mark, "x").close()


def rows(spark: SparkSession, mark: Path, *, ends: bool) -> DataFrame:
    numbers = spark.range(0, ROWS, 1, TASKS).selectExpr("cast(id AS string) AS value")
    return numbers.mapInArrow(partial(slow_at_first, str(mark), ends), numbers.schema)


def main(master: str, store: str, first: str, second: str, work: str) -> None:
    spark = session(work, master, **SPECULATES)
    journalfs.spark.register(spark)
    jobs: dict[str, Callable[[DataFrame], None]] = {
        "source": lambda frame: (
            frame.write.format("journalfs").mode("append").option("queues", "a").save(store)
        ),
        "mount": lambda frame: frame.write.format("journalfs").mode("append").save(first),
        "v1": lambda frame: frame.write.mode("append").option(VERSION, "1").text(first),
        "v2": lambda frame: frame.write.mode("append").option(VERSION, "2").text(second),
    }
    for name, write in jobs.items():
        for ends in (False, True):
            mark = Path(work, f"{name}-{ends}")
            write(rows(spark, mark, ends=ends))
            assert mark.exists(), "no second attempt was made"
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
    print("{}")
