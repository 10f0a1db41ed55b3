"""Core messages as OpenWire commands, as ActiveMQ 5.0 to 5.8 keeps them in data logs (loose, version 3 to 6;
docs/format/kahadb.md, "OpenWire"). What `openwire_core` makes of them is what they were.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from array import array
from collections.abc import Iterable
from typing import Final, NamedTuple

from journalfs.errors import DecodeError
from journalfs.format import core_message
from journalfs.format.primitives import Reader, decode_utf16, i8, i32, i64
from journalfs.format.properties import Code, Property, PropertyValue, decode_properties, decode_stream
from journalfs.records.older import openwire
from journalfs.records.older.openwire import Destination, Kind, LocalTransaction, Transaction
from journalfs.records.older.openwire_core import GROUP_SEQUENCE, HEADER_PREFIX

BIG_STRING_CHARS: Final = 8192
"""Longer texts have another type."""

CONNECTION: Final = f"ID:journalfs-{uuid.uuid4()}"
"""Of messages and transactions that this process gives an id."""

_NO, _YES = b"\0", b"\1"
_DEFAULT_ACK: Final = 2
_U16: Final = struct.Struct(">H")
_KINDS: Final = {
    core_message.CoreType.DEFAULT: Kind.MESSAGE,
    core_message.CoreType.BYTES: Kind.BYTES,
    core_message.CoreType.MAP: Kind.MAP,
    core_message.CoreType.OBJECT: Kind.OBJECT,
    core_message.CoreType.STREAM: Kind.STREAM,
    core_message.CoreType.TEXT: Kind.TEXT,
}
_VALUES: Final = {
    Code.BOOLEAN: (1, struct.Struct(">?")),
    Code.BYTE: (2, struct.Struct(">b")),
    Code.SHORT: (4, struct.Struct(">h")),
    Code.INT: (5, struct.Struct(">i")),
    Code.LONG: (6, struct.Struct(">q")),
    Code.DOUBLE: (7, struct.Struct(">d")),
    Code.FLOAT: (8, struct.Struct(">f")),
}
_NULL, _CHAR, _STRING, _BYTES, _BIG_STRING = 0, 3, 9, 10, 13
_HEADERS: Final = frozenset(
    {
        "JMSType", "JMSCorrelationID", "JMSReplyTo", core_message.GROUP_ID, GROUP_SEQUENCE,
        core_message.ROUTING_TYPE, core_message.LARGE_SIZE, core_message.LARGE_COMPRESSED,
        core_message.SCHEDULED,
    }
)  # fmt: skip
"""Properties of a core message that are fields of an OpenWire one, or say nothing there."""


class Identity(NamedTuple):
    """A message's id: whoever acknowledges says it again, with the broker's number."""

    text: str
    """`CONNECTION:SESSION:PRODUCER:SEQUENCE`."""
    number: int


class Form(NamedTuple):
    """What an OpenWire message says beside what a core message does."""

    destination: Destination
    identity: Identity
    redeliveries: int = 0
    transaction: Transaction | None = None


def text(value: str | None) -> bytes:
    if value is None:
        return _NO
    return _YES + _utf(value)


def _utf(value: str) -> bytes:
    encoded = java_utf8(value)
    if len(encoded) > 0xFFFF:
        raise DecodeError(0, f"a name or header of {len(encoded)} bytes, of at most 65535")
    return _U16.pack(len(encoded)) + encoded


def java_utf8(value: str) -> bytes:
    """Java's own UTF-8: surrogates one by one, NUL as two bytes."""
    if value.isascii() and "\0" not in value:
        return value.encode("ascii")
    units = array("H", value.encode("utf-16-le", "surrogatepass"))
    return "".join(map(chr, units)).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _binary(value: bytes | None) -> bytes:
    return _NO if value is None else _YES + i32(len(value)) + value


def _destination(value: Destination | None) -> bytes:
    if value is None:
        return _NO
    kind = openwire.QUEUE + value.topic + 2 * value.temporary
    return _YES + i8(kind) + text(value.name)


def _transaction(value: Transaction | None) -> bytes:
    if value is None:
        return _NO
    if isinstance(value, LocalTransaction):
        connection = _YES + i8(openwire.CONNECTION_ID) + text(value.connection)
        return _YES + i8(openwire.LOCAL_TRANSACTION) + i64(value.value) + connection
    names = _binary(value.global_id) + _binary(value.branch)
    return _YES + i8(openwire.XA_TRANSACTION) + i32(value.format_id) + names


