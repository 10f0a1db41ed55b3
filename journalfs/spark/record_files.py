"""Records of journal and page files on any filesystem that Spark reads: a file a task, decoded by the core.

What comes of a file says where its records lie among those of all files (`fileId`, `fresh`, `file`, `offset`,
in this order), so that whoever replays them needs no list of the files.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from journalfs.config.data_directory import BINDINGS_EXTENSION, JOURNAL_EXTENSION
from journalfs.engine.buffers import MemoryFile
from journalfs.engine.columns import Array, page_array, record_array
from journalfs.engine.pages import scan_page
from journalfs.engine.scan import scan_journal
from journalfs.errors import DecodeError, NotAStore
from journalfs.format.journal_file import CONTROL_FILE_NAME, JournalHeader, read_header
from journalfs.format.page_folder import ADDRESS_FILE_NAME, PAGE_EXTENSION, REPLICA_MARK, parse_page_name
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.format.server_lock import BACKUP_LOCK_NAME, PRIMARY_LOCK_NAME, SERVER_LOCK_NAME
from journalfs.ids import rid_of
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.records.files.directory import written_rid
from journalfs.spark.place import refuse_mount
from journalfs.spark.schema import struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS: Final = struct(
    "file string, fileId long, fresh boolean, offset long, kind string, id long, tx long, userType integer, "
    "compactCount integer, count integer, inDamage boolean, bytes long, a long, b long, c long, body binary"
)
PAGES: Final = (
    struct("file string, page long, number integer, offset long, id long, tx long, source integer")
    .add("queues", t.ArrayType(t.LongType()))
    .add("body", "binary")
)
MARK: Final = t.StructField("mark", t.LongType())
"""Sum of the bytes of a message's record, by which a second read of the file knows it; null: of others."""

_WIDTHS: Final[dict[int, tuple[int, tuple[int, ...]]]] = {
    29: (8, (8,)), 32: (8, (8,)), 33: (8, (8,)), 34: (12, (8, 4)), 35: (12, (8, 4)), 36: (16, (8, 8)),
    39: (20, (8, 8, 4)), 40: (16, (8, 8, 8)), 41: (12, (8, 4, 8)), 42: (20, (8, 8, 4)), 43: (16, (8, 8)),
}  # fmt: skip
"""By user type: bytes without which a record says nothing, and the widths of its numbers."""

_EXTENSIONS: Final = (JOURNAL_EXTENSION, BINDINGS_EXTENSION, "jms")
_BESIDE: Final = (CONTROL_FILE_NAME, SERVER_LOCK_NAME, PRIMARY_LOCK_NAME, BACKUP_LOCK_NAME)
"""In the directory of a journal, beside its files."""

_FIELDS: Final = {
    "offset": "offset", "bytes": "length", "id": "id", "tx": "tx", "userType": "user_type",
    "compactCount": "compact_count", "count": "count",
}  # fmt: skip
"""Columns that are fields of a record as the core found it."""

_MESSAGES: Final = (MessageType.LARGE_MESSAGE, MessageType.MESSAGE)
_TYPED: Final = (RecordKind.ADD, RecordKind.UPDATE, RecordKind.ADD_TX, RecordKind.UPDATE_TX)


def records(spark: SparkSession, path: str | list[str]) -> DataFrame:
    """Every record of journal files (`.../*.amq`), live or not, with its body. `a`, `b` and `c` are the
    numbers of small records; null where there is none or the record is too short.
    """
    return _given(spark, path, RECORDS)


def pages(spark: SparkSession, path: str | list[str]) -> DataFrame:
    """Every record of page files (`.../*.page`), live or not; `queues` are ids of the queues it is for."""
    return _given(spark, path, PAGES)


def _given(spark: SparkSession, path: str | list[str], schema: t.StructType) -> DataFrame:
    for one in [path] if isinstance(path, str) else path:
        refuse_mount(one)
    return decoded(spark, path, schema)


