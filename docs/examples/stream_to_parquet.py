"""Follow a store, and add each message to Parquet once, however often this is stopped and started. With
`acknowledge` the messages leave their queues when Spark has them.

python docs/examples/stream_to_parquet.py /mnt/orders /data/orders /var/lib/checkpoints/orders
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import journalfs.spark


def follow(
    spark: SparkSession, store: str, target: str, checkpoint: str, *, once: bool = False, take: bool = False
) -> StreamingQuery:
    """`once`: end when all is taken that is there now."""
    journalfs.spark.register(spark)
    messages = (
        spark.readStream.format("journalfs")
        .schema("id long, queue string, timestamp timestamp, body string")
        .option("acknowledge", str(take).lower())
        .load(store)
    )
    writing = messages.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    return (writing.trigger(availableNow=True) if once else writing).start(target)


if __name__ == "__main__":
    follow(SparkSession.builder.getOrCreate(), *sys.argv[1:4]).awaitTermination()
