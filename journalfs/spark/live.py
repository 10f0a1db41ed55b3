"""The live set of a store as DataFrames, for stores that no machine holds.

What each record does is what docs/format/records.md says; the rules stand beside the joins that follow them.
Only small facts are shuffled until it is known what is live; then the records of messages are read once more.
Nothing is collected, and every join and aggregate may spill.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from journalfs.clock import SystemClock
from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER
from journalfs.errors import StaleView
from journalfs.spark.decode import decode_messages
from journalfs.spark.options import DEFAULT_BATCH_BYTES, Options
from journalfs.spark.place import database_of
from journalfs.spark.record_files import MARK, PAGES, RECORDS, decoded
from journalfs.spark.schema import check_schema, usual_schema
from journalfs.spark.source import BatchReader
from journalfs.spark.storage import Files, files_of
from journalfs.spark.told import tell_losses_at

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SLIM: Final = StructType(
    [
        *(one for one in RECORDS.fields if one.name not in ("compactCount", "inDamage", "bytes", "body")),
        MARK,
    ]
)
SLIM_PAGES: Final = StructType([*(one for one in PAGES.fields if one.name != "body"), MARK])

ADDS: Final = ("ADD", "ADD_TX")
UPDATES: Final = ("UPDATE", "UPDATE_TX")
DELETES: Final = ("DELETE", "DELETE_TX")
IN_TX: Final = ("ADD_TX", "UPDATE_TX", "DELETE_TX")
ENDS: Final = ("PREPARE", "COMMIT", "ROLLBACK")

LARGE, REF, ACK, DELIVERIES, PAGE_TX, SCHEDULE, CURSOR, PAGE_DONE, MESSAGE = (
    30, 32, 33, 34, 35, 36, 39, 42, 45,
)  # fmt: skip
ROW: Final = ("id", "queueId", "deliveryCount", "scheduledMs", "isPaged", "source", "body")

WITH_NUMBERS: Final = (REF, ACK, DELIVERIES, PAGE_TX, SCHEDULE, CURSOR, PAGE_DONE)
"""User types whose records say nothing when they are too short for their numbers."""


@dataclass(frozen=True)
class Effects:
    """What records do once transactions are decided. `at` orders them; those that `waits` are of transactions
    that are prepared and wait for a decision.
    """

    facts: DataFrame

    @property
    def done(self) -> DataFrame:
        return self.facts.filter(~f.col("waits"))

    @property
    def prepared(self) -> DataFrame:
        return self.facts.filter("waits")


def effects(slim: DataFrame) -> Effects:
    """Records that count, each with the moment at which it takes effect.

    A transaction's records take effect at its COMMIT, adds and updates in their order, then the deletes. It
    counts only if as many of its records as the COMMIT names are in the same file; so it is with PREPARE.
    """
    facts = slim.withColumn("place", f.struct("fileId", "fresh", "file", "offset"))
    alone = facts.filter(~f.col("kind").isin(*IN_TX, *ENDS, "EVENT")).withColumns(
        {
            "at": f.struct("place", f.lit(False).alias("last"), f.col("place").alias("own")),
            "waits": f.lit(False),
        }
    )
    last = f.col("kind").isin(*DELETES)
    inside = _decided(facts).withColumns(
        {
            "at": f.struct(
                f.col("committed").alias("place"), last.alias("last"), f.col("place").alias("own")
            ),
            "waits": f.col("committed").isNull(),
        }
    )
    columns = [one for one in alone.columns if one != "tx"]
    says = ~f.col("userType").isin(*WITH_NUMBERS) | f.col("a").isNotNull()
    together = alone.select(*columns).unionByName(inside.select(*columns))
    return Effects(together.filter(f.col("userType").isNull() | says))


def _decided(facts: DataFrame) -> DataFrame:
    """Records of transactions that were committed, with the place of the COMMIT, or that are prepared.

    They meet their transaction's end in one exchange: all that belongs to it is looked at together.
    """
    together = facts.filter(f.col("kind").isin(*IN_TX, *ENDS)).repartition("tx")
    of_file, of_all = Window.partitionBy("tx", "file"), Window.partitionBy("tx")
    kind = f.col("kind")
    whole = f.col("found") == f.col("count")
    return (
        together.withColumn("found", f.count(f.when(kind.isin(*IN_TX), True)).over(of_file))
        .withColumns(
            {
                "committed": f.max(f.when((kind == "COMMIT") & whole, f.col("place"))).over(of_all),
                "decided": f.max(kind.isin("COMMIT", "ROLLBACK")).over(of_all),
                "prepared": f.min(f.when(kind == "PREPARE", whole)).over(of_all),
            }
        )
        .filter(kind.isin(*IN_TX))
        .filter(f.col("committed").isNotNull() | (f.col("prepared") & ~f.col("decided")))
    )


def _is(*user_types: int) -> Column:
    return f.col("userType").isin(*user_types)


def by_id(effects: Effects) -> DataFrame:
    """What is said of each id that is not deleted, and what waits, together after one exchange.

    Beside each fact stands the message of that id, if it is one, as `since` and as `record`, the place of the
    record that counts: the last, where compaction copied one. A delete counts wherever it stands, for
    compaction moves records.
    """
    counts = ~f.col("waits")
    message = counts & f.col("kind").isin(*ADDS, *UPDATES) & _is(LARGE, MESSAGE)
    of_id = Window.partitionBy("id")
    place = f.struct("at", "file", "offset", "userType", "mark")
    said = effects.facts.select(
        "id", "kind", "userType", "a", "b", "c", "file", "offset", "mark", "at", "waits"
    )
    return (
        said.repartition("id")
        .withColumns(
            {
                "since": f.min(f.when(message, f.col("at"))).over(of_id),
                "record": f.max(f.when(message, place)).over(of_id),
                "gone": f.max(counts & f.col("kind").isin(*DELETES)).over(of_id),
            }
        )
        .filter(~f.col("gone") | f.col("waits"))
        .drop("gone", "file", "offset", "mark")
    )


def references(facts: DataFrame) -> DataFrame:
    """Messages in queues, of what is said `by_id`: referred to, and not acknowledged since. A prepared
    acknowledgement hides one.
    """
    counts = ~f.col("waits")
    about = facts.filter(_is(REF, ACK, DELIVERIES, SCHEDULE) & f.col("kind").isin(*ADDS, *UPDATES))
    about = about.filter(f.col("since").isNotNull() & (f.col("waits") | (f.col("at") > f.col("since"))))

    def last(user_type: int, *values: str) -> Column:
        return f.max(f.when(counts & _is(user_type), f.struct("at", *values)))

    found = about.groupBy("id", f.col("a").alias("queueId")).agg(
        last(REF).getField("at").alias("referred"),
        last(ACK).getField("at").alias("acknowledged"),
        last(DELIVERIES, "b").alias("deliveries"),
        last(SCHEDULE, "b").alias("schedule"),
        f.max(f.col("waits") & _is(ACK)).alias("held"),
        f.first("record").alias("record"),
    )
    later = f.col("acknowledged").isNull() | (f.col("referred") > f.col("acknowledged"))
    return found.filter(f.col("referred").isNotNull() & later & ~f.col("held")).select(
        "id",
        "queueId",
        "record.file",
        "record.offset",
        "record.userType",
        "record.mark",
        f.when(f.col("deliveries.at") > f.col("referred"), f.col("deliveries.b")).alias("deliveryCount"),
        f.when(f.col("schedule.at") > f.col("referred"), f.col("schedule.b")).alias("scheduledMs"),
    )


def paged(facts: DataFrame, pages: DataFrame) -> DataFrame:
    """Records of pages that are live for a queue: not consumed, their page not completed, and their page
    transaction, if any, committed and not used up. `facts` wait, or are of ids that are not deleted.
    """
    adds, done = f.col("kind").isin(*ADDS), ~f.col("waits")
    key = [f.col("a").alias("queueId"), f.col("b").alias("page")]
    # Prepared ones are consumed as well: they are hidden until it is decided.
    consumed = facts.filter(_is(CURSOR) & adds).select(*key, f.col("c").cast("int").alias("number"))
    complete = facts.filter(done & _is(PAGE_DONE) & adds).select(*key)
    counts = (
        facts.filter(done & _is(PAGE_TX) & f.col("kind").isin(*ADDS, *UPDATES))
        .groupBy("id")
        .agg(
            f.max(f.when(adds, f.col("a"))).alias("tx"),
            f.sum(f.when(adds, f.col("b")).otherwise(-f.col("b"))).alias("left"),
        )
        .filter(f.col("left") > 0)
        .select("tx")
    )
    outside = pages.filter(f.col("tx") <= 0)
    inside = pages.filter(f.col("tx") > 0).join(counts, "tx", "left_semi").select(*pages.columns)
    rows = outside.unionByName(inside).withColumn("queueId", f.explode("queues")).drop("queues")
    return (
        rows.join(complete, ["queueId", "page"], "left_anti")
        .join(consumed, ["queueId", "page", "number"], "left_anti")
        .select("queueId", "file", "offset", "mark", "id", "source")
    )


def with_journal_payloads(spark: SparkSession, paths: Sequence[str], rows: DataFrame) -> DataFrame:
    """Rows of places in the journal (`file`, `offset`, `mark`) with the bytes of the messages there."""
    wanted = StructType([RECORDS[name] for name in ("file", "offset", "kind", "userType", "body")]).add(MARK)
    found = decoded(spark, list(paths), wanted).filter(f.col("userType").isin(LARGE, MESSAGE))
    return _as_seen(rows, found.filter(f.col("kind").isin(*ADDS, *UPDATES)))


def with_page_payloads(spark: SparkSession, paths: Sequence[str], rows: DataFrame) -> DataFrame:
    """The same of places in pages."""
    wanted = StructType([PAGES[name] for name in ("file", "page", "offset", "body")]).add(MARK)
    return _as_seen(rows, decoded(spark, list(paths), wanted))


def _as_seen(rows: DataFrame, payloads: DataFrame) -> DataFrame:
    """Rows with the bytes at their places. The job fails with `StaleView` where the second read of a file
    finds another record there than the first, or none: without that, rows would be left out, or have the
    bodies of others.
    """
    found = payloads.select("file", "offset", "body", f.col("mark").alias("now"))
    changed = f.concat(
        f.lit(f"{StaleView.__module__}.{StaleView.__qualname__}: "),
        f.col("file"),
        f.lit(": changed since it was listed: the message at byte "),
        f.col("offset"),
        f.lit(" is not there; look again"),
    )
    same = f.col("now").eqNullSafe(f.col("mark"))
    body = f.when(same, f.col("body")).otherwise(f.raise_error(changed).cast("binary"))
    return rows.join(found, ["file", "offset"], "left").withColumn("body", body).drop("now", "mark")


def live_messages(
    spark: SparkSession,
    path: str,
    *,
    schema: StructType | None = None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
) -> DataFrame:
    """The live messages of a store at any path that Spark reads, one row for each queue that one is in.

    Columns are those of `format("journalfs")`. What the store lacks is logged as a warning. Raises
    `NotAStore` and `WrongCall`. Each action reads bodies anew: it fails with `StaleView` where files are no
    longer what the first one saw.
    """
    schema = schema or usual_schema()
    check_schema(schema)
    if database_of(path) is not None:
        return _of_tables(spark, BatchReader(Options(path, batch_bytes=batch_bytes), schema))
    files = files_of(spark, path)
    tell_losses_at(path, bindings_whole=files.bindings_whole)
    # Looked at twice, by records of transactions and by others: decoded once, and kept in memory or on disk,
    # whatever there is room in.
    slim = kept(decoded(spark, list(files.journal), SLIM))
    facts = by_id(effects(slim))
    if files.pages:
        facts.persist(StorageLevel.MEMORY_AND_DISK)
    rows = _of_journal(spark, files, references(facts))
    if files.pages:
        found = paged(facts, kept(decoded(spark, list(files.pages), SLIM_PAGES)))
        rows = rows.unionByName(_of_pages(spark, files, found))
    decode = partial(decode_messages, schema, batch_bytes, SystemClock().now_ms())
    return _with_bodies(spark, files, _named(spark, files, rows)).mapInArrow(decode, schema)


def _of_tables(spark: SparkSession, reader: BatchReader) -> DataFrame:
    """Tables say themselves what is live, and each task finds that for a range."""
    found = reader.partitions()

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reader.read(found[number])

    return spark.range(0, len(found), 1, max(len(found), 1)).mapInArrow(read, reader.schema)


def kept(frame: DataFrame) -> DataFrame:
    """The frame, in memory or on disk from its first use on. Spark takes frames of the same files for the
    same, and would give what it kept of them before they changed: so each has a name of its own in it.
    """
    return frame.filter(f.lit(uuid.uuid4().hex) != "").persist(StorageLevel.MEMORY_AND_DISK)


def _of_journal(spark: SparkSession, files: Files, refs: DataFrame) -> DataFrame:
    placed = refs.withColumn(
        "source", f.when(f.col("userType") == LARGE, SOURCE_CORE_LARGE).otherwise(SOURCE_PERSISTER)
    )
    rows = with_journal_payloads(spark, files.journal, placed)
    return rows.withColumn("isPaged", f.lit(False)).select(*ROW)


def _of_pages(spark: SparkSession, files: Files, found: DataFrame) -> DataFrame:
    rows = with_page_payloads(spark, files.pages, found)
    none = f.lit(None).cast("long")
    rows = rows.withColumn("deliveryCount", none).withColumn("scheduledMs", none)
    return rows.withColumn("isPaged", f.lit(True)).select(*ROW)


def _named(spark: SparkSession, files: Files, rows: DataFrame) -> DataFrame:
    """References to queues that no binding names are remains of deleted ones, unless bindings are lost."""
    names = spark.createDataFrame(list(files.queues.items()), "queueId long, queue string")
    if files.bindings_whole:
        return rows.join(f.broadcast(names), "queueId")
    unnamed = f.concat(f.lit("queue-"), f.col("queueId"))
    return rows.join(f.broadcast(names), "queueId", "left").withColumn("queue", f.coalesce("queue", unnamed))


def _with_bodies(spark: SparkSession, files: Files, rows: DataFrame) -> DataFrame:
    """The bodies of large messages, from the files that are named after them."""
    if not files.large:
        return rows.withColumn("large", f.lit(None).cast("binary"))
    bodies = spark.read.format("binaryFile").load(list(files.large))
    named = f.regexp_extract("path", r"([0-9]+)\.msg$", 1).cast("long")
    return rows.join(bodies.select(named.alias("id"), f.col("content").alias("large")), "id", "left")