def _producer_and_sequence(identity: str) -> tuple[bytes, int]:
    """The producer's id, and its number of the message."""
    parts = identity.rsplit(":", 3)
    try:
        connection, session, producer, sequence = parts[0], *map(int, parts[1:])
    except ValueError:
        connection, session, producer, sequence = identity, 1, 1, 1
    encoded = _YES + i8(openwire.PRODUCER_ID) + text(connection) + i64(producer) + i64(session)
    return encoded, sequence


def _message_id(identity: Identity) -> bytes:
    producer, sequence = _producer_and_sequence(identity.text)
    return _YES + i8(openwire.MESSAGE_ID) + producer + i64(sequence) + i64(identity.number)


def is_whole_identity(identity: str) -> bool:
    """Whether it is one of ActiveMQ 5 and stays the same when it is written."""
    parts = identity.rsplit(":", 3)
    return len(parts) == 4 and parts[0].startswith("ID:") and all(map(_is_number, parts[1:]))


def new_identity(message_id: int, producer: int = 1) -> str:
    """Of a message that has none of ActiveMQ 5. `producer`: another one for each copy of a message."""
    return f"{CONNECTION}:1:{producer}:{message_id}"


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and str(int(digits)) == digits and int(digits) < 1 << 63


# -- commands ------------------------------------------------------------------------------------------------


def message(parts: core_message.CoreParts, form: Form) -> bytes:
    """A core message, whose body is whole, as a command. Raises `DecodeError` where it is none, or a text of
    it is too long.
    """
    kind, content = _body(parts)
    entries = decode_properties(Reader(parts.header.properties or _NO))
    said = {one.name: one.value for one in entries}
    header, own = parts.header, [one for one in entries if not _is_header(one.name)]
    producer, _ = _producer_and_sequence(form.identity.text)
    fields = (
        i8(kind),
        i32(_number(said, "COMMAND_ID")),
        _YES,
        producer,
        _destination(form.destination),
        _transaction(form.transaction),
        _destination(_original(said)),
        _message_id(form.identity),
        _NO,  # the transaction that it came in
        text(_text(said.get(core_message.GROUP_ID))),
        i32(_int32(said.get(GROUP_SEQUENCE))),
        text(_text(said.get("JMSCorrelationID"))),
        _YES,  # persistent: others never get into a log
        i64(header.expiration_ms),
        i8(header.priority),
        _destination(destination_of(_text(said.get("JMSReplyTo")))),
        i64(header.timestamp_ms),
        text(_text(said.get("JMSType"))),
        _binary(content),
        _binary(_map(own) if own else None),
        _NO,
        _NO,
        _NO,  # not compressed
        i32(form.redeliveries),
        _brokers(said, "BROKER_PATH"),
        i64(_number(said, "ARRIVAL")),
        text(_text(said.get(f"{HEADER_PREFIX}USER_ID"))),
        _NO,
        _YES if said.get(f"{HEADER_PREFIX}DROPPABLE") else _NO,
        _brokers(said, "CLUSTER"),
        i64(_number(said, "BROKER_IN_TIME")),
        i64(0),
    )
    return b"".join(fields)


def queue_ack(destination: Destination, identity: Identity, transaction: Transaction | None = None) -> bytes:
    acknowledged = _message_id(identity)
    ack = (
        i32(0) + _NO + _destination(destination) + _transaction(transaction) + _NO + i8(_DEFAULT_ACK)
    ) + acknowledged * 2
    whole = _YES + i8(openwire.MESSAGE_ACK) + ack + i32(1)
    return i8(openwire.QUEUE_ACK) + _destination(destination) + whole


def topic_ack(
    topic: Destination, identity: Identity, client: str, name: str, transaction: Transaction | None = None
) -> bytes:
    return b"".join(
        (
            i8(openwire.TOPIC_ACK),
            _destination(topic),
            _message_id(identity),
            i64(identity.number),
            text(name),
            text(client),
            _transaction(transaction),
        )
    )


def outcome(transaction: Transaction, kind: int, *, was_prepared: bool = False) -> bytes:
    return i8(openwire.TRANSACTION) + _transaction(transaction) + i8(kind) + (_YES if was_prepared else _NO)


def trace(said: str, length: int) -> bytes:
    """A note that nobody acts on, of so many bytes."""
    return i8(openwire.TRACE) + text(said[: length - 4].ljust(length - 4))


def subscription(
    topic: Destination, client: str, name: str, selector: str | None, asked: Destination
) -> bytes:
    return b"".join(
        (
            i8(openwire.SUBSCRIPTION),
            text(client),
            _destination(topic),
            text(selector),
            text(name),
            _destination(asked),
        )
    )


