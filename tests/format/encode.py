"""Writes the broker's basic encodings, from the format pages alone, to have something to decode."""

from __future__ import annotations

import struct
from collections.abc import Callable


def i8(value: int) -> bytes:
    return struct.pack(">b", value)


def i16(value: int) -> bytes:
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


def i64(value: int) -> bytes:
    return struct.pack(">q", value)


def f64(value: float) -> bytes:
    return struct.pack(">d", value)


def boolean(value: bool) -> bytes:
    return b"\xff" if value else b"\0"


def simple_string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return i32(len(units)) + units


def utf(text: str) -> bytes:
    encoded = bytearray()
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        unit = units[index] << 8 | units[index + 1]
        if unit < 0x80:
            encoded.append(unit)
        elif unit < 0x800:
            encoded += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            encoded += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return struct.pack(">H", len(encoded)) + encoded


def string(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")
    characters = len(units) // 2
    if characters < 9:
        return i32(characters) + units
    if characters < 4095:
        return i32(characters) + utf(text)
    return i32(characters) + simple_string(text)


def nullable(write: Callable[..., bytes], value: object, *, mark: bytes = b"\x01") -> bytes:
    return b"\0" if value is None else mark + write(value)


def record(kind: int, rid: int, fields: bytes, *, compact_count: int | None = 0) -> bytes:
    """A journal record: head, fields, check size. `compact_count` None: format version 1."""
    head = bytes((kind,)) + i32(rid) + (b"" if compact_count is None else bytes((compact_count,)))
    return head + fields + i32(len(head) + len(fields) + 4)


def add(rid: int, record_id: int, user_type: int, body: bytes) -> bytes:
    return record(11, rid, i64(record_id) + i32(len(body)) + i8(user_type) + body)


def header(file_id: int, *, version: int = 2, user_version: int = 0) -> bytes:
    return i32(version) + i32(user_version) + i64(file_id)
