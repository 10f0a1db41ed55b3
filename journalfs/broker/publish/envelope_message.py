"""Envelope lines, turned back into messages (docs/reference/envelope.md, "Writing")."""

from __future__ import annotations

import json
import zlib
from typing import Final, NoReturn

import msgspec

from journalfs.engine.inflated import inflate_bytes
from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER, LineBatch
from journalfs.errors import BadEnvelope, DecodeError
from journalfs.format import core_message, primitives
from journalfs.format.core_message import CoreType
from journalfs.format.properties import Code, Property, encode_properties, encode_stream_value
from journalfs.format.record_types import MessageType
from journalfs.limits import INFLATE_FREELY_BYTES
from journalfs.live.stored_runs import message_of_record
from journalfs.message import envelope_fields as fields
from journalfs.message.envelope_amqp import DEPTH_MAX, read_amqp
from journalfs.message.envelope_fields import Envelope
from journalfs.message.outgoing import NO_PROPERTIES, CoreMessage, Outgoing, Properties, whole

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""The three bytes that some programs write at the beginning of a UTF-8 text."""

PLACE_KEYS: Final = frozenset({"queue", "deliveryCount", "scheduledTime", "address", "id"})
"""Keys that name the message's place (address, queue). They are ignored: the file that the line is written to
names its place.
"""

_CORE_KEYS: Final = frozenset(
    {
        "userId",
        "protocol",
        "type",
        "durable",
        "priority",
        "timestamp",
        "expiration",
        "groupId",
        "duplicateId",
        "duplicateId_base64",
        "largeMessage",
        "properties",
        "propertyTypes",
        "body",
        "body_base64",
        "message_base64",
    }
)
_AMQP_KEYS: Final = frozenset({"amqp", "extraProperties", "messageFormat", "persister", "large_base64"})
_KEYS: Final = PLACE_KEYS | _CORE_KEYS | _AMQP_KEYS | {"damage"}

_CONTENT_KEYS: Final = ("type", "body", "body_base64", "amqp", "message_base64")

_TYPES: Final = {
    "default": CoreType.DEFAULT,
    "object": CoreType.OBJECT,
    "text": CoreType.TEXT,
    "bytes": CoreType.BYTES,
    "map": CoreType.MAP,
    "stream": CoreType.STREAM,
    "embedded": CoreType.EMBEDDED,
    "largeEmbedded": CoreType.LARGE_EMBEDDED,
}


def read_envelope(line: bytes) -> Outgoing:
    """The message of one line. Raises BadEnvelope."""
    envelope = _decode(line)
    for key in envelope:
        if key not in _KEYS:
            raise BadEnvelope("there is no such key in an envelope", key=key)
    if not any(key in envelope for key in _CONTENT_KEYS):
        raise BadEnvelope(f"an envelope has at least one of {', '.join(_CONTENT_KEYS)}")
    if "damage" in envelope:
        raise BadEnvelope("a damaged message; without this key what could be read is published", key="damage")
    message = _message(envelope)
    message.delivery_count = fields.number(envelope, "deliveryCount", default=0, low=0, high=2**31 - 1)
    if "scheduledTime" in envelope:
        message.queue_schedule_ms = fields.number(envelope, "scheduledTime", default=0, low=1)
    return message


def _message(envelope: Envelope) -> Outgoing:
    protocol = envelope.get("protocol", "AMQP" if "amqp" in envelope else "CORE")
    if protocol not in ("CORE", "AMQP"):
        raise BadEnvelope(f"{fields.shown(protocol)} is neither CORE nor AMQP", key="protocol")
    large = fields.flag(envelope, "largeMessage", default=False)
    if "message_base64" in envelope:
        return _encoded(envelope, amqp=protocol == "AMQP", large=large)
    if protocol == "CORE":
        return _core(envelope)
    message = read_amqp(envelope)
    address = fields.text(envelope, "address") or ""
    stated, source_key = (envelope, "amqp") if "amqp" in envelope else ({}, "body")
    _see_agreement(stated, source_key, message.record(0, address, 0)[1])
    message.large = large
    return message


def _encoded(envelope: Envelope, *, amqp: bool, large: bool) -> Outgoing:
    """A message whose keys do not carry every bit, so that its record comes along."""
    payload = fields.base64(envelope["message_base64"], "message_base64")
    body: bytes | None = None
    if amqp and large:
        body = fields.base64(envelope.get("large_base64"), "large_base64")
    elif large:
        others = {key: value for key, value in envelope.items() if key != "message_base64"}
        body = bytes(whole(_core(others).body))
    user_type = MessageType.LARGE_MESSAGE if large and not amqp else MessageType.MESSAGE
    try:
        message = message_of_record(user_type, payload, body)
    except DecodeError as error:
        raise BadEnvelope(str(error), key="message_base64") from None
    _see_agreement(envelope, "message_base64", payload, large_core=large and not amqp, large=body)
    return message


_NEVER_COMPARED: Final = PLACE_KEYS | {"largeMessage", "message_base64", "large_base64"}


def _see_agreement(
    envelope: Envelope,
    source_key: str,
    payload: bytes,
    *,
    large_core: bool = False,
    large: bytes | None = None,
) -> None:
    """Raise BadEnvelope where a key contradicts the message that was made of `source_key`."""
    sources = [SOURCE_CORE_LARGE if large_core else SOURCE_PERSISTER]
    batch = LineBatch.of_payloads([payload], queue=None, sources=sources)
    if large is not None:
        batch.set_large(0, _inflated(large) if batch.measure(0).compressed else large)
    rendered = _decode(batch.line(0))
    if "damage" in rendered:
        raise BadEnvelope(f"makes a message that cannot be read: {rendered['damage']}", key=source_key)
    for key, stated in envelope.items():
        value = _needed_types(stated) if key == "propertyTypes" else stated
        if key in _NEVER_COMPARED or key == source_key or rendered.get(key) == value:
            continue
        if key in rendered or value:
            reason = f"another value than {source_key} gives; change it there, or leave {source_key} out"
            raise BadEnvelope(reason, key=key)


def _needed_types(stated: object) -> object:
    """Without those that a line does not state, since the value is of no other."""
    if not isinstance(stated, dict):
        return stated
    return {name: kind for name, kind in stated.items() if kind not in ("string", "boolean")}


def _inflated(body: bytes) -> bytes:
    try:
        return inflate_bytes(body, INFLATE_FREELY_BYTES)
    except ValueError as error:
        raise BadEnvelope(str(error), key="large_base64") from None


def _decode(line: bytes) -> Envelope:
    """One JSON object. Escaped lone surrogates, legal in the broker's strings, are taken by the standard
    library only, so a line that fails is looked at by it as well.
    """
    try:
        try:
            found = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = json.loads(line.decode(), parse_constant=_no_constant)
    except RecursionError:
        raise BadEnvelope(f"nested deeper than the {DEPTH_MAX} levels that a value may have") from None
    except ValueError as error:
        if line.startswith(BYTE_ORDER_MARK):
            raise BadEnvelope("a byte order mark is skipped at the beginning of a file only") from None
        raise BadEnvelope(f"no JSON: {_told(error)}") from None
    if not isinstance(found, dict):
        raise BadEnvelope("an envelope is a JSON object")
    return found


def _told(error: ValueError) -> str:
    """Return the parser's reason without its line numbers, since the parser sees one line of
    the file only.
    """
    if isinstance(error, json.JSONDecodeError):
        offset = len(error.doc[: error.pos].encode())
        return f"{error.msg.removesuffix(' at').rstrip(': ')} at offset {offset} of the line"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 at offset {error.start} of the line"
    return str(error)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} stands in quotes: "{name}"')


def _core(envelope: Envelope) -> CoreMessage:
    for key in _AMQP_KEYS & envelope.keys():
        raise BadEnvelope("only an AMQP message has this", key=key)
    entries = _with_ids(envelope, fields.properties(envelope))
    properties = Properties(tuple(entries)) if entries else NO_PROPERTIES
    core_type = _core_type(envelope)
    plain = body = _core_body(envelope, core_type)
    if _is_compressed(properties):
        body = zlib.compress(body)
        # Whoever inflates it looks there, also where it is small by now.
        properties = properties.with_({core_message.LARGE_SIZE: (Code.LONG, len(plain))})
    message = CoreMessage(core_type, body, properties)
    if envelope.get("userId") is not None:
        message.user_id = fields.uuid_bytes(envelope["userId"], "userId")
    message.large = fields.flag(envelope, "largeMessage", default=False)
    message.large_size_bytes = len(plain)
    _take_headers(message, envelope)
    return message


def _is_compressed(properties: Properties) -> bool:
    found = properties.get(core_message.LARGE_COMPRESSED)
    if found is not None and found.code is not Code.BOOLEAN:
        raise BadEnvelope("is neither true nor false", key=f"properties.{core_message.LARGE_COMPRESSED}")
    return found is not None and bool(found.value)


def _take_headers(message: Outgoing, envelope: Envelope) -> None:
    message.durable = fields.flag(envelope, "durable", default=True)
    message.priority = fields.number(envelope, "priority", default=4, low=0, high=9)
    message.expiration_ms = fields.number(envelope, "expiration", default=0)
    if "timestamp" in envelope:
        message.timestamp_ms = fields.number(envelope, "timestamp", default=0)


def _with_ids(envelope: Envelope, entries: list[Property]) -> list[Property]:
    """Group and duplicate id are properties: given as keys alone they become such, given twice they agree."""
    stated: dict[str, tuple[str, Code, str | bytes]] = {}
    group, duplicate = fields.text(envelope, "groupId"), fields.text(envelope, "duplicateId")
    if group is not None:
        stated["groupId"] = (core_message.GROUP_ID, Code.STRING, group)
    if duplicate is not None:
        stated["duplicateId"] = (core_message.DUPLICATE_ID, Code.STRING, duplicate)
    if "duplicateId_base64" in envelope:
        raw = fields.base64(envelope["duplicateId_base64"], "duplicateId_base64")
        stated["duplicateId_base64"] = (core_message.DUPLICATE_ID, Code.BYTES, raw)
    for key, (name, code, value) in stated.items():
        known = next((entry for entry in entries if entry.name == name), None)
        if known is None:
            entries.append(Property(name, code, value))
        elif known[1:] != (code, value):
            raise BadEnvelope(f"another one than the property {name}", key=key)
    return entries


def _core_type(envelope: Envelope) -> int:
    if "type" not in envelope:
        return _type_of_body(envelope)
    name = envelope["type"]
    if isinstance(name, str):
        if name in _TYPES:
            return _TYPES[name]
        prefix, _, digits = name.partition("-")
        if prefix == "type" and digits.removeprefix("-").isdecimal() and len(digits) <= 4:
            number = int(digits)
            if -128 <= number <= 127 and str(number) == digits and number not in _TYPES.values():
                return number
    raise BadEnvelope(
        f"{fields.shown(name)} is no type of a core message; there are {', '.join(_TYPES)}", key="type"
    )


def _type_of_body(envelope: Envelope) -> int:
    if "body_base64" in envelope:
        return CoreType.BYTES
    match envelope.get("body"):
        case dict():
            return CoreType.MAP
        case list():
            return CoreType.STREAM
        case _:
            return CoreType.TEXT


def _core_body(envelope: Envelope, core_type: int) -> bytes:
    """The body as it is stored."""
    readable = core_type in (CoreType.TEXT, CoreType.MAP, CoreType.STREAM)
    other = "body_base64" if readable else "body"
    if other in envelope:
        raise BadEnvelope(
            "a body of this type has the key body_base64"
            if not readable
            else "a body of this type has the key body",
            key=other,
        )
    body = envelope.get("body")
    match core_type:
        case CoreType.TEXT:
            content = fields.text(envelope, "body")
            return primitives.nullable_simple_string(content)
        case CoreType.MAP:
            return encode_properties(fields.typed_map({} if body is None else body, "body"))
        case CoreType.STREAM:
            return _stream(body)
    raw = fields.base64(envelope.get("body_base64", ""), "body_base64")
    return primitives.byte_array(raw) if core_type == CoreType.OBJECT and raw else raw


def _stream(body: object) -> bytes:
    if body is None:
        return b""
    if not isinstance(body, list):
        raise BadEnvelope(f"{fields.shown(body)} is no array", key="body")
    values = []
    for index, item in enumerate(body):
        key = f"body[{index}]"
        code, value = fields.typed(item, key)
        try:
            values.append(encode_stream_value(code, value))
        except ValueError as error:
            raise BadEnvelope(str(error), key=key) from None
    return b"".join(values)
