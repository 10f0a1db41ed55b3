"""Where dead letters came from: by the queue that gave them up, with the newest body of each.

python docs/examples/dead_letters.py /var/lib/artemis/data DLQ
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import journalfs.spark


def dead_letters(spark: SparkSession, store: str, queue: str = "DLQ") -> DataFrame:
    journalfs.spark.register(spark)
    letters = spark.read.format("journalfs").schema("id long, body string, _AMQ_ORIG_QUEUE string")
    found = letters.option("queues", queue).load(store)
    newest = f.max_by("body", "id").alias("newest")
    return found.groupBy(f.col("_AMQ_ORIG_QUEUE").alias("from")).agg(f.count("*").alias("letters"), newest)


if __name__ == "__main__":
    dead_letters(SparkSession.builder.getOrCreate(), *sys.argv[1:]).show(100, truncate=60)
