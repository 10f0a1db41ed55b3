"""A message of ActiveMQ 5 as a core message, as the OpenWire acceptor of an Artemis 2.x broker makes one of
what clients send (docs/format/kahadb.md, "As core messages").
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from journalfs import limits
from journalfs.errors import DecodeError
from journalfs.format import primitives
from journalfs.format.core_message import GROUP_ID, ROUTING_TYPE, CoreHeader, CoreType
from journalfs.format.properties import (
    CODES,
    Code,
    Property,
    PropertyValue,
    encode_properties,
    encode_stream_value,
)
from journalfs.records.older.openwire import Kind, Loose, OpenWireMessage, modified_utf8
from journalfs.selector.identifiers import JMS_TO_BROKER

GROUP_SEQUENCE: Final = "_AMQ_GROUP_SEQUENCE"
HEADER_PREFIX: Final = "__HDR_"
"""Of properties that say what a core message has no field for; an OpenWire client gets them back."""

NESTED_MAX: Final = 32
"""Maps and lists within another."""

CORE_TYPES: Final = {
    Kind.MESSAGE: CoreType.DEFAULT, Kind.BYTES: CoreType.BYTES, Kind.MAP: CoreType.MAP,
    Kind.OBJECT: CoreType.OBJECT, Kind.STREAM: CoreType.STREAM, Kind.TEXT: CoreType.TEXT,
    Kind.BLOB: CoreType.DEFAULT,
}  # fmt: skip

_NULL, _BOOLEAN, _BYTE, _CHAR, _SHORT, _INT, _LONG, _DOUBLE, _FLOAT = range(9)
_STRING, _BYTES, _MAP, _LIST, _BIG_STRING = range(9, 14)
NUMBERS: Final = {
    _BYTE: (Code.BYTE, struct.Struct(">b")),
    _SHORT: (Code.SHORT, struct.Struct(">h")),
    _INT: (Code.INT, struct.Struct(">i")),
    _LONG: (Code.LONG, struct.Struct(">q")),
    _DOUBLE: (Code.DOUBLE, struct.Struct(">d")),
    _FLOAT: (Code.FLOAT, struct.Struct(">f")),
}


_WORDS: Final = {code: word for word, code in CODES.items()}
_UNTYPED: Final = (Code.NULL, Code.BOOLEAN, Code.STRING)
"""Codes that an envelope says by the value."""
_HEADER_NAMES: Final = re.compile(rf"(?<![\w$.])(?:{'|'.join(JMS_TO_BROKER)})(?![\w$.])")
_DELIVERY_MODES: Final = {"PERSISTENT": "DURABLE", "NON_PERSISTENT": "NON_DURABLE"}


class Nested(str):
    """A map or a list within properties or a map, which a core message has not: as text in JSON."""

    __slots__ = ()


class CoreForm(NamedTuple):
    header: CoreHeader
    properties: list[Property]
    body: bytes
    nested: bool
    """Whether something became JSON that was a map or a list."""


def core_form(message: OpenWireMessage, *, topic: bool) -> CoreForm:
    """Raises `DecodeError` for a body or properties that are none."""
    properties = [*_own_properties(message), *_header_properties(message, topic=topic)]
    header = CoreHeader(
        user_id(message.id),
        CORE_TYPES[message.kind],
        message.persistent,
        message.expiration_ms,
        message.timestamp_ms,
        min(message.priority, 9),
        encode_properties(properties),
    )
    body, nested = core_body(message)
    nested = nested or any(isinstance(one.value, Nested) for one in properties)
    return CoreForm(header, properties, body, nested)


def user_id(message_id: str) -> bytes:
    """The id that clients of the core protocol see: of 16 bytes, which ActiveMQ 5 has not. It is made of the
    old one, so that it is the same whenever a store is read.
    """
    return hashlib.blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _own_properties(message: OpenWireMessage) -> Iterator[Property]:
    if message.properties is None:
        return
    for name, code, value in _map(Loose(message.properties), 0):
        yield Property(name, code, value)


def _header_properties(message: OpenWireMessage, *, topic: bool) -> Iterator[Property]:
    text = Code.STRING
    if message.jms_type is not None:
        yield Property("JMSType", text, message.jms_type)
    if message.correlation_id is not None:
        yield Property("JMSCorrelationID", text, message.correlation_id)
    if message.reply_to is not None:
        yield Property("JMSReplyTo", text, message.reply_to.qualified)
    if message.group is not None:
        yield Property(GROUP_ID, text, message.group)
    yield Property(GROUP_SEQUENCE, Code.INT, message.group_sequence)
    yield Property(ROUTING_TYPE, Code.BYTE, 0 if topic else 1)
    for name, code, value in _broker_properties(message):
        if value is not None:
            yield Property(HEADER_PREFIX + name, code, value)


def _broker_properties(message: OpenWireMessage) -> Iterator[tuple[str, Code, PropertyValue]]:
    original = message.original_destination
    yield "ARRIVAL", Code.LONG, message.arrival_ms
    yield "BROKER_IN_TIME", Code.LONG, message.broker_in_ms
    yield "BROKER_PATH", Code.STRING, ",".join(message.broker_path) or None
    yield "CLUSTER", Code.STRING, ",".join(message.cluster) or None
    yield "COMMAND_ID", Code.INT, message.command_id
    yield "COMPRESSED", Code.BOOLEAN, message.compressed or None
    yield "DROPPABLE", Code.BOOLEAN, message.droppable
    yield "MESSAGE_ID", Code.STRING, message.id
    yield "ORIG_DESTINATION", Code.STRING, original.qualified if original is not None else None
    yield "PRODUCER_ID", Code.STRING, message.producer
    yield "USER_ID", Code.STRING, message.user
    yield "BLOB_URL", Code.STRING, message.blob_url


def core_body(message: OpenWireMessage) -> tuple[bytes, bool]:
    """The body as a core message has it, inflated, and whether something in it was nested. Raises
    `DecodeError`.
    """
    kind, content = message.kind, message.content
    if content is None:
        return (primitives.NULL if kind in (Kind.TEXT, Kind.MAP) else b""), False
    if message.compressed:
        content = inflated(kind, content)
    match kind:
        case Kind.TEXT:
            return _text_body(content), False
        case Kind.MAP:
            entries = [Property(*one) for one in _map(Loose(content), 0)]
            return encode_properties(entries), any(isinstance(one.value, Nested) for one in entries)
        case Kind.OBJECT:
            return primitives.byte_array(content), False
        case Kind.STREAM:
            return _stream_body(content), False
        case _:
            return content, False


def inflated(kind: Kind, content: bytes) -> bytes:
    """A compressed body is one zlib stream, after its length if it is of bytes."""
    stream = zlib.decompressobj()
    try:
        whole = stream.decompress(content[4:] if kind is Kind.BYTES else content, limits.OLDER_BODY_BYTES_MAX)
    except zlib.error as error:
        raise DecodeError(0, f"a compressed body: {error}") from None
    if not stream.eof:
        raise DecodeError(0, f"a compressed body that ends early or has over {len(whole)} bytes")
    return whole


def _text_body(content: bytes) -> bytes:
    reader = Loose(content)
    length = reader.i32()
    if length < 0:
        return primitives.NULL
    return primitives.PRESENT + primitives.simple_string(modified_utf8(reader.take(length)))


def _stream_body(content: bytes) -> bytes:
    reader, parts = Loose(content), []
    while reader.more():
        parts.append(encode_stream_value(*_value(reader, 0)))
    return b"".join(parts)


def _map(reader: Loose, depth: int) -> Iterator[tuple[str, Code, PropertyValue]]:
    for _ in range(reader.i32()):
        name = modified_utf8(reader.sized_utf())
        yield name, *_value(reader, depth)


def _value(reader: Loose, depth: int) -> tuple[Code, PropertyValue]:
    kind = reader.i8()
    if kind == _STRING:
        return Code.STRING, modified_utf8(reader.sized_utf())
    number = NUMBERS.get(kind)
    if number is not None:
        code, form = number
        return code, form.unpack(reader.take(form.size))[0]
    if kind not in _READ:
        raise DecodeError(reader.at - 1, f"no value has the type {kind}")
    code, read = _READ[kind]
    return code, read(reader, kind, depth)


def _nested(reader: Loose, kind: int, depth: int) -> Nested:
    return Nested(json.dumps(_plain(reader, kind, depth + 1), ensure_ascii=False))


def _plain(reader: Loose, kind: int, depth: int) -> object:
    """A map or a list as JSON has it, bytes as base64."""
    if depth > NESTED_MAX:
        raise DecodeError(reader.at, f"maps and lists within others {NESTED_MAX} deep")
    if kind == _LIST:
        return [_plain_value(reader, depth) for _ in range(reader.i32())]
    return {modified_utf8(reader.sized_utf()): _plain_value(reader, depth) for _ in range(reader.i32())}


def _plain_value(reader: Loose, depth: int) -> object:
    kind = reader.i8()
    if kind in (_MAP, _LIST):
        return _plain(reader, kind, depth + 1)
    reader.at -= 1
    _, value = _value(reader, depth)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


_READ: Final[dict[int, tuple[Code, Callable[[Loose, int, int], PropertyValue]]]] = {
    _NULL: (Code.NULL, lambda reader, kind, depth: None),
    _BOOLEAN: (Code.BOOLEAN, lambda reader, kind, depth: reader.boolean()),
    _CHAR: (Code.CHAR, lambda reader, kind, depth: chr(reader.i16() & 0xFFFF)),
    _BYTES: (Code.BYTES, lambda reader, kind, depth: reader.take(reader.i32())),
    _BIG_STRING: (Code.STRING, lambda reader, kind, depth: modified_utf8(reader.take(reader.i32()))),
    _MAP: (Code.STRING, _nested),
    _LIST: (Code.STRING, _nested),
}


def core_filter(selector: str) -> str:
    """A selector of JMS as the filter of a queue, which knows headers by the broker's names."""
    pieces = selector.split("'")
    for at in range(0, len(pieces), 2):
        pieces[at] = _HEADER_NAMES.sub(lambda found: JMS_TO_BROKER[found[0]], pieces[at])
    if "JMSDeliveryMode" in selector:
        pieces[1::2] = [_DELIVERY_MODES.get(word, word) for word in pieces[1::2]]
    return "'".join(pieces)


def selectable(message: OpenWireMessage, form: CoreForm) -> dict[str, object]:
    """What a selector sees of a message: an envelope without a body and what no selector can compare."""
    return {
        "type": form.header.type,
        "durable": message.persistent,
        "priority": form.header.priority,
        "timestamp": message.timestamp_ms,
        "expiration": message.expiration_ms,
        "properties": {one.name: one.value for one in form.properties if one.code is not Code.BYTES},
        "propertyTypes": {one.name: _WORDS[one.code] for one in form.properties if one.code not in _UNTYPED},
    }


def subscription_queue(client: str, name: str) -> str:
    """How a 2.x broker names the queue of a durable subscription."""
    return ".".join(part.replace("\\", "\\\\").replace(".", "\\.") for part in (client, name))


def wildcard_address(name: str) -> str:
    """What a durable subscription with wildcards is bound to: `>` is `#` in a 2.x broker."""
    return ".".join("#" if part == ">" else part for part in name.split("."))
