"""From columns of the core to Arrow record batches. Buffers are handed on as they are: nothing is copied."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from journalfs.engine.columns import (
    ROW_AMQP,
    ROW_DURABLE,
    ROW_HAS_HEADER,
    ROW_HAS_ID,
    ROW_HAS_TYPE,
    ROW_LARGE,
    Array,
    Buffer,
    Column,
    Columns,
    kind_names,
    lines_pointer,
    read_columns,
    type_names,
)
from journalfs.engine.lines import LineBatch
from journalfs.spark.schema import COLUMNS, column_name

# Properties as columns of their own, in the type that a schema declares for them.

_WHOLE: Final = ("byte", "short", "int", "long", "ubyte", "ushort", "uint", "ulong", "timestamp")
_BROKEN: Final = ("float", "double")
_BYTES: Final = ("bytes", "binary")
_WHOLE_TYPES: Final = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


class Rows(Protocol):
    @property
    def starts(self) -> Array: ...

    @property
    def keys(self) -> Any: ...

    @property
    def types(self) -> Any: ...

    @property
    def values(self) -> Any: ...


def property_column(rows: Rows, name: str, declared: t.DataType, kind: Any) -> Any:
    """The property of that name of each message, null where there is none, or where it is of a type that the
    declared one does not hold: numbers are neither rounded nor cut, and text is not taken for numbers.
    """
    places = np.flatnonzero(np.asarray(pc.equal(rows.keys, name)))
    messages = np.searchsorted(rows.starts, places, side="right") - 1
    taken = pa.array(places)
    types, values = rows.types.take(taken), rows.values.take(taken)
    found = _converted(types, values, declared, kind)
    # Where each message's value stands among those found; a message without one takes a null.
    at = np.full(len(rows.starts) - 1, -1, "i8")
    at[messages] = np.arange(len(places))
    return found.take(pa.array(at, mask=at < 0))


def _converted(types: Any, values: Any, declared: t.DataType, kind: Any) -> Any:
    if isinstance(declared, t.StringType):
        return values
    if isinstance(declared, t.BooleanType):
        return pc.equal(_only(types, values, ("boolean",)), "true")
    if isinstance(declared, t.BinaryType):
        texts = _only(types, values, _BYTES).to_pylist()
        return pa.array([None if text is None else base64.b64decode(text) for text in texts], kind)
    if isinstance(declared, t.DoubleType | t.FloatType):
        numbers = pc.cast(_only(types, values, (*_WHOLE, *_BROKEN)), pa.float64())
        return pc.cast(numbers, kind, safe=False)
    numbers = pc.cast(_whole(types, values), pa.int64())
    if isinstance(declared, t.TimestampType):
        limit = (1 << 63) // 1000
        return pc.cast(pc.multiply(_within(numbers, -limit, limit - 1), 1000), kind)
    assert isinstance(declared, _WHOLE_TYPES), "the schema was checked"
    limit = 1 << (kind.bit_width - 1)
    return pc.cast(_within(numbers, -limit, limit - 1), kind)


def _within(numbers: Any, lowest: int, highest: int) -> Any:
    in_range = pc.and_(pc.less_equal(numbers, highest), pc.greater_equal(numbers, lowest))
    return pc.if_else(in_range, numbers, pa.scalar(None, pa.int64()))


def _whole(types: Any, values: Any) -> Any:
    """Whole numbers that 64 bits with a sign hold; of the types only `ulong` has others."""
    texts = _only(types, values, _WHOLE)
    unsigned = pc.equal(types, "ulong")
    if not pc.any(unsigned).as_py():
        return texts
    numbers = pc.cast(pc.if_else(unsigned, texts, pa.scalar(None, pa.string())), pa.uint64())
    too_large = pc.fill_null(pc.greater(numbers, 2**63 - 1), False)
    return pc.if_else(too_large, pa.scalar(None, pa.string()), texts)


def _only(types: Any, values: Any, wanted: tuple[str, ...]) -> Any:
    chosen = pc.is_in(types, pa.array(wanted, pa.string()))
    return pc.if_else(chosen, values, pa.scalar(None, pa.string()))


_NAMED: Final = '{"queue":'
_US_IN_MS: Final = 1000
_MS_MAX: Final = (2**63 - 1) // _US_IN_MS

_TEXTS: Final = {
    "address": Column.ADDRESS, "userId": Column.USER_ID, "groupId": Column.GROUP,
    "duplicateId": Column.DUPLICATE, "duplicateIdBytes": Column.DUPLICATE_BYTES,
    "bodyBytes": Column.BODY_BYTES, "damage": Column.DAMAGE, "rawMessage": Column.RAW,
}  # fmt: skip


@dataclass(slots=True)
class Batch:
    """Messages of one queue that were read, and what was asked of them so far."""

    lines: Array
    columns: Columns
    queue: str | Any
    """The name for all of them, or a column of names."""
    _rows: Array | None = None
    _properties: PropertyRows | None = None

    @property
    def count(self) -> int:
        return self.columns.count

    @property
    def rows(self) -> Array:
        if self._rows is None:
            self._rows = self.columns.rows()
        return self._rows

    @property
    def own_lines(self) -> Array:
        return self.lines[: self.count]

    @property
    def properties(self) -> PropertyRows:
        if self._properties is None:
            self._properties = PropertyRows.of(self)
        return self._properties

    def flag(self, bit: int) -> Array:
        found: Array = self.rows["flags"] & bit != 0
        return found

    def text(self, column: Column, kind: Any) -> Any:
        """A column of varying length as an Arrow array."""
        return _text(self.columns, column, kind)


@dataclass(frozen=True, slots=True)
class PropertyRows:
    """All properties of a batch, one after the other."""

    starts: Array
    """Where each message's begin, and at last their number (int32)."""
    keys: Any
    types: Any
    values: Any

    @classmethod
    def of(cls, batch: Batch) -> PropertyRows:
        starts = np.zeros(batch.count + 1, "i4")
        np.cumsum(batch.rows["properties"], out=starts[1:])
        types = _kinds().take(pa.array(batch.columns.kinds()))
        keys = _text(batch.columns, Column.KEYS, pa.string())
        return cls(starts, keys, types, _text(batch.columns, Column.VALUES, pa.string()))


