"""Columns of a message for Spark: the usual ones, the types they may be declared with, and properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import types as t

from journalfs.errors import WrongCall


def struct(columns: str) -> t.StructType:
    """Of columns as `name type, name type`, in Spark's short names of plain types."""
    made = t.StructType()
    for one in columns.split(","):
        name, kind = one.split()
        made.add(name, kind)
    return made


PROPERTY: Final = struct("type string, value string")
PROPERTIES: Final = t.MapType(t.StringType(), PROPERTY)
PLAIN_PROPERTIES: Final = t.MapType(t.StringType(), t.StringType())

_TIME: Final = (t.TimestampType(), t.LongType())

COLUMNS: Final[dict[str, tuple[t.DataType, ...]]] = {
    "id": (t.LongType(),),
    "queue": (t.StringType(),),
    "address": (t.StringType(),),
    "type": (t.StringType(),),
    "protocol": (t.StringType(),),
    "durable": (t.BooleanType(),),
    "priority": (t.IntegerType(),),
    "timestamp": _TIME,
    "expiration": _TIME,
    "deliveryCount": (t.IntegerType(),),
    "scheduledTime": _TIME,
    "userId": (t.StringType(),),
    "groupId": (t.StringType(),),
    "duplicateId": (t.StringType(),),
    "largeMessage": (t.BooleanType(),),
    "properties": (PROPERTIES, PLAIN_PROPERTIES),
    "body": (t.StringType(), t.BinaryType()),
    "bodyBytes": (t.BinaryType(),),
    "damage": (t.StringType(),),
    "duplicateIdBytes": (t.BinaryType(),),
    "rawMessage": (t.BinaryType(),),
    "envelope": (t.StringType(),),
}
"""The types that a column may be declared with; the first is the usual one."""

ASKED_FOR_ONLY: Final = ("duplicateIdBytes", "rawMessage", "envelope")
"""Columns that are there only when they are named."""

PROPERTY_TYPES: Final = (
    t.StringType, t.BinaryType, t.BooleanType, t.ByteType, t.ShortType, t.IntegerType, t.LongType,
    t.FloatType, t.DoubleType, t.TimestampType,
)  # fmt: skip
"""Types that a property may be declared with."""


_BY_LOWER: Final = {name.lower(): name for name in COLUMNS}


def column_name(declared: str) -> str:
    """The column that a name means in letters of any case, as in Spark; else the name itself: a property."""
    return _BY_LOWER.get(declared.lower(), declared)


def usual_schema(names: Sequence[str] = ()) -> t.StructType:
    """The schema of those columns, or of the usual ones. Raises `WrongCall`."""
    asked = list(map(column_name, names))
    unknown = [name for name in asked if name not in COLUMNS]
    if unknown:
        raise WrongCall(
            f"option 'columns': no column {unknown[0]!r} (there are {', '.join(COLUMNS)}); "
            "properties become columns when a schema declares them"
        )
    twice = [name for name in asked if asked.count(name) > 1]
    if twice:
        raise WrongCall(f"option 'columns': {twice[0]!r} is named twice")
    chosen = asked or [name for name in COLUMNS if name not in ASKED_FOR_ONLY]
    return t.StructType([t.StructField(name, COLUMNS[name][0]) for name in chosen])


def check_schema(schema: t.StructType) -> None:
    """Raise `WrongCall` for a declared column that cannot be filled. What is no column is a property."""
    for column in schema.fields:
        allowed = COLUMNS.get(column_name(column.name))
        if allowed is not None and not any(_same(column.dataType, one) for one in allowed):
            types = " or ".join(one.simpleString() for one in allowed)
            raise WrongCall(
                f"column {column.name!r} cannot be {column.dataType.simpleString()}: declare it as {types}"
            )
        if allowed is None and not isinstance(column.dataType, PROPERTY_TYPES):
            raise WrongCall(
                f"column {column.name!r} is a property, which cannot be {column.dataType.simpleString()}"
            )


def _same(declared: t.DataType, allowed: t.DataType) -> bool:
    return declared.simpleString() == allowed.simpleString()
