"""What an identifier of a selector means: which part of an envelope it reads.

Facts: the broker's filter (its header names `AMQ...`), its AMQP message (which properties and annotations are
visible to filters), and the translation of the JMS names which the JMS, AMQP and OpenWire front ends make
before the filter sees them. A filter stored with a queue has been through that translation, so there only the
broker's own names count.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from journalfs.selector.values import Long, Opaque, Value, from_json, wrap

Envelope: TypeAlias = Mapping[str, Any]
"""A decoded envelope line (docs/reference/envelope.md)."""
Getter: TypeAlias = Callable[[Envelope], Value]

SIZE_BYTES = "storedBytes"
"""The key by which an envelope that is to be judged says how many bytes the broker's encoding of the message
has: whoever has the record knows. No line has it.
"""

JMS_TO_BROKER = {
    "JMSDeliveryMode": "AMQDurable", "JMSPriority": "AMQPriority", "JMSTimestamp": "AMQTimestamp",
    "JMSMessageID": "AMQUserID", "JMSExpiration": "AMQExpiration", "JMSXGroupID": "AMQGroupID",
}  # fmt: skip
"""What clients make of the names of headers. `JMSDeliveryMode` is compared with other words, too."""
NATIVE_ID = "NATIVE_MESSAGE_ID"
"""The property that says the id of a message whose header has none."""
_ANNOTATION_PREFIX = "m."
_BROKER_PREFIX = "_AMQ_"
_HOPS_PREFIX = "_AMQ_Hops"
_UNTYPED = ("string", "boolean", "null")
"""Kinds of typed values that JSON tells apart by itself."""

HEADER_KEYS = {
    "AMQPriority": ("priority",), "AMQTimestamp": ("timestamp",), "AMQExpiration": ("expiration",),
    "AMQDurable": ("durable",), "JMSDeliveryMode": ("durable",), "AMQAddress": ("address",),
    "AMQGroupID": ("groupId",), "AMQUserID": ("userId",),
}  # fmt: skip
"""Keys of the envelope that a header name reads, beside the properties it may fall back to."""

PROPERTY_KEYS = ("protocol", "properties", "propertyTypes", "amqp", "extraProperties")
"""Keys of the envelope that any other name may read."""


def broker_name(name: str, *, stored: bool) -> str:
    """The broker's name for a JMS header name; any other name unchanged."""
    return name if stored else JMS_TO_BROKER.get(name, name)


def is_plain_property(name: str, *, stored: bool) -> bool:
    """True for a name that can only be one of the message's properties, whatever its protocol."""
    name = broker_name(name, stored=stored)
    special = name in _AMQP_FIELDS or name in HEADER_KEYS or name == "AMQSize"
    return not special and not name.startswith((_ANNOTATION_PREFIX, _HOPS_PREFIX))


def names_amqp_field(name: str) -> bool:
    """True for a broker's name of a property of core messages that is something else in AMQP ones."""
    return name in _AMQP_FIELDS or name.startswith(_ANNOTATION_PREFIX)


def compile_identifier(name: str, *, stored: bool) -> Getter:
    """A function that reads the identifier's value from an envelope."""
    if name == "JMSDeliveryMode" and not stored:
        return _delivery_mode
    name = broker_name(name, stored=stored)
    if name == "AMQSize":
        return lambda envelope: envelope.get(SIZE_BYTES)
    if name in _HEADERS:
        return _HEADERS[name]
    fallback = _property_getter(name)
    if name in _HEADERS_OR_PROPERTY:
        return _first_of(_HEADERS_OR_PROPERTY[name], fallback)
    if name.startswith(_HOPS_PREFIX):
        return _first_of(_hops_getter(name), fallback)
    return fallback


def _delivery_mode(envelope: Envelope) -> Value:
    return "PERSISTENT" if envelope.get("durable", True) else "NON_PERSISTENT"


def _text_getter(key: str) -> Getter:
    def get(envelope: Envelope) -> Value:
        value = envelope.get(key)
        return None if value is None else str(value)

    return get


def _user_id(envelope: Envelope) -> Value:
    user_id = envelope.get("userId")
    if user_id is None:
        return _native_message_id(envelope)
    text = str(user_id)
    return text if text.startswith("ID:") else f"ID:{text}"


_HEADERS: dict[str, Getter] = {
    "AMQPriority": lambda envelope: int(envelope.get("priority", 4)),
    "AMQTimestamp": lambda envelope: Long(envelope.get("timestamp", 0)),
    "AMQExpiration": lambda envelope: Long(envelope.get("expiration", 0)),
    "AMQDurable": lambda envelope: "DURABLE" if envelope.get("durable", True) else "NON_DURABLE",
}
"""Headers every message has."""

_HEADERS_OR_PROPERTY: dict[str, Getter] = {
    "AMQUserID": _user_id,
    "AMQAddress": _text_getter("address"),
    "AMQGroupID": _text_getter("groupId"),
}
"""Headers that, when the message lacks them, leave their name to a property."""


def _first_of(first: Getter, second: Getter) -> Getter:
    def get(envelope: Envelope) -> Value:
        value = first(envelope)
        return second(envelope) if value is None else value

    return get


def _plain_property(envelope: Envelope, name: str) -> Value:
    values = envelope.get("properties")
    raw = values.get(name) if isinstance(values, Mapping) else None
    if raw is None:
        return None
    types = envelope.get("propertyTypes")
    return from_json(raw, types.get(name) if isinstance(types, Mapping) else None, name)


def _own_property(envelope: Envelope, name: str) -> Value:
    value = _plain_property(envelope, name)
    return _extra_property(envelope, name) if value is None and envelope.get("protocol") == "AMQP" else value


