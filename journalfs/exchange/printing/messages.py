"""Messages as the broker prints them, from their records."""

from __future__ import annotations

from journalfs.errors import DecodeError
from journalfs.exchange.printing import java
from journalfs.exchange.printing.amqp import Described, describe_amqp, describe_large_amqp
from journalfs.exchange.printing.java import properties_text
from journalfs.format import amqp_message, core_message
from journalfs.format.core_message import CoreParts, split_header, split_message
from journalfs.format.primitives import Reader, broker_uuid

_AMQP = frozenset({amqp_message.STANDARD_V1, amqp_message.STANDARD_V2, amqp_message.STANDARD})


def describe_message(payload: bytes) -> Described:
    """A record of type 45. Raises `DecodeError`."""
    persister = payload[0] if payload else -1
    if persister == core_message.PERSISTER:
        return _small(payload)
    if persister in _AMQP:
        return describe_amqp(payload)
    if persister == amqp_message.LARGE:
        return describe_large_amqp(payload)
    raise DecodeError(0, f"no kind of message has the number {persister}")


def message_text(one: Described) -> str:
    """Behind a record of the journal."""
    front = f"{'LargeMessage' if one.large else 'Message'}(messageID={one.message_id}"
    return front + (f";userMessageID={one.user_id}" if one.user_id is not None else "") + f";msg={one.text}"


def safe_text(one: Described) -> str:
    size = "" if one.size_bytes is None else f", size={one.size_bytes}"
    return f"{one.kind}(safe data{size})"


def _user_id(parts: CoreParts) -> str | None:
    found = parts.header.user_id
    return None if found is None else str(broker_uuid(found))


def _time(time_ms: int) -> str:
    return java.date(time_ms) if time_ms else "0"


def _text(parts: CoreParts, name: str, comma: str, size: str = "") -> str:
    """`comma`: what stands between the first fields."""
    header, durable = parts.header, java.truth(parts.header.durable)
    first = (
        f"messageID={parts.message_id}", f"durable={durable}",
        f"userID={java.or_null(_user_id(parts))}", f"priority={header.priority}",
    )  # fmt: skip
    return (
        f"{name}[{comma.join(first)}, timestamp={_time(header.timestamp_ms)},{comma[1:]}"
        f"expiration={_time(header.expiration_ms)}, durable={durable}, "
        f"address={java.or_null(parts.address)}, {size}"
        f"properties={properties_text(Reader(header.properties))}]@{java.NO_IDENTITY}"
    )


def _small(payload: bytes) -> Described:
    parts = split_message(payload)
    reader = Reader(payload, position=9)
    reader.nullable_simple_string()
    size_bytes = reader.i32()
    text = _text(parts, "CoreMessage", ", ", f"size={size_bytes}, ")
    return Described("CoreMessage", parts.message_id, _user_id(parts), text, False, size_bytes)


def describe_large(body: bytes) -> Described:
    """A record of type 30. Raises `DecodeError`."""
    parts = split_header(Reader(body))
    text = _text(parts, "LargeServerMessage", ",")
    return Described("LargeServerMessageImpl", parts.message_id, _user_id(parts), text, True, None)


def describe_paged_large(body: bytes) -> Described:
    """The header of a large message in a page: another kind to the tool. Raises `DecodeError`."""
    parts, name = split_header(Reader(body)), "NullStorageLargeServerMessage"
    text = (
        f"{name}[messageID={parts.message_id}, "
        f"durable={java.truth(parts.header.durable)}, address={java.or_null(parts.address)},"
        f"properties={properties_text(Reader(parts.header.properties))}]"
    )
    return Described(name, parts.message_id, _user_id(parts), text, True, len(body))
