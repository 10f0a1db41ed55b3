"""Jobs of Spark's own readers and writers on a mount, and streams of a store, in processes of their own, to
be killed or to be another user's. Called with the job, a place in the mount or a store, and a directory to
work in.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from journalfs.spark import register
from tests.spark.drivers import session

SCHEMA = "id long, body string, queue string"
VERSION = "mapreduce.fileoutputcommitter.algorithm.version"
SPLIT_BYTES = 20_000


def own_session(work: str, master: str) -> SparkSession:
    splits = {"spark.sql.files.maxPartitionBytes": str(SPLIT_BYTES), "spark.sql.files.openCostInBytes": "0"}
    return session(work, master, **splits)


def stream(spark: SparkSession, path: str, work: str, *, to_its_end: bool) -> None:
    """Store what comes to a queue, and acknowledge it; says after each batch how many there were."""
    source = spark.readStream.schema(SCHEMA).option("cleanSource", "delete").option("maxFilesPerTrigger", 1)
    store(source.json(path), work, to_its_end=to_its_end)


def stream_of_store(spark: SparkSession, path: str, work: str, *, to_its_end: bool) -> None:
    """The same with a store's own format."""
    source = spark.readStream.format("journalfs").schema(SCHEMA).option("acknowledge", "true")
    store(source.option("maxMessagesPerTrigger", 5).load(path), work, to_its_end=to_its_end)


def store(messages: DataFrame, work: str, *, to_its_end: bool) -> None:
    writer = messages.writeStream.format("parquet").option("path", f"{work}/out")
    writer = writer.option("checkpointLocation", f"{work}/state")
    if to_its_end:
        writer.trigger(availableNow=True).start().awaitTermination()
        return
    query, said = writer.trigger(processingTime="0 seconds").start(), -1
    while not query.awaitTermination(1):
        # There may have been several since, and none may be left out: somebody counts them.
        for done in query.recentProgress:
            if done.batchId > said and done.numInputRows:
                said = done.batchId
                print("BATCH", said, flush=True)


def write(spark: SparkSession, path: str) -> None:
    """Append rows; the last of four tasks never ends."""

    def waits(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if batch.column(0)[0].as_py() == "75":
                threading.Event().wait()

    rows = spark.range(0, 100, 1, 4).selectExpr("cast(id AS string) AS value")
    rows.mapInArrow(waits, rows.schema).write.mode("append").text(path)


def main(root: str, work: str) -> dict[str, Any]:
    spark = own_session(work, "local-cluster[2,1,1024]")
    read = spark.read.schema(SCHEMA).json(f"{root}/from/*")
    tasks = read.rdd.getNumPartitions()
    messages = Counter((row.queue, row.body) for row in read.collect())
    files = spark.read.format("binaryFile").load(f"{root}/from/one/.messages").select("length").count()
    for version in ("1", "2"):
        lines = read.filter("queue = 'one'").selectExpr("body AS value").repartition(4)
        lines.write.mode("append").option(VERSION, version).text(f"{root}/to/version-{version}")
    spark.stop()
    return {
        "user": os.geteuid(),
        "tasks": tasks,
        "read": sorted([*key, count] for key, count in messages.items()),
        "files": files,
    }


if __name__ == "__main__":
    what, place, scratch = sys.argv[1:]
    if what == "cluster":
        print(json.dumps(main(place, scratch)))
    elif what == "write":
        write(own_session(scratch, "local[4]"), place)
    else:
        made = own_session(scratch, "local[2]")
        register(made)
        streaming = stream if what == "stream" else stream_of_store
        streaming(made, place, scratch, to_its_end=False)
