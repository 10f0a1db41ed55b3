"""Add what is new in a store to an archive that `journalfs pipeline replay` publishes again, and say what
each day of it holds. The parts of a pipeline are functions: put your own between them.

python docs/examples/archive_by_day.py /var/lib/artemis/data /archive/messages
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import journalfs.spark
from journalfs.pipeline.archive import archive, archived
from journalfs.pipeline.folders import folder_at
from journalfs.pipeline.messages import Source


def days(spark: SparkSession, store: str, target: str, queues: tuple[str, ...] = ()) -> DataFrame:
    journalfs.spark.register(spark)
    folder = folder_at(spark, target)
    archive(spark, Source(store, queues), folder)
    messages = archived(spark, folder).groupBy("date", "queue")
    return messages.agg(f.count("*").alias("messages")).orderBy("date", "queue")


if __name__ == "__main__":
    days(SparkSession.builder.getOrCreate(), sys.argv[1], sys.argv[2], tuple(sys.argv[3:])).show(100)
