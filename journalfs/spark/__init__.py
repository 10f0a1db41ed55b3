"""Messages for Spark: `register` makes `format("journalfs")` known to a session. See docs/SPARK.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["live_messages", "page_records", "records", "register"]

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, push_filters: bool = True) -> None:
    """Make `format("journalfs")` known to a session, for reading and writing, in batches and in streams.

    `push_filters` turns on that Spark hands filters to sources written in Python, in this session.
    """
    from journalfs.spark.source import JournalfsSource, PushingSource  # noqa: PLC0415 - imports PyArrow

    if push_filters:
        spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(PushingSource if push_filters else JournalfsSource)


def records(spark: SparkSession, path: str | list[str]) -> DataFrame:
    """Every record of journal files on any filesystem that Spark reads (`.../*.amq`), live or not."""
    from journalfs.spark.record_files import records as of_files  # noqa: PLC0415 - as above

    return of_files(spark, path)


def page_records(spark: SparkSession, path: str | list[str]) -> DataFrame:
    """The same of page files (`.../*.page`)."""
    from journalfs.spark.record_files import pages  # noqa: PLC0415 - as above

    return pages(spark, path)


def live_messages(spark: SparkSession, path: str, *, schema: StructType | None = None) -> DataFrame:
    """The live messages of a store on any filesystem that Spark reads, found by joins: for stores that no
    machine holds.
    """
    from journalfs.spark.live import live_messages as of_store  # noqa: PLC0415 - as above

    return of_store(spark, path, schema=schema)