def decoded(spark: SparkSession, path: str | list[str], schema: t.StructType) -> DataFrame:
    """The same with some of the columns only: what is not asked for is neither copied nor moved."""
    decode = _pages_of if "page" in schema.names else _records_of
    files = spark.read.format("binaryFile").load(path).select("path", "content")
    return files.mapInArrow(partial(decode, schema), schema)


def _files(batches: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for batch in batches:
        for path, content in zip(*batch.columns, strict=True):
            yield path.as_py(), content.as_buffer()


def _records_of(schema: t.StructType, batches: Iterable[Any]) -> Iterator[Any]:
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    for path, content in _files(batches):
        found = _journal(path, content)
        if found is not None:
            yield found.batch(arrow_schema)
        elif not _may_be_journal(path, content):
            raise NotAStore(path, "this is no journal file", give="those of a journal, .../journal/*.amq")


class _Journal:
    """The records of one journal file."""

    def __init__(self, path: str, file_id: int, content: Any, rows: Array) -> None:
        self._path = path
        self._file_id = file_id
        self._content = content
        self._bytes = np.frombuffer(content, "u1")
        self._rows = rows
        self._ends = np.isin(rows["kind"], (RecordKind.PREPARE, RecordKind.COMMIT, RecordKind.ROLLBACK))
        self._counted = self._ends & (rows["kind"] != RecordKind.ROLLBACK)
        self._in_tx = self._ends | np.isin(
            rows["kind"], (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX)
        )
        self._typed = np.isin(rows["kind"], _TYPED)

    def batch(self, schema: Any) -> Any:
        return pa.RecordBatch.from_arrays([self._column(one.name, one.type) for one in schema], schema=schema)

    def _column(self, name: str, kind: Any) -> Any:
        if name in _FIELDS:
            values = np.ascontiguousarray(self._rows[_FIELDS[name]])
            return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=self._unknown(name))
        if name in ("file", "fileId", "fresh"):
            return pa.repeat(pa.scalar(self._of_file(name), kind), len(self._rows))
        if name == "kind":
            return _kinds().take(pa.array(self._rows["kind"].astype("i4") - RecordKind.EVENT))
        if name == "inDamage":
            return pa.array(self._rows["flags"] & 1 != 0, kind)
        if name == "body":
            return _slices(self._content, self._rows["body_offset"], self._rows["body_bytes"], kind)
        return self._marks() if name == MARK.name else self._number(name, kind)

    def _number(self, name: str, kind: Any) -> Any:
        values, known = self._numbers("abc".index(name))
        return pa.array(values, kind, mask=~known)

    def _marks(self) -> Any:
        """Of whole records: their kinds, files and ids are in them."""
        about = self._typed & np.isin(self._rows["user_type"], _MESSAGES)
        return _marks(self._content, self._rows["offset"], self._rows["length"], about)

    def _of_file(self, name: str) -> str | int | bool:
        # A compacted file comes before another of its id.
        fresh = not self._rows["compact_count"][0]
        said: dict[str, str | int | bool] = {"file": self._path, "fileId": self._file_id, "fresh": fresh}
        return said[name]

    def _unknown(self, name: str) -> Array | None:
        """Where a record of its kind has no such field."""
        masks = {"id": self._ends, "tx": ~self._in_tx, "userType": ~self._typed, "count": ~self._counted}
        return masks.get(name)

    def _numbers(self, position: int) -> tuple[Array, Array]:
        """The first, second or third number of each record, and whether there is one."""
        rows = self._rows
        values, known = np.zeros(len(rows), "i8"), np.zeros(len(rows), "?")
        for user_type, (required, widths) in _WIDTHS.items():
            if position >= len(widths):
                continue
            before, width = sum(widths[:position]), widths[position]
            whole = rows["body_bytes"] >= max(required, before + width)
            at = np.flatnonzero((rows["user_type"] == user_type) & self._typed & whole)
            if len(at):
                places = rows["body_offset"][at].astype("i8")[:, None] + np.arange(before, before + width)
                values[at] = self._bytes[places].view(f">i{width}")[:, 0]
                known[at] = True
        return values, known


@cache
def _kinds() -> Any:
    return pa.array([kind.name for kind in sorted(RecordKind)], pa.string())


