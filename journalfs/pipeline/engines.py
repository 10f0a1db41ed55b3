"""What asks the questions of a report: Spark, or DuckDB in this process.

A report is one text of SQL for both, in words that mean the same to both; where their words differ, it takes
them from `Engine.words`. The messages come to both as the batches that tasks read. `--engine` says which one
is used, and `chosen` where nobody says it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from journalfs.errors import DependencyMissing, WrongCall
from journalfs.pipeline.session import INSTALL, quiet, session
from journalfs.spark.place import is_elsewhere, local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from journalfs.pipeline.folders import Folder, LocalFolder
    from journalfs.pipeline.messages import Source

SPARK: Final = "spark"
LOCAL: Final = "local"
AUTO: Final = "auto"
ENGINES: Final = (AUTO, LOCAL, SPARK)

Rows = Any
"""What an engine has of a table: a DataFrame, or a name in DuckDB."""
Change = Callable[[Iterable[Any]], Iterator[Any]]
"""From record batches to record batches."""


class Engine(Protocol):
    @property
    def words(self) -> Mapping[str, str]:
        """Words of its own: `div` divides whole numbers, `median` is the middle of a column."""

    def messages(self, source: Source, schema: StructType, *, protocol: str | None = None) -> Rows:
        """The messages of a source, of one protocol where that is said. Read once, by the next `kept`."""

    def changed(self, rows: Rows, change: Change, schema: StructType) -> Rows:
        """The rows after a function of Python saw them."""

    def kept(self, sql: str, **tables: Rows) -> AbstractContextManager[Rows]:
        """The answer, as a table that may be asked any number of times."""

    def ask(self, sql: str, **tables: Rows) -> list[dict[str, Any]]:
        """The rows of an answer, each by the names of its columns."""

    def folder(self, path: str) -> Folder:
        """The folder that a path leads to."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    spark: SparkSession
    words: Mapping[str, str] = field(
        default_factory=lambda: {"div": "DIV", "median": "percentile_approx({}, 0.5)"}
    )

    def messages(self, source: Source, schema: StructType, *, protocol: str | None = None) -> Rows:
        found = source.messages(self.spark, schema)
        return found if protocol is None else found.filter(found["protocol"] == protocol)

    def changed(self, rows: Rows, change: Change, schema: StructType) -> Rows:
        return rows.mapInArrow(change, schema)

    @contextmanager
    def kept(self, sql: str, **tables: Rows) -> Iterator[Rows]:
        from pyspark import StorageLevel  # noqa: PLC0415 - comes with Spark

        found = self._of(sql, tables).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield found
        finally:
            found.unpersist()

    def ask(self, sql: str, **tables: Rows) -> list[dict[str, Any]]:
        return [row.asDict() for row in self._of(sql, tables).collect()]

    def _of(self, sql: str, tables: Mapping[str, Rows]) -> DataFrame:
        return self.spark.sql(sql, **tables)

    def folder(self, path: str) -> Folder:
        from journalfs.pipeline.folders import folder_at  # noqa: PLC0415 - as above

        return folder_at(self.spark, path)


@dataclass(frozen=True, slots=True)
class _Batches:
    """Record batches that were not read yet, and their Arrow schema."""

    read: Callable[[], Iterator[Any]]
    schema: Any


class LocalEngine:
    """DuckDB, which keeps what does not fit into memory in files."""

    words: Mapping[str, str] = {"div": "//", "median": "quantile_disc({}, 0.5)"}

    def __init__(self) -> None:
        """Raises `DependencyMissing`."""
        try:
            import duckdb  # noqa: PLC0415 - may not be installed
            import pyarrow as pa  # noqa: F401, PLC0415 - as above
            import pyspark  # noqa: F401, PLC0415 - as above: types of columns are its
        except ImportError:
            raise DependencyMissing("--engine local", package="DuckDB or PySpark", install=INSTALL) from None
        self._database: Any = duckdb.connect()

    def messages(self, source: Source, schema: StructType, *, protocol: str | None = None) -> Rows:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - takes longer than the help text

        read = partial(source.batches, schema)
        if protocol is not None:
            read = partial(_of_protocol, source, schema, protocol)
        return _Batches(read, to_arrow_schema(schema, timezone="UTC"))

    @staticmethod
    def batches(read: Callable[[], Iterator[Any]], schema: Any) -> Rows:
        """What `read` gives, as a table; `schema` is Arrow's."""
        return _Batches(read, schema)

    def changed(self, rows: Rows, change: Change, schema: StructType) -> Rows:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - as above

        return _Batches(lambda: change(rows.read()), to_arrow_schema(schema, timezone="UTC"))

    @contextmanager
    def kept(self, sql: str, **tables: Rows) -> Iterator[Rows]:
        name = f"kept_{uuid.uuid4().hex}"
        with self._tables(tables) as names:
            self._database.execute(f"CREATE TEMP TABLE {name} AS {sql.format(**names)}")
        try:
            yield name
        finally:
            self._database.execute(f"DROP TABLE {name}")

    def ask(self, sql: str, **tables: Rows) -> list[dict[str, Any]]:
        with self._tables(tables) as names:
            found = self._database.execute(sql.format(**names))
            columns = [one[0] for one in found.description]
            return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]

    @contextmanager
    def _tables(self, tables: Mapping[str, Rows]) -> Iterator[Mapping[str, str]]:
        """Names under which DuckDB knows tables; batches are read while it asks for them."""
        import pyarrow as pa  # noqa: PLC0415 - as above

        names: dict[str, str] = {}
        try:
            for key, rows in tables.items():
                names[key] = rows if isinstance(rows, str) else f"read_{key}"
                if isinstance(rows, _Batches):
                    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.read())
                    self._database.register(names[key], reader)
            yield names
        finally:
            for key, rows in tables.items():
                if isinstance(rows, _Batches) and key in names:
                    self._database.unregister(names[key])

    def folder(self, path: str) -> LocalFolder:
        from journalfs.pipeline.folders import LocalFolder  # noqa: PLC0415 - as above

        return LocalFolder(local_path(path))


def _of_protocol(source: Source, schema: StructType, protocol: str) -> Iterator[Any]:
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    for batch in source.batches(schema):
        yield batch.filter(pc.fill_null(pc.equal(batch.column("protocol"), protocol), False))


@contextmanager
def started(
    kind: str, master: str | None, settings: Mapping[str, str], *, title: str
) -> Iterator[LocalEngine | SparkEngine]:
    """The engine of that kind, for as long as it is needed. Raises what `session` raises, and
    `DependencyMissing`.
    """
    if kind == SPARK:
        with session(master, settings, title=title) as spark:
            yield SparkEngine(spark)
        return
    with quiet():
        yield LocalEngine()


def chosen(
    engine: str, *, paths: Iterable[str | None], master: str | None, settings: Mapping[str, str]
) -> str:
    """Return `LOCAL` or `SPARK`. Left to itself it is the local one where all paths are on this machine,
    nobody asked anything of Spark, and DuckDB is there. Raises `WrongCall` where `LOCAL` cannot be.
    """
    elsewhere = [path for path in paths if path is not None and is_elsewhere(path)]
    if engine == LOCAL:
        if elsewhere:
            raise WrongCall(f"--engine local: only Hadoop gets to {elsewhere[0]}; leave --engine out")
        if master is not None or settings:
            raise WrongCall("--engine local: --master and --conf are Spark's; leave one or the other out")
        return LOCAL
    if engine == SPARK or elsewhere or master is not None or settings:
        return SPARK
    from importlib.util import find_spec  # noqa: PLC0415 - as above

    return LOCAL if find_spec("duckdb") is not None else SPARK
