"""The audit: the life of each message as far as the files of a journal and its pages tell it.

A journal has no clock: it says in which order things happened, not when. What was compacted or used again is
gone, so the beginning of an old life may be missing; what the store keeps of that, in the retention directory
that its configuration names, is read too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as f

from journalfs.clock import SystemClock
from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER
from journalfs.format.core_message import ACTUAL_EXPIRY, ORIGINAL_MESSAGE_ID, ORIGINAL_QUEUE
from journalfs.pipeline.notes import decoded_with_notes
from journalfs.pipeline.report import Table, bars, write_report
from journalfs.pipeline.times import moment
from journalfs.spark import live
from journalfs.spark.record_files import decoded
from journalfs.spark.schema import struct
from journalfs.spark.storage import Files, files_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from journalfs.pipeline.folders import Folder
    from journalfs.pipeline.messages import Source

HEADERS: Final = struct(
    "id long, address string, timestamp long, expiration long, userId string, duplicateId string, "
    f"{ORIGINAL_MESSAGE_ID} long, {ORIGINAL_QUEUE} string, {ACTUAL_EXPIRY} long"
)
"""What an audit reads of a message."""

FINDINGS_SHOWN: Final = 200
_RECORD: Final = ("at", "file", "offset", "userType", "mark")

WAITING: Final = "waiting"
HELD: Final = "held"
ACKNOWLEDGED: Final = "acknowledged"
EXPIRED: Final = "expired"
MOVED: Final = "moved"
REMOVED: Final = "removed"
"""States of a message in a queue."""


@dataclass(frozen=True, slots=True)
class _Facts:
    slim: DataFrame
    effects: live.Effects
    known: DataFrame
    gone: DataFrame


@dataclass(frozen=True, slots=True)
class Audit:
    """Two tables, kept until `close`."""

    lives: DataFrame
    """A row for each message in each queue: `id`, `queueId`, `queue` (null: it is gone), `state`, `paged`,
    `published` and `ended` (file and offset of the record that did it; null: no longer there), `deliveries`,
    `movedTo` (the id under which it went on), and of the message itself what `HEADERS` has.
    """
    findings: DataFrame
    """What is odd: `finding`, `id`, `queue`, `detail`."""
    kept: Sequence[DataFrame]

    def close(self) -> None:
        for one in self.kept:
            one.unpersist()


def audit(spark: SparkSession, source: Source) -> Audit:
    """Raises `NotAStore`."""
    path = source.path if source.is_elsewhere else str(source.place().store)
    files = files_of(spark, path, history=True)
    slim = live.kept(decoded(spark, list(files.journal), live.SLIM))
    # Nearly everything below asks for these.
    effects = live.Effects(live.effects(slim).facts.persist(StorageLevel.MEMORY_AND_DISK))
    facts = _Facts(slim, effects, _messages(effects.done), _deleted(effects.done))
    lives, payloads = _in_queues(facts), _journal_messages(spark, files, facts.known)
    if files.pages:
        pages = decoded(spark, list(files.pages), live.SLIM_PAGES)
        lives = lives.unionByName(_in_pages(facts, pages))
        payloads = payloads.unionByName(_page_messages(spark, files, pages))
    headers = _headers(payloads).persist(StorageLevel.MEMORY_AND_DISK)
    whole = _told(spark, files, lives, headers).persist(StorageLevel.MEMORY_AND_DISK)
    findings = _findings(facts, whole, headers).persist(StorageLevel.MEMORY_AND_DISK)
    return Audit(whole, findings, (slim, effects.facts, headers, whole, findings))


def _deleted(done: DataFrame) -> DataFrame:
    """Ids of deleted records. A delete counts wherever it stands: compaction moves records."""
    return done.filter(f.col("kind").isin(*live.DELETES)).select("id").distinct()


def _messages(done: DataFrame) -> DataFrame:
    """Every message whose record is there, consumed or not: where it was published and where it lies."""
    added = done.filter(f.col("kind").isin(*live.ADDS, *live.UPDATES) & _is(live.LARGE, live.MESSAGE))
    return (
        added.groupBy("id")
        .agg(f.min("at").alias("since"), f.max(f.struct(*_RECORD)).alias("record"))
        .select("id", "since", *(f"record.{name}" for name in _RECORD[1:]))
    )


def _in_queues(facts: _Facts) -> DataFrame:
    """What the journal says of each message in each queue."""
    about = facts.effects.done.filter(
        _is(live.REF, live.ACK, live.DELIVERIES) & f.col("kind").isin(*live.ADDS, *live.UPDATES)
    )
    found = about.groupBy("id", f.col("a").alias("queueId")).agg(
        f.max(f.when(_is(live.REF), f.col("at"))).alias("referred"),
        f.max(f.when(_is(live.ACK), f.col("at"))).alias("acknowledged"),
        f.max(f.when(_is(live.DELIVERIES), f.struct("at", "b"))).getField("b").alias("deliveries"),
    )
    # A message that is moved as it is gets its new queue and leaves the old one in one transaction.
    got = about.filter(_is(live.REF)).groupBy("id").agg(f.collect_set("at.place").alias("got"))
    prepared = facts.effects.prepared.filter(_is(live.ACK))
    held = prepared.select("id", f.col("a").alias("queueId")).distinct()
    joined = (
        found.join(got, "id", "left")
        .join(held.withColumn("held", f.lit(True)), ["id", "queueId"], "left")
        .join(facts.known.select("id", "since"), "id", "left")
        .join(facts.gone.withColumn("deleted", f.lit(True)), "id", "left")
    )
    left = f.col("acknowledged").isNotNull() & (
        f.col("referred").isNull() | (f.col("acknowledged") > f.col("referred"))
    )
    moved = f.coalesce(f.array_contains("got", f.col("acknowledged.place")), f.lit(False))
    state = (
        f.when(left & moved, MOVED)
        .when(left, ACKNOWLEDGED)
        .when(f.col("deleted"), REMOVED)
        .when(f.col("held"), HELD)
        .otherwise(WAITING)
    )
    return joined.select(
        "id",
        "queueId",
        state.alias("state"),
        f.lit(False).alias("paged"),
        _place("since.own").alias("published"),
        f.when(left, _place("acknowledged.own")).alias("ended"),
        f.coalesce("deliveries", f.lit(0)).alias("deliveries"),
        f.col("since").isNotNull().alias("isThere"),
        f.col("referred").isNotNull().alias("wasThere"),
    )


def _in_pages(facts: _Facts, pages: DataFrame) -> DataFrame:
    """What journal and pages say of messages that were paged: those whose page is there."""
    done, prepared = facts.effects.done, facts.effects.prepared
    side = done.filter(f.col("kind").isin(*live.ADDS)).join(facts.gone, "id", "left_anti")
    key = [f.col("a").alias("queueId"), f.col("b").alias("page"), f.col("c").cast("int").alias("number")]
    consumed = side.filter(_is(live.CURSOR)).groupBy(*key).agg(f.max("at").alias("consumed"))
    held = prepared.filter(_is(live.CURSOR) & f.col("kind").isin(*live.ADDS)).select(*key).distinct()
    complete = (
        side.filter(_is(live.PAGE_DONE)).select(*key[:2]).distinct().withColumn("complete", f.lit(True))
    )
    there = live.paged(done.join(facts.gone, "id", "left_anti").unionByName(prepared), pages)
    waiting = there.select("id", "queueId").withColumn("live", f.lit(True))
    rows = pages.withColumn("queueId", f.explode("queues"))
    joined = (
        rows.join(consumed, ["queueId", "page", "number"], "left")
        .join(held.withColumn("held", f.lit(True)), ["queueId", "page", "number"], "left")
        .join(complete, ["queueId", "page"], "left")
        .join(waiting, ["id", "queueId"], "left")
    )
    ended = f.col("consumed").isNotNull() | f.coalesce("complete", f.lit(False))
    state = f.when(ended, ACKNOWLEDGED).when(f.col("held"), HELD).when(f.col("live"), WAITING)
    return joined.select(
        "id",
        "queueId",
        state.otherwise(REMOVED).alias("state"),
        f.lit(True).alias("paged"),
        f.struct(f.col("file"), f.col("offset")).alias("published"),
        _place("consumed.own").alias("ended"),
        f.lit(0).cast("long").alias("deliveries"),
        f.lit(True).alias("isThere"),
        f.lit(True).alias("wasThere"),
    )


def _journal_messages(spark: SparkSession, files: Files, known: DataFrame) -> DataFrame:
    source = f.when(_is(live.LARGE), SOURCE_CORE_LARGE).otherwise(SOURCE_PERSISTER).alias("source")
    rows = live.with_journal_payloads(spark, files.journal, known)
    return rows.select("id", source, "body")


def _page_messages(spark: SparkSession, files: Files, pages: DataFrame) -> DataFrame:
    places = pages.select("file", "offset", "mark", "source")
    rows = live.with_page_payloads(spark, files.pages, places)
    return rows.select(f.lit(0).cast("long").alias("id"), "source", "body")


def _headers(payloads: DataFrame) -> DataFrame:
    """What messages say of themselves, by id. Bodies are not looked at."""
    rows = payloads.select(
        "id",
        f.lit("").alias("queue"),
        f.lit(0).cast("long").alias("deliveryCount"),
        f.lit(0).cast("long").alias("scheduledMs"),
        f.lit(False).alias("isPaged"),
        "source",
        "body",
        f.lit(None).cast("binary").alias("large"),
    )
    found = decoded_with_notes(rows, HEADERS, SystemClock().now_ms())
    return found.filter("id is not null").dropDuplicates(["id"])


def _told(spark: SparkSession, files: Files, lives: DataFrame, headers: DataFrame) -> DataFrame:
    """Lives with the names of queues, what the messages say, and where copies of them went."""
    names = spark.createDataFrame(list(files.queues.items()), "queueId long, queue string")
    copies = headers.filter(f.col(ORIGINAL_MESSAGE_ID).isNotNull())
    went = copies.groupBy(f.col(ORIGINAL_MESSAGE_ID).alias("id"), f.col(ORIGINAL_QUEUE).alias("queue")).agg(
        f.max("id").alias("movedTo"), f.max(f.col(ACTUAL_EXPIRY).isNotNull()).alias("expired")
    )
    rows = lives.join(f.broadcast(names), "queueId", "left").join(headers, "id", "left")
    rows = rows.join(went, ["id", "queue"], "left")
    left = f.col("state") == ACKNOWLEDGED
    state = f.when(left & f.col("expired"), EXPIRED).when(left & f.col("movedTo").isNotNull(), MOVED)
    return rows.withColumn("state", state.otherwise(f.col("state"))).drop("expired")


def _findings(facts: _Facts, lives: DataFrame, headers: DataFrame) -> DataFrame:
    gone = "its record is no longer in the files: compacted, or used again"
    found = [
        _duplicates(headers),
        _odd(lives.filter(~f.col("isThere")), "unpublished", gone),
        _odd(lives.filter(~f.col("wasThere")), "unrouted", "its way into the queue is not in the files"),
        *_without_queue(facts, lives),
        missing_files(facts.slim),
    ]
    return reduce(lambda one, other: one.unionByName(other), found)


def _duplicates(headers: DataFrame) -> DataFrame:
    """Messages that one address took although they have one duplicate id. Copies are no such."""
    stated = headers.filter(f.col(ORIGINAL_MESSAGE_ID).isNull() & f.col("duplicateId").isNotNull())
    grouped = stated.groupBy("address", "duplicateId").agg(f.sort_array(f.collect_list("id")).alias("ids"))
    twice = grouped.filter(f.size("ids") > 1)
    detail = f.format_string("at %s with id %s: messages %s", "address", "duplicateId", f.to_json("ids"))
    return twice.select(
        f.lit("duplicate").alias("finding"),
        f.array_min("ids").alias("id"),
        f.lit(None).cast("string").alias("queue"),
        detail.alias("detail"),
    )


def _without_queue(facts: _Facts, lives: DataFrame) -> Iterator[DataFrame]:
    """Messages that came to no queue: since nothing was bound, or their transaction did not commit."""
    known, ids = facts.known.select("id"), lives.select("id").distinct()
    alone = known.join(ids, "id", "left_anti").join(facts.gone, "id", "left_anti")
    yield _odd(alone, "queueless", "published, but to no queue")
    message = _is(live.LARGE, live.MESSAGE)
    begun = facts.slim.filter((f.col("kind") == "ADD_TX") & message).select("id").distinct()
    waiting = facts.effects.prepared.filter((f.col("kind") == "ADD_TX") & message).select("id").distinct()
    yield _odd(waiting, "prepared", "its transaction waits for a decision")
    undone = begun.join(known, "id", "left_anti").join(waiting, "id", "left_anti")
    yield _odd(undone, "uncommitted", "its transaction was rolled back, or never ended")


def missing_files(slim: DataFrame) -> DataFrame:
    """Gaps in the ids of files. Each file that is begun takes the next one, also when it is used again."""
    ids = slim.select("fileId").distinct()
    before = f.lag("fileId").over(Window.orderBy("fileId"))
    gaps = ids.withColumn("before", before).filter(f.col("fileId") - f.col("before") > 1)
    detail = f.format_string("no records of the files %d to %d", f.col("before") + 1, f.col("fileId") - 1)
    none = f.lit(None)
    return gaps.select(
        f.lit("gap").alias("finding"),
        none.cast("long").alias("id"),
        none.cast("string").alias("queue"),
        detail.alias("detail"),
    )


def _odd(rows: DataFrame, finding: str, detail: str) -> DataFrame:
    queue = f.col("queue") if "queue" in rows.columns else f.lit(None).cast("string").alias("queue")
    return rows.select(f.lit(finding).alias("finding"), "id", queue, f.lit(detail).alias("detail"))


def _is(*user_types: int) -> Column:
    return f.col("userType").isin(*user_types)


def _place(record: str) -> Column:
    return f.struct(f.col(f"{record}.file").alias("file"), f.col(f"{record}.offset").alias("offset"))


# ---- for people ----


def summary(found: Audit) -> list[dict[str, object]]:
    """How many messages of each queue are in each state (`kind` is `state`), and how many findings of each
    sort there are (`finding`).
    """
    states = found.lives.groupBy("queue", f.col("state").alias("what")).agg(f.count("*").alias("messages"))
    odd = found.findings.groupBy("queue", f.col("finding").alias("what")).agg(f.count("*").alias("messages"))
    return [
        {"kind": kind, **row.asDict()}
        for kind, frame in (("state", states), ("finding", odd))
        for row in frame.orderBy("queue", "what").collect()
    ]


def report(
    found: Audit, counted: Sequence[Mapping[str, object]], source: Source, folder: Folder, now_ms: int
) -> None:
    """The tables `lives` and `findings` as Parquet, and `report.html` with its plot."""
    folder.make()
    for name, frame in (("lives", found.lives), ("findings", found.findings)):
        frame.write.mode("overwrite").parquet(folder.uri(name))
    states: Counter[str] = Counter()
    for one in counted:
        if one["kind"] == "state":
            states[str(one["what"])] += int(str(one["messages"]))
    odd = [list(row) for row in found.findings.orderBy("finding", "id").limit(FINDINGS_SHOWN).collect()]
    tables = [
        Table(
            "What became of messages",
            ["queue", "state", "messages"],
            [[one["queue"], one["what"], one["messages"]] for one in counted if one["kind"] == "state"],
        ),
        Table("What is odd", found.findings.columns, odd, f"The first {FINDINGS_SHOWN}; findings has all."),
    ]
    facts = {**source.facts(), "as of (UTC)": moment(now_ms), "messages in queues": states.total()}
    plots = [bars("states", "Messages by state", dict(states), "messages")]
    write_report(folder, "The life of messages", facts, tables, plots)
