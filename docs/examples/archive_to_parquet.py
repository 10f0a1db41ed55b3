"""Add what is new in a store to a Parquet archive, each message once; run it as often as you like.

python docs/examples/archive_to_parquet.py /var/lib/artemis/data /archive/messages
"""

import sys

from pyspark.sql import SparkSession

import journalfs.spark


def archive(spark: SparkSession, store: str, target: str) -> None:
    journalfs.spark.register(spark)
    messages = spark.readStream.format("journalfs").load(store)
    # A folder is named after each queue, and a name may take three times its bytes there. Queues with names
    # too long for that stay out; `journalfs pipeline archive` shortens them.
    messages = messages.filter("octet_length(queue) <= 80")
    writer = messages.writeStream.format("parquet").option("path", target).partitionBy("queue")
    query = writer.option("checkpointLocation", f"{target}.state").trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    archive(SparkSession.builder.getOrCreate(), sys.argv[1], sys.argv[2])
