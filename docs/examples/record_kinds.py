"""What a journal is full of: its records by kind and type, from any filesystem that Spark reads.

python docs/examples/record_kinds.py "s3a://backup/journal/*.amq"
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import journalfs.spark


def kinds(spark: SparkSession, files: str) -> DataFrame:
    records = journalfs.spark.records(spark, files)
    sizes = records.groupBy("kind", "userType").agg(
        f.count("*").alias("records"), f.sum("bytes").alias("bytes")
    )
    return sizes.orderBy(f.desc("bytes"))


if __name__ == "__main__":
    kinds(SparkSession.builder.getOrCreate(), sys.argv[1]).show(100)
