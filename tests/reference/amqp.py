"""AMQP 1.0 values and message sections, as typed JSON (format page "messages", sections 3.3 to 3.7)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from tests.reference.primitives import Cursor, MalformedError, Value, base64_text, double, float32

DEPTH_MAX = 64
"""Deeper values are damage: nobody sends them, and they exist only to exhaust readers."""

HEADER_FIELDS = {
    "durable": "boolean",
    "priority": "ubyte",
    "ttl": "uint",
    "firstAcquirer": "boolean",
    "deliveryCount": "uint",
}
"""Name and type of each, in order."""
PROPERTIES_FIELDS = (
    "messageId",
    "userId",
    "to",
    "subject",
    "replyTo",
    "correlationId",
    "contentType",
    "contentEncoding",
    "absoluteExpiryTime",
    "creationTime",
    "groupId",
    "groupSequence",
    "replyToGroupId",
)
SECTIONS = {
    0x70: "header",
    0x71: "deliveryAnnotations",
    0x72: "messageAnnotations",
    0x73: "properties",
    0x74: "applicationProperties",
    0x75: "data",
    0x76: "sequence",
    0x77: "value",
    0x78: "footer",
}
SYMBOLIC = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:properties:list": 0x73,
    "amqp:application-properties:map": 0x74,
    "amqp:data:binary": 0x75,
    "amqp:amqp-sequence:list": 0x76,
    "amqp:amqp-value:*": 0x77,
    "amqp:footer:map": 0x78,
}


def _text(data: bytes) -> str:
    """UTF-8; each byte that is none stands as U+DC80 to U+DCFF, so that nothing is lost."""
    return data.decode("utf-8", "surrogateescape")


def _char(cursor: Cursor) -> str:
    point = cursor.number(">I")
    if point > 0x10FFFF:
        raise MalformedError(f"character {point:#x}")
    return chr(point)


def _boolean(cursor: Cursor) -> bool:
    byte = cursor.u8()
    if byte > 1:
        raise MalformedError(f"boolean {byte:#x}")
    return byte == 1


FIXED: dict[int, tuple[str, Callable[[Cursor], Value]]] = {
    0x40: ("null", lambda c: None),
    0x41: ("boolean", lambda c: True),
    0x42: ("boolean", lambda c: False),
    0x56: ("boolean", _boolean),
    0x50: ("ubyte", lambda c: c.u8()),
    0x51: ("byte", lambda c: c.i8()),
    0x60: ("ushort", lambda c: c.u16()),
    0x61: ("short", lambda c: c.i16()),
    0x70: ("uint", lambda c: c.number(">I")),
    0x52: ("uint", lambda c: c.u8()),
    0x43: ("uint", lambda c: 0),
    0x71: ("int", lambda c: c.i32()),
    0x54: ("int", lambda c: c.i8()),
    0x80: ("ulong", lambda c: c.number(">Q")),
    0x53: ("ulong", lambda c: c.u8()),
    0x44: ("ulong", lambda c: 0),
    0x81: ("long", lambda c: c.i64()),
    0x55: ("long", lambda c: c.i8()),
    0x72: ("float", lambda c: float32(c.number(">f"))),
    0x82: ("double", lambda c: double(c.number(">d"))),
    0x74: ("decimal32", lambda c: c.take(4).hex()),
    0x84: ("decimal64", lambda c: c.take(8).hex()),
    0x94: ("decimal128", lambda c: c.take(16).hex()),
    0x73: ("char", _char),
    0x83: ("timestamp", lambda c: c.i64()),
    0x98: ("uuid", lambda c: str(uuid.UUID(bytes=c.take(16)))),
    0xA0: ("binary", lambda c: base64_text(c.take(c.u8()))),
    0xB0: ("binary", lambda c: base64_text(c.take(c.number(">I")))),
    0xA1: ("string", lambda c: _text(c.take(c.u8()))),
    0xB1: ("string", lambda c: _text(c.take(c.number(">I")))),
    0xA3: ("symbol", lambda c: _text(c.take(c.u8()))),
    0xB3: ("symbol", lambda c: _text(c.take(c.number(">I")))),
}


def _compound(cursor: Cursor, layout: str) -> tuple[Cursor, int]:
    """The inside of a list, map or array, and its count. Leaves `cursor` behind it."""
    size = cursor.number(layout)
    inside = Cursor(cursor.take(size))
    return inside, inside.number(layout)


def value(cursor: Cursor, depth: int = 0) -> dict[str, Value]:
    """One value with its constructor: `{"t": type, "v": value}`, described ones also with `descriptor`."""
    return _of_constructor(cursor, cursor.u8(), depth)


def _of_constructor(cursor: Cursor, code: int, depth: int) -> dict[str, Value]:
    if depth > DEPTH_MAX:
        raise MalformedError("nested too deep")
    if code in FIXED:
        name, read = FIXED[code]
        return {"t": name, "v": read(cursor)}
    if code == 0x00:
        descriptor = value(cursor, depth + 1)
        return {"t": "described", "descriptor": descriptor, "v": value(cursor, depth + 1)}
    if code == 0x45:
        return {"t": "list", "v": []}
    layout = ">B" if code >> 4 in (0xC, 0xE) else ">I"
    if code in (0xC0, 0xD0, 0xC1, 0xD1):
        inside, count = _compound(cursor, layout)
        values = []
        for _ in range(count):
            values.append(value(inside, depth + 1))
        if inside.left():
            raise MalformedError(f"{inside.left()} bytes left inside a list or map")
        if code in (0xC0, 0xD0):
            return {"t": "list", "v": values}
        if count % 2 != 0:
            raise MalformedError("a map with a key that has no value")
        return {"t": "map", "v": [list(pair) for pair in zip(values[::2], values[1::2], strict=True)]}
    if code in (0xE0, 0xF0):
        return _array(*_compound(cursor, layout), depth)
    raise MalformedError(f"constructor {code:#04x}")


def _array(inside: Cursor, count: int, depth: int) -> dict[str, Value]:
    descriptor = None
    if count and inside.left() == 0:
        raise MalformedError("an array without constructor")
    if inside.left() == 0:
        return {"t": "array", "v": []}
    code = inside.u8()
    if code == 0x00:
        descriptor = value(inside, depth + 1)
        code = inside.u8()
    values = []
    for _ in range(count):
        element = _of_constructor(inside, code, depth + 1)
        values.append(
            element if descriptor is None else {"t": "described", "descriptor": descriptor, "v": element}
        )
        if code in (0x40, 0x41, 0x42, 0x43, 0x44, 0x45) and count > 1 << 20:
            raise MalformedError("millions of elements without bytes")
    if inside.left():
        raise MalformedError(f"{inside.left()} bytes left inside an array")
    return {"t": "array", "v": values}


def _fields(section: dict[str, Value], names: Iterable[str]) -> dict[str, dict[str, Value]]:
    """The fields of a list section that are there and not null, by name."""
    names = list(names)
    if section["t"] != "list" or len(section["v"]) > len(names):
        raise MalformedError("header or properties are no list of their fields")
    return {
        name: element for name, element in zip(names, section["v"], strict=False) if element["t"] != "null"
    }


def _pairs(section: dict[str, Value]) -> list[Any]:
    if section["t"] != "map":
        raise MalformedError("annotations or properties that are no map")
    return list(section["v"])


class Sections:
    """A message taken apart: section name -> decoded fields, pairs, or body values."""

    def __init__(self, encoded: bytes) -> None:
        self.header: dict[str, dict[str, Value]] | None = None
        self.properties: dict[str, dict[str, Value]] | None = None
        self.maps: dict[str, list[Any]] = {}
        self.data: list[bytes] = []
        self.sequences: list[Any] = []
        self.value: dict[str, Value] | None = None
        self.body_kind: str | None = None
        self._last = 0
        cursor = Cursor(encoded)
        while cursor.left():
            self._section(cursor)

    def take_cached(self, cached: dict[str, dict[str, Value]]) -> None:
        """Use the copies that a large message's record keeps of its sections: described values, or null."""
        for name, described in cached.items():
            if described["t"] == "null":
                continue
            if name == "header":
                self.header = _fields(described["v"], HEADER_FIELDS)
            elif name == "properties":
                self.properties = _fields(described["v"], PROPERTIES_FIELDS)
            else:
                self.maps[name] = _pairs(described["v"])

    def _section(self, cursor: Cursor) -> None:
        if cursor.u8() != 0:
            raise MalformedError("a section that is not described")
        descriptor = value(cursor)
        code = descriptor["v"] if descriptor["t"] == "ulong" else SYMBOLIC.get(str(descriptor["v"]), -1)
        name = SECTIONS.get(code)
        if name is None:
            raise MalformedError(f"section {descriptor}")
        if code < self._last or (code == self._last and name not in ("data", "sequence")):
            raise MalformedError(f"section {name} out of order")
        self._last = code
        if name == "data":
            constructor = cursor.u8()
            if constructor not in (0xA0, 0xB0):
                raise MalformedError("a data section that is not binary")
            self._body(name)
            self.data.append(cursor.take(cursor.number(">B" if constructor == 0xA0 else ">I")))
            return
        content = value(cursor)
        if name == "header":
            self.header = _fields(content, HEADER_FIELDS)
        elif name == "properties":
            self.properties = _fields(content, PROPERTIES_FIELDS)
        elif name == "value":
            self._body(name)
            self.value = content
        elif name == "sequence":
            if content["t"] != "list":
                raise MalformedError("a sequence that is no list")
            self._body(name)
            self.sequences.append(content["v"])
        else:
            self.maps[name] = _pairs(content)

    def _body(self, kind: str) -> None:
        if self.body_kind not in (None, kind) or (kind == "value" and self.body_kind == "value"):
            raise MalformedError("bodies of several kinds")
        self.body_kind = kind


def id_text(identifier: dict[str, Value]) -> str:
    """A message-id as text: numbers in decimal, uuids in their usual form, binary as base64."""
    return str(identifier["v"])


def plain(element: dict[str, Value]) -> Value:
    """Strings and booleans stand plain among the fields of a section, everything else with its type."""
    return element["v"] if element["t"] in ("string", "boolean") else element
