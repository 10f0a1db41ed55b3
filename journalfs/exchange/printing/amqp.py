"""AMQP messages as the broker prints them."""

from __future__ import annotations

import struct
import sys
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

from journalfs.errors import DecodeError
from journalfs.exchange.printing import java
from journalfs.exchange.printing.java import properties_text
from journalfs.format.amqp_message import Section, SectionCode, split_large, split_sections, split_standard
from journalfs.format.amqp_types import NULL, items_of, skip
from journalfs.format.primitives import Reader

_LISTS: Final = frozenset({0x45, 0xC0, 0xD0})
_MAPS: Final = frozenset({0xC1, 0xD1})
_ARRAYS: Final = frozenset({0xE0, 0xF0})
_BINARY: Final = frozenset({0xA0, 0xB0})
_TEXT: Final = frozenset({0xA1, 0xB1, 0xA3, 0xB3})
_CONSTANT: Final = {0x40: "null", 0x41: "true", 0x42: "false", 0x43: "0", 0x44: "0"}
_DECIMALS: Final = {0x74: ("Decimal32", 4), 0x84: ("Decimal64", 8), 0x94: ("Decimal128", 16)}
_NUMBERS: Final = {
    0x50: ">B", 0x52: ">B", 0x53: ">B", 0x60: ">H", 0x70: ">I", 0x80: ">Q", 0x51: ">b", 0x54: ">b",
    0x55: ">b", 0x61: ">h", 0x71: ">i", 0x81: ">q",
}  # fmt: skip
_NESTING_MAX: Final = 64

_QUOTED: Final = ["to", "subject", "replyTo", "groupId", "replyToGroupId"]
_PROPERTIES: Final = [
    "messageId", "userId", "to", "subject", "replyTo", "correlationId", "contentType", "contentEncoding",
    "absoluteExpiryTime", "creationTime", "groupId", "groupSequence", "replyToGroupId",
]  # fmt: skip
_TO: Final = _PROPERTIES.index("to")


class Described(NamedTuple):
    """What a line says of a message."""

    kind: str
    """The broker's class for it."""
    message_id: int
    user_id: str | None
    text: str
    large: bool
    size_bytes: int | None
    """As far as the tool knows it."""


def value_text(data: bytes, nesting: int = 0) -> str:
    """One encoded value. Raises `DecodeError`."""
    if not data or nesting > _NESTING_MAX:
        raise DecodeError(0, "an AMQP value is nested too deep" if data else "an AMQP value is missing")
    code = data[0]
    if code in _NUMBERS:
        return str(_unpack(_NUMBERS[code], data))
    text = _TEXTS.get(code)
    if text is None:
        raise DecodeError(0, f"{code:#04x} begins no AMQP value")
    return text(data, nesting + 1)


def _unpack(form: str, data: bytes) -> int | float:
    try:
        found: int | float = struct.unpack_from(form, data, 1)[0]
    except struct.error:
        raise DecodeError(len(data), "an AMQP value ends too early") from None
    return found


def _described_text(data: bytes, nesting: int) -> str:
    at = skip(data, 1)
    descriptor, described = value_text(data[1:at], nesting), value_text(data[at:], nesting)
    return f"UnknownDescribedType{{descriptor={descriptor}, described={described}}}"


def _binary_text(data: bytes, _nesting: int) -> str:
    return "".join(
        chr(byte) if 31 < byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in _content(data)
    )


def _char_text(data: bytes, _nesting: int) -> str:
    point = int(_unpack(">I", data))
    return chr(point) if point <= sys.maxunicode else "\ufffd"


def _decimal_text(data: bytes, _nesting: int) -> str:
    name, size = _DECIMALS[data[0]]
    return f"org.apache.qpid.proton.amqp.{name}@{_decimal_hash(Reader(data, position=1).raw(size)):x}"


def _decimal_hash(data: bytes) -> int:
    """A decimal has no text, so its hash stands for it: that of its bits."""
    if len(data) == 4:
        return int.from_bytes(data)
    halves = [java.long_hash(int.from_bytes(data[at : at + 8])) for at in range(0, len(data), 8)]
    found = 0
    for half in halves:
        found = 31 * found + half & 0xFFFFFFFF
    return found


def _content(data: bytes) -> bytes:
    """That of a value with a length."""
    return data[2:] if data[0] < 0xB0 else data[5:]


def _map_text(data: bytes, nesting: int = 0) -> str:
    items = items_of(data)
    if len(items) % 2:
        raise DecodeError(0, "a map lacks the value of its last key")
    pairs = {
        value_text(key, nesting): value_text(value, nesting)
        for key, value in zip(items[::2], items[1::2], strict=True)
    }
    return f"{{{', '.join(f'{key}={value}' for key, value in pairs.items())}}}"


