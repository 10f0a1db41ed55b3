"""The archive without Spark: the same files in the same folders, written by this process.

The store is read twice in one plan: its headers, to find out what the archive has already, and then all of
it. Called by `journalfs pipeline archive`; a run counts by the same rename as one of Spark.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from journalfs.clock import SystemClock
from journalfs.pipeline.archive import PLACES, Run, archive_schema, clear, run_name, staged_name
from journalfs.pipeline.balance import ESCAPED, Rows, in_archive
from journalfs.pipeline.engines import LocalEngine
from journalfs.pipeline.folders import RUN, LocalFolder, runs
from journalfs.pipeline.xxhash64 import xxhash64
from journalfs.spark.schema import struct

if TYPE_CHECKING:
    from journalfs.clock import Clock
    from journalfs.pipeline.messages import Source
    from journalfs.spark.source import BatchReader

OPEN_MAX: Final = 200
"""Parquet files that are written at a time; a place whose file was closed gets another."""
_NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"
"""What a folder is called of a place that has no name: that of Hive, which all readers know."""
_DAY_US: Final = 86_400_000_000
_LAST_DAY: Final = 2_932_896
_HASH_SEED: Final = 42
"""Of Spark's own hash, by which messages without an id are known again."""

_HEADERS: Final = struct("queue string, id long, timestamp long, userId string")
_KNOWN: Final = pa.schema(
    [
        ("queue", pa.string()),
        ("id", pa.int64()),
        ("timestamp", pa.int64()),
        ("userId", pa.string()),
    ]
)
_NUMBERED: Final = _KNOWN.append(pa.field("number", pa.int64()))
_NEW: Final = """
SELECT number FROM {live} AS live WHERE id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM {known} AS known WHERE known.queue = live.queue AND known.id = live.id
    AND known.timestamp IS NOT DISTINCT FROM live.timestamp AND known.userId IS NOT DISTINCT FROM live.userId
)
"""


def archive_here(
    source: Source, folder: LocalFolder, *, bodies: bool = True, clock: Clock | None = None
) -> tuple[Run | None, Mapping[str, Rows]]:
    """Do what `archive_and_count` does. Raises what `Source.batches` raises, and `StaleView` where files of
    the store change between the two reads.
    """
    folder.make()
    number = max(runs(folder), default=0) + 1
    staged = staged_name(number)
    headers, whole = source.reader(_HEADERS), source.reader(archive_schema(bodies=bodies))
    planned = headers.planned()
    known = _Known.of(folder)
    new = known.new(headers, planned)
    writing = _Writing(folder.path / staged, archive_schema(bodies=bodies))
    counts = Counter[tuple[str, bool]]()
    at = 0
    try:
        for partition in planned:
            for batch in whole.read(partition):
                chosen = known.chosen(batch, new[at : at + len(batch)])
                at += len(batch)
                counts.update(_counted(batch.filter(pc.invert(chosen))))
                writing.write(batch.filter(chosen))
    finally:
        writing.close()
    written = writing.counted()
    counts.update(written)
    rows = {name: Rows(counts[name, False], counts[name, True]) for name in {name for name, _ in counts}}
    if not written:
        folder.remove(staged)
        return None, rows
    now_ms = (clock or SystemClock()).now_ms()
    run = Run(number, written.total(), folder.size_bytes(staged), source.path, now_ms)
    folder.write(f"{staged}/_run.json", json.dumps(asdict(run)).encode() + b"\n")
    folder.commit(staged, run_name(number))
    clear(folder, number)
    return run, rows


def _counted(batch: Any) -> Counter[tuple[str, bool]]:
    """Rows by queue, as the archive names it, and whether they have a `damage`."""
    queues = batch.column("queue").to_pylist()
    return Counter(zip(map(in_archive, queues), batch.column("damage").is_valid().to_pylist(), strict=True))


