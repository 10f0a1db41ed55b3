"""Rows of a DataFrame as files of messages: plain lines where a body is all there is, else envelopes."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec
import pyarrow.compute as pc
from pyspark.sql import types as t

from journalfs.errors import WrongCall
from journalfs.spark.schema import PLAIN_PROPERTIES, PROPERTIES, PROPERTY, column_name

_encode: Final = msgspec.json.Encoder().encode

_IGNORED: Final = ("id", "queue", "address", "largeMessage", "damage", "rawMessage", "duplicateIdBytes")
"""Columns of a read that say nothing of a new message."""
_BODIES: Final = ("body", "value", "bodyBytes")
_TEXT: Final = (t.StringType,)
_NUMBER: Final = (t.IntegerType, t.LongType, t.ShortType, t.ByteType)
_TIME: Final = (t.TimestampType, t.LongType, t.IntegerType, t.ShortType, t.ByteType)
_HEADERS: Final[dict[str, tuple[type[t.DataType], ...]]] = {
    "type": _TEXT, "protocol": _TEXT, "durable": (t.BooleanType,), "priority": _NUMBER, "timestamp": _TIME,
    "expiration": _TIME, "scheduledTime": _TIME, "deliveryCount": _NUMBER, "userId": _TEXT, "groupId": _TEXT,
    "duplicateId": _TEXT,
}  # fmt: skip
"""Types that a header's column may have; the first are those to cast others to. A time that is a number is
milliseconds since 1970.
"""
_STRUCTURED: Final = ("map", "stream")
"""Types of messages whose bodies have types inside, which a column of text does not carry."""
_KINDS: Final[dict[type[t.DataType], str]] = {
    t.StringType: "string", t.BooleanType: "boolean", t.ByteType: "byte", t.ShortType: "short",
    t.IntegerType: "int", t.LongType: "long", t.FloatType: "float", t.DoubleType: "double",
    t.BinaryType: "bytes",
}  # fmt: skip
_WHOLE: Final = ("byte", "short", "int", "long", "ubyte", "ushort", "uint", "ulong", "timestamp")

Put = Callable[[dict[str, Any], Any], None]


class Envelopes:
    """Turns record batches of one schema into lines. Raises `WrongCall` for a schema that says no message."""

    def __init__(self, schema: t.StructType) -> None:
        names = {name: _meant(name) for name in schema.names}
        meant = set(names.values())
        self._puts = [(one.name, _put_of(names[one.name], one)) for one in schema.fields]
        self._only_body = len(schema) == 1 and meant < {"body", "value"} and _is_text(schema[0].dataType)
        self._envelope = next((name for name in names if names[name] == "envelope"), None)
        self._bodies = [name for name in names if names[name] in _BODIES]
        if self._envelope is None and not self._bodies:
            raise WrongCall("a message needs a column body (or value), bodyBytes or envelope")
        if self._envelope is None and "value" in meant and len(self._bodies) > 1:
            raise WrongCall(f"{_both(self._bodies)} are a message's body; drop or rename all but one")

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
        if self._envelope is not None:
            return _one_line(row[self._envelope])
        given = [name for name in self._bodies if row[name] is not None]
        if len(given) > 1:
            raise WrongCall(f"a row has a body in {_both(given)}; leave one of them null, or {_FAITHFULLY}")
        message: dict[str, Any] = {}
        for name, put in self._puts:
            if row[name] is not None:
                put(message, row[name])
        if not message.keys() & {"body", "body_base64", "type"}:
            message["type"] = "text"
        if message.get("type") in _STRUCTURED and "body" in message:
            kind = message["type"]
            raise WrongCall(f"a row is of type {kind!r}, whose body no column of text makes; {_FAITHFULLY}")
        return _encode(message) + b"\n"


_FAITHFULLY: Final = "read and write messages as column envelope, which carries all of them"


def _both(names: Sequence[str]) -> str:
    return "columns " + " and ".join(map(repr, names))


def _one_line(envelope: str | None) -> bytes:
    """An envelope as one line; one that was printed over several is joined. Raises `WrongCall`."""
    if envelope is None or not envelope.strip():
        raise WrongCall("a row without an envelope is no message")
    line = envelope.strip()
    if "\n" in line:
        try:
            json.loads(line)
        except ValueError as error:
            raise WrongCall(
                f"column 'envelope': a row with line feeds is not one JSON object: {error}"
            ) from None
        # Between values they are space, and within a text JSON has none.
        line = line.replace("\n", " ")
    return line.encode() + b"\n"


def _meant(name: str) -> str:
    """The column that a name means; Spark does not look at the case of letters."""
    return "value" if name.lower() == "value" else column_name(name)


def _is_text(declared: t.DataType) -> bool:
    return isinstance(declared, t.StringType)


def _are_lines(texts: Any) -> bool:
    """Whether texts can be told apart by line feeds."""
    if texts.null_count or not len(texts):
        return False
    return not pc.any(pc.match_substring(texts, "\n")).as_py()


def _put_of(name: str, column: t.StructField) -> Put:  # noqa: PLR0911 - a table
    """What puts a column, which means `name`, into a message."""
    declared = column.dataType
    if name in _IGNORED:
        return lambda message, value: None
    if name == "envelope":
        return _key(name) if isinstance(declared, t.StringType) else _refuse(column, "string")
    if name in _BODIES:
        return _body_of(name, column)
    if name in _HEADERS:
        if not isinstance(declared, (*_HEADERS[name], t.NullType)):
            return _refuse(column, " or ".join(one().simpleString() for one in _HEADERS[name][:2]))
        return _time(name) if isinstance(declared, t.TimestampType) else _key(name)
    if name == "properties":
        return _put_properties if _are_properties(declared) else _refuse(column, _PROPERTIES_TYPES)
    if type(declared) not in _KINDS:
        return _refuse(column, "one of " + ", ".join(one().simpleString() for one in _KINDS))
    return _property(name, _KINDS[type(declared)])


def _refuse(column: t.StructField, wanted: str) -> NoReturn:
    raise WrongCall(
        f"column {column.name!r} cannot be written as {column.dataType.simpleString()}: cast it to {wanted}"
    )


_PROPERTIES_TYPES: Final = f"{PLAIN_PROPERTIES.simpleString()} or {PROPERTIES.simpleString()}"


def _are_properties(declared: t.DataType) -> bool:
    """Whether a column is a map of texts, or of values with their types as a read gives them."""
    if isinstance(declared, t.NullType):
        return True
    if not isinstance(declared, t.MapType) or not isinstance(declared.keyType, t.StringType):
        return False
    value = declared.valueType
    if isinstance(value, t.StructType):
        return sorted(value.names) == sorted(PROPERTY.names) and all(_is_text(one.dataType) for one in value)
    return isinstance(value, t.StringType)


def _body_of(name: str, column: t.StructField) -> Put:
    if isinstance(column.dataType, t.StringType) and name != "bodyBytes":
        return _key("body")
    if isinstance(column.dataType, t.BinaryType):
        return lambda message, value: message.__setitem__("body_base64", base64.b64encode(value).decode())
    return _refuse(column, "binary" if name == "bodyBytes" else "string or binary")


def _time(name: str) -> Put:
    return lambda message, value: message.__setitem__(name, _ms(value))


def _key(name: str) -> Put:
    return lambda message, value: message.__setitem__(name, value)


def _ms(value: Any) -> int:
    """Milliseconds since 1970. Arrow gives times that pandas does not know as plain ones."""
    ms: float = value.timestamp() * 1000
    return round(ms)


def _property(name: str, kind: str) -> Put:
    def put(message: dict[str, Any], value: Any) -> None:
        _add(message, name, kind, _as_json(value))

    return put


def _as_json(value: Any) -> Any:
    """A value of a column as an envelope has it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


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
