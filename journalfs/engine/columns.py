"""Messages as columns for Arrow, filled by the C core; and the places of their records, as arrays.

Needs numpy, which comes with PyArrow and Spark; no other module of the engine imports this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.status import CoreRefused, check

Array: TypeAlias = npt.NDArray[Any]

LINE: Final = np.dtype(
    {
        "names": [
            "payload",
            "large",
            "large_bytes",
            "scheduled_ms",
            "payload_bytes",
            "delivery_count",
            "source",
            "large_missing",
            "record_id",
        ],
        "formats": ["u8", "u8", "u8", "i8", "u4", "i4", "u1", "u1", "i8"],
        "offsets": [0, 8, 16, 24, 32, 36, 40, 41, 48],
        "itemsize": 56,
    }
)
"""A `jfs_line` as numpy sees it."""

ROW: Final = np.dtype(
    {
        "names": [
            "id",
            "timestamp_ms",
            "expiration_ms",
            "scheduled_ms",
            "properties",
            "type",
            "priority",
            "flags",
        ],
        "formats": ["i8", "i8", "i8", "i8", "u4", "u2", "i1", "u1"],
        "offsets": [0, 8, 16, 24, 32, 36, 38, 39],
        "itemsize": 40,
    }
)
"""A `jfs_row` likewise."""

assert ffi.sizeof("jfs_line") == LINE.itemsize, "the core was built for another layout of lines"
assert ffi.sizeof("jfs_row") == ROW.itemsize, "the core was built for another layout of rows"

ROW_DURABLE: Final[int] = lib.JFS_ROW_DURABLE
ROW_LARGE: Final[int] = lib.JFS_ROW_LARGE
ROW_AMQP: Final[int] = lib.JFS_ROW_AMQP
ROW_HAS_ID: Final[int] = lib.JFS_ROW_HAS_ID
ROW_HAS_HEADER: Final[int] = lib.JFS_ROW_HAS_HEADER
ROW_HAS_TYPE: Final[int] = lib.JFS_ROW_HAS_TYPE

_CORE_TYPES: Final = (
    "default",
    "type-1",
    "object",
    "text",
    "bytes",
    "map",
    "stream",
    "embedded",
    "largeEmbedded",
)
_AMQP_TYPES: Final = ("amqp-data", "amqp-value", "amqp-sequence", "none")


class Column(IntEnum):
    """Columns of varying length. KEYS and VALUES have a row a property, the others one a message."""

    ADDRESS = 0
    USER_ID = 1
    GROUP = 2
    DUPLICATE = 3
    DUPLICATE_BYTES = 4
    BODY = 5
    """Bodies that are text, and maps, streams and AMQP values as messages' files show them."""
    BODY_BYTES = 6
    """Bodies that are bytes."""
    BODY_FILE = 7
    """The content of the message's own file."""
    DAMAGE = 8
    RAW = 9
    """The record's payload, where the other columns do not carry every bit of it."""
    KEYS = 10
    VALUES = 11


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of the core, valid as long as `owner` lives."""

    address: int
    size_bytes: int
    owner: object


class Columns:
    """The values read from some messages. Buffers stay valid while this object lives, or the object that is
    said to own them.
    """

    __slots__ = ("_pointer", "count")

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer
        self.count: int = pointer.count
        """Messages read."""

    def rows(self) -> Array:
        """The values of fixed size (dtype `ROW`)."""
        return _copied(self._pointer.rows, self.count, ROW)

    def kinds(self) -> Array:
        """Type of each property; `kind_names` names them."""
        return _copied(self._pointer.kinds, self._pointer.kind_count, np.dtype("u1"))

    def length(self, column: Column) -> int:
        return int(self._pointer.columns[column].rows)

    def nulls(self, column: Column) -> int:
        return int(self._pointer.columns[column].nulls)

    def buffers(self, column: Column) -> tuple[Buffer, Buffer, Buffer]:
        """Validity, offsets (int32) and data of a column that has rows."""
        found = self._pointer.columns[column]
        return (
            self._buffer(found.valid, (found.rows + 7) // 8),
            self._buffer(found.offsets, 4 * (found.rows + 1)),
            self._buffer(found.data, found.data_bytes),
        )

    def _buffer(self, pointer: Any, size_bytes: int) -> Buffer:
        return Buffer(int(ffi.cast("uintptr_t", pointer)), size_bytes, self)


def _copied(pointer: Any, count: int, kind: np.dtype[Any]) -> Array:
    if not count:
        return np.empty(0, kind)
    return np.frombuffer(ffi.buffer(pointer, count * kind.itemsize), kind).copy()


def read_columns(lines: Array, wanted: Sequence[Column], bytes_max: int) -> Columns:
    """Read messages (dtype `LINE`, contiguous) into columns, as many as make `bytes_max` bytes, but at least
    one. The caller must keep the bytes mapped that the lines point to. Raises FileTorn, and CoreRefused when
    a message is longer than a column can be (2 GiB).
    """
    out = ffi.gc(ffi.new("jfs_columns *"), lib.jfs_columns_free)
    bits = sum(1 << column for column in wanted)
    check(lib.jfs_columns_read(_lines(lines), len(lines), bits, bytes_max, out), "reading messages")
    return Columns(out)


def _lines(lines: Array) -> Any:
    if lines.dtype != LINE or not lines.flags.c_contiguous:
        raise ValueError("no array of lines")
    return ffi.from_buffer("jfs_line[]", lines) if len(lines) else ffi.NULL


@cache
def kind_names() -> tuple[str | None, ...]:
    """Names of property types by number."""
    names = map(lib.jfs_kind_name, range(256))
    return tuple(None if name == ffi.NULL else ffi.string(name).decode() for name in names)


@cache
def type_names() -> tuple[str, ...]:
    """Names of message types by the number in a row."""
    core = [f"type-{number if number < 128 else number - 256}" for number in range(lib.JFS_ROW_AMQP_TYPES)]
    core[: len(_CORE_TYPES)] = _CORE_TYPES
    return (*core, *_AMQP_TYPES)


# ---- where records lie ----


def lines_array(lines: Any, count: int) -> Array:
    """A C array of `jfs_line`, which lives as long as what is returned. Nothing is copied."""
    if not count:
        return np.empty(0, LINE)
    return np.frombuffer(ffi.buffer(lines, count * LINE.itemsize), LINE)


def lines_pointer(lines: Array) -> Any:
    """Return the lines as C sees them: valid while the array lives."""
    return _lines(lines)


def address_of(mapping: Any) -> int:
    """Where in memory a mapped file begins (`MappedFile.pointer`, `PageScan.mapping`); lines point there."""
    return int(ffi.cast("uintptr_t", mapping))


def payload_bytes(lines: Array, index: int, bytes_max: int) -> bytes:
    """Copy the beginning of a line's payload. Raises FileTorn."""
    length = min(int(lines["payload_bytes"][index]), bytes_max)
    out = ffi.new("uint8_t[]", max(length, 1))
    start = ffi.cast("uint8_t *", int(lines["payload"][index]))
    check(lib.jfs_copy(out, start, length), "reading a message")
    return bytes(ffi.buffer(out, length))


