"""Message payloads as envelopes (format page "messages", sections 3 and 4)."""

from __future__ import annotations

import uuid
import zlib
from dataclasses import dataclass
from typing import Any

from tests.reference import amqp
from tests.reference.primitives import (
    Cursor,
    MalformedError,
    Value,
    base64_text,
    property_value,
    typed_properties,
)

CORE_TYPES = {
    0: "default",
    2: "object",
    3: "text",
    4: "bytes",
    5: "map",
    6: "stream",
    7: "embedded",
    8: "largeEmbedded",
}
CORE_LARGE, CORE, AMQP_1, AMQP_2, AMQP_LARGE, AMQP_3 = range(6)


@dataclass(frozen=True)
class Message:
    """One decoded message: the keys of an envelope line that depend on the message alone."""

    envelope: dict[str, Value]
    message_id: int
    priority: int
    scheduled_ms: int
    """The message's own delivery time; 0 if it has none."""
    core_body: bytes | None
    """The encoded body of a core message, as the broker's own account hashes it."""
    amqp_data: bytes | None


def decode(payload: bytes, *, core_large: bool = False, large: bytes | None = None) -> Message:
    """A type-45 payload, or with `core_large` a type-30 one; `large` is what the body file holds."""
    cursor = Cursor(payload)
    message = decode_at(cursor, core_large=core_large, large=large)
    if cursor.left():
        raise MalformedError(f"{cursor.left()} bytes behind the message")
    return message


def decode_at(cursor: Cursor, *, core_large: bool, large: bytes | None, paged: bool = False) -> Message:
    if core_large:
        return _core_large(cursor, large)
    persister = cursor.i8()
    if persister == CORE:
        return _core(cursor)
    if persister == AMQP_LARGE:
        return _amqp_large(cursor, large, paged=paged)
    if persister in (AMQP_1, AMQP_2, AMQP_3):
        return _amqp(cursor, persister)
    raise MalformedError(f"persister {persister}")


def _core(cursor: Cursor) -> Message:
    message_id = cursor.i64()
    address = cursor.nullable_simple_string()
    buffer = Cursor(cursor.block())
    body = buffer.take(buffer.i32() - 13)
    header, properties = _core_header(buffer)
    if buffer.left():
        raise MalformedError(f"{buffer.left()} bytes behind the properties")
    header["id"] = message_id
    if address is not None:
        header["address"] = address
    return _core_message(header, properties, _inflated(body, properties))


def _inflated(body: bytes, properties: dict[str, tuple[str, Value]]) -> bytes:
    """A client that compresses leaves a zlib stream: in a file, or in the record if it became small."""
    if properties.get("_AMQ_LARGE_COMPRESSED") != ("boolean", True):
        return body
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise MalformedError(f"compressed body: {error}") from error


def _core_large(cursor: Cursor, large: bytes | None) -> Message:
    header, properties = _core_header(cursor)
    header["largeMessage"] = True
    if large is None:
        header["damage"] = "body missing"
    else:
        large = _inflated(large, properties)
    return _core_message(header, properties, large)


def _core_header(cursor: Cursor) -> tuple[dict[str, Value], dict[str, tuple[str, Value]]]:
    header: dict[str, Value] = {"id": cursor.i64(), "address": cursor.nullable_simple_string()}
    if cursor.u8() != 0:
        header["userId"] = str(uuid.UUID(bytes=cursor.take(16)))
    kind = cursor.i8()
    header |= {"protocol": "CORE", "type": kind, "durable": cursor.boolean()}
    expiration = cursor.i64()
    if expiration != 0:
        header["expiration"] = expiration
    header |= {"timestamp": cursor.i64(), "priority": cursor.i8()}
    return header, typed_properties(cursor)


