"""The broker's basic encodings, written (docs/format/records.md, "Basic encodings"): the other side of
`primitives`.

Text may hold lone UTF-16 surrogates; they are written as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

_Value = TypeVar("_Value")

_I16: Final = struct.Struct(">h")
_U16: Final = struct.Struct(">H")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_F64: Final = struct.Struct(">d")

NULL: Final = b"\0"
PRESENT: Final = b"\1"
PRESENT_FF: Final = b"\xff"
"""The mark before a value in the records that mark with the broker's own boolean."""

UTF_BYTES_MAX: Final = 0xFFFF
_STRING_PLAIN_CHARS: Final = 9
_STRING_UTF_CHARS: Final = 4095

i16 = _I16.pack
i32 = _I32.pack
i64 = _I64.pack
f64 = _F64.pack


def i8(value: int) -> bytes:
    return (value & 0xFF).to_bytes(1)


def boolean(value: bool) -> bytes:
    """As the bindings journal writes it: true is 255. Messages write 1."""
    return b"\xff" if value else b"\0"


def byte_array(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data


def simple_string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return _I32.pack(len(units)) + units


def string(text: str) -> bytes:
    """The broker's short string: its length in characters chooses one of three encodings."""
    units = text.encode("utf-16-be", "surrogatepass")
    characters = len(units) // 2
    if characters < _STRING_PLAIN_CHARS:
        return _I32.pack(characters) + units
    if characters < _STRING_UTF_CHARS:
        return _I32.pack(characters) + utf(text)
    return _I32.pack(characters) + simple_string(text)


def utf(text: str) -> bytes:
    """u16 length, then each UTF-16 unit in one to three bytes. At most 65535 bytes, so 21845 units fit."""
    if text.isascii():
        encoded = text.encode("ascii")
    else:
        # Each half of a pair on its own: what makes three bytes of every surrogate.
        units = text.encode("utf-16-le", "surrogatepass")
        halves = "".join(map(chr, memoryview(units).cast("H")))
        encoded = halves.encode("utf-8", "surrogatepass")
    return _U16.pack(len(encoded)) + encoded


def nullable(write: Callable[[_Value], bytes], value: _Value | None, *, mark: bytes = PRESENT) -> bytes:
    return NULL if value is None else mark + write(value)


def nullable_simple_string(text: str | None) -> bytes:
    return nullable(simple_string, text)


def nullable_string(text: str | None) -> bytes:
    return nullable(string, text)
