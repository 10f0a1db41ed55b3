"""Replay: messages of an archive back into an address or a queue, each of them once.

What was published is noted beside the archive, a batch at a time:

    ARCHIVE/_replays/NAME/batch-000001.jsonl     published, for good
    ARCHIVE/_replays/NAME/pending-*.jsonl        is being published, or was when the replay ended
    ARCHIVE/_replays/NAME/target.json            where to

Of two calls at a time under one name, the one whose pending batch the other took care of, or that finds a
batch of the other's, ends and is to be repeated: no call moves a note that is not its own.

A batch is one transaction: all of it or nothing. Each of its messages carries a duplicate id that is made of
the replay's name and the archived message, so a batch that was being published is published again, and the
store takes none of it twice, as long as it remembers the ids: the last `id-cache-size` of an address, which a
batch never exceeds.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from journalfs.change.address_rules import AddressRules
from journalfs.change.duplicates import DuplicateIds
from journalfs.config.layout import locate_store
from journalfs.errors import NoRoute, StoreBusy, SystemFailure, WrongCall
from journalfs.format.core_message import DUPLICATE_ID
from journalfs.pipeline.archive import archived
from journalfs.pipeline.folders import TAKEN
from journalfs.pipeline.session import in_one_line
from journalfs.spark.changing import require_route
from journalfs.spark.options import Options
from journalfs.spark.place import place_of, require_store
from journalfs.spark.schema import struct
from journalfs.spark.storage import literal
from journalfs.spark.writer import target_of
from journalfs.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from journalfs.pipeline.folders import Folder


# Envelope lines with another duplicate id: what a replay publishes.


def with_duplicate_id(line: str, duplicate_id: str) -> str:
    """The same message with that id in place of its own, if it had one.

    A line that is only whole with the bytes of its record stays as it is.
    """
    message: dict[str, Any] = json.loads(line)
    if "message_base64" in message:
        return line
    for key in ("duplicateId", "duplicateId_base64"):
        message.pop(key, None)
    message.setdefault("properties", {})[DUPLICATE_ID] = duplicate_id
    message.get("propertyTypes", {}).pop(DUPLICATE_ID, None)
    if "amqp" in message:
        name = {"t": "string", "v": DUPLICATE_ID}
        amqp: dict[str, Any] = message["amqp"]
        pairs = [pair for pair in amqp.get("applicationProperties", ()) if pair[0]["v"] != DUPLICATE_ID]
        amqp["applicationProperties"] = [*pairs, [name, {"t": "string", "v": duplicate_id}]]
    elif message.get("protocol") == "CORE":
        message["duplicateId"] = duplicate_id
    # What is escaped in the line stays escaped: halves of characters are no text.
    return json.dumps(message, separators=(",", ":"))


def lines_with_ids(batches: Iterable[Any]) -> Iterator[Any]:
    """From record batches of `envelope` and `duplicateId` to such of lines, in a task of Spark. Of rows with
    one id it takes the first.
    """
    import pyarrow as pa  # noqa: PLC0415 - where the task runs

    seen = set[str]()
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("envelope", "duplicateId"))
        lines = []
        for line, own in zip(*columns, strict=True):
            if own not in seen:
                seen.add(own)
                lines.append(with_duplicate_id(line, own))
        yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["envelope"])


BATCH_MESSAGES: Final = 10_000
"""In one transaction: half of what an address remembers unless it is told otherwise."""
PENDING: Final = "pending"
"""What begins the name of a batch's note until it is published. Each has a name of its own."""
BATCH: Final = "batch-"
TARGET: Final = "target.json"
KEY_SCHEMA: Final = struct("run integer, queue string, id long, sent long, userId string, duplicateId string")

Progress = Callable[[int], None]
"""Told of how many messages were published so far."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages go to: a path, and unless that is in a mount an address or a queue."""

    path: str
    to: str | None = None

    def options(self) -> dict[str, str]:
        return {"path": self.path, **({"queues": self.to} if self.to is not None else {})}

    def meant(self) -> dict[str, str | None]:
        """The store (a directory or a database), the address and the queue, however a path leads there."""
        where = target_of(Options.of(self.options()), "")
        database = require_store(where.store)
        store = locate_store(where.store).root.resolve() if database is None else database.shown
        return {"store": str(store), "address": where.address, "queue": where.queue}

    def require_route(self) -> None:
        """Raises `NoSuchName` and `NoRoute` where messages would come to no queue."""
        options = Options.of(self.options())
        require_route(place_of(options.path), options.queues)


