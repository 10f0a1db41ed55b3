"""An AMQP message as a core message, as brokers make one for clients of other protocols and for XML."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from journalfs.errors import DecodeError
from journalfs.format import encoding
from journalfs.format.amqp_message import SectionCode, split_sections
from journalfs.format.core_message import GROUP_ID, PROPERTY_PREFIX, ROUTING_TYPE, SCHEDULED, CoreType
from journalfs.format.properties import Code, Property, PropertyValue, encode_properties, encode_stream_value
from journalfs.store.outgoing import CoreMessage, Outgoing, Properties

ENCODINGS: Final = {"string": 5, "binary": 6, "map": 7, "list": 8}
"""`JMS_AMQP_ORIGINAL_ENCODING` of a value; 1 no body, 2 data, 3 sequence, 4 a null value, 0 any other."""

_CODES: Final = {
    "boolean": Code.BOOLEAN,
    "byte": Code.BYTE,
    "short": Code.SHORT,
    "int": Code.INT,
    "long": Code.LONG,
    "ubyte": Code.SHORT,
    "ushort": Code.INT,
    "uint": Code.LONG,
    "ulong": Code.LONG,
    "timestamp": Code.LONG,
    "float": Code.FLOAT,
    "double": Code.DOUBLE,
    "char": Code.CHAR,
    "string": Code.STRING,
    "symbol": Code.STRING,
    "uuid": Code.STRING,
    "null": Code.NULL,
}

HEADER_TO: Final = {"durable": "JMS_AMQP_HEADERDURABLE", "priority": "JMS_AMQP_HEADERPRIORITY"}
PROPERTIES_TO: Final = {
    "subject": "JMSType",
    "replyTo": "JMSReplyTo",
    "groupId": GROUP_ID,
    "contentType": "JMS_AMQP_ContentType",
    "contentEncoding": "JMS_AMQP_ContentEncoding",
    "replyToGroupId": "JMS_AMQP_ReplyToGroupID",
}


def as_core(message: Outgoing) -> CoreMessage:
    """What its sections say. Raises `DecodeError` for a body that has no counterpart."""
    envelope: Mapping[str, Any] = message.envelope("", now_ms=message.timestamp_ms or 0, large=False)
    sections: Mapping[str, Any] = envelope.get("amqp", {})
    try:
        core_type, body, number = _body(message, envelope, sections.get("body"))
        properties = tuple(_properties(message, sections, number))
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise DecodeError(0, f"an AMQP message without a counterpart: {error!r}") from error
    core = CoreMessage(core_type, body, Properties(properties))
    core.durable = message.durable
    core.priority = int(envelope.get("priority", 4))
    core.timestamp_ms = int(envelope.get("timestamp", 0))
    core.expiration_ms = int(envelope.get("expiration", 0))
    said = str(envelope.get("userId", "")) + str(sections)
    core.user_id = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return core


def _body(
    message: Outgoing, envelope: Mapping[str, Any], section: Mapping[str, Any] | None
) -> tuple[CoreType, bytes, int]:
    """Type, encoded body, and what the encoding is called by number."""
    if section is None or section["section"] is None:
        return CoreType.BYTES, b"", 1
    if section["section"] == "data":
        return _data_body(envelope)
    if section["section"] == "sequence":
        items = [item for one in section["sequences"] for item in one]
        return CoreType.STREAM, b"".join(encode_stream_value(*_typed(item)) for item in items), 3
    return _value_body(section.get("value") or _long_text(message), message)


def _long_text(message: Outgoing) -> Mapping[str, Any]:
    """A text that is so long that an envelope of its own leaves it out."""
    encoded = _value_section(message)
    head = {0xA1: 1, 0xB1: 4}.get(encoded[3], 0)
    if not head:
        return {"t": "other"}
    return {"t": "string", "v": encoded[4 + head :].decode("utf-8", "replace")}


def _value_section(message: Outgoing) -> bytes:
    whole = b"".join(bytes(piece) for piece in message.large_body())
    found = [one.encoded for one in split_sections(whole) if one.code is SectionCode.VALUE]
    if not found:
        raise DecodeError(0, "its body is none")
    return found[0]


def _data_body(envelope: Mapping[str, Any]) -> tuple[CoreType, bytes, int]:
    content_type = _said(envelope.get("amqp", {}).get("properties", {}).get("contentType", ""))
    raw = base64.b64decode(envelope.get("body_base64", ""))
    if content_type.startswith("text/"):
        return CoreType.TEXT, _text(raw.decode("utf-8", "replace")), 2
    if "java-serialized" in content_type:
        return CoreType.OBJECT, encoding.byte_array(raw), 2
    return CoreType.BYTES, raw, 2


def _value_body(value: Mapping[str, Any], message: Outgoing) -> tuple[CoreType, bytes, int]:
    kind = value["t"]
    number = ENCODINGS.get(kind, 0)
    match kind:
        case "null":
            return CoreType.TEXT, encoding.NULL, 4
        case "binary":
            return CoreType.BYTES, base64.b64decode(value["v"]), number
        case "map":
            entries = [Property(str(key["v"]), *_typed(item)) for key, item in value["v"]]
            return CoreType.MAP, encode_properties(entries), number
        case "list":
            items = b"".join(encode_stream_value(*_typed(item)) for item in value["v"])
            return CoreType.STREAM, items, number
        case "string":
            return CoreType.TEXT, _text(value["v"]), number
        case _:
            return CoreType.BYTES, _value_section(message), 0


def _text(text: str) -> bytes:
    return encoding.PRESENT + encoding.simple_string(text)


def _typed(value: Mapping[str, Any]) -> tuple[Code, PropertyValue]:
    """What nests becomes text, as core messages have no such values."""
    kind: str = value["t"]
    found: Any = value.get("v")
    if kind == "binary":
        return Code.BYTES, base64.b64decode(found)
    code = _CODES.get(kind, Code.STRING)
    if code is Code.STRING:
        return code, str(found)
    if code in (Code.FLOAT, Code.DOUBLE):
        return code, float(found)
    if kind == "ulong" and found >> 63:
        found -= 1 << 64
    return code, found


def _properties(message: Outgoing, sections: Mapping[str, Any], number: int) -> Iterator[Property]:
    header = sections.get("header")
    if header is not None:
        yield Property("JMS_AMQP_HEADER", Code.BOOLEAN, True)
    for key, name in HEADER_TO.items():
        if header is not None and key in header:
            yield Property(name, Code.BOOLEAN, True)
    if number:
        yield Property("JMS_AMQP_ORIGINAL_ENCODING", Code.SHORT, number)
    if message.routing_type is not None:
        yield Property(ROUTING_TYPE, Code.BYTE, message.routing_type)
    for key, value in sections.get("messageAnnotations", ()):
        yield from _annotation(str(key.get("v")), value)
    yield from _sent_properties(sections.get("properties", {}))
    for key, value in sections.get("applicationProperties", ()):
        yield Property(str(key.get("v")), *_typed(value))


def _annotation(name: str, value: Mapping[str, Any]) -> Iterator[Property]:
    if name == "x-opt-routing-type":
        return
    if name == "x-opt-delivery-time":
        yield Property(SCHEDULED, *_typed(value))
    elif name.startswith("x-opt-ORIG-"):
        yield Property(PROPERTY_PREFIX + name.removeprefix("x-opt-").replace("-", "_"), *_typed(value))
    yield Property(f"JMS_AMQP_MA_{name}", *_typed(value))


def _sent_properties(properties: Mapping[str, Any]) -> Iterator[Property]:
    if "messageId" in properties:
        yield Property("NATIVE_MESSAGE_ID", Code.STRING, _native_id(properties["messageId"]))
    if "correlationId" in properties:
        found = properties["correlationId"]
        plain = found if isinstance(found, str) else _native_id(found)
        yield Property("JMSCorrelationID", Code.STRING, plain)
    for key, name in PROPERTIES_TO.items():
        if key in properties:
            yield Property(name, Code.STRING, _said(properties[key]))
    if "groupSequence" in properties:
        yield Property("_AMQ_GROUP_SEQUENCE", Code.INT, int(_said(properties["groupSequence"])))


def _said(value: Any) -> str:
    return str(value["v"]) if isinstance(value, Mapping) else str(value)


def _native_id(value: Any) -> str:
    if isinstance(value, str):
        return value if value.startswith("ID:") else f"ID:AMQP_NO_PREFIX:{value}"
    kind, found = value["t"], value["v"]
    if kind == "binary":
        return f"ID:AMQP_BINARY:{base64.b64decode(found).hex().upper()}"
    if kind in ("uuid", "ulong"):
        return f"ID:AMQP_{kind.upper()}:{found}"
    raise DecodeError(0, f"no message id is of type {kind}")