def _core_message(
    header: dict[str, Value], properties: dict[str, tuple[str, Value]], body: bytes | None
) -> Message:
    envelope = dict(header)
    kind = header["type"]
    envelope["type"] = CORE_TYPES.get(kind, f"type-{kind}")
    group = properties.get("_AMQ_GROUP_ID")
    if group is not None and group[0] == "string":
        envelope["groupId"] = group[1]
    duplicate = properties.get("_AMQ_DUPL_ID")
    if duplicate is not None and duplicate[0] in ("string", "bytes"):
        envelope["duplicateId" if duplicate[0] == "string" else "duplicateId_base64"] = duplicate[1]
    _put_properties(envelope, properties)
    if body is not None:
        key, content = _core_body(envelope["type"], body)
        envelope[key] = content
    scheduled = properties.get("_AMQ_SCHED_DELIVERY", ("", 0))
    scheduled_ms = scheduled[1] if scheduled[0] == "long" else 0
    priority = min(max(header["priority"], 0), 9)
    return Message(envelope, header["id"], priority, scheduled_ms, body, None)


def _put_properties(envelope: dict[str, Value], properties: dict[str, tuple[str, Value]]) -> None:
    if properties:
        envelope["properties"] = {key: value for key, (_, value) in properties.items()}
    types = {key: kind for key, (kind, _) in properties.items() if kind not in ("string", "boolean", "null")}
    if types:
        envelope["propertyTypes"] = types


def _core_body(kind: str, body: bytes) -> tuple[str, Value]:
    cursor = Cursor(body)
    content: Value
    if kind == "text":
        if not body:
            return "body", None
        content = cursor.nullable_simple_string()
    elif kind == "map":
        content = {key: {"t": t, "v": v} for key, (t, v) in typed_properties(cursor).items()} if body else {}
    elif kind == "stream":
        content = []
        while cursor.left():
            type_name, value = property_value(cursor, cursor.i8(), cursor.nullable_string)
            content.append({"t": "null" if value is None else type_name, "v": value})
    elif kind == "object":
        return "body_base64", base64_text(cursor.block()) if body else ""
    else:
        return "body_base64", base64_text(body)
    if cursor.left():
        raise MalformedError(f"{cursor.left()} bytes behind the body")
    return "body", content


def _amqp(cursor: Cursor, persister: int) -> Message:
    message_id = cursor.i64()
    cursor.i64()  # message format
    address = cursor.nullable_simple_string()
    encoded = cursor.block()
    extra: dict[str, tuple[str, Value]] = {}
    if persister != AMQP_1:
        size = cursor.i32()
        if size:
            extra = typed_properties(Cursor(cursor.take(size)))
    expiration = cursor.i64() if persister == AMQP_3 else None
    if address is None and "_AMQ_AD" in extra:
        address = extra["_AMQ_AD"][1]
    return _amqp_message(encoded, message_id, address=address, expiration=expiration)


def _amqp_large(cursor: Cursor, large: bytes | None, *, paged: bool) -> Message:
    message_id = cursor.i64()
    durable = cursor.boolean()
    cursor.i64()  # message format
    address = cursor.nullable_simple_string()
    size = cursor.i32()
    extra = typed_properties(Cursor(cursor.take(size))) if size else {}
    if address is None and "_AMQ_AD" in extra:
        address = extra["_AMQ_AD"][1]
    cursor.take(8)
    header = amqp.value(cursor)
    cursor.take(8)
    cursor.take(4)
    annotations = amqp.value(cursor)
    cursor.take(4)
    properties = amqp.value(cursor)
    cursor.take(8)
    application = amqp.value(cursor)
    expiration = cursor.i64() if paged or cursor.left() >= 8 else 0
    changed = cursor.boolean() if paged or cursor.left() >= 1 else False
    cached = {
        "header": header,
        "messageAnnotations": annotations,
        "properties": properties,
        "applicationProperties": application,
    }
    if large is None:
        # The body is gone: what the record itself caches is all there is.
        message = _amqp_message(b"", message_id, address=address, expiration=expiration, cached=cached)
        message.envelope["damage"] = "body missing"
    else:
        # Sections that were changed since the file was written stand in the record.
        newer = cached if changed else None
        message = _amqp_message(large, message_id, address=address, expiration=expiration, cached=newer)
    message.envelope["largeMessage"] = True
    message.envelope["durable"] = durable
    return message


