"""Shipped as the package `pyspark_journalfs`, too: Spark looks through installed packages whose names begin
with `pyspark_`, and knows `format("journalfs")` by their `DefaultSource` in each session, SQL and Connect.

It is imported for whatever source in Python a session asks for, so it must never fail: without PyArrow there
is no `DefaultSource`.
"""

from __future__ import annotations

from contextlib import suppress

__all__ = ["DefaultSource"]

with suppress(ImportError):
    from journalfs.spark.source import JournalfsSource as DefaultSource
