"""AMQP 1.0 values, written in their shortest forms, and enough reading to take a message's sections apart.

Strings and symbols are given as the bytes of their UTF-8, chars as code points, decimals and UUIDs as the
bytes of their encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, SupportsIndex, TypeAlias, overload

from journalfs.errors import DecodeError

Scalar: TypeAlias = int | float | bytes | None

NULL: Final = b"\x40"

_PACKED: Final = {
    "boolean": (0x56, struct.Struct(">B")),
    "ubyte": (0x50, struct.Struct(">B")),
    "ushort": (0x60, struct.Struct(">H")),
    "uint": (0x70, struct.Struct(">I")),
    "ulong": (0x80, struct.Struct(">Q")),
    "byte": (0x51, struct.Struct(">b")),
    "short": (0x61, struct.Struct(">h")),
    "int": (0x71, struct.Struct(">i")),
    "long": (0x81, struct.Struct(">q")),
    "float": (0x72, struct.Struct(">f")),
    "double": (0x82, struct.Struct(">d")),
    "char": (0x73, struct.Struct(">I")),
    "timestamp": (0x83, struct.Struct(">q")),
}
_FIXED: Final = {"decimal32": 0x74, "decimal64": 0x84, "decimal128": 0x94, "uuid": 0x98}
_SIZED: Final = {"binary": 0xB0, "string": 0xB1, "symbol": 0xB3}
_COMPOUND: Final = {"list": 0xD0, "map": 0xD1, "array": 0xF0}

SCALARS: Final = frozenset({"null", *_PACKED, *_FIXED, *_SIZED})
TYPES: Final = SCALARS | _COMPOUND.keys() | {"described"}

_SMALL: Final = {0x70: (0x43, 0x52), 0x80: (0x44, 0x53)}
"""Constructors of zero and of one unsigned byte."""
_SMALL_SIGNED: Final = {0x71: 0x54, 0x81: 0x55}
_WIDE_BIT: Final = 0x10
_U32: Final = struct.Struct(">I")
_SMALL_MAX: Final = 0xFF


class Value(NamedTuple):
    """An encoded value, and what an array that it is an element of needs: there the constructor stands once,
    and all elements have the same.
    """

    encoded: bytes
    """By itself, in its shortest form."""
    constructor: bytes
    """Of the type's widest form, with the descriptor before it."""
    content: bytes
    """What stands behind that one."""
    small_constructor: bytes = b""
    """Of a shorter form, if it has one that is no wider for other values."""
    small_content: bytes = b""


def constructor_of(type_name: str) -> bytes:
    """That of the type's widest form. Not of described values, which have no one."""
    if type_name == "null":
        return NULL
    if type_name in _PACKED:
        return bytes((_PACKED[type_name][0],))
    return bytes(((_FIXED | _SIZED | _COMPOUND)[type_name],))


def scalar(type_name: str, value: Scalar) -> Value:
    """The value is of the type and in its range."""
    if type_name == "null":
        return Value(NULL, NULL, b"")
    if type_name in _PACKED:
        code, form = _PACKED[type_name]
        return _number(code, value, form.pack(value))
    assert isinstance(value, bytes)
    if type_name in _FIXED:
        constructor = bytes((_FIXED[type_name],))
        return Value(constructor + value, constructor, value)
    return _sized(_SIZED[type_name], value)


def _number(code: int, value: Scalar, packed: bytes) -> Value:
    wide = bytes((code,))
    assert isinstance(value, int | float)
    if code == 0x56:
        return Value(b"\x41" if value else b"\x42", wide, packed)
    if code in _SMALL and value <= _SMALL_MAX:
        zero, one = _SMALL[code]
        small, content = bytes((one,)), bytes((int(value),))
        return Value(small + content if value else bytes((zero,)), wide, packed, small, content)
    if code in _SMALL_SIGNED and -128 <= value <= 127:
        small, content = bytes((_SMALL_SIGNED[code],)), bytes((int(value) & 0xFF,))
        return Value(small + content, wide, packed, small, content)
    return Value(wide + packed, wide, packed)


def _sized(code: int, content: bytes) -> Value:
    wide, sized = bytes((code,)), _U32.pack(len(content)) + content
    if len(content) > _SMALL_MAX:
        return Value(wide + sized, wide, sized)
    small, short = bytes((code & ~_WIDE_BIT,)), bytes((len(content),)) + content
    return Value(small + short, wide, sized, small, short)


def _compound(code: int, count: int, content: bytes) -> Value:
    wide, sized = bytes((code,)), _U32.pack(len(content) + 4) + _U32.pack(count) + content
    if count > _SMALL_MAX or len(content) >= _SMALL_MAX:
        return Value(wide + sized, wide, sized)
    small, short = bytes((code & ~_WIDE_BIT,)), bytes((len(content) + 1, count)) + content
    return Value(small + short, wide, sized, small, short)


def list_of(items: Sequence[Value]) -> Value:
    found = _compound(_COMPOUND["list"], len(items), b"".join(item.encoded for item in items))
    return found if items else found._replace(encoded=b"\x45")


def map_of(pairs: Sequence[tuple[Value, Value]]) -> Value:
    content = b"".join(key.encoded + value.encoded for key, value in pairs)
    return _compound(_COMPOUND["map"], 2 * len(pairs), content)


def array_of(elements: Sequence[Value]) -> Value:
    """All elements are of one type: they have the same `constructor`."""
    small = elements[0].small_constructor
    if small and all(element.small_constructor == small for element in elements):
        content = small + b"".join(element.small_content for element in elements)
    else:
        content = elements[0].constructor + b"".join(element.content for element in elements)
    return _compound(_COMPOUND["array"], len(elements), content)


def empty_array(constructor: bytes) -> Value:
    """It may say of what type its elements would be."""
    return _compound(_COMPOUND["array"], 0, constructor)


def described(descriptor: Value, value: Value) -> Value:
    before = b"\0" + descriptor.encoded
    small = before + value.small_constructor if value.small_constructor else b""
    return Value(
        before + value.encoded, before + value.constructor, value.content, small, value.small_content
    )


class Encoded(Protocol):
    """Bytes, or what gives them when it is asked."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> bytes | memoryview: ...


def skip(data: Encoded, at: int) -> int:
    """Where the value that begins at `at` ends. Raises `DecodeError`."""
    wanted = 1
    while wanted:
        code = _byte(data, at)
        at += 1
        wanted -= 1
        if code == 0x00:
            wanted += 2
        elif code >= 0xA0:
            if code & _WIDE_BIT:
                at += 4 + int.from_bytes(data[at : at + 4])
            else:
                at += 1 + _byte(data, at)
        elif code >= 0x40:
            at += (0, 1, 2, 4, 8, 16)[(code >> 4) - 4]
        else:
            raise DecodeError(at - 1, f"{code:#04x} begins no AMQP value")
        if at > len(data):
            raise DecodeError(len(data), "an AMQP value ends too early")
    return at


def _byte(data: Encoded, at: int) -> int:
    if at >= len(data):
        raise DecodeError(at, "an AMQP value ends too early")
    return data[at]


def items_of(data: bytes) -> list[bytes]:
    """The encoded items of an encoded list, or keys and values of a map. Raises `DecodeError`."""
    code = _byte(data, 0)
    if code == 0x45:
        return []
    if code & ~_WIDE_BIT not in (0xC0, 0xC1):
        raise DecodeError(0, f"{code:#04x} begins neither list nor map")
    at = 9 if code & _WIDE_BIT else 3
    items = []
    while at < len(data):
        end = skip(data, at)
        items.append(data[at:end])
        at = end
    return items
