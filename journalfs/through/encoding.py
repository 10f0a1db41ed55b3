"""Messages as AMQP clients of a broker send them.

A message that is AMQP already goes as it is. A core message is told as JMS clients tell it: what kind of body
it has stands in `x-opt-jms-msg-type` (the AMQP JMS mapping, section 3.2; numbers as the broker's
`AMQPMessageSupport` has them), so that a JMS client receives a message of the same kind.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from journalfs.api import QueuePath
from journalfs.errors import BadEnvelope
from journalfs.format.amqp_message import (
    STANDARD,
    AmqpParts,
    SectionCode,
    section,
    split_sections,
    split_standard,
)
from journalfs.format.amqp_types import Value, items_of, map_of, scalar, skip
from journalfs.format.core_message import DUPLICATE_ID
from journalfs.message.envelope_amqp import read_amqp
from journalfs.message.outgoing import Outgoing
from journalfs.message.outgoing_amqp import AmqpMessage

_KINDS: Final = {"default": 0, "object": 1, "map": 2, "bytes": 3, "stream": 4, "text": 5}
"""`x-opt-jms-msg-type` of each kind of core message."""
_OBJECT_TYPE: Final = "application/x-java-serialized-object"
_TYPES: Final = {"bytes": "binary"}
"""Of a core value, where AMQP calls it otherwise."""
_NOT_SENT: Final = frozenset({"_AMQ_SCHED_DELIVERY", "_AMQ_LARGE_SIZE", "_AMQ_GROUP_ID", "_AMQ_ROUTING_TYPE"})
"""What the broker says by itself, or what has a field of its own."""

_Pair = list[Mapping[str, object]]
_encode: Final = msgspec.json.Encoder().encode


def encoded(message: Outgoing, duplicate_id: str) -> bytes:
    """The bytes that are sent. A message without a duplicate id gets this one, by which the broker tells it
    from itself when it has to be sent again. Raises BadEnvelope for a kind that AMQP cannot carry.
    """
    found = message.in_memory() if isinstance(message, AmqpMessage) else read_amqp(_envelope(message))
    _, content = split_standard(found.record(0, message.sent_to or "", 0)[1])
    if message.duplicate_id is not None:
        return content
    return _with_property(content, DUPLICATE_ID, duplicate_id)


def _with_property(content: bytes, name: str, value: str) -> bytes:
    """An encoded message with one more property for applications."""
    sections = split_sections(content)
    pairs: list[tuple[Value, Value]] = []
    for one in sections:
        if one.code is SectionCode.APPLICATION_PROPERTIES:
            items = items_of(one.encoded[skip(one.encoded, 1) :])
            pairs += [
                (Value(a, a, b""), Value(b, b, b"")) for a, b in zip(items[::2], items[1::2], strict=True)
            ]
    pairs.append((scalar("string", name.encode()), scalar("string", value.encode())))
    others = [one for one in sections if one.code is not SectionCode.APPLICATION_PROPERTIES]
    made = [*others, section(SectionCode.APPLICATION_PROPERTIES, map_of(pairs))]
    return b"".join(one.encoded for one in sorted(made, key=lambda one: one.code))


def _envelope(message: Outgoing) -> dict[str, Any]:
    """A core message, told as AMQP."""
    said: Mapping[str, Any] = message.envelope("", now_ms=message.timestamp_ms or 0, large=False)
    kind = str(said.get("type"))
    if kind not in _KINDS:
        raise BadEnvelope(f"a message of the type {kind} cannot be sent to a broker by AMQP", key="type")
    annotations: list[_Pair] = [[_of("symbol", "x-opt-jms-msg-type"), _of("byte", _KINDS[kind])]]
    if message.scheduled_ms:
        annotations.append([_of("symbol", "x-opt-delivery-time"), _of("long", message.scheduled_ms)])
    fields: dict[str, object] = {"groupId": said.get("groupId")}
    if message.expiration_ms:
        fields["absoluteExpiryTime"] = message.expiration_ms
    if message.timestamp_ms:
        fields["creationTime"] = message.timestamp_ms
    if kind in ("bytes", "object"):
        fields["contentType"] = "application/octet-stream" if kind == "bytes" else _OBJECT_TYPE
    found: dict[str, Any] = {
        "protocol": "AMQP",
        "amqp": {
            "header": {"durable": message.durable, "priority": message.priority},
            "messageAnnotations": annotations,
            "properties": {name: value for name, value in fields.items() if value is not None},
            "applicationProperties": list(_properties(said)),
            "body": _body(kind, said),
        },
    }
    if "body_base64" in said:
        found["body_base64"] = said["body_base64"]
    return found


def _properties(said: Mapping[str, Any]) -> list[_Pair]:
    values: Mapping[str, Any] = said.get("properties") or {}
    types: Mapping[str, str] = said.get("propertyTypes") or {}
    found = [
        [_of("string", name), _typed({"t": types[name], "v": value} if name in types else value)]
        for name, value in values.items()
        if name not in _NOT_SENT
    ]
    if "duplicateId" in said:
        found.append([_of("string", DUPLICATE_ID), _of("string", said["duplicateId"])])
    elif "duplicateId_base64" in said:
        found.append([_of("string", DUPLICATE_ID), _of("binary", said["duplicateId_base64"])])
    return found


def _body(kind: str, said: Mapping[str, Any]) -> Mapping[str, object]:
    body = said.get("body")
    match kind:
        case "text":
            return {"section": "value", "value": body}
        case "map":
            pairs = [[_of("string", name), _typed(value)] for name, value in (body or {}).items()]
            return {"section": "value", "value": _of("map", pairs)}
        case "stream":
            return {"section": "sequence", "sequences": [[_typed(value) for value in body or []]]}
        case "bytes" | "object":
            return {"section": "data"}
        case _:
            return {"section": "value", "value": None}


def _of(kind: str, value: object) -> Mapping[str, object]:
    return {"t": kind, "v": value}


def _typed(value: object) -> Any:
    """A value of a core message: the types have the same names, but for one."""
    if isinstance(value, dict) and value.get("t") in _TYPES:
        return {**value, "t": _TYPES[value["t"]]}
    return value


def encoded_run(messages: Sequence[Outgoing]) -> list[bytes]:
    """Messages that are sent together, each with a duplicate id of its own."""
    run = uuid.uuid4().hex
    return [encoded(message, f"journalfs-{run}-{at}") for at, message in enumerate(messages)]


def line_of(encoded_message: bytes, queue: QueuePath) -> bytes:
    """The line of what a broker sent, without its newline. Its id in the store is not among what it sends."""
    parts = AmqpParts(
        message_id=0, address=queue[0], message_format=0, persister=STANDARD, extra=b"", expiration_ms=0
    )
    said = AmqpMessage(parts, encoded_message).envelope(queue[1], now_ms=0, large=False)
    of_store = {"id", "extraProperties", "queue"}
    kept = {name: value for name, value in said.items() if name not in of_store}
    return _encode({"queue": queue[1], **kept})
