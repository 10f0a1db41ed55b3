"""Core messages: the payload of a record, and the header that stands alone for large ones
(docs/format/messages.md, "Core").
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Final, NamedTuple

from journalfs.errors import DecodeError
from journalfs.format import primitives
from journalfs.format.primitives import Reader
from journalfs.format.properties import Code, PropertyValue

PERSISTER: Final = 1

BODY_OFFSET: Final = 13
"""What the end-of-body field counts beside the body: once the header of a packet."""

LARGE_SIZE: Final = "_AMQ_LARGE_SIZE"
LARGE_COMPRESSED: Final = "_AMQ_LARGE_COMPRESSED"
GROUP_ID: Final = "_AMQ_GROUP_ID"
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
SCHEDULED: Final = "_AMQ_SCHED_DELIVERY"
ROUTING_TYPE: Final = "_AMQ_ROUTING_TYPE"
LAST_VALUE: Final = "_AMQ_LVQ_NAME"
ORIGINAL_QUEUE: Final = "_AMQ_ORIG_QUEUE"
ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
ORIGINAL_MESSAGE_ID: Final = "_AMQ_ORIG_MESSAGE_ID"
ORIGINAL_ROUTING_TYPE: Final = "_AMQ_ORIG_ROUTING_TYPE"
ACTUAL_EXPIRY: Final = "_AMQ_ACTUAL_EXPIRY"
"""What brokers note on a copy that goes to another address."""
NOTES: Final = (ORIGINAL_QUEUE, ORIGINAL_ADDRESS, ORIGINAL_MESSAGE_ID, ORIGINAL_ROUTING_TYPE, ACTUAL_EXPIRY)
"""All of them."""
PROPERTY_PREFIX: Final = "_AMQ_"


def annotation_of(property_name: str) -> str:
    """The annotation of an AMQP message that says the same: `_AMQ_ORIG_QUEUE` -> `x-opt-ORIG-QUEUE`."""
    return f"x-opt-{property_name.removeprefix(PROPERTY_PREFIX).replace('_', '-')}"


def origin(message_id: int, queue: str, address: str) -> dict[str, tuple[Code, PropertyValue]]:
    """What a copy says of the message that it is of: its id, the queue it was in, and its own address."""
    return {
        ORIGINAL_QUEUE: (Code.STRING, queue),
        ORIGINAL_ADDRESS: (Code.STRING, address),
        ORIGINAL_MESSAGE_ID: (Code.LONG, message_id),
    }


@unique
class CoreType(IntEnum):
    """What a body is."""

    DEFAULT = 0
    OBJECT = 2
    TEXT = 3
    BYTES = 4
    MAP = 5
    STREAM = 6
    EMBEDDED = 7
    LARGE_EMBEDDED = 8


_ID: Final = struct.Struct(">q")
_FRONT: Final = struct.Struct(">bq")
_SIZES: Final = struct.Struct(">ii")
_FIXED: Final = struct.Struct(">bBqqb")


class CoreHeader(NamedTuple):
    """All of a message but its id, address and body."""

    user_id: bytes | None
    type: int
    durable: bool
    expiration_ms: int
    timestamp_ms: int
    priority: int
    properties: bytes
    """Encoded, with the mark of presence."""


def encode_header(message_id: int, address: bytes, header: CoreHeader) -> bytes:
    """The header behind a body, which is all that the record of a large message holds. `address` is encoded,
    a nullable SimpleString.
    """
    return b"".join((_ID.pack(message_id), address, *_after_address(header)))


def _after_address(header: CoreHeader) -> tuple[bytes, bytes, bytes]:
    user_id, core_type, durable, expiration_ms, timestamp_ms, priority, properties = header
    return (
        primitives.NULL if user_id is None else primitives.PRESENT + user_id,
        _FIXED.pack(core_type, durable, expiration_ms, timestamp_ms, priority),
        properties,
    )


def encode_message(message_id: int, address: bytes, body: bytes | memoryview, header: CoreHeader) -> bytes:
    """A whole payload, the persister byte first."""
    user_id, fixed, properties = _after_address(header)
    body_bytes = len(body)
    header_bytes = _ID.size + len(address) + len(user_id) + len(fixed) + len(properties)
    return b"".join(
        (
            _FRONT.pack(PERSISTER, message_id),
            address,
            _SIZES.pack(4 + body_bytes + header_bytes, BODY_OFFSET + body_bytes),
            body,
            _ID.pack(message_id),
            address,
            user_id,
            fixed,
            properties,
        )
    )


def message_bytes(address_bytes: int, body_bytes: int, *, user_id: bool, properties_bytes: int) -> int:
    """Length of a whole payload."""
    header = _ID.size + address_bytes + (17 if user_id else 1) + _FIXED.size + properties_bytes
    return _FRONT.size + address_bytes + _SIZES.size + body_bytes + header


@dataclass(frozen=True, slots=True)
class CoreParts:
    """A payload taken apart, without a look at what its properties and body hold."""

    message_id: int
    address: str | None
    header: CoreHeader
    body: bytes


def split_message(payload: bytes) -> CoreParts:
    """Take the payload of a small message apart. Raises `DecodeError`."""
    reader = Reader(payload)
    reader.i8()
    reader.i64()
    reader.nullable_simple_string()
    buffer = Reader(reader.byte_array())
    body_bytes = buffer.i32() - BODY_OFFSET
    if body_bytes < 0:
        raise DecodeError(0, f"a body cannot have {body_bytes} bytes")
    return split_header(buffer, buffer.raw(body_bytes))


def stored_bytes(payload: bytes, *, large: bool) -> int:
    """How long a message is for brokers, of a large one without its body. Raises `DecodeError`."""
    if large:
        return len(payload)
    reader = Reader(payload)
    reader.i8()
    reader.i64()
    reader.nullable_simple_string()
    return reader.i32()


def split_header(reader: Reader, body: bytes = b"") -> CoreParts:
    """Take a header apart; the properties are all the rest."""
    message_id = reader.i64()
    address = reader.nullable_simple_string()
    user_id = reader.raw(16) if reader.boolean() else None
    core_type, durable = reader.i8(), reader.boolean()
    expiration_ms, timestamp_ms, priority = reader.i64(), reader.i64(), reader.i8()
    header = CoreHeader(user_id, core_type, durable, expiration_ms, timestamp_ms, priority, reader.rest())
    return CoreParts(message_id, address, header, body)
