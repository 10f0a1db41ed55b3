"""A job as users have one, for `spark-submit`: called with a store."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import journalfs.spark
from journalfs.engine import _native

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    journalfs.spark.register(spark)
    rows = spark.read.format("journalfs").option("index", "false").load(sys.argv[1]).select("queue", "id")
    read = sorted(list(row) for row in rows.collect())
    spark.stop()
    print(json.dumps({"package": journalfs.__file__, "core": _native.__file__, "rows": read}))
