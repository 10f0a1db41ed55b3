"""A program that registers nothing: Spark finds the format in a package on the path."""

from __future__ import annotations

import json
import sys
import tempfile

import journalfs.spark
from tests.spark.drivers import session


def main(store: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as work:
        spark = session(work, "local[1]")
        said: dict[str, object] = {"read": spark.read.format("journalfs").load(store).count()}
        spark.sql(f"CREATE TEMPORARY VIEW waiting USING journalfs OPTIONS (path '{store}')")
        said["sql"] = spark.table("waiting").count()
        said["other session"] = spark.newSession().read.format("journalfs").load(store).count()
        journalfs.spark.register(spark)
        said["registered"] = spark.read.format("journalfs").load(store).count()
        spark.stop()
    return said


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