@dataclass(frozen=True, slots=True)
class Replayed:
    published: int
    """By this call."""
    before: int
    """By earlier ones: noted, or known by the store, which therefore did not take them again."""
    damaged: int
    """Left out: nobody could read them when they were archived."""


def _remembered(target: Target) -> tuple[frozenset[bytes], int]:
    """The duplicate ids that the store knows for the address, and how many it keeps."""
    where = target_of(Options.of(target.options()), "")
    store = open_store(where.store)
    try:
        ids = DuplicateIds(store.core, AddressRules(store.core))
        return frozenset(ids.ids(where.address)), ids.size(where.address)
    finally:
        store.close()


def replay(
    spark: SparkSession,
    archive: Folder,
    notes: Folder,
    target: Target,
    *,
    name: str,
    only: str | None = None,
    batch_messages: int = BATCH_MESSAGES,
    progress: Progress = lambda published: None,
) -> Replayed:
    """Publish what `name` has not published yet, in the order of the runs and of the ids.

    `only` is a condition on the columns of the archive, in SQL. Raises `NotAStore`, `WrongCall`,
    `NoSuchName`, `NoRoute`, and whatever refuses the messages.
    """
    all_rows = archived(spark, archive)
    whole = all_rows.filter("damage is null")
    rows = all_rows.filter(only) if only else all_rows
    target.require_route()
    notes.make()
    _require_target(notes, target)
    known, size = _remembered(target)
    batch_messages = min(batch_messages, size) or batch_messages
    for unfinished in _begun(notes, f"_{PENDING}"):
        notes.remove(unfinished)
    done = _begun(notes, BATCH)
    noted = _noted(spark, notes, done)
    published, before = 0, noted.count()

    def publish(pending: str, keys: Sequence[dict[str, Any]]) -> None:
        nonlocal published, before
        # The keys say what it is: what was chosen may be chosen otherwise by now, as by a clock.
        _publish(spark, whole, keys, target, notes, pending=pending)
        done.append(_batch_name(notes))
        notes.commit(pending, done[-1])
        came = sum(key["duplicateId"].encode("utf-16-le") in known for key in keys)
        published, before = published + len(keys) - came, before + came
        progress(published)

    for pending in _begun(notes, PENDING):
        publish(pending, list(map(json.loads, notes.read(pending).splitlines())))
        noted = _noted(spark, notes, done)
    for keys in _batches(_keys(rows.filter("damage is null"), name), noted, batch_messages):
        publish(_note(notes, keys, done), keys)
    return Replayed(published, before, rows.filter("damage is not null").count())


def usual_name(target: Target) -> str:
    """The same for the same target, so that whoever repeats a command repeats the replay."""
    text = "\n".join(said or "" for said in target.meant().values())
    return hashlib.md5(text.encode("utf-8", "surrogateescape")).hexdigest()


def _require_target(notes: Folder, target: Target) -> None:
    """Note where this replay publishes. Raises `WrongCall` if that is elsewhere than it did before."""
    meant = target.meant()
    if TARGET not in notes.names():
        notes.write(f"_{TARGET}", json.dumps(meant).encode() + b"\n")
        notes.commit(f"_{TARGET}", TARGET)
        return
    before: dict[str, str | None] = json.loads(notes.read(TARGET))
    if before != meant:
        raise WrongCall(
            f"{notes.uri()}: a replay of this name published in {_in_words(before)}, not in "
            f"{_in_words(meant)}; give another --name, or remove {TARGET} there if the store was moved"
        )


def _in_words(meant: Mapping[str, str | None]) -> str:
    queue = f"::{meant['queue']}" if meant["queue"] is not None else ""
    return f"{meant['address']}{queue} of {meant['store']}"


