"""The archive: messages as Parquet files by address, queue and date, each of them once.

    ARCHIVE/run=000001/address=orders/queue=billing/date=2026-03-01/part-*.parquet
    ARCHIVE/run=000001/_run.json

A run writes to a folder that no reader looks at, and one rename makes it count: killed at any point, it added
everything or nothing. What is archived already is known by what compaction and moving within a store leave as
it is: queue, id, time of sending and the client's id. So a run may be repeated, and a store may be restored
from a backup and use ids again.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from journalfs.clock import SystemClock
from journalfs.pipeline.balance import ESCAPED, NAME_BYTES_MAX, Rows
from journalfs.pipeline.folders import RUN, require_archive, runs
from journalfs.spark.schema import ASKED_FOR_ONLY, COLUMNS, struct, usual_schema
from journalfs.spark.storage import literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from journalfs.clock import Clock
    from journalfs.pipeline.folders import Folder
    from journalfs.pipeline.messages import Source

BODIES: Final = ("body", "bodyBytes")
PLACES: Final = ("address", "queue", "date")
"""What the folders of a run are named after."""
KEY: Final = ("queue", "id", "timestamp", "userId", "unread")
"""What makes a message the same one. `unread` stands for those whose id cannot be read."""

_DAY_US: Final = 86_400_000_000
_LAST_DAY: Final = 2_932_896
"""31 December 9999: what comes later is no date to other programs."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run added."""

    run: int
    messages: int
    bytes: int
    source: str
    finished_ms: int


def archive(
    spark: SparkSession, source: Source, folder: Folder, *, bodies: bool = True, clock: Clock | None = None
) -> Run | None:
    """Add what is live in `source` and not archived yet. None: there was nothing.

    `bodies`: beside the envelope, which has all of a message, its body is a column of its own.
    """
    return _added(spark, source, folder, bodies=bodies, clock=clock).run


def archive_and_count(
    spark: SparkSession, source: Source, folder: Folder, *, bodies: bool = True
) -> tuple[Run | None, Mapping[str, Rows]]:
    """The same; and the rows that the archive has of what is live, by queue: those that were written are
    counted in the files, those that were there before by a second read of the source.
    """
    added = _added(spark, source, folder, bodies=bodies, clock=None)
    counts = Counter[tuple[str, bool]](added.written)
    if added.before is not None:
        counts.update(_counted(added.before))
    return added.run, {
        name: Rows(counts[name, False], counts[name, True]) for name in {name for name, _ in counts}
    }


@dataclass(frozen=True, slots=True)
class _Added:
    run: Run | None
    written: Counter[tuple[str, bool]]
    """Rows in the files of the run, by the queue's name and whether they have a `damage`."""
    before: DataFrame | None
    """What is live and was archived before."""


def _added(
    spark: SparkSession, source: Source, folder: Folder, *, bodies: bool, clock: Clock | None
) -> _Added:
    folder.make()
    number = max(runs(folder), default=0) + 1
    staged = staged_name(number)
    live, before = _live(spark, source, folder, bodies=bodies)
    _write(live, folder, staged)
    found = spark.read.schema("damage string, queue string").parquet(literal(folder.uri(staged)))
    written = _counted(found)
    if not written:
        folder.remove(staged)
        return _Added(None, written, before)
    now_ms = (clock or SystemClock()).now_ms()
    run = Run(number, written.total(), folder.size_bytes(staged), source.path, now_ms)
    folder.write(f"{staged}/_run.json", json.dumps(asdict(run)).encode() + b"\n")
    folder.commit(staged, run_name(number))
    clear(folder, number)
    return _Added(run, written, before)


def _counted(rows: DataFrame) -> Counter[tuple[str, bool]]:
    found = rows.groupBy("queue", f.isnotnull("damage").alias("damaged")).count().collect()
    counts = Counter[tuple[str, bool]]()
    for one in found:
        counts[one["queue"] or "", one["damaged"]] += one["count"]
    return counts


def archived(spark: SparkSession, folder: Folder) -> DataFrame:
    """The messages of an archive, with `run`, and `date` as a date. Raises `NotAStore` where there is none.

    Any program that reads Parquet by folders gives the same.
    """
    require_archive(folder)
    return _read(spark, folder)


def archive_schema(*, bodies: bool) -> StructType:
    """Columns of the files, to which the names of folders add `run`, `address`, `queue` and `date`."""
    left_out = (*ASKED_FOR_ONLY, *(() if bodies else BODIES))
    return usual_schema([*(name for name in COLUMNS if name not in left_out), "envelope"])


def key_of(*, prefix: str = "") -> list[Column]:
    return [f.col(name).alias(f"{prefix}{name}") for name in KEY]


def same_message(prefix: str) -> Column:
    """Whether columns and those with the prefix mean one message; of null and null it is so, too."""
    return reduce(
        lambda all_, one: all_ & one, (f.col(name).eqNullSafe(f.col(prefix + name)) for name in KEY)
    )


def _live(
    spark: SparkSession, source: Source, folder: Folder, *, bodies: bool
) -> tuple[DataFrame, DataFrame | None]:
    """Return what is live and not archived, and what is live and archived; None before the first run."""
    live = source.messages(spark, archive_schema(bodies=bodies))
    live = live.withColumns(
        {
            "address": _in_a_path("address"),
            "queue": _in_a_path("queue"),
            "date": _date(),
            "unread": f.when(f.col("id").isNull(), f.xxhash64("envelope")),
        }
    )
    if not runs(folder):
        return live, None
    known = _read(spark, folder).select(*key_of(prefix="known_"))
    same = same_message("known_")
    return live.join(known, same, "left_anti"), live.join(known, same, "left_semi")


def _write(live: DataFrame, folder: Folder, staged: str) -> None:
    spread = live.hint("rebalance", *PLACES).sortWithinPartitions(*PLACES, "id")
    spread.write.partitionBy(*PLACES).option("compression", "zstd").parquet(folder.uri(staged))


def _read(spark: SparkSession, folder: Folder) -> DataFrame:
    columns = [one for one in archive_schema(bodies=True).fields if one.name not in PLACES]
    places = struct("unread long, run integer, address string, queue string, date date")
    return spark.read.schema(StructType([*columns, *places.fields])).parquet(literal(folder.uri()))


def clear(folder: Folder, number: int) -> None:
    """Runs that were killed left what can no longer count, since this number is taken."""
    for name in folder.names():
        parts = name.split("-")
        if parts[0] == "_run" and len(parts) == 3 and parts[1].isdigit() and int(parts[1]) <= number:
            folder.remove(name)


def run_name(number: int) -> str:
    return f"{RUN}{number:06d}"


def staged_name(number: int) -> str:
    """A name that no reader looks at, of a run that does not count yet."""
    return f"_run-{number:06d}-{uuid.uuid4().hex}"


def _date() -> Column:
    """The day of sending in UTC, whatever the session's zone; null where a message says none."""
    day = f.floor(f.unix_micros("timestamp") / _DAY_US)
    epoch = f.lit("1970-01-01").cast("date")
    return f.when(day.between(0, _LAST_DAY), f.date_add(epoch, day.cast("int")))


def _in_a_path(name: str) -> Column:
    """A name as a folder's; one that would be too long is cut and has its hash behind it."""
    escaped = f.regexp_replace(name, ESCAPED, "%00")
    cut = f.concat(f.substring(name, 1, 40), f.lit("~"), f.md5(f.col(name).cast("binary")))
    return f.when(f.octet_length(escaped) > NAME_BYTES_MAX, cut).otherwise(f.col(name))
