"""Basic encodings: what is written is read back, and nothing is read beyond the end."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from journalfs.errors import DecodeError
from journalfs.format.primitives import Reader
from tests.format import encode

# UTF-16 from disk: any units at all, so lone surrogates too, but never a pair left apart.
TEXT = st.binary(max_size=80).map(lambda raw: raw[: len(raw) & ~1].decode("utf-16-le", "surrogatepass"))


@given(TEXT | TEXT.map(lambda text: text * 40))
@example("x" * 8)
@example("é" * 9)
@example("🜁" * 2047)
@example("y" * 4094)
@example("z" * 4095)
@example("\0\ud800\udc00\udfff")
def test_strings_come_back(text: str) -> None:
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    for write, name in (
        (encode.simple_string, "simple_string"),
        (encode.string, "string"),
        (encode.utf, "utf"),
    ):
        written = write(text)
        reader = Reader(written + b"rest")
        assert getattr(reader, name)() == text
        assert reader.position == len(written)
        assert reader.rest() == b"rest"


@given(st.binary(max_size=200))
def test_any_bytes_either_decode_or_say_where_they_do_not(data: bytes) -> None:
    reader = Reader(data)
    reads = (
        reader.nullable_string,
        reader.i16,
        reader.simple_string,
        reader.byte_array,
        reader.utf,
        reader.f64,
    )
    failed_at = 0
    try:
        for read in reads:
            read()
    except DecodeError as error:
        failed_at = error.offset
    assert 0 <= failed_at <= len(data)
    assert 0 <= reader.position <= len(data)


@pytest.mark.parametrize(
    ("data", "read", "offset", "reason"),
    [
        ("000000", "i32", 0, "4 bytes expected, 3 are left"),
        ("ffffffff", "simple_string", 0, "-1 bytes"),
        ("7fffffff6100", "simple_string", 0, "2147483647 bytes"),
        ("00000003610062", "simple_string", 0, "cannot have 3 bytes"),
        ("00000005 00610062", "string", 4, "10 bytes expected"),
        ("80000000", "string", 0, "-2147483648 characters"),
        ("00000009 0002 c3", "string", 6, "2 bytes expected"),
        ("0001 ff", "utf", 2, "begins no character"),
        ("0002 c341", "utf", 2, "begins no character"),
        ("7fffffff", "count", 0, "2147483647 entries"),
    ],
)
def test_damage_is_named(data: str, read: str, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        getattr(Reader(bytes.fromhex(data)), read)()
    assert caught.value.offset == offset
    assert reason in caught.value.reason


def test_numbers_are_big_endian_and_signed() -> None:
    reader = Reader(bytes.fromhex("fe fed4 ffff fffffffe fffffffdabf41c01 c002000000000000 01 ff 00"))
    assert (reader.i8(), reader.i16(), reader.u16(), reader.i32()) == (-2, -300, 65535, -2)
    assert (reader.i64(), reader.f64()) == (-9999999999, -2.25)
    assert [reader.boolean() for _ in range(3)] == [True, True, False]
    assert reader.remaining_bytes == 0


def test_ids_are_shown_as_the_broker_shows_them() -> None:
    # A version 4 id: the broker forces version 1 when it loads it.
    raw = bytes.fromhex("00112233445546778899aabbccddeeff")
    assert Reader(raw).uuid() == uuid.UUID("00112233-4455-1677-8899-aabbccddeeff")