def inflated_parts(parts: core_message.CoreParts) -> core_message.CoreParts:
    """A message with its body inflated, where it is kept compressed."""
    if core_message.LARGE_COMPRESSED.encode("utf-16-le") not in (parts.header.properties or b""):
        return parts
    try:
        return core_message.CoreParts(
            parts.message_id, parts.address, parts.header, zlib.decompress(parts.body)
        )
    except zlib.error:
        return parts


def refuse_properties(entries: Iterable[Property]) -> None:
    """Raise `DecodeError` for those that are too long for a message there."""
    for one in entries:
        text(one.name)
        if _is_header(one.name):
            text(_text(one.value))


# -- bodies and properties -----------------------------------------------------------------------------------


def _body(parts: core_message.CoreParts) -> tuple[Kind, bytes | None]:
    body, core_type = parts.body, parts.header.type
    try:
        kind = _KINDS[core_message.CoreType(core_type)]
    except (KeyError, ValueError):
        raise DecodeError(0, f"ActiveMQ 5 has no messages of type {core_type}") from None
    if kind is Kind.MESSAGE and body:
        kind = Kind.BYTES
    return kind, _content(kind, body)


def _content(kind: Kind, body: bytes) -> bytes | None:
    """A body as OpenWire has it; None: null."""
    match kind:
        case Kind.TEXT if body and body[0]:
            encoded = java_utf8(decode_utf16(memoryview(body)[5:], "little"))
            return i32(len(encoded)) + encoded
        case Kind.TEXT:
            return None
        case Kind.MAP:
            return _map(decode_properties(Reader(body or _NO)))
        case Kind.STREAM:
            return b"".join(_value(code, value) for code, value in decode_stream(Reader(body)))
        case Kind.OBJECT:
            return body[4:] or None
        case _:
            return body or None


def _map(entries: Iterable[Property]) -> bytes:
    encoded = [_utf(one.name) + _value(one.code, one.value) for one in entries]
    return i32(len(encoded)) + b"".join(encoded)


def _value(code: Code, value: PropertyValue) -> bytes:
    if code in _VALUES:
        kind, form = _VALUES[code]
        return i8(kind) + form.pack(value)
    if isinstance(value, bytes):
        return i8(_BYTES) + i32(len(value)) + value
    if value is None:
        return i8(_NULL)
    assert isinstance(value, str)
    if code is Code.CHAR:
        return i8(_CHAR) + value.encode("utf-16-be", "surrogatepass")
    encoded = java_utf8(value)
    if len(value) >= BIG_STRING_CHARS:
        return i8(_BIG_STRING) + i32(len(encoded)) + encoded
    return i8(_STRING) + _U16.pack(len(encoded)) + encoded


def _is_header(name: str) -> bool:
    return name in _HEADERS or name.startswith(HEADER_PREFIX)


def _text(value: PropertyValue) -> str | None:
    return value if isinstance(value, str) else None


def _int32(value: PropertyValue) -> int:
    return value if isinstance(value, int) and -(1 << 31) <= value < 1 << 31 else 0


def _number(said: dict[str, PropertyValue], name: str) -> int:
    value = said.get(HEADER_PREFIX + name)
    if name == "COMMAND_ID":
        return _int32(value)
    return value if isinstance(value, int) else 0


def _brokers(said: dict[str, PropertyValue], name: str) -> bytes:
    value = _text(said.get(HEADER_PREFIX + name))
    if not value:
        return _NO
    names = value.split(",")
    encoded = (_YES + i8(openwire.BROKER_ID) + text(one) for one in names)
    return _YES + struct.pack(">h", len(names)) + b"".join(encoded)


def _original(said: dict[str, PropertyValue]) -> Destination | None:
    """Where a message was sent to before it became a dead letter."""
    known = destination_of(_text(said.get(f"{HEADER_PREFIX}ORIG_DESTINATION")))
    return known or destination_of(_text(said.get(core_message.ORIGINAL_ADDRESS)))


_PREFIXES: Final = {
    one.qualified[:-1]: one
    for one in (Destination(topic, "x", temporary) for topic in (False, True) for temporary in (False, True))
}


def destination_of(name: str | None) -> Destination | None:
    """As clients spell it; without a prefix it is a queue."""
    if name is None:
        return None
    for prefix, kind in _PREFIXES.items():
        if name.startswith(prefix):
            return kind._replace(name=name.removeprefix(prefix))
    return Destination(False, name)
