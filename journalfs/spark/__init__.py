"""Messages for Spark: `register` makes `format("journalfs")` known to a session. See docs/SPARK.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, push_filters: bool = True) -> None:
    """Make `format("journalfs")` known to a session, for reading and writing, in batches and in streams.

    `push_filters` turns on that Spark hands filters to sources written in Python, in this session.
    """
    from journalfs.spark.source import JournalfsSource, PushingSource  # noqa: PLC0415 - imports PyArrow

    if push_filters:
        spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(PushingSource if push_filters else JournalfsSource)
