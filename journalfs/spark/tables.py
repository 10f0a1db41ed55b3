"""Batch reads of a store in a database: each task reads a range of its table for itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from journalfs.config.database import DatabaseSettings
from journalfs.records.tables.ranges import Range, derive_range, ranges
from journalfs.spark.options import Options
from journalfs.spark.pieces import task_count
from journalfs.spark.place import Place
from journalfs.spark.plan import chosen_queues, plan
from journalfs.spark.reading import Wanted, read_pieces
from journalfs.store import open_store


class TableRange(InputPartition):
    """What one task reads."""

    def __init__(self, found: Range) -> None:
        super().__init__(None)
        self.range = found

    def __repr__(self) -> str:
        if self.range.end is None:
            return f"TableRange(pages of {self.range.settings.shown})"
        return f"TableRange({self.range.first} to {self.range.end - 1} of {self.range.settings.shown})"


def table_ranges(settings: DatabaseSettings, options: Options) -> list[TableRange]:
    cores = len(os.sched_getaffinity(0))
    found = ranges(settings, lambda size_bytes: task_count(size_bytes, options.partition_bytes, cores))
    return [TableRange(one) for one in found]


def read_range(wanted: Wanted, partition: TableRange, options: Options) -> Iterator[Any]:
    """The messages as record batches."""
    with tempfile.TemporaryDirectory(prefix="journalfs-") as folder:
        store = open_store(derive_range(partition.range, Path(os.path.realpath(folder))), index=False)
        try:
            queues = chosen_queues(store, Place(store.core.root), options.queues)
            for pieces in plan(store, queues, options):
                yield from read_pieces(wanted, pieces)
        finally:
            store.close()
