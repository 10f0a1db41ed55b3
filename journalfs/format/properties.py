"""TypedProperties: the properties of a message, a map body, and in another form a stream body
(docs/format/messages.md, "Properties").
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum, unique
from typing import Final, NamedTuple, TypeAlias

from journalfs.errors import DecodeError
from journalfs.format import primitives
from journalfs.format.primitives import Reader

PropertyValue: TypeAlias = bool | int | float | str | bytes | None


@unique
class Code(IntEnum):
    """The byte before a value."""

    NULL = 0
    BOOLEAN = 2
    BYTE = 3
    BYTES = 4
    SHORT = 5
    INT = 6
    LONG = 7
    FLOAT = 8
    DOUBLE = 9
    STRING = 10
    CHAR = 11


CODES: Final = {code.name.lower(): code for code in Code}

INTEGER_BITS: Final = {Code.BYTE: 8, Code.SHORT: 16, Code.INT: 32, Code.LONG: 64}

_FIXED: Final = {
    Code.BYTE: struct.Struct(">b"),
    Code.SHORT: struct.Struct(">h"),
    Code.INT: struct.Struct(">i"),
    Code.LONG: struct.Struct(">q"),
    Code.FLOAT: struct.Struct(">f"),
    Code.DOUBLE: struct.Struct(">d"),
}


class Property(NamedTuple):
    name: str
    code: Code
    value: PropertyValue
    """A char is a string of one UTF-16 unit."""


def encode_value(code: Code, value: PropertyValue) -> bytes:
    """A value behind its code. The value is of the code's type and range."""
    if code is Code.STRING:
        assert isinstance(value, str)
        return primitives.simple_string(value)
    if code is Code.NULL:
        return b""
    if code is Code.BOOLEAN:
        return b"\1" if value else b"\0"
    if code is Code.BYTES:
        assert isinstance(value, bytes)
        return primitives.byte_array(value)
    if code is Code.CHAR:
        assert isinstance(value, str)
        return value.encode("utf-16-be", "surrogatepass")
    return _FIXED[code].pack(value)


def encode_properties(entries: Iterable[Property]) -> bytes:
    """A whole map in the order given; an empty one is one zero byte."""
    parts = [encode_property(entry) for entry in entries]
    if not parts:
        return primitives.NULL
    return primitives.PRESENT + primitives.i32(len(parts)) + b"".join(parts)


def encode_property(entry: Property) -> bytes:
    return primitives.simple_string(entry.name) + bytes((entry.code,)) + encode_value(entry.code, entry.value)


def encode_stream_value(code: Code, value: PropertyValue) -> bytes:
    """One value of a stream body, its code included. Strings are short ones, and a null is a string that is
    not there; true is 255.
    """
    if code is Code.STRING or code is Code.NULL:
        assert value is None or isinstance(value, str)
        return bytes((Code.STRING,)) + primitives.nullable_string(value)
    if code is Code.BOOLEAN:
        return bytes((code,)) + primitives.boolean(bool(value))
    return bytes((code,)) + encode_value(code, value)


def decode_properties(reader: Reader) -> list[Property]:
    """Take a whole map. Raises `DecodeError`."""
    if not reader.boolean():
        return []
    return [_decode_property(reader) for _ in range(reader.count())]


def decode_stream(reader: Reader) -> Iterator[tuple[Code, PropertyValue]]:
    """Every value of a stream body. Raises `DecodeError`."""
    while reader.remaining_bytes:
        code = _decode_code(reader)
        yield code, reader.nullable_string() if code is Code.STRING else _decode_value(reader, code)


def _decode_property(reader: Reader) -> Property:
    name = reader.simple_string()
    code = _decode_code(reader)
    return Property(name, code, _decode_value(reader, code))


def _decode_code(reader: Reader) -> Code:
    at = reader.position
    number = reader.i8()
    try:
        return Code(number)
    except ValueError:
        raise DecodeError(at, f"no property type has the number {number}") from None


def _decode_value(reader: Reader, code: Code) -> PropertyValue:
    match code:
        case Code.NULL:
            return None
        case Code.BOOLEAN:
            return reader.boolean()
        case Code.BYTES:
            return reader.byte_array()
        case Code.STRING:
            return reader.simple_string()
        case Code.CHAR:
            return chr(reader.u16())
        case _:
            form = _FIXED[code]
            value: int | float = form.unpack(reader.raw(form.size))[0]
            return value
