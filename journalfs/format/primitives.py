"""The broker's basic encodings, read with bounds checked (docs/format/records.md, "Basic encodings").

Pure: bytes in, values out. Every read beyond the end, and every length that the bytes cannot hold, is a
`DecodeError` that says where; nothing is allocated on the word of a length field.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Final, TypeVar

from journalfs import limits
from journalfs.errors import DecodeError

_Value = TypeVar("_Value")

_I16: Final = struct.Struct(">h")
_U16: Final = struct.Struct(">H")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_F64: Final = struct.Struct(">d")

# A String of fewer characters than the first bound is plain UTF-16, of fewer than the second UTF, else a
# SimpleString.
_STRING_PLAIN_CHARS: Final = 9
_STRING_UTF_CHARS: Final = 4095


class Reader:
    """Reads values one after another from `data`.

    Text keeps lone UTF-16 surrogates as lone surrogate code points, so encoding it back gives the same bytes.
    """

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes | memoryview, *, position: int = 0) -> None:
        self._data = memoryview(data).cast("B")
        self._position = position

    @property
    def position(self) -> int:
        """Offset of the next byte from the start of `data`."""
        return self._position

    @property
    def remaining_bytes(self) -> int:
        return len(self._data) - self._position

    def peek(self) -> memoryview:
        """Everything that is left, without taking it."""
        return self._data[self._position :]

    def rest(self) -> bytes:
        """Take everything that is left."""
        return self.raw(self.remaining_bytes)

    def raw(self, length: int) -> bytes:
        return bytes(self._take(length))

    def i8(self) -> int:
        value = self._take(1)[0]
        return value - 256 if value > 127 else value

    def i16(self) -> int:
        return int(_I16.unpack(self._take(2))[0])

    def u16(self) -> int:
        return int(_U16.unpack(self._take(2))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self._take(4))[0])

    def i64(self) -> int:
        return int(_I64.unpack(self._take(8))[0])

    def f64(self) -> float:
        return float(_F64.unpack(self._take(8))[0])

    def boolean(self) -> bool:
        """One byte; some writers say true with 1, others with 255."""
        return self._take(1)[0] != 0

    def count(self) -> int:
        """A list's i32 length, refused when negative or beyond `limits.RECORD_ITEMS_MAX`."""
        at = self._position
        count = self.i32()
        if not 0 <= count <= limits.RECORD_ITEMS_MAX:
            raise DecodeError(at, f"a list cannot have {count} entries")
        return count

    def byte_array(self) -> bytes:
        """i32 length, then that many bytes."""
        return self.raw(self._length("bytes"))

    def simple_string(self) -> str:
        """i32 length in bytes, then UTF-16 little-endian."""
        at = self._position
        length = self._length("a string")
        if length % 2:
            raise DecodeError(at, f"a string of two-byte characters cannot have {length} bytes")
        return decode_utf16(self._take(length), "little")

    def string(self) -> str:
        """i32 length in characters, whose size chooses one of three encodings of what follows."""
        at = self._position
        characters = self.i32()
        if characters < 0:
            raise DecodeError(at, f"a string cannot have {characters} characters")
        if characters < _STRING_PLAIN_CHARS:
            return decode_utf16(self._take(2 * characters), "big")
        if characters < _STRING_UTF_CHARS:
            return self.utf()
        return self.simple_string()

    def utf(self) -> str:
        """u16 length in bytes, then one to three bytes for each UTF-16 unit."""
        at = self._position
        return _decode_utf(self._take(self.u16()), at + 2)

    def uuid(self) -> uuid.UUID:
        """16 raw bytes; version and variant bits are forced as the broker forces them on loading."""
        return broker_uuid(self.raw(16))

    def nullable(self, read: Callable[[], _Value]) -> _Value | None:
        """A presence byte (0: null), then what `read` takes."""
        return read() if self.boolean() else None

    def nullable_simple_string(self) -> str | None:
        return self.nullable(self.simple_string)

    def nullable_string(self) -> str | None:
        return self.nullable(self.string)

    def _length(self, what: str) -> int:
        at = self._position
        length = self.i32()
        if length < 0 or length > self.remaining_bytes or length > limits.RECORD_STRING_BYTES_MAX:
            raise DecodeError(at, f"{what} of {length} bytes, but {self.remaining_bytes} are left")
        return length

    def _take(self, length: int) -> memoryview:
        start = self._position
        if length < 0 or length > len(self._data) - start:
            raise DecodeError(start, f"{length} bytes expected, {len(self._data) - start} are left")
        self._position = start + length
        return self._data[start : start + length]


def decode_utf16(data: bytes | bytearray | memoryview, order: str) -> str:
    """Decode UTF-16 units (`order` is "little" or "big"); pairs join, lone surrogates stay as they are."""
    codec = "utf-16-le" if order == "little" else "utf-16-be"
    return bytes(data).decode(codec, "surrogatepass")


def broker_uuid(data: bytes) -> uuid.UUID:
    """The id as the broker prints it: version 1 and the standard variant, whatever the bytes say."""
    value = bytearray(data)
    value[6] = value[6] & 0x0F | 0x10
    value[8] = value[8] & 0x3F | 0x80
    return uuid.UUID(bytes=bytes(value))


def _decode_utf(data: memoryview, offset: int) -> str:
    raw = bytes(data)
    if raw.isascii():
        return raw.decode("ascii")
    units = bytearray()
    at = 0
    while at < len(raw):
        lead = raw[at]
        size = 1 if lead < 0x80 else 2 if lead & 0xE0 == 0xC0 else 3 if lead & 0xF0 == 0xE0 else 0
        tail = raw[at + 1 : at + size]
        if size == 0 or len(tail) != size - 1 or any(byte & 0xC0 != 0x80 for byte in tail):
            raise DecodeError(offset + at, f"byte {lead:#04x} begins no character")
        unit = lead if size == 1 else lead & (0x1F if size == 2 else 0x0F)
        for byte in tail:
            unit = unit << 6 | byte & 0x3F
        units += unit.to_bytes(2, "little")
        at += size
    return decode_utf16(units, "little")


# The same, written (docs/format/records.md, "Basic encodings"). Lone UTF-16 surrogates are
# written as they are.

NULL: Final = b"\0"
PRESENT: Final = b"\1"
PRESENT_FF: Final = b"\xff"
"""The mark before a value in the records that mark with the broker's own boolean."""

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
