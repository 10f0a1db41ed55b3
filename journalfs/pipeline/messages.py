"""The messages that a pipeline is about, wherever they are."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from journalfs.errors import WrongCall
from journalfs.selector import compile_selector
from journalfs.spark import live_messages
from journalfs.spark.names import names_text
from journalfs.spark.place import SEPARATOR, Place, is_elsewhere, local_path, place_of, require_store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from journalfs.spark.source import BatchReader


@dataclass(frozen=True, slots=True)
class Source:
    """What to read: a store, a directory of a mount, a journal, or a store at any path that Hadoop reads."""

    path: str
    queues: tuple[str, ...] = ()
    """Each `ADDRESS::QUEUE`, a queue, or an address for all of its queues. Empty: all."""
    where: str = ""
    """A JMS selector."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether only Hadoop gets there."""
        return is_elsewhere(self.path)

    def facts(self) -> dict[str, object]:
        """For a report, which is read elsewhere: what it is about, and on which machine that is."""
        facts: dict[str, object] = {"host": platform.node()}
        if self.is_elsewhere:
            return facts | {"store": self.path}
        place = self.place()
        database = require_store(place.store)
        facts["store"] = str(place.store) if database is None else database.shown
        if place.mount is not None:
            facts["read at"] = str(local_path(self.path))
        if self.queues:
            facts["only queues"] = ", ".join(self.queues)
        if self.where:
            facts["only where"] = self.where
        return facts

    def place(self) -> Place:
        """Where it is on this machine. Raises `NotAStore`, `WrongCall`."""
        found = place_of(self.path)
        require_store(found.store)
        return found

    def messages(self, spark: SparkSession, schema: StructType) -> DataFrame:
        """A row for each queue that a message is in. Raises `NotAStore`, `WrongCall`, `SelectorError`."""
        compile_selector(self.where)
        if self.is_elsewhere:
            return self._by_joins(spark, schema)
        self.place()
        reader = spark.read.format("journalfs").schema(schema)
        if self.queues:
            reader = reader.option("queues", names_text(self.queues))
        if self.where:
            reader = reader.option("selector", self.where)
        return reader.load(self.path)

    def reader(self, schema: StructType) -> BatchReader:
        """What plans and reads the same in this process. Raises `NotAStore`, `WrongCall`, `SelectorError`."""
        from journalfs.spark.options import Options  # noqa: PLC0415 - reads in this process only
        from journalfs.spark.source import BatchReader  # noqa: PLC0415

        compile_selector(self.where)
        self.place()
        return BatchReader(Options(self.path, queues=self.queues, selector=self.where), schema)

    def batches(self, schema: StructType) -> Iterator[Any]:
        """The same as record batches. What the store lacks is not told here."""
        reader = self.reader(schema)
        for partition in reader.planned():
            yield from reader.read(partition)

    def _by_joins(self, spark: SparkSession, schema: StructType) -> DataFrame:
        if self.where:
            raise WrongCall(f"--where needs a store on this machine, and {self.path} is none")
        frame = live_messages(spark, self.path, schema=schema)
        return frame.filter(_any_of(self.queues)) if self.queues else frame


def _any_of(names: Sequence[str]) -> Column:
    """Whether a message is in one of these queues, or was sent to one of these addresses."""
    found = f.lit(False)
    for name in names:
        address, separator, queue = name.partition(SEPARATOR)
        one = (f.col("queue") == name) | f.col("address").eqNullSafe(name)
        if separator:
            one = (f.col("queue") == queue) & f.col("address").eqNullSafe(address)
        found = found | one
    return found
