"""Reading the primitive encodings (format page "messages", section 1) out of a byte string, front to back."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

Value: TypeAlias = Any
"""What JSON can hold."""


class MalformedError(Exception):
    """The bytes are not what their place requires."""


class Cursor:
    """A place in `data`; every read moves it on, and no read passes `end`."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = start
        self.end = len(data) if end is None else end

    def left(self) -> int:
        return self.end - self.at

    def take(self, count: int) -> bytes:
        if count < 0 or count > self.left():
            raise MalformedError(f"{count} bytes wanted at {self.at}, {self.left()} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def i8(self) -> int:
        return int(self.number(">b"))

    def u8(self) -> int:
        return int(self.number(">B"))

    def i16(self) -> int:
        return int(self.number(">h"))

    def u16(self) -> int:
        return int(self.number(">H"))

    def i32(self) -> int:
        return int(self.number(">i"))

    def i64(self) -> int:
        return int(self.number(">q"))

    def boolean(self) -> bool:
        return self.u8() != 0

    def block(self) -> bytes:
        """An i32 length and so many bytes."""
        return self.take(self.i32())

    def simple_string(self) -> str:
        length = self.i32()
        if length % 2 != 0:
            raise MalformedError(f"a string of {length} bytes")
        return utf16(self.take(length), "little")

    def nullable_simple_string(self) -> str | None:
        return self.simple_string() if self.u8() != 0 else None

    def string(self) -> str:
        """A "short string": its length in characters decides how it is stored."""
        count = self.i32()
        if count < 0:
            raise MalformedError(f"a string of {count} characters")
        if count < 9:
            return utf16(self.take(2 * count), "big")
        if count < 4095:
            return self.utf()
        return self.simple_string()

    def nullable_string(self) -> str | None:
        return self.string() if self.u8() != 0 else None

    def utf(self) -> str:
        encoded = self.take(self.u16())
        units: list[int] = []
        at = 0
        while at < len(encoded):
            first = encoded[at]
            length = 1 if first < 0x80 else 2 if first >> 5 == 0b110 else 3 if first >> 4 == 0b1110 else 0
            rest = encoded[at + 1 : at + length]
            if length == 0 or len(rest) != length - 1 or any(byte >> 6 != 0b10 for byte in rest):
                raise MalformedError("broken UTF")
            unit = first & (0x7F, 0x1F, 0x0F)[length - 1]
            for byte in rest:
                unit = unit << 6 | byte & 0x3F
            units.append(unit)
            at += length
        return utf16(struct.pack(f"<{len(units)}H", *units), "little")


def utf16(data: bytes, order: str) -> str:
    """Decode UTF-16, keeping lone surrogates."""
    return data.decode(f"utf-16-{order[0]}e", "surrogatepass")


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def double(value: float) -> Value:
    """Doubles as JSON has them: what is no number becomes a string."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def float32(value: float) -> Value:
    """The double nearest to the shortest decimal that still reads back as this 32-bit float."""
    if math.isnan(value) or math.isinf(value):
        return double(value)
    packed = struct.pack(">f", value)
    for digits in range(1, 10):
        shorter = float(f"{value:.{digits}g}")
        try:
            if struct.pack(">f", shorter) == packed:
                return shorter
        except OverflowError:
            continue  # rounding up the largest floats leaves their range
    raise AssertionError(f"nine digits always do: {value!r}")


PROPERTY_TYPES = {
    0: "null",
    2: "boolean",
    3: "byte",
    4: "bytes",
    5: "short",
    6: "int",
    7: "long",
    8: "float",
    9: "double",
    10: "string",
    11: "char",
}


def property_value(cursor: Cursor, code: int, string: Callable[[], str | None]) -> tuple[str, Value]:
    """Type name and JSON value of one typed value whose `code` was read already."""
    if code not in PROPERTY_TYPES:
        raise MalformedError(f"property type {code}")
    readers: dict[int, Callable[[], Value]] = {
        0: lambda: None,
        2: cursor.boolean,
        3: cursor.i8,
        4: lambda: base64_text(cursor.block()),
        5: cursor.i16,
        6: cursor.i32,
        7: cursor.i64,
        8: lambda: float32(cursor.number(">f")),
        9: lambda: double(cursor.number(">d")),
        10: string,
        11: lambda: utf16(struct.pack("<H", cursor.u16()), "little"),
    }
    return PROPERTY_TYPES[code], readers[code]()


def typed_properties(cursor: Cursor) -> dict[str, tuple[str, Value]]:
    """Key -> (type name, value), in stored order; a key that comes again replaces the earlier value."""
    if cursor.i8() == 0:
        return {}
    count = cursor.i32()
    if count < 0:
        raise MalformedError(f"{count} properties")
    properties = {}
    for _ in range(count):
        key = cursor.simple_string()
        properties[key] = property_value(cursor, cursor.i8(), cursor.simple_string)
    return properties
