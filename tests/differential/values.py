"""Random messages: core ones of every body and property type, AMQP ones of every section and encoding."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import strategies as st

from tests.differential.encode_messages import (
    Typed,
    amqp_message,
    core_message,
    nullable,
    section,
    typed_properties,
    typed_value,
)

I64 = st.integers(-(2**63), 2**63 - 1)
EVERY_CHARACTER = st.characters(exclude_categories=())
"""Lone surrogates, control characters and characters beyond the first plane included."""
TEXT = st.one_of(
    st.text(EVERY_CHARACTER, max_size=20),
    st.sampled_from(
        ["", "\0", '"\\/\b\f\n\r\t\x1f\x7f', "\u2028\u2029", "\ud83d", "\ude80\ud83d", "🚀", "é" * 12]
    ),
    st.text(max_size=200),
)
FLOATS = st.floats(width=32) | st.sampled_from([1e-45, 3.4028234663852886e38, -0.0, 16777216.0, 0.1])
DOUBLES = st.floats() | st.sampled_from([5e-324, 1.7976931348623157e308, -0.0, 2.0**53 + 2, 1e23, 0.1])


def _typed(*, null_strings: bool) -> st.SearchStrategy[Typed]:
    def of(kind: str, values: st.SearchStrategy[object]) -> st.SearchStrategy[Typed]:
        return st.tuples(st.just(kind), values)

    return st.one_of(
        of("null", st.none()),
        of("boolean", st.booleans()),
        of("byte", st.integers(-128, 127)),
        of("bytes", st.binary(max_size=20)),
        of("short", st.integers(-(2**15), 2**15 - 1)),
        of("int", st.integers(-(2**31), 2**31 - 1)),
        of("long", I64),
        of("float", FLOATS),
        of("double", DOUBLES),
        of("string", TEXT | st.none() if null_strings else TEXT),
        of("char", st.integers(0, 0xFFFF)),
    )


WELL_KNOWN = st.fixed_dictionaries(
    {},
    optional={
        "_AMQ_GROUP_ID": st.tuples(st.just("string"), TEXT),
        "_AMQ_DUPL_ID": st.one_of(
            st.tuples(st.just("string"), TEXT),
            st.tuples(st.just("bytes"), st.binary(max_size=9)),
            st.tuples(st.just("int"), st.just(5)),
        ),
        "_AMQ_SCHED_DELIVERY": st.tuples(st.just("long"), I64),
        "_AMQ_LARGE_COMPRESSED": st.tuples(st.just("boolean"), st.just(False)),
    },
)
PROPERTIES = st.builds(
    lambda named, other: other | named,
    WELL_KNOWN,
    st.dictionaries(st.text(EVERY_CHARACTER, max_size=12), _typed(null_strings=False), max_size=6),
)
LONG_STREAM_STRINGS = st.sampled_from(["x" * 4094, "é" * 4095, "z" * 4096])
BODIES: dict[int, st.SearchStrategy[bytes]] = {
    0: st.binary(max_size=60),
    2: st.binary(max_size=40).map(lambda data: struct.pack(">i", len(data)) + data) | st.just(b""),
    3: (TEXT | st.none()).map(nullable) | st.just(b""),
    4: st.one_of(st.binary(max_size=60), st.text(max_size=20).map(str.encode), st.just(b'{"a": [1]}')),
    5: st.dictionaries(st.text(EVERY_CHARACTER, max_size=9), _typed(null_strings=False), max_size=5).map(
        typed_properties
    ),
    6: st.lists(
        _typed(null_strings=True) | st.tuples(st.just("string"), LONG_STREAM_STRINGS), max_size=5
    ).map(lambda values: b"".join(typed_value(value, stream=True) for value in values)),
}


@st.composite
def core_payloads(draw: st.DrawFn) -> bytes:
    """A type-45 payload that a core client could have sent, mostly."""
    kind = draw(st.sampled_from(list(BODIES)))
    return core_message(
        draw(st.integers(0, 2**63 - 1)),
        draw(BODIES[kind]),
        address=draw(st.none() | TEXT),
        user_id=draw(st.none() | st.binary(min_size=16, max_size=16)),
        kind=kind,
        durable=draw(st.booleans()),
        expiration=draw(st.just(0) | I64),
        timestamp=draw(st.just(0) | I64),
        priority=draw(st.integers(0, 9)),
        properties=draw(PROPERTIES),
    )


def _packed(code: int, layout: str, values: st.SearchStrategy[object]) -> st.SearchStrategy[bytes]:
    return values.map(lambda value: bytes([code]) + struct.pack(layout, value))


def _sized(small: int, data: bytes, *, wide: bool) -> bytes:
    """A variable-width value in its one-byte form or, if asked or needed, in its four-byte form."""
    if wide or len(data) > 255:
        return bytes([small + 0x10]) + struct.pack(">I", len(data)) + data
    return bytes([small, len(data)]) + data


def _variable(small: int, values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(lambda data, wide: _sized(small, data, wide=wide), values, st.booleans())


UTF8 = st.one_of(st.text(max_size=30), st.sampled_from(["", "\0", "🚀", "x" * 300, '"\\\n'])).map(str.encode)
ASCII = st.text(st.characters(max_codepoint=127), max_size=12).map(str.encode)
U8, I8 = st.integers(0, 255), st.integers(-128, 127)
STRINGS = _variable(0xA1, UTF8)
SYMBOLS = _variable(0xA3, ASCII)
SCALARS = st.one_of(
    st.sampled_from([b"\x40", b"\x41", b"\x42", b"\x56\x00", b"\x56\x01", b"\x43", b"\x44", b"\x45"]),
    _packed(0x50, ">B", U8),
    _packed(0x51, ">b", I8),
    _packed(0x60, ">H", st.integers(0, 2**16 - 1)),
    _packed(0x61, ">h", st.integers(-(2**15), 2**15 - 1)),
    _packed(0x70, ">I", st.integers(0, 2**32 - 1)),
    _packed(0x52, ">B", U8),
    _packed(0x71, ">i", st.integers(-(2**31), 2**31 - 1)),
    _packed(0x54, ">b", I8),
    _packed(0x80, ">Q", st.integers(0, 2**64 - 1)),
    _packed(0x53, ">B", U8),
    _packed(0x81, ">q", I64),
    _packed(0x55, ">b", I8),
    _packed(0x72, ">f", FLOATS),
    _packed(0x82, ">d", DOUBLES),
    _packed(0x73, ">I", st.integers(0, 0xD7FF) | st.integers(0xE000, 0x10FFFF)),
    _packed(0x83, ">q", I64),
    st.binary(min_size=4, max_size=4).map(lambda data: b"\x74" + data),
    st.binary(min_size=8, max_size=8).map(lambda data: b"\x84" + data),
    st.binary(min_size=16, max_size=16).map(lambda data: b"\x94" + data),
    st.binary(min_size=16, max_size=16).map(lambda data: b"\x98" + data),
    _variable(0xA0, st.binary(max_size=20)),
    STRINGS,
    SYMBOLS,
)


def _compound(small: int, values: list[bytes], *, wide: bool) -> bytes:
    inside = b"".join(values)
    if wide or len(inside) > 254 or len(values) > 255:
        return bytes([small + 0x10]) + struct.pack(">II", len(inside) + 4, len(values)) + inside
    return bytes([small, len(inside) + 1, len(values)]) + inside


def _list(values: st.SearchStrategy[bytes], size: int = 4) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda items, wide: _compound(0xC0, items, wide=wide), st.lists(values, max_size=size), st.booleans()
    )


def _map(keys: st.SearchStrategy[bytes], values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    pairs = st.lists(st.tuples(keys, values), max_size=4, unique_by=lambda pair: pair[0])
    return st.builds(
        lambda items, wide: _compound(0xC1, [one for pair in items for one in pair], wide=wide),
        pairs,
        st.booleans(),
    )


def _array(code: int, elements: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    def build(items: list[bytes], wide: bool) -> bytes:
        inside = bytes([code]) + b"".join(items)
        if wide or len(inside) > 254:
            return b"\xf0" + struct.pack(">II", len(inside) + 4, len(items)) + inside
        return bytes([0xE0, len(inside) + 1, len(items)]) + inside

    return st.builds(build, st.lists(elements, max_size=4), st.booleans())


ARRAYS = st.one_of(
    _array(0x71, st.binary(min_size=4, max_size=4)),
    _array(0x54, st.binary(min_size=1, max_size=1)),
    _array(0xA1, st.text(max_size=9).map(lambda text: bytes([len(text.encode())]) + text.encode())),
    _array(0x98, st.binary(min_size=16, max_size=16)),
    _array(0x40, st.just(b"")),
    _array(0x56, st.sampled_from([b"\0", b"\1"])),
)


def _nested(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.one_of(
        _list(inner),
        _map(inner, inner),
        st.builds(lambda descriptor, value: b"\0" + descriptor + value, SCALARS, inner),
    )


VALUES = st.recursive(SCALARS | ARRAYS, _nested, max_leaves=8)
NULL = st.just(b"\x40")


def _fields(*kinds: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """A list of fields, each null or of its kind, cut anywhere behind the last one that is set."""
    every = st.tuples(*(NULL | kind for kind in kinds))
    return st.builds(
        lambda values, count, wide: _compound(0xC0, list(values[:count]), wide=wide),
        every,
        st.integers(0, len(kinds)),
        st.booleans(),
    )


BOOLEANS = st.sampled_from([b"\x41", b"\x42", b"\x56\x00", b"\x56\x01"])
UINTS = st.sampled_from([b"\x43", b"\x52\x09", b"\x70\xff\xff\xff\xff"])
TIMES = _packed(0x83, ">q", I64)
IDS = st.one_of(
    STRINGS,
    _packed(0x53, ">B", U8),
    _packed(0x80, ">Q", st.integers(0, 2**64 - 1)),
    st.binary(min_size=16, max_size=16).map(lambda data: b"\x98" + data),
    _variable(0xA0, st.binary(max_size=9)),
)
SECTIONS: list[tuple[int, st.SearchStrategy[bytes]]] = [
    (0x70, _fields(BOOLEANS, _packed(0x50, ">B", U8), UINTS, BOOLEANS, UINTS)),
    (0x71, _map(SYMBOLS, VALUES)),
    (0x72, _map(SYMBOLS, VALUES)),
    (
        0x73,
        _fields(
            IDS,
            _variable(0xA0, st.binary(max_size=9)),
            *(STRINGS, STRINGS, STRINGS),
            IDS,
            *(SYMBOLS, SYMBOLS),
            *(TIMES, TIMES),
            *(STRINGS, UINTS, STRINGS),
        ),
    ),
    (0x74, _map(STRINGS, SCALARS)),
]
AMQP_BODIES = st.one_of(
    st.just(b""),
    st.lists(_variable(0xA0, st.binary(max_size=60)), min_size=1, max_size=3).map(
        lambda parts: b"".join(section(0x75, part) for part in parts)
    ),
    st.lists(_list(VALUES), min_size=1, max_size=2).map(
        lambda parts: b"".join(section(0x76, part) for part in parts)
    ),
    VALUES.map(lambda value: section(0x77, value)),
)


@st.composite
def amqp_payloads(draw: st.DrawFn) -> bytes:
    """A type-45 payload with an AMQP message of any persister version."""
    encoded = b""
    for code, content in SECTIONS:
        if draw(st.booleans()):
            encoded += section(code, draw(content))
    encoded += draw(AMQP_BODIES)
    if draw(st.booleans()):
        encoded += section(0x78, draw(_map(SYMBOLS, VALUES)))
    persister = draw(st.sampled_from([5, 5, 5, 3, 2]))
    return amqp_message(
        draw(st.integers(0, 2**63 - 1)),
        encoded,
        persister=persister,
        address=draw(st.none() | TEXT),
        extra=draw(st.none() | WELL_KNOWN),
        expiration=draw(st.just(0) | I64),
    )


def damaged(payloads: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """The same with one byte changed, a tail cut off, or bytes put behind."""
    changes: list[Callable[[bytes, int, int], bytes]] = [
        lambda data, at, byte: data[:at] + bytes([byte]) + data[at + 1 :],
        lambda data, at, byte: data[:at],
        lambda data, at, byte: data + bytes([byte]),
    ]
    return st.builds(
        lambda data, at, byte, change: change(data, at % max(1, len(data)), byte),
        payloads,
        st.integers(0, 10_000),
        st.integers(0, 255),
        st.sampled_from(changes),
    )
