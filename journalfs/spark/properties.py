"""Properties as columns of their own, in the type that a schema declares for them."""

from __future__ import annotations

import base64
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)

from journalfs.engine.columns import Array

_WHOLE: Final = ("byte", "short", "int", "long", "ubyte", "ushort", "uint", "ulong", "timestamp")
_BROKEN: Final = ("float", "double")
_BYTES: Final = ("bytes", "binary")
_WHOLE_TYPES: Final = (ByteType, ShortType, IntegerType, LongType)


class Rows(Protocol):
    @property
    def starts(self) -> Array: ...

    @property
    def keys(self) -> Any: ...

    @property
    def types(self) -> Any: ...

    @property
    def values(self) -> Any: ...


def property_column(rows: Rows, name: str, declared: DataType, kind: Any) -> Any:
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


def _converted(types: Any, values: Any, declared: DataType, kind: Any) -> Any:
    if isinstance(declared, StringType):
        return values
    if isinstance(declared, BooleanType):
        return pc.equal(_only(types, values, ("boolean",)), "true")
    if isinstance(declared, BinaryType):
        texts = _only(types, values, _BYTES).to_pylist()
        return pa.array([None if text is None else base64.b64decode(text) for text in texts], kind)
    if isinstance(declared, DoubleType | FloatType):
        numbers = pc.cast(_only(types, values, (*_WHOLE, *_BROKEN)), pa.float64())
        return pc.cast(numbers, kind, safe=False)
    numbers = pc.cast(_whole(types, values), pa.int64())
    if isinstance(declared, TimestampType):
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
