"""Publish the rows of a CSV file as messages, all of them or none; its columns become properties.

python docs/examples/publish_csv.py orders.csv /mnt/orders
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import journalfs.spark


def publish(spark: SparkSession, source: str, target: str, queue: str | None = None) -> None:
    journalfs.spark.register(spark)
    rows = spark.read.csv(source, header=True, inferSchema=True)
    body = f.to_json(f.struct(*rows.columns)).alias("body")
    # No property is a date, a time or a decimal: as text they are what the file has.
    texts = [
        f.col(name).cast("string").alias(name) if kind.startswith(("date", "timestamp", "decimal")) else name
        for name, kind in rows.dtypes
    ]
    messages = rows.select(*texts, body)
    writer = messages.write.format("journalfs").mode("append")
    (writer.option("queues", queue) if queue else writer).save(target)


if __name__ == "__main__":
    publish(SparkSession.builder.getOrCreate(), *sys.argv[1:])
