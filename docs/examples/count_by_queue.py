"""How many messages wait in each queue, and since when.

python docs/examples/count_by_queue.py /var/lib/artemis/data
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import journalfs.spark


def waiting(spark: SparkSession, store: str) -> DataFrame:
    journalfs.spark.register(spark)
    messages = spark.read.format("journalfs").option("columns", "queue,timestamp").load(store)
    counted = messages.groupBy("queue").agg(f.count("*").alias("messages"), f.min("timestamp").alias("since"))
    return counted.orderBy(f.desc("messages"), "queue")


if __name__ == "__main__":
    waiting(SparkSession.builder.getOrCreate(), sys.argv[1]).show(100, truncate=False)