_TEXTS: Final[dict[int, Callable[[bytes, int], str]]] = {
    **dict.fromkeys(_CONSTANT, lambda data, _: _CONSTANT[data[0]]),
    **dict.fromkeys(_LISTS, lambda data, nesting: f"[{', '.join(_texts(data, nesting))}]"),
    **dict.fromkeys(_MAPS, _map_text),
    **dict.fromkeys(_ARRAYS, lambda _, __: f"[Ljava.lang.Object;@{java.NO_IDENTITY}"),
    **dict.fromkeys(_TEXT, lambda data, _: _content(data).decode("utf-8", "replace")),
    **dict.fromkeys(_BINARY, _binary_text),
    **dict.fromkeys(_DECIMALS, _decimal_text),
    0x00: _described_text,
    0x56: lambda data, _: java.truth(bool(_unpack(">B", data))),
    0x72: lambda data, _: java.number(_unpack(">f", data), single=True),
    0x73: _char_text,
    0x82: lambda data, _: java.number(_unpack(">d", data)),
    0x83: lambda data, _: java.date(int(_unpack(">q", data))),
    0x98: lambda data, _: str(uuid.UUID(bytes=Reader(data, position=1).raw(16))),
}
"""By the byte before the value."""


def _texts(data: bytes, nesting: int) -> list[str]:
    return [value_text(item, nesting) for item in items_of(data)]


def _value_of(section: bytes | None) -> bytes:
    """The value in an encoded section; that of none is null."""
    return NULL if section is None or section == NULL else section[skip(section, 1) :]


def _map_of(section: bytes | None) -> str:
    value = _value_of(section)
    return "{}" if value == NULL else _map_text(value)


def _properties(section: bytes | None) -> list[str | None]:
    """Each property's text; None where it is null."""
    value = _value_of(section)
    items = [] if value == NULL else items_of(value)
    found = [None if item == NULL else value_text(item) for item in items[: len(_PROPERTIES)]]
    return found + [None] * (len(_PROPERTIES) - len(found))


def _properties_text(values: list[str | None]) -> str:
    shown = [
        f"{name}='{java.or_null(value)}'" if name in _QUOTED else f"{name}={java.or_null(value)}"
        for name, value in zip(_PROPERTIES, values, strict=True)
    ]
    return f"Properties{{{', '.join(shown)}}}"


def describe_amqp(payload: bytes) -> Described:
    """The record of a small message. Raises `DecodeError`."""
    parts, message = split_standard(payload)
    sections: dict[SectionCode, bytes] = {}
    for section in _head(message):
        sections[section.code] = section.encoded
    header = _value_of(sections.get(SectionCode.HEADER))
    durable = header != NULL and next(iter(items_of(header)), NULL) in (b"\x41", b"\x56\x01")
    annotations = sections.get(SectionCode.DELIVERY_ANNOTATIONS, b"")
    size_bytes = len(message) - len(annotations)
    return _described(
        "AMQPStandardMessage",
        parts.message_id,
        parts.address,
        durable=durable,
        size_bytes=size_bytes,
        application=_map_of(sections.get(SectionCode.APPLICATION_PROPERTIES)),
        annotations=_map_of(sections.get(SectionCode.MESSAGE_ANNOTATIONS)),
        properties=sections.get(SectionCode.PROPERTIES),
        extra=parts.extra,
    )


def _head(message: bytes) -> tuple[Section, ...]:
    """The sections before the body: of a long one no more is taken apart."""
    at, last = 0, int(SectionCode.APPLICATION_PROPERTIES)
    while at < len(message) and message[at : at + 2] == b"\x00\x53" and message[at + 2] <= last:
        at = skip(message, skip(message, at + 1))
    return split_sections(message[:at])


def describe_large_amqp(payload: bytes) -> Described:
    """The record of a large message, which says nothing of its size. Raises `DecodeError`."""
    parts, cache = split_large(payload)
    return _described(
        "AMQPLargeMessage",
        parts.message_id,
        parts.address,
        durable=parts.durable,
        size_bytes=0,
        application=_map_of(cache.application_properties),
        annotations=_map_of(cache.message_annotations),
        properties=cache.properties if cache.properties != NULL else None,
        extra=parts.extra,
    )


def _described(
    kind: str,
    message_id: int,
    address: str | None,
    *,
    durable: bool,
    size_bytes: int,
    application: str,
    annotations: str,
    properties: bytes | None,
    extra: bytes,
) -> Described:
    values = _properties(properties)
    text = (
        f"{kind}( [durable={java.truth(durable)}, messageID={message_id}, "
        f"address={java.or_null(address if address is not None else values[_TO])}, size={size_bytes}, "
        f"scanningStatus=SCANNED, applicationProperties={application}, messageAnnotations={annotations}, "
        f"properties={'null' if properties is None else _properties_text(values)}, "
        f"extraProperties = {properties_text(Reader(extra)) if extra else 'null'}]"
    )
    return Described(kind, message_id, values[0], text, kind == "AMQPLargeMessage", size_bytes)