@dataclass(frozen=True, slots=True)
class Reading:
    """How messages become batches of a schema."""

    schema: t.StructType
    arrow_schema: Any = field(init=False)
    wanted: tuple[Column, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrow_schema", to_arrow_schema(self.schema, timezone="UTC"))
        object.__setattr__(self, "wanted", tuple(sorted(_wanted(self.schema))))

    def read(
        self,
        lines: Array,
        queue: str | Any,
        bytes_max: int,
        *,
        own_schedules: Array | None = None,
        now_ms: int = 0,
    ) -> tuple[Any, int]:
        """A record batch of as many messages as `bytes_max` allows, and how many that are.

        `own_schedules`: which of the messages say themselves when they are due; that counts after `now_ms`.
        """
        batch = Batch(lines, read_columns(lines, self.wanted, bytes_max), queue)
        if own_schedules is not None:
            own = own_schedules[: batch.count] & (batch.rows["scheduled_ms"] > now_ms)
            batch.own_lines["scheduled_ms"][own] = batch.rows["scheduled_ms"][own]
        arrays = [
            _array(batch, column_name(one.name), one.dataType, self.arrow_schema.field(one.name).type)
            for one in self.schema.fields
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema), batch.count


def _wanted(schema: t.StructType) -> set[Column]:
    found: set[Column] = set()
    for one in schema.fields:
        name = column_name(one.name)
        if name == "body":
            found.add(Column.BODY_FILE if isinstance(one.dataType, t.BinaryType) else Column.BODY)
        elif name in _TEXTS:
            found.add(_TEXTS[name])
        elif name == "properties" or name not in COLUMNS:
            found |= {Column.KEYS, Column.VALUES}
    return found


def _array(batch: Batch, name: str, declared: Any, kind: Any) -> Any:
    if name in _TEXTS:
        return batch.text(_TEXTS[name], kind)
    if name == "body":
        return batch.text(Column.BODY_FILE if isinstance(declared, t.BinaryType) else Column.BODY, kind)
    if name == "properties":
        return _properties(batch, declared, kind)
    if name not in COLUMNS:
        return property_column(batch.properties, name, declared, kind)
    return _FIXED[name](batch, isinstance(declared, t.LongType))


def _text(columns: Columns, column: Column, kind: Any) -> Any:
    length = columns.length(column)
    if not length:
        return pa.array([], kind)
    buffers = [_buffer(one) for one in columns.buffers(column)]
    nulls = columns.nulls(column)
    if not nulls:
        buffers[0] = None
    return pa.Array.from_buffers(kind, length, buffers, null_count=nulls)


def _buffer(found: Buffer) -> Any:
    if not found.size_bytes:
        return pa.py_buffer(b"")
    return pa.foreign_buffer(found.address, found.size_bytes, found.owner)


def _properties(batch: Batch, declared: t.MapType, kind: Any) -> Any:
    rows = batch.properties
    if isinstance(declared.valueType, t.StringType):
        items = rows.values
    else:
        items = pa.StructArray.from_arrays([rows.types, rows.values], fields=list(kind.item_type))
    return pa.MapArray.from_arrays(pa.array(rows.starts), rows.keys, items, type=kind)


@cache
def _kinds() -> Any:
    return pa.array([name or "" for name in kind_names()], pa.string())


@cache
def _types() -> Any:
    return pa.array(type_names(), pa.string())


@cache
def _protocols() -> Any:
    return pa.array(["CORE", "AMQP"], pa.string())


def _masked(values: Array, known: Array, kind: Any) -> Any:
    return pa.array(values, kind, mask=None if known.all() else ~known)


def _time(values: Array, known: Array, as_ms: bool) -> Any:
    """Times in milliseconds as they are, or as timestamps where they are within what one can say."""
    if as_ms:
        return _masked(values, known, pa.int64())
    known = known & (values != 0) & (values <= _MS_MAX) & (values >= -_MS_MAX)
    return _masked(np.where(known, values, 0) * _US_IN_MS, known, pa.timestamp("us", "UTC"))


def _header(batch: Batch) -> Array:
    return batch.flag(ROW_HAS_HEADER)


def _of_queue(batch: Batch) -> Any:
    if not isinstance(batch.queue, str):
        return batch.queue.slice(0, batch.count)
    return pa.repeat(pa.scalar(batch.queue.encode("utf-8", "replace").decode(), pa.string()), batch.count)


def _message_types(batch: Batch) -> Any:
    codes = _masked(batch.rows["type"].astype("i4"), batch.flag(ROW_HAS_TYPE), pa.int32())
    return _types().take(codes)


def _set(values: Array) -> Array:
    found: Array = values != 0
    return found


def _envelopes(batch: Batch) -> Any:
    """The lines, rendered by the core, without their line feeds."""
    named = isinstance(batch.queue, str)
    queue = batch.queue if named else None
    lines = LineBatch(lines_pointer(batch.own_lines), batch.count, queue=queue)
    starts = np.frombuffer(lines.starts, "u8").astype("i4")
    text = pa.py_buffer(lines.read_view(0, lines.size_bytes))
    found = pa.Array.from_buffers(pa.string(), batch.count, [None, pa.py_buffer(starts), text])
    whole = pc.utf8_rtrim(found, characters="\n")
    if named:
        return whole
    # Of messages in queues of their own each: the line of one in no queue begins with its null.
    queues = _of_queue(batch).dictionary_encode(null_encoding="encode")
    given = [_NAMED + json.dumps(name, ensure_ascii=False) for name in queues.dictionary.to_pylist()]
    names = pa.array(given, pa.string()).take(queues.indices)
    return pc.binary_join_element_wise(names, pc.utf8_slice_codeunits(whole, len(_NAMED) + 4), "")


_FIXED: Final[dict[str, Callable[[Batch, bool], Any]]] = {
    "id": lambda batch, _: _masked(batch.rows["id"], batch.flag(ROW_HAS_ID), pa.int64()),
    "queue": lambda batch, _: _of_queue(batch),
    "type": lambda batch, _: _message_types(batch),
    "protocol": lambda batch, _: _protocols().take(pa.array(batch.flag(ROW_AMQP).astype("i1"))),
    "durable": lambda batch, _: _masked(batch.flag(ROW_DURABLE), _header(batch), pa.bool_()),
    "priority": lambda batch, _: _masked(batch.rows["priority"].astype("i4"), _header(batch), pa.int32()),
    "timestamp": lambda batch, ms: _time(batch.rows["timestamp_ms"], _header(batch), ms),
    "expiration": lambda batch, ms: _time(
        batch.rows["expiration_ms"], _header(batch) & _set(batch.rows["expiration_ms"]), ms
    ),
    "deliveryCount": lambda batch, _: pa.array(
        np.ascontiguousarray(batch.own_lines["delivery_count"]), pa.int32()
    ),
    "scheduledTime": lambda batch, ms: _time(
        np.ascontiguousarray(batch.own_lines["scheduled_ms"]), _set(batch.own_lines["scheduled_ms"]), ms
    ),
    "largeMessage": lambda batch, _: pa.array(batch.flag(ROW_LARGE), pa.bool_()),
    "envelope": lambda batch, _: _envelopes(batch),
}
