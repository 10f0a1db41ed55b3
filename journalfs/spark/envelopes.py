"""Rows of a DataFrame as files of messages: plain lines where a body is all there is, else envelopes."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
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
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from journalfs.errors import WrongCall
from journalfs.spark.schema import COLUMNS

_encode: Final = msgspec.json.Encoder().encode

_IGNORED: Final = ("id", "queue", "address", "largeMessage", "damage", "rawMessage", "duplicateIdBytes")
"""Columns of a read that say nothing of a new message."""
_TIMES: Final = ("timestamp", "expiration", "scheduledTime")
_PLAIN: Final = (
    "type",
    "protocol",
    "durable",
    "priority",
    "deliveryCount",
    "userId",
    "groupId",
    "duplicateId",
)
_KINDS: Final[dict[type[DataType], str]] = {
    StringType: "string",
    BooleanType: "boolean",
    ByteType: "byte",
    ShortType: "short",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    BinaryType: "bytes",
}
_WHOLE: Final = ("byte", "short", "int", "long", "ubyte", "ushort", "uint", "ulong", "timestamp")

Put = Callable[[dict[str, Any], Any], None]


class Envelopes:
    """Turns record batches of one schema into lines. Raises `WrongCall` for a schema that says no message."""

    def __init__(self, schema: StructType) -> None:
        self._puts = [(one.name, _put_of(one.name, one.dataType)) for one in schema.fields]
        self._only_body = (
            len(schema) == 1 and schema.names[0] in ("body", "value") and _is_text(schema[0].dataType)
        )
        self._whole = "envelope" in schema.names
        if not self._whole and not {"body", "value", "bodyBytes"} & set(schema.names):
            raise WrongCall("a message needs a column body (or value), bodyBytes or envelope")

    def suffix(self, batch: Any) -> str:
        """What the file must be called that the lines go to."""
        return "lines" if self._only_body and _are_lines(batch.column(0)) else "jsonl"

    def content(self, batch: Any) -> Any:
        """The lines of the rows, as bytes or a buffer of them."""
        if self.suffix(batch) == "lines":
            ended = pc.binary_join_element_wise(batch.column(0), "", "\n")
            begin, end = ended.offset, ended.offset + len(ended)
            offsets = memoryview(ended.buffers()[1]).cast("i")
            return memoryview(ended.buffers()[2])[offsets[begin] : offsets[end]]
        return b"".join(self._line(row) for row in batch.to_pylist())

    def _line(self, row: Mapping[str, Any]) -> bytes:
        if self._whole:
            line = row["envelope"]
            if line is None:
                raise WrongCall("a row without an envelope is no message")
            return str(line).encode() + b"\n"
        message: dict[str, Any] = {}
        for name, put in self._puts:
            if row[name] is not None:
                put(message, row[name])
        if not message.keys() & {"body", "body_base64", "type"}:
            message["type"] = "text"
        return _encode(message) + b"\n"


def _is_text(declared: DataType) -> bool:
    return isinstance(declared, StringType)


def _are_lines(texts: Any) -> bool:
    """Whether texts can be told apart by line feeds."""
    if texts.null_count or not len(texts):
        return False
    return not pc.any(pc.match_substring(texts, "\n")).as_py()


def _put_of(name: str, declared: DataType) -> Put:  # noqa: PLR0911 - a table
    if name in _IGNORED:
        return lambda message, value: None
    if name == "envelope":
        return _key(name)
    if name in ("body", "value", "bodyBytes"):
        return _body_of(name, declared)
    if name in _TIMES and isinstance(declared, TimestampType):
        return lambda message, value: message.__setitem__(name, _ms(value))
    if name in _TIMES or name in _PLAIN:
        return _key(name)
    if name == "properties" and isinstance(declared, MapType):
        return _put_properties
    if name in COLUMNS or type(declared) not in _KINDS:
        raise WrongCall(f"column {name!r} cannot be written as {declared.simpleString()}")
    return _property(name, _KINDS[type(declared)])


def _body_of(name: str, declared: DataType) -> Put:
    if isinstance(declared, StringType) and name != "bodyBytes":
        return _key("body")
    if isinstance(declared, BinaryType):
        return lambda message, value: message.__setitem__("body_base64", base64.b64encode(value).decode())
    raise WrongCall(f"column {name!r} cannot be {declared.simpleString()}: cast it to a string or to binary")


def _key(name: str) -> Put:
    return lambda message, value: message.__setitem__(name, value)


def _ms(value: Any) -> int:
    """Milliseconds since 1970. Arrow gives times that pandas does not know as plain ones."""
    ms: float = value.timestamp() * 1000
    return round(ms)


def _property(name: str, kind: str) -> Put:
    def put(message: dict[str, Any], value: Any) -> None:
        _add(message, name, kind, base64.b64encode(value).decode() if kind == "bytes" else value)

    return put


def _add(message: dict[str, Any], name: str, kind: str, value: Any) -> None:
    message.setdefault("properties", {})[name] = value
    if kind not in ("string", "boolean", "null"):
        message.setdefault("propertyTypes", {})[name] = kind


def _put_properties(message: dict[str, Any], value: Any) -> None:
    """A map of texts, or of values with their types, as a read gives it."""
    for name, one in value.items() if isinstance(value, dict) else value:
        if not isinstance(one, dict):
            _add(message, name, "string", one)
            continue
        kind, text = one.get("type") or "string", one.get("value")
        try:
            _add(message, name, kind, _value(kind, text))
        except ValueError:
            raise WrongCall(
                f"property {name!r}: {text!r} is no {kind}; mend the value, or write it with type 'string'"
            ) from None


def _value(kind: str, text: str | None) -> Any:
    """Raises ValueError for a text that does not say what its kind is."""
    if text is None or kind == "null":
        return None
    if kind == "boolean":
        return ("false", "true").index(text) == 1
    if kind in _WHOLE:
        return int(text)
    if kind in ("float", "double") and text not in ("NaN", "Infinity", "-Infinity"):
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(text)  # JSON has other words for these
        return number
    return text
