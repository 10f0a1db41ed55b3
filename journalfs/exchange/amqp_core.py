"""An AMQP message as a core message, as brokers make one for clients of other protocols and for XML."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from journalfs.errors import DecodeError
from journalfs.format import primitives
from journalfs.format.amqp_message import SectionCode, split_sections
from journalfs.format.core_message import GROUP_ID, PROPERTY_PREFIX, ROUTING_TYPE, SCHEDULED, CoreType
from journalfs.format.properties import Code, Property, PropertyValue, encode_properties, encode_stream_value
from journalfs.message.envelope_amqp import amqp_value
from journalfs.message.outgoing import CoreMessage, Outgoing, Properties
from journalfs.message.outgoing_amqp import AmqpMessage

ENCODINGS: Final = {"string": 5, "binary": 6, "map": 7, "list": 8}
"""`JMS_AMQP_ORIGINAL_ENCODING` of a value; 1 no body, 2 data, 3 sequence, 4 a null value, 0 any other."""

_CODES: Final = {
    "boolean": Code.BOOLEAN, "byte": Code.BYTE, "short": Code.SHORT, "int": Code.INT, "long": Code.LONG,
    "ulong": Code.LONG, "timestamp": Code.LONG, "float": Code.FLOAT, "double": Code.DOUBLE, "char": Code.CHAR,
    "string": Code.STRING, "symbol": Code.STRING, "uuid": Code.STRING, "null": Code.NULL,
}  # fmt: skip

_UNSIGNED: Final = {
    "ubyte": (Code.BYTE, Code.SHORT, 7),
    "ushort": (Code.SHORT, Code.INT, 15),
    "uint": (Code.INT, Code.LONG, 31),
}
"""Its type where a number fits into so many bits, and where not."""
_ENCODED: Final = frozenset({"timestamp", "uuid", "list", "map", "array", "described"})
"""What a property cannot be: annotations of these types are kept encoded."""
_DESTINATIONS: Final = {1: "topic://", 2: "temp-queue://", 3: "temp-topic://"}
"""What replies go to, by `x-opt-jms-reply-to`; all others are queues."""
_TEXTUAL: Final = re.compile(
    r"\s*(text/|application/(xml|json|javascript|ecmascript|xml-dtd)\b|[^;]*\+(xml|json)\b)", re.IGNORECASE
)
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)

HEADER_TO: Final = {"durable": "JMS_AMQP_HEADERDURABLE", "priority": "JMS_AMQP_HEADERPRIORITY"}
PROPERTIES_TO: Final = {
    "subject": "JMSType", "groupId": GROUP_ID, "contentType": "JMS_AMQP_ContentType",
    "contentEncoding": "JMS_AMQP_ContentEncoding", "replyToGroupId": "JMS_AMQP_ReplyToGroupID",
}  # fmt: skip


def as_core(message: Outgoing) -> CoreMessage:
    """What its sections say. Raises `DecodeError` for a body that has no counterpart."""
    was_large = message.large
    if isinstance(message, AmqpMessage):
        message = message.in_memory()
    envelope: Mapping[str, Any] = message.envelope("", now_ms=message.timestamp_ms or 0, large=False)
    sections: Mapping[str, Any] = envelope.get("amqp", {})
    if was_large and "header" in sections:  # brokers find a priority in each of these
        sections = {**sections, "header": {"priority": 4, **sections["header"]}}
    try:
        core_type, body, number = _body(message, envelope, sections)
        properties = tuple(_properties(message, sections, number))
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise DecodeError(0, f"an AMQP message without a counterpart: {error!r}") from error
    core = CoreMessage(core_type, body, Properties(properties))
    core.durable = message.durable
    core.priority = int(envelope.get("priority", 4))
    core.timestamp_ms = int(envelope.get("timestamp", 0))
    core.expiration_ms = int(envelope.get("expiration", 0))
    core.user_id = _user_id(sections)
    return core


def _user_id(sections: Mapping[str, Any]) -> bytes | None:
    """Brokers draw one for a message that has an id that is none; here it is the same each time."""
    found = sections.get("properties", {}).get("messageId")
    if found is None:
        return None
    if isinstance(found, Mapping) and found["t"] == "uuid":
        return uuid.UUID(found["v"]).bytes
    return hashlib.blake2b(str(sections).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _body(
    message: Outgoing, envelope: Mapping[str, Any], sections: Mapping[str, Any]
) -> tuple[CoreType, bytes, int]:
    """Type, encoded body, and what the encoding is called by number."""
    section: Mapping[str, Any] | None = sections.get("body")
    if section is None or section["section"] is None:
        return (
            (CoreType.TEXT, primitives.NULL, 1)
            if _is_text(_content_type(sections))
            else (CoreType.BYTES, b"", 1)
        )
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
    content_type = _content_type(envelope.get("amqp", {}))
    raw = base64.b64decode(envelope.get("body_base64", ""))
    if "java-serialized" in content_type:
        return CoreType.OBJECT, primitives.byte_array(raw), 2
    if _is_text(content_type):
        with suppress(UnicodeDecodeError):
            return CoreType.TEXT, _text(raw.decode()), 2
    return CoreType.BYTES, raw, 2


def _content_type(sections: Mapping[str, Any]) -> str:
    return _said(sections.get("properties", {}).get("contentType", ""))


def _is_text(content_type: str) -> bool:
    charset = _CHARSET.search(content_type)
    return bool(_TEXTUAL.match(content_type)) and (charset is None or charset[1].lower() in ("utf-8", "utf8"))


def _value_body(value: Mapping[str, Any], message: Outgoing) -> tuple[CoreType, bytes, int]:
    kind = value["t"]
    number = ENCODINGS.get(kind, 0)
    match kind:
        case "null":
            return CoreType.TEXT, primitives.NULL, 4
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
    return primitives.PRESENT + primitives.simple_string(text)


def _typed(value: Mapping[str, Any]) -> tuple[Code, PropertyValue]:
    """What nests becomes text, as core messages have no such values."""
    kind: str = value["t"]
    found: Any = value.get("v")
    if kind == "binary":
        return Code.BYTES, base64.b64decode(found)
    if kind in _UNSIGNED:
        small, large, bits = _UNSIGNED[kind]
        return (large if found >> bits else small), found
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
    if header is not None and "firstAcquirer" in header:
        yield Property("JMS_AMQP_FirstAcquirer", Code.BOOLEAN, bool(header["firstAcquirer"]))
    if number:
        yield Property("JMS_AMQP_ORIGINAL_ENCODING", Code.SHORT, number)
    if message.routing_type is not None:
        yield Property(ROUTING_TYPE, Code.BYTE, message.routing_type)
    reply_to = 0
    for key, value in sections.get("messageAnnotations", ()):
        name = str(key.get("v"))
        if name == "x-opt-jms-reply-to" and isinstance(value.get("v"), int):
            reply_to = value["v"]
        yield from _annotation(name, value)
    yield from _sent_properties(sections.get("properties", {}), reply_to)
    for key, value in sections.get("footer", ()):
        yield _noted("FT", str(key.get("v")), value)
    for key, value in sections.get("applicationProperties", ()):
        yield Property(str(key.get("v")), *_typed(value))


def _annotation(name: str, value: Mapping[str, Any]) -> Iterator[Property]:
    if name == "x-opt-routing-type":
        return
    if name == "x-opt-delivery-time":
        yield Property(SCHEDULED, *_typed(value))
    elif name.startswith("x-opt-ORIG-"):
        yield Property(PROPERTY_PREFIX + name.removeprefix("x-opt-").replace("-", "_"), *_typed(value))
    yield _noted("MA", name, value)


def _noted(where: str, name: str, value: Mapping[str, Any]) -> Property:
    if value["t"] in _ENCODED:
        return Property(f"JMS_AMQP_ENCODED_{where}_{name}", Code.BYTES, amqp_value(value, name).encoded)
    return Property(f"JMS_AMQP_{where}_{name}", *_typed(value))


def _sent_properties(properties: Mapping[str, Any], reply_to: int) -> Iterator[Property]:
    if "messageId" in properties:
        yield Property("NATIVE_MESSAGE_ID", Code.STRING, _native_id(properties["messageId"]))
    if "correlationId" in properties:
        found = properties["correlationId"]
        plain = found if isinstance(found, str) else _native_id(found)
        yield Property("JMSCorrelationID", Code.STRING, plain)
    if "userId" in properties:
        sender = base64.b64decode(properties["userId"]["v"]).decode("utf-8", "replace")
        yield Property("_AMQ_VALIDATED_USER", Code.STRING, sender)
    if "replyTo" in properties:
        prefix = _DESTINATIONS.get(reply_to, "queue://")
        yield Property("JMSReplyTo", Code.STRING, prefix + _said(properties["replyTo"]))
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