def first_out_of_place(lines: Array, mapping: Any, rid: int | None, *, in_page: bool) -> int | None:
    """Return the first line whose payload is no longer behind the head of its record, None if all are. `rid`:
    what each record of the journal file repeats of its id; None: unknown. Raises FileTorn.
    """
    wrong = ffi.new("uint64_t *")
    if in_page:
        status = lib.jfs_places_page(mapping, _lines(lines), len(lines), wrong)
    else:
        known = -1 if rid is None else rid
        status = lib.jfs_places_journal(mapping, known, _lines(lines), len(lines), wrong)
    check(status, "looking for messages where they were")
    return None if wrong[0] == len(lines) else int(wrong[0])


def by_file(lines: Array, files: Mapping[int, MappedFile]) -> dict[int, Array]:
    """Positions of the lines that point into each of the files (by slot), in their order. Raises CoreRefused
    when a line points into none.
    """
    slots = [slot for slot, file in files.items() if file.size_bytes]
    bases = np.array([address_of(files[slot].pointer) for slot in slots], "u8")
    order = np.argsort(bases)
    found = np.searchsorted(bases[order], lines["payload"], side="right") - 1
    if len(lines) and (not slots or found.min() < 0):
        raise CoreRefused("a message that lies in no file")
    # Messages lie in files about as they arrived, so this has next to nothing to sort.
    places = np.argsort(found, kind="stable")
    ends = np.flatnonzero(np.diff(found[places], append=len(slots))) + 1
    stretches = np.split(places, ends[:-1]) if len(lines) else []
    return {slots[order[found[one[0]]]]: one for one in stretches}


def record_array(scan: Any) -> Array:
    """The records of a journal scan (`journalfs.engine.scan.Scan`), one an element (dtype `RECORD`)."""
    return _copied(scan.pointer.records, scan.count, RECORD)


RECORD: Final = np.dtype(
    {
        "names": [
            "id",
            "tx",
            "offset",
            "length",
            "body_offset",
            "body_bytes",
            "count",
            "kind",
            "user_type",
            "compact_count",
            "flags",
        ],
        "formats": ["i8", "i8", "u4", "u4", "u4", "u4", "i4", "u1", "i1", "i1", "u1"],
        "offsets": [0, 8, 16, 20, 24, 28, 32, 36, 37, 38, 39],
        "itemsize": 40,
    }
)
"""A `jfs_record` as numpy sees it."""

assert ffi.sizeof("jfs_record") == RECORD.itemsize, "the core was built for another layout of records"


PAGE_ENTRY: Final = np.dtype(
    {
        "names": ["payload_offset", "tx_id", "payload_bytes", "source", "flags"],
        "formats": ["u8", "i8", "u4", "u1", "u1"],
        "offsets": [8, 16, 28, 41, 42],
        "itemsize": 48,
    }
)
"""A `jfs_page_entry` as numpy sees it."""

assert ffi.sizeof("jfs_page_entry") == PAGE_ENTRY.itemsize, "the core was built for another layout of pages"


def page_array(scan: Any) -> Array:
    """The records of a page's scan (`journalfs.engine.pages.PageScan`), one an element."""
    return _copied(scan.pointer.entries, scan.count, PAGE_ENTRY)
