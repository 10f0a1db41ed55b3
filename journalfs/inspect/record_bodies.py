"""Bodies of records, read to their last byte (docs/format/messages.md, "Records"; bindings.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from journalfs.errors import DecodeError
from journalfs.format import address_settings, amqp_message, bindings
from journalfs.format.amqp_message import SectionCode, split_large, split_sections, split_standard
from journalfs.format.amqp_types import items_of, skip
from journalfs.format.core_message import BODY_OFFSET, PERSISTER
from journalfs.format.primitives import Reader
from journalfs.format.properties import decode_properties
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.format.xid import read_xid

PERSISTERS: Final = frozenset(
    {PERSISTER, amqp_message.STANDARD_V1, amqp_message.STANDARD_V2, amqp_message.LARGE, amqp_message.STANDARD}
)

_LISTS: Final = frozenset({SectionCode.HEADER, SectionCode.PROPERTIES})
"""All others but bodies are maps."""
T = TypeVar("T")


def _core_header(reader: Reader) -> int:
    """A header to its end; the id in it."""
    message_id = reader.i64()
    reader.nullable_simple_string()
    if reader.boolean():
        reader.raw(16)
    reader.i8()
    reader.boolean()
    reader.raw(16)
    reader.i8()
    decode_properties(reader)
    return message_id


def _core(reader: Reader) -> int:
    message_id = reader.i64()
    reader.nullable_simple_string()
    buffer = Reader(reader.byte_array())
    body_bytes = buffer.i32() - BODY_OFFSET
    if body_bytes < 0:
        raise DecodeError(0, f"a body cannot have {body_bytes} bytes")
    buffer.raw(body_bytes)
    _whole(buffer, _core_header)
    return message_id


def _whole(reader: Reader, read: Callable[[Reader], T]) -> T:
    """What is there, to its end."""
    found = read(reader)
    if reader.remaining_bytes:
        raise DecodeError(reader.position, f"{reader.remaining_bytes} bytes more than it holds")
    return found


def _extra(content: bytes) -> None:
    if content:
        _whole(Reader(content), decode_properties)


def check_section(code: SectionCode, encoded: bytes) -> None:
    """The value of an encoded section is what its kind of section holds. Raises `DecodeError`."""
    if code not in amqp_message.BODY_SECTIONS:
        items = items_of(encoded[skip(encoded, 1) :])
        if code not in _LISTS and len(items) % 2:
            raise DecodeError(0, f"a map of {len(items)} keys and values")


def _standard(payload: bytes) -> int:
    parts, message = split_standard(payload)
    for section in split_sections(message):
        check_section(section.code, section.encoded)
    _extra(parts.extra)
    return parts.message_id


def _large(payload: bytes) -> int:
    parts, _cache = split_large(payload)
    _extra(parts.extra)
    return parts.message_id


def check_message(user_type: int, payload: bytes) -> int:
    """A message as a record or a page holds it, all but what clients put into a body; the id that it says.
    Raises `DecodeError`.
    """
    reader = Reader(payload)
    if user_type == MessageType.LARGE_MESSAGE:
        return _whole(reader, _core_header)
    persister = reader.i8()
    if persister == PERSISTER:
        return _whole(reader, _core)
    if persister not in PERSISTERS:
        raise DecodeError(0, f"no kind of message has the number {persister}")
    return _large(payload) if persister == amqp_message.LARGE else _standard(payload)


def _numbers(*lengths: int) -> Callable[[Reader], None]:
    """Fixed-size numbers, of one of these lengths together."""

    def read(reader: Reader) -> None:
        if reader.remaining_bytes not in lengths:
            expected = " or ".join(map(str, lengths))
            raise DecodeError(0, f"{reader.remaining_bytes} bytes, where {expected} belong")
        reader.rest()

    return read


def _duplicate_id(reader: Reader) -> None:
    reader.simple_string()
    reader.byte_array()


def _heuristic(reader: Reader) -> None:
    read_xid(reader)
    reader.boolean()


def _ack_retry(reader: Reader) -> None:
    reader.i64()
    reader.i8()
    reader.i64()
    reader.byte_array()
    reader.i64()
    reader.i8()


def _mqtt_packet_id(reader: Reader) -> None:
    reader.i64()
    reader.i8()
    reader.string()
    reader.i64()
    reader.simple_string()
    reader.i32()


_OF_MESSAGES: Final[Mapping[int, Callable[[Reader], None]]] = {
    MessageType.LARGE_MESSAGE_PENDING: _numbers(8),
    MessageType.ADD_REFERENCE: _numbers(8),
    MessageType.ACKNOWLEDGE_REFERENCE: _numbers(8),
    MessageType.DELIVERY_COUNT: _numbers(12),
    MessageType.PAGE_TRANSACTION: _numbers(12),
    MessageType.SCHEDULED_TIME: _numbers(16),
    MessageType.DUPLICATE_ID: _duplicate_id,
    MessageType.HEURISTIC_COMPLETION: _heuristic,
    MessageType.ACKNOWLEDGE_CURSOR: _numbers(20),
    MessageType.PAGE_COUNTER_VALUE: _numbers(16, 24),
    MessageType.PAGE_COUNTER_INCREMENT: _numbers(12, 20),
    MessageType.PAGE_COMPLETE: _numbers(20),
    MessageType.PAGE_COUNTER_PENDING: _numbers(16),
    MessageType.ACKNOWLEDGE_RETRY: _ack_retry,
    MessageType.MQTT_PACKET_ID: _mqtt_packet_id,
}

_OF_BINDINGS: Final[Mapping[int, Callable[[bytes], Any]]] = {
    BindingType.GROUP: bindings.decode_group,
    BindingType.QUEUE_BINDING: bindings.decode_queue_binding,
    BindingType.QUEUE_STATUS: bindings.decode_queue_status,
    BindingType.ID_COUNTER: bindings.decode_id_counter,
    BindingType.ADDRESS_SETTING: address_settings.decode_address_setting,
    BindingType.DIVERT: bindings.decode_divert,
    BindingType.ADDRESS_BINDING: bindings.decode_address_binding,
    BindingType.ADDRESS_STATUS: bindings.decode_address_status,
    BindingType.USER: bindings.decode_user,
    BindingType.ROLE: bindings.decode_roles,
    BindingType.ADDRESS_SETTING_JSON: address_settings.decode_address_setting_json,
}

_ADDS: Final = frozenset({RecordKind.ADD, RecordKind.ADD_TX, RecordKind.UPDATE, RecordKind.UPDATE_TX})
_MESSAGES: Final = frozenset({MessageType.MESSAGE, MessageType.LARGE_MESSAGE})


def wrong_in_message_record(kind: int, user_type: int, record_id: int, body: bytes) -> str | None:
    """Why a record of the message journal is not what its type says; None: it is. Types that are not known
    are no one's damage.
    """
    try:
        if kind == RecordKind.PREPARE:
            _whole(Reader(body), read_xid)
        elif kind not in _ADDS:
            return None
        elif user_type in _MESSAGES:
            said = check_message(user_type, body)
            if said != record_id:
                return f"it is of message {said}, and its record of {record_id}"
        elif (read := _OF_MESSAGES.get(user_type)) is not None:
            _whole(Reader(body), read)
    except DecodeError as error:
        return f"byte {error.offset} of it: {error.reason}"
    return None


def wrong_in_bindings_record(kind: int, user_type: int, body: bytes) -> str | None:
    """The same of the bindings journal."""
    decode = _OF_BINDINGS.get(user_type) if kind in _ADDS else None
    try:
        if decode is not None:
            decode(body)
    except DecodeError as error:
        return f"byte {error.offset} of it: {error.reason}"
    return None