def _amqp_message(
    encoded: bytes,
    message_id: int,
    *,
    address: str | None,
    expiration: int | None,
    cached: dict[str, dict[str, Value]] | None = None,
) -> Message:
    sections = amqp.Sections(encoded)
    if cached is not None:
        sections.take_cached(cached)
    header = sections.header or {}
    fields = sections.properties or {}
    priority = min(_field(header, "priority", "ubyte", 4), 9)
    envelope: dict[str, Value] = {
        "id": message_id,
        "address": address,
        "protocol": "AMQP",
        "type": f"amqp-{sections.body_kind}" if sections.body_kind else "none",
        "durable": _field(header, "durable", "boolean", False) or sections.header is None,
        "priority": priority,
        "timestamp": _field(fields, "creationTime", "timestamp", 0),
    }
    if fields.get("messageId", {"t": None})["t"] in ("string", "ulong", "uuid", "binary"):
        envelope["userId"] = amqp.id_text(fields["messageId"])
    if expiration is None:
        expiration = _field(fields, "absoluteExpiryTime", "timestamp", 0)
    if expiration:
        envelope["expiration"] = expiration
    if _field(fields, "groupId", "string", None) is not None:
        envelope["groupId"] = fields["groupId"]["v"]
    _put_properties(
        envelope,
        {
            key["v"]: (value["t"], value["v"] if value["t"] != "described" else value)
            for key, value in sections.maps.get("applicationProperties", [])
            if key["t"] in ("string", "symbol")
        },
    )
    data = _amqp_body(envelope, sections)
    return Message(envelope, message_id, priority, _amqp_schedule(sections), None, data)


def _field(fields: dict[str, dict[str, Value]], name: str, kind: str, absent: Value) -> Value:
    """A field's value if it is there and of the type that the standard gives it."""
    field = fields.get(name)
    return field["v"] if field is not None and field["t"] == kind else absent


def _amqp_body(envelope: dict[str, Value], sections: amqp.Sections) -> bytes | None:
    """Put the sections and the body into the envelope; the data section's bytes come back."""
    parts: dict[str, Any] = {}
    if sections.header is not None:
        parts["header"] = {
            name: field["v"] if field["t"] == amqp.HEADER_FIELDS[name] else field
            for name, field in sections.header.items()
            if name != "deliveryCount" or field != {"t": "uint", "v": 0}
        }
    if sections.properties is not None:
        parts["properties"] = {name: amqp.plain(field) for name, field in sections.properties.items()}
    for name in ("deliveryAnnotations", "messageAnnotations", "applicationProperties", "footer"):
        if name in sections.maps:
            parts[name] = sections.maps[name]
    data = None
    if sections.body_kind == "data":
        data = b"".join(sections.data)
        parts["body"] = {"section": "data", "sections": len(sections.data), "size": len(data)}
        if len(sections.data) > 1:
            parts["body"]["lengths"] = [len(part) for part in sections.data]
        envelope["body_base64"] = base64_text(data)
    elif sections.body_kind == "value":
        parts["body"] = {"section": "value", "value": sections.value}
        assert sections.value is not None
        if sections.value["t"] == "string":
            envelope["body"] = sections.value["v"]
    elif sections.body_kind == "sequence":
        parts["body"] = {"section": "sequence", "sequences": sections.sequences}
    else:
        parts["body"] = {"section": None}
    envelope["amqp"] = parts
    return data


def _amqp_schedule(sections: amqp.Sections) -> int:
    said = {
        key["v"]: element["v"]
        for key, element in sections.maps.get("messageAnnotations", [])
        if isinstance(element["v"], int)
    }
    if "x-opt-delivery-time" in said:
        return int(said["x-opt-delivery-time"])
    made_ms = _field(sections.properties or {}, "creationTime", "timestamp", 0)
    return made_ms + int(said["x-opt-delivery-delay"]) if made_ms and "x-opt-delivery-delay" in said else 0