def _extra_property(envelope: Envelope, name: str) -> Value:
    """One of the properties that the broker keeps beside an AMQP message, as `_AMQ_ORIG_ADDRESS`."""
    extra = envelope.get("extraProperties")
    typed = extra.get(name) if isinstance(extra, Mapping) else None
    if typed is None:
        return None
    kind = str(typed.get("t"))
    return from_json(typed.get("v"), None if kind in _UNTYPED else kind, name)


def _native_message_id(envelope: Envelope) -> Value:
    value = _own_property(envelope, NATIVE_ID)
    return value if type(value) is str else None


def _property_getter(name: str) -> Getter:
    """A property; for AMQP messages some names mean fields of the properties section or an annotation."""
    amqp_field = _AMQP_FIELDS.get(name)
    if name.startswith(_ANNOTATION_PREFIX):
        amqp_field = _annotation_getter(name[len(_ANNOTATION_PREFIX) :])
    if amqp_field is None:
        return lambda envelope: _own_property(envelope, name)
    field = amqp_field

    def get(envelope: Envelope) -> Value:
        if envelope.get("protocol") != "AMQP":
            return _own_property(envelope, name)
        value = field(envelope)
        return _extra_property(envelope, name) if value is None else value

    return get


def _hops_getter(name: str) -> Getter:
    """The number of brokers a federated message has passed: four bytes of a bytes property."""

    def get(envelope: Envelope) -> Value:
        values = envelope.get("properties")
        raw = values.get(_HOPS_PREFIX) if isinstance(values, Mapping) else None
        if not isinstance(raw, str):
            return None
        return int.from_bytes(base64.b64decode(raw)[:4], "big", signed=True)

    return get


def _section(envelope: Envelope, name: str) -> object:
    amqp = envelope.get("amqp")
    return amqp.get(name) if isinstance(amqp, Mapping) else None


def _amqp_property(envelope: Envelope, field: str) -> object:
    properties = _section(envelope, "properties")
    return properties.get(field) if isinstance(properties, Mapping) else None


def _plain(value: object) -> object:
    """A typed value of the `amqp` key without its type."""
    return value.get("v") if isinstance(value, Mapping) else value


def _amqp_text(field: str) -> Getter:
    def get(envelope: Envelope) -> Value:
        value = _plain(_amqp_property(envelope, field))
        return None if value is None else str(value)

    return get


def _amqp_group_sequence(envelope: Envelope) -> Value:
    value = _plain(_amqp_property(envelope, "groupSequence"))
    return wrap(value, 32) if isinstance(value, int) else 0


def _amqp_user(envelope: Envelope) -> Value:
    value = _amqp_property(envelope, "userId")
    if value is None:
        return None
    return base64.b64decode(str(_plain(value))).decode("utf-8", "replace")


_ENCODED_ID_PREFIXES = ("AMQP_BINARY:", "AMQP_UUID:", "AMQP_ULONG:", "AMQP_STRING:", "AMQP_NO_PREFIX:")


def _amqp_correlation_id(envelope: Envelope) -> Value:
    """A correlation id as the broker writes it as text: types other than string get a prefix."""
    value = _amqp_property(envelope, "correlationId")
    if value is None:
        return None
    kind = value.get("t") if isinstance(value, Mapping) else "string"
    text = str(_plain(value))
    if kind == "binary":
        return Opaque("bytes", object(), None)
    if kind == "uuid":
        return f"ID:AMQP_UUID:{uuid.UUID(text)}"
    if kind == "ulong":
        return f"ID:AMQP_ULONG:{text}"
    if text.startswith("ID:") and text[3:].startswith(_ENCODED_ID_PREFIXES):
        return f"ID:AMQP_STRING:{text}"
    return text


_AMQP_FIELDS: dict[str, Getter] = {
    "JMSType": _amqp_text("subject"), "JMSXGroupID": _amqp_text("groupId"), "JMSXUserID": _amqp_user,
    "JMSXGroupSeq": _amqp_group_sequence, "JMSCorrelationID": _amqp_correlation_id,
    "__AMQ_CID": lambda envelope: None,
}  # fmt: skip
"""Names that, on an AMQP message, hide an application property of the same name."""


def _annotation_getter(name: str) -> Getter:
    """A message annotation, by its own name or by the `_AMQ_` name that the broker mirrors there."""
    return lambda envelope: _annotation(envelope, name)


def _annotation(envelope: Envelope, name: str) -> Value:
    annotations = _section(envelope, "messageAnnotations")
    if not isinstance(annotations, list):
        return None
    found = {str(_plain(key)): value for key, value in annotations}
    if name.startswith(_BROKER_PREFIX):
        mirrored = "x-opt-" + name.removeprefix(_BROKER_PREFIX).replace("_", "-")
        if found.get(mirrored) is not None:
            return _annotation_value(found[mirrored], name)
    return None if found.get(name) is None else _annotation_value(found[name], name)


def _annotation_value(value: object, name: str) -> Value:
    """Unlike in application properties, unsigned numbers stay unsigned, comparable with their kind only."""
    if not isinstance(value, Mapping):
        return from_json(value, None, name)
    kind, raw = str(value.get("t")), value.get("v")
    if kind in ("ubyte", "ushort", "uint", "ulong") and isinstance(raw, int):
        return Opaque(kind, raw, raw, str(raw))
    if kind in _UNTYPED:
        return from_json(raw, None, name)
    if kind == "binary":
        return Opaque("binary", raw, None)
    return from_json(raw, kind, name)