def _keys(rows: DataFrame, name: str) -> DataFrame:
    sent = f.unix_micros("timestamp").alias("sent")
    said = [f.coalesce(f.col(one).cast("string"), f.lit("")) for one in ("queue", "id", "userId")]
    at = f.coalesce(f.unix_micros("timestamp").cast("string"), f.lit(""))
    own = f.md5(f.concat_ws("\n", f.lit(name), *said, at).cast("binary")).alias("duplicateId")
    return rows.select("run", "queue", "id", sent, "userId", own)


def _batches(keys: DataFrame, noted: DataFrame, messages: int) -> Iterator[list[dict[str, Any]]]:
    """What is left to be published, sorted once for all batches. None of them is of two runs, and no message
    is in two of them, as it may be in runs that somebody put together.
    """
    left = keys.dropDuplicates(["duplicateId"]).join(noted, "duplicateId", "left_anti")
    ordered = left.orderBy("run", "id", "queue")
    for _, of_run in groupby(ordered.toLocalIterator(), lambda row: row.run):
        while rows := list(islice(of_run, messages)):
            yield [row.asDict() for row in rows]


def _noted(spark: SparkSession, notes: Folder, done: Sequence[str]) -> DataFrame:
    paths = [literal(notes.uri(name)) for name in done]
    if not paths:
        return spark.createDataFrame([], KEY_SCHEMA)
    return spark.read.schema(KEY_SCHEMA).json(paths)


def _begun(notes: Folder, prefix: str) -> list[str]:
    return [name for name in notes.names() if name.startswith(prefix)]


def _note(notes: Folder, keys: Sequence[dict[str, Any]], done: Sequence[str]) -> str:
    """Returns the note's name. Raises `SystemFailure` if somebody else publishes under the replay's name, or
    has published: batches that are not among `done` may be the same messages.
    """
    pending = f"{PENDING}-{uuid.uuid4().hex}.jsonl"
    notes.write(f"_{pending}", "".join(f"{json.dumps(one)}\n" for one in keys).encode())
    for other in (*_begun(notes, PENDING), *_begun(notes, BATCH)):
        if other not in done:
            raise SystemFailure(f"{notes.uri(other)} {TAKEN}")
    notes.commit(f"_{pending}", pending)
    return pending


def _batch_name(notes: Folder) -> str:
    numbers = [int(name.removeprefix(BATCH).partition(".")[0]) for name in _begun(notes, BATCH)]
    return f"{BATCH}{max(numbers, default=0) + 1:06d}.jsonl"


def _publish(
    spark: SparkSession,
    rows: DataFrame,
    keys: Sequence[dict[str, Any]],
    target: Target,
    notes: Folder,
    *,
    pending: str,
) -> None:
    """One job, one transaction, of as many messages as were noted, or of none."""
    lines = _lines(spark, rows, keys)
    options = {**target.options(), "exactRows": str(len(keys))}
    try:
        with in_one_line():
            lines.write.format("journalfs").mode("append").options(**options).save()
    except (NoRoute, StoreBusy):
        notes.remove(pending)  # it is sure that nothing was published
        raise


def _lines(spark: SparkSession, rows: DataFrame, keys: Sequence[dict[str, Any]]) -> DataFrame:
    """What a batch publishes. Tasks are in the order of the ids, and so are the files they write. Rows of one
    key, as in a run that somebody put together, come to one task, which takes the first.
    """
    ids = [key["id"] for key in keys]
    # What Parquet knows of each stretch of a file lets most of an archive unread.
    near = rows.filter((f.col("run") == keys[0]["run"]) & f.col("id").between(min(ids), max(ids)))
    near = near.withColumn("sent", f.unix_micros("timestamp"))
    of_batch = [tuple(key[name] for name in KEY_SCHEMA.fieldNames()) for key in keys]
    chosen = f.broadcast(spark.createDataFrame(of_batch, KEY_SCHEMA)).alias("k")
    same = [f.col(f"r.{one}").eqNullSafe(f.col(f"k.{one}")) for one in ("queue", "id", "sent", "userId")]
    found = near.alias("r").join(chosen, same).orderBy("r.id", "r.queue")
    return found.select("r.envelope", "k.duplicateId").mapInArrow(lines_with_ids, "envelope string")
