"""AMQP messages: sections, and the records that hold them (docs/format/messages.md, "AMQP")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import Final, NamedTuple

from journalfs.errors import DecodeError
from journalfs.format import primitives
from journalfs.format.amqp_types import NULL, Value, items_of, list_of, map_of, scalar, skip
from journalfs.format.primitives import Reader

STANDARD_V1: Final = 2
STANDARD_V2: Final = 3
LARGE: Final = 4
STANDARD: Final = 5

ADDRESS_PROPERTY: Final = "_AMQ_AD"
"""The extra property that repeats the address."""


@unique
class SectionCode(IntEnum):
    """Sections in their order; low byte of the descriptor."""

    HEADER = 0x70
    DELIVERY_ANNOTATIONS = 0x71
    MESSAGE_ANNOTATIONS = 0x72
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    SEQUENCE = 0x76
    VALUE = 0x77
    FOOTER = 0x78


BODY_SECTIONS: Final = frozenset({SectionCode.DATA, SectionCode.SEQUENCE, SectionCode.VALUE})

_NUMBERS: Final = frozenset(map(int, SectionCode))

HEADER_TTL: Final = 2
"""Field of the header that says how long the message lives."""

PROPERTIES_TO: Final = 2
"""Field of the properties that says where the message is sent to."""

PROPERTIES_EXPIRY: Final = 8
"""And until when it lives."""

_SYMBOLS: Final = {
    b"amqp:header:list": SectionCode.HEADER,
    b"amqp:delivery-annotations:map": SectionCode.DELIVERY_ANNOTATIONS,
    b"amqp:message-annotations:map": SectionCode.MESSAGE_ANNOTATIONS,
    b"amqp:properties:list": SectionCode.PROPERTIES,
    b"amqp:application-properties:map": SectionCode.APPLICATION_PROPERTIES,
    b"amqp:data:binary": SectionCode.DATA,
    b"amqp:amqp-sequence:list": SectionCode.SEQUENCE,
    b"amqp:amqp-value:*": SectionCode.VALUE,
    b"amqp:footer:map": SectionCode.FOOTER,
}


class Section(NamedTuple):
    code: SectionCode
    encoded: bytes
    """With its descriptor."""


def section(code: SectionCode, value: Value) -> Section:
    encoded = value.encoded
    if code is SectionCode.PROPERTIES and encoded[:1] in (b"\x45", b"\xc0"):
        # The one list that clients write in its wide form, whatever its size.
        encoded = value.constructor + value.content
    return Section(code, bytes((0x00, 0x53, code)) + encoded)


def split_sections(encoded: bytes) -> tuple[Section, ...]:
    """Take an encoded message apart. Raises `DecodeError`."""
    found = []
    at = 0
    while at < len(encoded):
        if encoded[at] != 0:
            raise DecodeError(at, "no section begins here")
        value_at = skip(encoded, at + 1)
        end = skip(encoded, value_at)
        found.append(Section(code_of(encoded[at + 1 : value_at], at), encoded[at:end]))
        at = end
    return tuple(found)


def code_of(descriptor: bytes, at: int) -> SectionCode:
    """Which section an encoded descriptor begins; `at` is where, for the reason. Raises `DecodeError`."""
    if descriptor[:1] in (b"\x53", b"\x80"):
        number = int.from_bytes(descriptor[1:])
        if number in _NUMBERS:
            return SectionCode(number)
    elif descriptor[:1] in (b"\xa3", b"\xb3"):
        found = _SYMBOLS.get(descriptor[2 if descriptor[0] == 0xA3 else 5 :])
        if found is not None:
            return found
    raise DecodeError(at, "an AMQP section has an unknown descriptor")


def data_section(content: bytes) -> Section:
    """One data section; unlike `section` it makes one copy of what may be long."""
    short = len(content) <= 0xFF
    length = bytes((0xA0, len(content))) if short else b"\xb0" + primitives.i32(len(content))
    return Section(SectionCode.DATA, b"".join((bytes((0x00, 0x53, SectionCode.DATA)), length, content)))


@dataclass(frozen=True, slots=True)
class AmqpParts:
    """The record of a message, without the message: what stands around it."""

    message_id: int
    address: str | None
    message_format: int
    persister: int
    extra: bytes
    """Encoded properties that never go over the wire; empty: none."""
    expiration_ms: int
    durable: bool = True
    """Of a large message; others have it in their header."""
    rewritten: bool = False
    """Of a large message: the sections in the record count, not those in the body file."""


@dataclass(frozen=True, slots=True)
class LargeCache:
    """What the record of a large message repeats of it: what routing needs, and where it stands. A place of
    -1 and a null: it is not there.
    """

    header_at: int
    header_bytes: int
    header: bytes
    delivery_annotations_at: int
    delivery_annotations_bytes: int
    message_annotations_at: int
    message_annotations: bytes
    properties_at: int
    properties: bytes
    application_properties_at: int
    body_at: int
    application_properties: bytes

    @classmethod
    def of(cls, sections: Sequence[Section]) -> LargeCache:
        places: dict[SectionCode, int] = {}
        found: dict[SectionCode, bytes] = {}
        at, body_at = 0, -1
        for one in sections:
            if one.code in BODY_SECTIONS and body_at < 0:
                body_at = at
            places[one.code], found[one.code] = at, one.encoded
            at += len(one.encoded)
        codes = SectionCode
        return cls(
            places.get(codes.HEADER, -1),
            len(found.get(codes.HEADER, b"")),
            found.get(codes.HEADER, NULL),
            places.get(codes.DELIVERY_ANNOTATIONS, -1),
            len(found.get(codes.DELIVERY_ANNOTATIONS, b"")),
            places.get(codes.MESSAGE_ANNOTATIONS, -1),
            found.get(codes.MESSAGE_ANNOTATIONS, NULL),
            places.get(codes.PROPERTIES, -1),
            found.get(codes.PROPERTIES, NULL),
            places.get(codes.APPLICATION_PROPERTIES, -1),
            body_at,
            found.get(codes.APPLICATION_PROPERTIES, NULL),
        )

    def behind(self, head: Sequence[Section]) -> LargeCache:
        """The same, where the file begins with these sections instead of those up to the application
        properties, or to the body.
        """
        found = LargeCache.of(head)
        at = sum(len(one.encoded) for one in head)
        has_properties = self.application_properties_at >= 0
        size = self.body_at - self.application_properties_at if has_properties and self.body_at >= 0 else 0
        return replace(
            found,
            application_properties_at=at if has_properties else -1,
            body_at=at + size if self.body_at >= 0 else -1,
            application_properties=self.application_properties,
        )

    @classmethod
    def take(cls, reader: Reader) -> LargeCache:
        """Raises `DecodeError`."""
        return cls(
            reader.i32(),
            reader.i32(),
            _take_value(reader),
            reader.i32(),
            reader.i32(),
            reader.i32(),
            _take_value(reader),
            reader.i32(),
            _take_value(reader),
            reader.i32(),
            reader.i32(),
            _take_value(reader),
        )

    def encode(self) -> bytes:
        i32 = primitives.i32
        return b"".join(
            (
                i32(self.header_at) + i32(self.header_bytes) + self.header,
                i32(self.delivery_annotations_at) + i32(self.delivery_annotations_bytes),
                i32(self.message_annotations_at) + self.message_annotations,
                i32(self.properties_at) + self.properties,
                i32(self.application_properties_at) + i32(self.body_at) + self.application_properties,
            )
        )


def _take_value(reader: Reader) -> bytes:
    rest = reader.peek()
    return reader.raw(skip(rest, 0))


def encode_standard(parts: AmqpParts, message: bytes) -> bytes:
    """The payload for a small message, in the layout of its persister."""
    fields = [
        primitives.i8(parts.persister),
        primitives.i64(parts.message_id),
        primitives.i64(parts.message_format),
        primitives.nullable_simple_string(parts.address),
        primitives.i32(len(message)),
        message,
    ]
    if parts.persister >= STANDARD_V2:
        fields.append(primitives.byte_array(parts.extra))
    if parts.persister >= STANDARD:
        fields.append(primitives.i64(parts.expiration_ms))
    return b"".join(fields)


def encode_large(parts: AmqpParts, cache: LargeCache) -> bytes:
    """The payload for a large message."""
    return b"".join(
        (
            primitives.i8(LARGE),
            primitives.i64(parts.message_id),
            primitives.boolean(parts.durable),
            primitives.i64(parts.message_format),
            primitives.nullable_simple_string(parts.address),
            primitives.byte_array(parts.extra),
            cache.encode(),
            primitives.i64(parts.expiration_ms),
            primitives.boolean(parts.rewritten),
        )
    )


def split_standard(payload: bytes) -> tuple[AmqpParts, bytes]:
    """The payload of a small message, and the message in it. Raises `DecodeError`."""
    reader = Reader(payload)
    persister = reader.i8()
    message_id, message_format = reader.i64(), reader.i64()
    address = reader.nullable_simple_string()
    message = reader.byte_array()
    extra = reader.byte_array() if persister >= STANDARD_V2 else b""
    expiration_ms = reader.i64() if persister >= STANDARD else 0
    return AmqpParts(message_id, address, message_format, persister, extra, expiration_ms), message


def sent_bytes(message: bytes) -> int:
    """The size of a small message as brokers count it: without the annotations of its last way. Raises
    `DecodeError`.
    """
    sections = split_sections(message)
    return sum(len(one.encoded) for one in sections if one.code is not SectionCode.DELIVERY_ANNOTATIONS)


def split_large(payload: bytes) -> tuple[AmqpParts, LargeCache]:
    """The payload of a large message. Raises `DecodeError`."""
    reader = Reader(payload)
    persister = reader.i8()
    message_id, durable, message_format = reader.i64(), reader.boolean(), reader.i64()
    address, extra = reader.nullable_simple_string(), reader.byte_array()
    cache = LargeCache.take(reader)
    expiration_ms = reader.i64() if reader.remaining_bytes >= 8 else 0
    rewritten = reader.boolean() if reader.remaining_bytes else False
    parts = AmqpParts(
        message_id, address, message_format, persister, extra, expiration_ms, durable, rewritten
    )
    return parts, cache


def annotated(
    annotations: bytes, pairs: Sequence[tuple[Value, Value]], *, without: Iterable[Value] = ()
) -> Section:
    """An encoded section of message annotations, or a null, with these pairs as well, in place of those with
    the same keys, and without those with the keys in `without`. Raises `DecodeError`.
    """
    items = [] if annotations == NULL else items_of(_value_of(annotations))
    replaced = {key.encoded for key, _ in pairs} | {key.encoded for key in without}
    kept = [
        (_as_is(key), _as_is(content))
        for key, content in zip(items[::2], items[1::2], strict=True)
        if key not in replaced
    ]
    return section(SectionCode.MESSAGE_ANNOTATIONS, map_of((*kept, *pairs)))


def readdressed(properties: bytes, address: Value) -> Section:
    """An encoded section of properties with another `to`. Raises `DecodeError`."""
    return section(SectionCode.PROPERTIES, _with_item(properties, PROPERTIES_TO, address))


def expiring(properties: bytes, expiration_ms: int) -> Section:
    """An encoded section of properties, or a null, with the time at which the message expires, 0: never.
    Raises `DecodeError`.
    """
    time = scalar("timestamp", expiration_ms) if expiration_ms else _as_is(NULL)
    return section(SectionCode.PROPERTIES, _with_item(properties, PROPERTIES_EXPIRY, time))


def without_ttl(header: bytes) -> Section:
    """An encoded header that does not say how long the message lives. Raises `DecodeError`."""
    return section(SectionCode.HEADER, _with_item(header, HEADER_TTL, _as_is(NULL)))


def made_durable(header: bytes) -> Section:
    """An encoded header, or a null, that says that the message is durable. Raises `DecodeError`."""
    items = [] if header == NULL else [_as_is(item) for item in items_of(_value_of(header))]
    items[:1] = [scalar("boolean", True)]
    return section(SectionCode.HEADER, list_of(items))


def _with_item(encoded: bytes, index: int, item: Value) -> Value:
    """The list of an encoded section, or a null, with another item; nulls at its end are left out."""
    items = [] if encoded == NULL else [_as_is(one) for one in items_of(_value_of(encoded))]
    items += [_as_is(NULL)] * (index + 1 - len(items))
    items[index] = item
    while items and items[-1].encoded == NULL:
        items.pop()
    return list_of(items)


def _value_of(encoded: bytes) -> bytes:
    """The value of an encoded section."""
    return encoded[skip(encoded, 1) :]


def _as_is(encoded: bytes) -> Value:
    """A value that is already encoded, for a list or map."""
    return Value(encoded, b"", b"")
