"""Filters that Spark hands down: those on headers are applied before a body is looked at."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as ds
from pyspark.sql.types import DataType, StructType, TimestampType

HEADERS: Final = frozenset(
    {
        "id", "queue", "address", "type", "protocol", "durable", "priority", "timestamp", "expiration",
        "deliveryCount", "scheduledTime", "userId", "groupId", "duplicateId", "largeMessage",
    }
)  # fmt: skip
"""Columns that are known without the body and without properties."""

_COMPARE: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ds.EqualTo: pc.equal, ds.GreaterThan: pc.greater, ds.GreaterThanOrEqual: pc.greater_equal,
    ds.LessThan: pc.less, ds.LessThanOrEqual: pc.less_equal,
}  # fmt: skip
_TEXT: Final[dict[type, Callable[[Any, str], Any]]] = {
    ds.StringStartsWith: lambda values, text: pc.starts_with(values, pattern=text),
    ds.StringEndsWith: lambda values, text: pc.ends_with(values, pattern=text),
    ds.StringContains: lambda values, text: pc.match_substring(values, pattern=text),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter on one header. It can be sent to tasks."""

    column: str
    kind: type
    value: Any = None
    negated: bool = False

    def mask(self, values: Any) -> Any:
        """Of each value, whether the row stays: true, false, or null, which lets it go. As SQL has it, the
        negation of null is null.
        """
        found = self._mask(values)
        return pc.invert(found) if self.negated else found

    def _mask(self, values: Any) -> Any:
        if self.kind is ds.IsNull:
            return pc.is_null(values)
        if self.kind is ds.IsNotNull:
            return pc.is_valid(values)
        if self.kind is ds.In:
            among = pc.is_in(values, value_set=pa.array(self.value, values.type))
            return pc.if_else(pc.is_valid(values), among, pa.scalar(None, pa.bool_()))
        if self.kind is ds.EqualNullSafe:
            equal = pc.equal(values, pa.scalar(self.value, values.type))
            return pc.fill_null(equal, False)
        if self.kind in _TEXT:
            return _TEXT[self.kind](values, self.value)
        return _COMPARE[self.kind](values, pa.scalar(self.value, values.type))


def condition_of(wanted: ds.Filter, schema: StructType) -> Condition | None:
    """What a filter asks of a header; None where Spark has to look itself."""
    negated = isinstance(wanted, ds.Not)
    inner: Any = wanted.child if isinstance(wanted, ds.Not) else wanted
    if type(inner) not in (*_COMPARE, *_TEXT, ds.In, ds.EqualNullSafe, ds.IsNull, ds.IsNotNull):
        return None
    name = ".".join(inner.attribute)
    if name not in HEADERS or name not in schema.names:
        return None
    value = getattr(inner, "value", None)
    if not _fits(value, type(inner), schema[name].dataType):
        return None
    return Condition(name, type(inner), value, negated)


def _fits(value: Any, kind: type, declared: DataType) -> bool:
    """Whether comparing here means what it means to Spark. Times without a zone depend on the session's."""
    if kind in (ds.IsNull, ds.IsNotNull):
        return True
    values = value if kind is ds.In else (value,)
    if any(one is None for one in values):
        return False
    if isinstance(declared, TimestampType):
        return all(isinstance(one, datetime.datetime) and one.tzinfo is not None for one in values)
    return all(isinstance(one, bool | int | str) for one in values)
