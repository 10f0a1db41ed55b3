"""For Spark: `register` makes `format("journalfs")` known to a session (docs/reference/spark.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from journalfs.spark.interpreter import use_own_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["live_messages", "page_records", "records", "register"]

_ALREADY_FOUND: Final = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: SparkSession) -> None:
    """Make `format("journalfs")` known to a session, for reading and writing, in batches and in streams.

    Spark on this machine runs the Python of this process from then on, unless it was told of another one.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - comes with Spark

    from journalfs.spark.source import JournalfsSource  # noqa: PLC0415 - imports PyArrow

    use_own_python(spark)
    try:
        with _active(spark):
            spark.dataSource.register(JournalfsSource)
    except AnalysisException as error:
        # The one that Spark found by itself, by the package `pyspark_journalfs`, which cannot be replaced.
        if error.getCondition() != _ALREADY_FOUND:
            raise


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Let a session be the one that Spark takes for the caller's: there it looks whether a format is taken,
    and refuses one to a session because another has it.
    """
    from pyspark.sql.utils import is_remote  # noqa: PLC0415 - as above

    if is_remote():
        yield
        return
    local: Any = spark
    sessions = local._get_j_spark_session_class(local._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(local._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def records(spark: SparkSession, path: str | list[str]) -> DataFrame:
    """Every record of journal files on any filesystem that Spark reads (`.../*.amq`), live or not."""
    from journalfs.spark.record_files import records as of_files  # noqa: PLC0415 - as above

    use_own_python(spark)
    return of_files(spark, path)


def page_records(spark: SparkSession, path: str | list[str]) -> DataFrame:
    """The same of page files (`.../*.page`)."""
    from journalfs.spark.record_files import pages  # noqa: PLC0415 - as above

    use_own_python(spark)
    return pages(spark, path)


def live_messages(spark: SparkSession, path: str, *, schema: StructType | None = None) -> DataFrame:
    """The live messages of a store on any filesystem that Spark reads, found by joins: for stores that no
    machine holds.
    """
    from journalfs.spark.live import live_messages as of_store  # noqa: PLC0415 - as above

    use_own_python(spark)
    return of_store(spark, path, schema=schema)
