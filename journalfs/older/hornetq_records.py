"""Records of today's message journal and pages as HornetQ has them (docs/format/older.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from journalfs.format.core_message import (
    PERSISTER,
    PROPERTY_PREFIX,
    ROUTING_TYPE,
    CoreHeader,
    CoreParts,
    encode_header,
    split_header,
    split_message,
)
from journalfs.format.encoding import NULL, i8, i32, i64, nullable_simple_string, simple_string
from journalfs.format.primitives import Reader
from journalfs.format.properties import Code, Property, decode_properties, encode_properties
from journalfs.format.record_types import MessageType
from journalfs.older.bindings import QUEUE_PREFIX, TOPIC_PREFIX

BODY_OFFSET: Final = 17
"""What the end-of-body field counts beside the body."""

_COUNTER_BYTES: Final = {MessageType.PAGE_COUNTER_VALUE: 16, MessageType.PAGE_COUNTER_INCREMENT: 12}
"""Lengths of what counts paged messages: HornetQ does not count their bytes."""

_KNOWN: Final = frozenset(range(MessageType.LARGE_MESSAGE_PENDING, MessageType.PAGE_COUNTER_PENDING + 1))
_MARKS: Final = (PROPERTY_PREFIX.encode("utf-16-le"), "JMSReplyTo".encode("utf-16-le"))
_DESTINATIONS: Final = {
    "queue://": QUEUE_PREFIX,
    "topic://": TOPIC_PREFIX,
    "temp-queue://": "jms.tempqueue.",
    "temp-topic://": "jms.temptopic.",
}
_ADDRESSES: Final = frozenset({"_HQ_ORIG_ADDRESS", "_HQ_ORIG_QUEUE"})

_EMPTY: Final = encode_header(0, NULL, CoreHeader(None, 0, False, 0, 0, 4, NULL))
_NOTHING: Final = i32(BODY_OFFSET) + i32(BODY_OFFSET + 4 + len(_EMPTY)) + _EMPTY
"""A message that keeps a place in a page."""


@dataclass(frozen=True, slots=True)
class HornetqRecords:
    """`address` names an address as that store has it."""

    address: Callable[[str], str] = lambda name: name

    def record(self, user_type: int, body: bytes) -> tuple[int, bytes] | None:
        """User type and body of a record. None: HornetQ has no such record, or does not understand the
        message. Raises `DecodeError`.
        """
        if user_type == MessageType.MESSAGE:
            old = self.message(body)
            return None if old is None else (MessageType.LEGACY_MESSAGE, old)
        if user_type == MessageType.LARGE_MESSAGE:
            return user_type, self.header(split_header(Reader(body)))
        if user_type == MessageType.DUPLICATE_ID:
            reader = Reader(body)
            return user_type, simple_string(self.address(reader.simple_string())) + reader.rest()
        if user_type in _COUNTER_BYTES:
            return user_type, body[: _COUNTER_BYTES[MessageType(user_type)]]
        return (user_type, body) if user_type in _KNOWN else None

    def message(self, payload: bytes) -> bytes | None:
        """In the older layout; None for one that is no core message."""
        if payload[:1] != bytes((PERSISTER,)):
            return None
        parts = split_message(payload)
        header = self.header(parts)
        body_end = BODY_OFFSET + len(parts.body)
        return i32(body_end) + parts.body + i32(body_end + 4 + len(header)) + header

    def header(self, parts: CoreParts) -> bytes:
        address = None if parts.address is None else self.address(parts.address)
        header = parts.header._replace(properties=self._properties(parts.header.properties))
        return encode_header(parts.message_id, nullable_simple_string(address), header)

    def _properties(self, encoded: bytes) -> bytes:
        if not any(mark in encoded for mark in _MARKS):
            return encoded
        entries = decode_properties(Reader(encoded))
        return encode_properties(self._property(one) for one in entries if one.name != ROUTING_TYPE)

    def _property(self, entry: Property) -> Property:
        name, code, value = entry
        if name.startswith("_AMQ_"):
            name = f"_HQ_{name.removeprefix('_AMQ_')}"
        elif name.startswith("__AMQ_"):
            name = f"__HQ_{name.removeprefix('__AMQ_')}"
        if code is Code.STRING and isinstance(value, str):
            if name in _ADDRESSES:
                value = self.address(value)
            elif name == "JMSReplyTo":
                value = _old_destination(value)
        return Property(name, code, value)


def page_record(tx_id: int, message: bytes | None, queues: Sequence[int], *, large: bool) -> bytes:
    """A record of a page. Without a message it keeps its place, and is in no queue."""
    if message is None:
        message, large, queues = _NOTHING, False, ()
    content = i64(tx_id) + i8(large) + i32(len(message)) + message + i32(len(queues))
    content += b"".join(map(i64, queues))
    return b"{" + i32(len(content)) + content + b"}"


def _old_destination(name: str) -> str:
    for prefix, old in _DESTINATIONS.items():
        if name.startswith(prefix):
            return old + name.removeprefix(prefix)
    return name
