"""Core messages as OpenWire commands, as ActiveMQ 5.0 to 5.8 keeps them in data logs (loose, version 3 to 6;
docs/format/kahadb.md, "OpenWire"). What `openwire_core` makes of them is what they were.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from journalfs.errors import DecodeError
from journalfs.format import core_message
from journalfs.format.primitives import Reader, decode_utf16, i8, i32
from journalfs.format.properties import Code, Property, PropertyValue, decode_properties, decode_stream
from journalfs.records.older import openwire
from journalfs.records.older.openwire import Destination, Identity, Kind, Transaction, java_utf8, utf
from journalfs.records.older.openwire_core import CORE_TYPES, GROUP_SEQUENCE, HEADER_PREFIX, NUMBERS

BIG_STRING_CHARS: Final = 8192
"""Longer texts have another type."""

CONNECTION: Final = f"ID:journalfs-{uuid.uuid4()}"
"""Of messages and transactions that this process gives an id."""

_NO = b"\0"
_U16: Final = struct.Struct(">H")
_KINDS: Final = {core: kind for kind, core in CORE_TYPES.items() if kind is not Kind.BLOB}
_BOOLEAN: Final = (1, struct.Struct(">?"))
_VALUES: Final = {code: (kind, form) for kind, (code, form) in NUMBERS.items()} | {Code.BOOLEAN: _BOOLEAN}
_NULL, _CHAR, _STRING, _BYTES, _BIG_STRING = 0, 3, 9, 10, 13
_HEADERS: Final = frozenset(
    {
        "JMSType", "JMSCorrelationID", "JMSReplyTo", core_message.GROUP_ID, GROUP_SEQUENCE,
        core_message.ROUTING_TYPE, core_message.LARGE_SIZE, core_message.LARGE_COMPRESSED,
        core_message.SCHEDULED,
    }
)  # fmt: skip
"""Properties of a core message that are fields of an OpenWire one, or say nothing there."""


class Form(NamedTuple):
    """What an OpenWire message says beside what a core message does."""

    destination: Destination
    identity: Identity
    redeliveries: int = 0
    transaction: Transaction | None = None


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
    return openwire.encode(
        openwire.OpenWireMessage(
            kind=kind,
            command_id=_number(said, "COMMAND_ID"),
            producer=openwire.producer_and_sequence(form.identity)[0],
            destination=form.destination,
            transaction=form.transaction,
            original_destination=_original(said),
            id=form.identity,
            group=_text(said.get(core_message.GROUP_ID)),
            group_sequence=_int32(said.get(GROUP_SEQUENCE)),
            correlation_id=_text(said.get("JMSCorrelationID")),
            expiration_ms=header.expiration_ms,
            priority=header.priority,
            reply_to=destination_of(_text(said.get("JMSReplyTo"))),
            timestamp_ms=header.timestamp_ms,
            jms_type=_text(said.get("JMSType")),
            content=content,
            properties=_map(own) if own else None,
            redeliveries=form.redeliveries,
            broker_path=_brokers(said, "BROKER_PATH"),
            arrival_ms=_number(said, "ARRIVAL"),
            user=_text(said.get(f"{HEADER_PREFIX}USER_ID")),
            droppable=bool(said.get(f"{HEADER_PREFIX}DROPPABLE")),
            cluster=_brokers(said, "CLUSTER"),
            broker_in_ms=_number(said, "BROKER_IN_TIME"),
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
        utf(one.name)
        if _is_header(one.name):
            utf(_text(one.value) or "")


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
    encoded = [utf(one.name) + _value(one.code, one.value) for one in entries]
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


def _brokers(said: dict[str, PropertyValue], name: str) -> list[str]:
    value = _text(said.get(HEADER_PREFIX + name))
    return value.split(",") if value else []


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