class _Known:
    """What an archive has, by what makes a message the same one."""

    def __init__(self, files: list[tuple[str, Path]]) -> None:
        self._files = files
        self._unread = {(queue, *key[1:]) for queue, path in files for key in _keys(path, unread=True)}
        """Of messages whose id cannot be read: queue, time, client's id, and the hash of their lines."""

    @classmethod
    def of(cls, folder: LocalFolder) -> _Known:
        """Of the runs that count: each of their files, with the queue that its folder names."""
        found = []
        for number in sorted(runs(folder)):
            for place, _, names in os.walk(folder.path / f"{RUN}{number:06d}"):
                queue = next((one[6:] for one in place.split(os.sep) if one.startswith("queue=")), None)
                found += [
                    (_named(queue), Path(place, name))
                    for name in sorted(names)
                    if name.endswith(".parquet") and queue is not None and name[:1] not in "._"
                ]
        return cls(found)

    def new(self, headers: BatchReader, planned: Any) -> Any:
        """Of each message, in the order of the plan, whether its id is known and the archive has it not."""
        engine = LocalEngine()
        live = engine.batches(lambda: self._numbered(headers, planned), _NUMBERED)
        with engine.kept("SELECT * FROM {live}", live=live) as kept:
            known = engine.batches(self._batches, _KNOWN)
            numbers = [row["number"] for row in engine.ask(_NEW, live=kept, known=known)]
            (count,) = engine.ask("SELECT count(*) AS messages FROM {live}", live=kept)
        found = np.zeros(count["messages"], "?")
        found[numbers] = True
        return found

    def chosen(self, batch: Any, new: Any) -> Any:
        """Which rows of a batch are to be archived: those that are `new`, and those without an id whose lines
        the archive has not.
        """
        found = np.array(new)
        for place in np.flatnonzero(np.asarray(batch.column("id").is_null())):
            row = {
                name: batch.column(name)[int(place)] for name in ("queue", "timestamp", "userId", "envelope")
            }
            key = (in_archive(row["queue"].as_py()), _micros(row["timestamp"]), row["userId"].as_py())
            found[place] = (*key, _hash(row["envelope"].as_py())) not in self._unread
        return pa.array(found)

    @staticmethod
    def _numbered(headers: BatchReader, planned: Any) -> Iterator[Any]:
        at = 0
        for partition in planned:
            for batch in headers.read(partition):
                queues = pa.array(map(in_archive, batch.column("queue").to_pylist()), pa.string())
                sent = pa.array(map(_known_ms, batch.column("timestamp").to_pylist()), pa.int64())
                numbers = pa.array(np.arange(at, at + len(batch)))
                columns = [queues, batch.column("id"), sent, batch.column("userId"), numbers]
                yield pa.RecordBatch.from_arrays(columns, schema=_NUMBERED)
                at += len(batch)

    def _batches(self) -> Iterator[Any]:
        for queue, path in self._files:
            keys = [key for key in _keys(path, unread=False) if key[0] is not None]
            if keys:
                ids, times, users, _ = (list(column) for column in zip(*keys, strict=True))
                columns = [[queue] * len(keys), ids, times, users]
                arrays = [pa.array(one, kind.type) for one, kind in zip(columns, _KNOWN, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=_KNOWN)


def _keys(path: Path, *, unread: bool) -> Iterator[tuple[Any, ...]]:
    """Id, time in us, client's id and hash of each message in a file; `unread`: of those without an id."""
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        for batch in file.iter_batches(columns=["id", "timestamp", "userId", "unread"]):
            if unread and not batch.column("id").null_count:
                continue
            times = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            columns = [batch.column("id"), times, batch.column("userId"), batch.column("unread")]
            for key in zip(*(one.to_pylist() for one in columns), strict=True):
                if not unread or key[0] is None:
                    yield key


def _known_ms(time_ms: int | None) -> int | None:
    """A time in ms as a column of timestamps has it, in us; None where it has none."""
    most = (2**63 - 1) // 1000
    return time_ms * 1000 if time_ms and -most <= time_ms <= most else None


def _micros(time: Any) -> int | None:
    return time.value if time.is_valid else None


def _hash(line: str | None) -> int | None:
    return _HASH_SEED if line is None else xxhash64(line.encode(), _HASH_SEED)


class _Writing:
    """The Parquet files of a run, one a place at a time."""

    def __init__(self, folder: Path, schema: StructType) -> None:
        self._folder = folder
        kept = StructType([one for one in schema.fields if one.name not in PLACES])
        self._schema = to_arrow_schema(kept, timezone="UTC").append(pa.field("unread", pa.int64()))
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._files: list[tuple[str, Path]] = []

    def write(self, batch: Any) -> None:
        """Write rows to the files of their places."""
        if not len(batch):
            return
        unread: list[int | None] = [None] * len(batch)
        for place in map(int, np.flatnonzero(np.asarray(batch.column("id").is_null()))):
            unread[place] = _hash(batch.column("envelope")[place].as_py())
        columns = [batch.column(name) for name in self._schema.names[:-1]]
        rows = pa.RecordBatch.from_arrays([*columns, pa.array(unread, pa.int64())], schema=self._schema)
        places = _places(batch)
        codes = places.dictionary_encode()
        for code, place in enumerate(codes.dictionary.to_pylist()):
            self._writer(place).write_batch(rows.filter(pc.equal(codes.indices, code)))

    def _writer(self, place: str) -> Any:
        if place not in self._open:
            if len(self._open) == OPEN_MAX:
                self._open.popitem(last=False)[1].close()
            folder = self._folder / place
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"part-{len(self._files):05d}-{uuid.uuid4()}.zstd.parquet"
            self._files.append((place, path))
            self._open[place] = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._open.move_to_end(place)
        return self._open[place]

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def counted(self) -> Counter[tuple[str, bool]]:
        """Rows in the files, by queue and whether they have a `damage`."""
        found = Counter[tuple[str, bool]]()
        for place, path in self._files:
            damage = pq.read_table(path, columns=["damage"], partitioning=None).column("damage")
            queue = _named(place.split(os.sep)[1].removeprefix("queue="))
            found[queue, True] += len(damage) - damage.null_count
            found[queue, False] += damage.null_count
        return Counter({key: count for key, count in found.items() if count})


def _places(batch: Any) -> Any:
    """The folder of each row, within that of its run."""
    names = [
        [_folder(key, None if name is None else in_archive(name)) for name in batch.column(key).to_pylist()]
        for key in ("address", "queue")
    ]
    return pa.array(map(os.path.join, *names, map(_day, batch.column("timestamp"))), pa.string())


def _day(time: Any) -> str:
    """The day of sending in UTC; none where a message says none, and beyond what other programs take."""
    day = time.value // _DAY_US if time.is_valid else -1
    return _folder("date", str(np.datetime64(day, "D")) if 0 <= day <= _LAST_DAY else None)


def _folder(key: str, name: str | None) -> str:
    escaped = re.sub(ESCAPED, lambda found: f"%{ord(found[0]):02X}", name or "")
    return f"{key}={escaped or _NO_NAME}"


def _named(folder: str | None) -> str:
    """The name that a folder stands for, without its key; none for no name."""
    return "" if folder in (None, _NO_NAME) else unquote(folder)