def _journal(path: str, content: Any) -> _Journal | None:
    """The records of a file that has any; None for one that was never written to."""
    if len(content) < JOURNAL_HEADER_BYTES:
        return None
    file = MemoryFile(path, content)
    header = _header(content)
    file_id = header.file_id if header is not None else written_rid(file)
    if file_id is None:
        return None
    version = header.version if header is not None else 2
    scan = scan_journal(file, rid=rid_of(file_id), version=version)
    rows = record_array(scan)
    return _Journal(path, int(file_id), content, rows) if len(rows) else None


def _may_be_journal(path: str, content: Any) -> bool:
    """Whether a file without records can be of a journal: by its name, however damaged, by its header,
    or because nothing was written to it yet.
    """
    name = path.rpartition("/")[2]
    if name in _BESIDE or any(f".{one}" in name for one in _EXTENSIONS) or _header(content) is not None:
        return True
    return not np.frombuffer(content, "u1").any()


def _header(content: Any) -> JournalHeader | None:
    try:
        header = read_header(bytes(memoryview(content)[:JOURNAL_HEADER_BYTES]))
    except DecodeError:
        return None
    return header if header.readable else None


def _slices(content: Any, offsets: Array, lengths: Array, kind: Any) -> Any:
    """Stretches of a file as one column."""
    ends = np.zeros(len(lengths) + 1, "i8")
    np.cumsum(lengths, out=ends[1:])
    view = memoryview(content)
    data = b"".join(
        [view[at : at + size] for at, size in zip(offsets.tolist(), lengths.tolist(), strict=True)]
    )
    return pa.Array.from_buffers(
        kind, len(lengths), [None, pa.py_buffer(ends.astype("i4")), pa.py_buffer(data)]
    )


def _marks(content: Any, offsets: Array, lengths: Array, about: Array) -> Any:
    """Sums of those stretches of a file that they are asked for."""
    view = memoryview(content)
    marks = np.zeros(len(about), "i8")
    places = np.flatnonzero(about)
    stretches = zip(offsets[places].tolist(), lengths[places].tolist(), strict=True)
    marks[places] = [zlib.crc32(view[at : at + size]) for at, size in stretches]
    return pa.array(marks, mask=~about)


def _pages_of(schema: t.StructType, batches: Iterable[Any]) -> Iterator[Any]:
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    for path, content in _files(batches):
        folder, _, name = path.rpartition("/")
        parsed = parse_page_name(name)
        if PAGE_EXTENSION not in name and name != ADDRESS_FILE_NAME:
            raise NotAStore(path, "this is no page file", give="those of pages, .../paging/*/*.page")
        if parsed is not None and not parsed.invalid and REPLICA_MARK not in folder.rpartition("/")[2]:
            scan = scan_page(MemoryFile(path, content))
            yield pa.RecordBatch.from_arrays(
                [_page_column(one, path, int(parsed.number), content, scan) for one in arrow_schema],
                schema=arrow_schema,
            )


def _page_column(column: Any, path: str, page: int, content: Any, scan: Any) -> Any:
    rows, kind, name = page_array(scan), column.type, column.name
    if name in ("file", "page"):
        return pa.repeat(pa.scalar(path if name == "file" else page, kind), len(rows))
    if name == "body":
        return _slices(content, rows["payload_offset"], rows["payload_bytes"], kind)
    if name == MARK.name:
        return _marks(content, rows["payload_offset"], rows["payload_bytes"], np.ones(len(rows), "?"))
    if name == "queues":
        ids, starts = scan.queue_ids()
        values = pa.array(np.frombuffer(ids, "i8") if ids else [], pa.int64())
        return pa.ListArray.from_arrays(pa.array(np.frombuffer(starts, "u4").astype("i4")), values, type=kind)
    values = {
        "number": np.arange(len(rows)),
        "offset": rows["payload_offset"],
        "id": np.frombuffer(scan.message_ids(), "i8") if len(rows) else np.zeros(0, "i8"),
        "tx": rows["tx_id"],
        "source": rows["source"],
    }[name]
    return pa.array(np.ascontiguousarray(values).astype(kind.to_pandas_dtype()), kind)
