"""`format("journalfs")` for Spark: batch reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from journalfs.errors import JournalfsError, WrongCall
from journalfs.selector import compile_selector
from journalfs.spark.options import Options, refuse_unused
from journalfs.spark.pieces import Pieces
from journalfs.spark.place import Place, database_of, place_of
from journalfs.spark.plan import chosen_queues, plan
from journalfs.spark.reading import Wanted, read_pieces
from journalfs.spark.schema import check_schema, usual_schema
from journalfs.spark.told import tell_losses
from journalfs.spark.worker import settle
from journalfs.store import open_store
from journalfs.store.store import JournalStore

_OF_STREAMS: Final = ("acknowledge", "starting", "max_messages")
_OF_WRITES: Final = ("exact_rows",)
_OF_READS: Final = ("selector", "columns", "partition_bytes", "batch_bytes", "history")


class JournalfsSource(datasource.DataSource):
    """The messages of a store. Made by Spark, in processes of its own."""

    @classmethod
    def name(cls) -> str:
        return "journalfs"

    def _checked(self) -> Options:
        options = Options.of(dict(self.options))
        compile_selector(options.selector)
        return options

    def schema(self) -> StructType:
        return usual_schema(self._checked().columns)

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        return BatchReader(*self._batch(schema))

    def _batch(self, schema: StructType) -> tuple[Options, StructType]:
        options = self._checked()
        refuse_unused(options, "a batch read", (*_OF_STREAMS, *_OF_WRITES))
        check_schema(schema)
        return options, schema

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:  # noqa: N802 - Spark's name
        from journalfs.spark.stream import RefusedReader, StreamReader  # noqa: PLC0415 - most jobs are no streams

        try:
            check_schema(schema)
            options = self._checked()
            refuse_unused(options, "a stream", (*_OF_WRITES, "history"))
        except JournalfsError as error:
            return RefusedReader(error)
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        from journalfs.spark.writer import StagingWriter  # noqa: PLC0415 - loads what changes stores

        options = self._checked()
        refuse_unused(options, "a write", (*_OF_STREAMS, *_OF_READS))
        return StagingWriter(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> datasource.DataSourceStreamWriter:  # noqa: N802 - Spark's
        raise WrongCall(
            "format journalfs is not written by streams: write each batch, with "
            "foreachBatch(lambda batch, number: batch.write.format('journalfs').mode('append').save(PATH))"
        )


class BatchReader(datasource.DataSourceReader):
    """One read of what is live when the job is planned. It is sent to the tasks, and holds no open file."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def partitions(self) -> Sequence[datasource.InputPartition]:
        settle()
        return self.planned(tell=tell_losses)

    def planned(
        self, tell: Callable[[JournalStore], None] = lambda store: None
    ) -> Sequence[datasource.InputPartition]:
        """What tasks read. `tell` is called with a store of files while it is open."""
        database = database_of(self.options.path)
        if database is not None:
            from journalfs.spark.tables import table_ranges  # noqa: PLC0415 - an optional library

            return table_ranges(database, self.options)
        place = place_of(self.options.path, reads_history=True)
        with opened(self.options) as store:
            tell(store)
            return plan(store, chosen_queues(store, place, self.options.queues), self.options)

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        settle()
        wanted = Wanted(self.schema, self.options.batch_bytes, self.options.selector)
        if isinstance(partition, Pieces):
            return read_pieces(wanted, partition)
        if partition is None or type(partition) is datasource.InputPartition:
            return iter(())  # Spark asks for one partition also where there is none
        from journalfs.spark.tables import TableRange, read_range  # noqa: PLC0415 - an optional library

        assert isinstance(partition, TableRange), "there are two kinds of partitions"
        return read_range(wanted, partition, self.options)


@contextmanager
def opened(options: Options) -> Iterator[JournalStore]:
    """The store of a path, open for reading."""
    place = place_of(options.path, reads_history=True)
    if options.history or place.history is not None:
        store: JournalStore = _history(options, place)
    else:
        store = open_store(place.store, index=options.index)
    try:
        yield store
    finally:
        store.close()


def _history(options: Options, place: Place) -> JournalStore:
    """What was sent in a range. Bodies that were put together for it last for the tasks."""
    from journalfs.clock import SystemClock  # noqa: PLC0415 - few jobs read it
    from journalfs.config.layout import locate_store  # noqa: PLC0415
    from journalfs.store.history import history_of  # noqa: PLC0415
    from journalfs.times import named_range  # noqa: PLC0415

    history = history_of(locate_store(place.store), SystemClock())
    try:
        wanted = place.history or named_range(options.history, history.clock.now_ms())
        return history.open_now(wanted, place=history.new_place(lasting=True))
    finally:
        history.close()
