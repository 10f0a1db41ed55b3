"""AMQP messages of envelope lines (docs/reference/envelope.md, "amqp" and "Writing").

With the key `amqp` the sections are what it says. Without it they are made of the other keys.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from journalfs.errors import BadEnvelope
from journalfs.format import amqp_types
from journalfs.format.amqp_message import (
    ADDRESS_PROPERTY,
    LARGE,
    STANDARD,
    STANDARD_V1,
    STANDARD_V2,
    AmqpParts,
    Section,
    SectionCode,
    data_section,
    section,
)
from journalfs.format.amqp_types import Scalar, Value
from journalfs.format.properties import Code, Property, encode_properties
from journalfs.message import envelope_fields as fields
from journalfs.message.envelope_fields import Envelope
from journalfs.message.outgoing_amqp import AmqpMessage

DEPTH_MAX: Final = 64
"""Deepest nesting that is written: deeper values are not decoded when they are read."""

_UNSIGNED: Final = {"ubyte": 8, "ushort": 16, "uint": 32, "ulong": 64}
_SIGNED: Final = {"byte": 8, "short": 16, "int": 32, "long": 64, "timestamp": 64}
_HEX_BYTES: Final = {"decimal32": 4, "decimal64": 8, "decimal128": 16}

_ID: Final = ("string", "ulong", "uuid", "binary")
_HEADER: Final[Mapping[str, tuple[str, ...]]] = {
    "durable": ("boolean",), "priority": ("ubyte",), "ttl": ("uint",), "firstAcquirer": ("boolean",),
    "deliveryCount": ("uint",),
}  # fmt: skip
_PROPERTIES: Final[Mapping[str, tuple[str, ...]]] = {
    "messageId": _ID, "userId": ("binary",), "to": ("string",), "subject": ("string",),
    "replyTo": ("string",), "correlationId": _ID, "contentType": ("symbol",), "contentEncoding": ("symbol",),
    "absoluteExpiryTime": ("timestamp",), "creationTime": ("timestamp",), "groupId": ("string",),
    "groupSequence": ("uint",), "replyToGroupId": ("string",),
}  # fmt: skip
"""Fields in their order, and the types that they may have (AMQP 1.0, 3.2): a broker does not load a message
in which one has another, or loads it and cannot deliver it.
"""

_MAPS: Final = {
    "deliveryAnnotations": SectionCode.DELIVERY_ANNOTATIONS,
    "messageAnnotations": SectionCode.MESSAGE_ANNOTATIONS,
    "applicationProperties": SectionCode.APPLICATION_PROPERTIES,
    "footer": SectionCode.FOOTER,
}
_KEY_TYPES: Final = {SectionCode.APPLICATION_PROPERTIES: "string"}
"""Of the keys in a section; all others are annotations, whose keys are symbols."""
_OF_CORE_ONLY: Final = frozenset({"duplicateId", "duplicateId_base64"})
_BODY_KEYS: Final = {"amqp-data": "body_base64", "amqp-value": "body", "none": ""}
"""Of an envelope without sections, the key that has the body, by its type."""
_SECTION_KEYS: Final = frozenset({"header", "properties", "body", *_MAPS})


def read_amqp(envelope: Envelope) -> AmqpMessage:
    """Raises BadEnvelope. Whether the other keys agree with `amqp` is the caller's to see."""
    if "amqp" in envelope:
        sections = _stated_sections(fields.mapping(envelope, "amqp"), envelope)
    else:
        sections = _made_sections(envelope)
    persister = fields.number(envelope, "persister", default=STANDARD, low=STANDARD_V1, high=STANDARD)
    if persister == LARGE:
        raise BadEnvelope("4 is that of a large message: say largeMessage instead", key="persister")
    extra = b"" if persister < STANDARD_V2 else encode_properties(_extra(envelope))
    parts = AmqpParts(
        message_id=0,
        address=fields.text(envelope, "address"),
        message_format=fields.number(envelope, "messageFormat", default=0),
        persister=persister,
        extra=extra,
        expiration_ms=fields.number(envelope, "expiration", default=0),
    )
    message = AmqpMessage(parts, b"".join(one.encoded for one in sections))
    if "amqp" in envelope:
        _take_expiry(message, envelope)
    return message


def _take_expiry(message: AmqpMessage, envelope: Envelope) -> None:
    """As a broker does when it arrives: the time in the properties counts, else how long the header lets it
    live, of which nobody but the envelope can say when that began.
    """
    time_ms, lives_ms = message.said_expiry()
    stated_ms = fields.number(envelope, "expiration", default=0) if "expiration" in envelope else None
    if time_ms and stated_ms not in (None, time_ms):
        raise BadEnvelope(f"amqp.properties.absoluteExpiryTime says {time_ms}", key="expiration")
    if lives_ms is not None and not time_ms and stated_ms == 0:
        raise BadEnvelope("amqp.header.ttl says that it expires", key="expiration")
    if time_ms:
        message.expiration_ms = time_ms
    else:
        message.lives_ms = lives_ms


def _extra(envelope: Envelope) -> list[Property]:
    """The broker's own properties beside the message: the address at least."""
    if "extraProperties" in envelope:
        return fields.typed_map(envelope["extraProperties"], "extraProperties")
    return [Property(ADDRESS_PROPERTY, Code.STRING, fields.text(envelope, "address") or "")]


# ---- from the key `amqp` ----


def _stated_sections(amqp: Mapping[str, object], envelope: Envelope) -> list[Section]:
    for key in amqp:
        if key not in _SECTION_KEYS:
            raise BadEnvelope("there is no such section", key=f"amqp.{key}")
    found: list[Section] = []
    if "header" in amqp:
        fields_of_header = fields.mapping(amqp, "header")
        found.append(section(SectionCode.HEADER, _fields(fields_of_header, _HEADER, "amqp.header")))
    for key, code in _MAPS.items():
        if key in amqp:
            pairs = _pairs(amqp[key], f"amqp.{key}", 1, key_type=_KEY_TYPES.get(code, "symbol"))
            found.append(section(code, amqp_types.map_of(pairs)))
    if "properties" in amqp:
        stated = fields.mapping(amqp, "properties")
        found.append(section(SectionCode.PROPERTIES, _fields(stated, _PROPERTIES, "amqp.properties")))
    body = amqp.get("body")
    found += _stated_body(fields.mapping(amqp, "body"), envelope) if body is not None else []
    return sorted(found, key=lambda one: one.code)


def _fields(stated: Mapping[str, object], known: Mapping[str, tuple[str, ...]], key: str) -> Value:
    """A list of named fields, as long as the last one that is there."""
    for name in stated:
        if name not in known:
            raise BadEnvelope("there is no such field", key=f"{key}.{name}")
    values = [_of_types(stated.get(name), types, f"{key}.{name}") for name, types in known.items()]
    while values and values[-1].encoded == amqp_types.NULL:
        values.pop()
    return amqp_types.list_of(values)


def _of_types(item: object, types: Sequence[str], key: str) -> Value:
    """One of these types, or null. What is given plain is of the first, but no number or truth is an id."""
    if isinstance(item, dict):
        if item.get("t") not in (*types, "null"):
            raise BadEnvelope(f"{fields.shown(item)} is of none of the types {', '.join(types)}", key=key)
        return amqp_value(item, key)
    if item is None:
        return amqp_value(None, key)
    if len(types) > 1 and not isinstance(item, str):
        raise BadEnvelope(f'{fields.shown(item)} needs a type: {{"t": type, "v": value}}', key=key)
    return _scalar(types[0], item, key)


def _stated_body(body: Mapping[str, object], envelope: Envelope) -> list[Section]:
    match body.get("section"):
        case None:
            return []
        case "value":
            _only(body, "section", "value")
            return [section(SectionCode.VALUE, amqp_value(body.get("value"), "amqp.body.value", 1))]
        case "sequence":
            _only(body, "section", "sequences")
            key = "amqp.body.sequences"
            return [
                section(SectionCode.SEQUENCE, amqp_types.list_of(_items(items, key, 1)))
                for items in _array(body.get("sequences"), key)
            ]
        case "data":
            _only(body, "section", "sections", "size", "lengths")
            return _data(body, fields.base64(envelope.get("body_base64", ""), "body_base64"))
        case other:
            raise BadEnvelope(
                f"{fields.shown(other)} is none of data, value, sequence, null", key="amqp.body.section"
            )


def _only(body: Mapping[str, object], *known: str) -> None:
    for key in body:
        if key not in known:
            raise BadEnvelope("there is no such key for this section", key=f"amqp.body.{key}")


def _data(body: Mapping[str, object], content: bytes) -> list[Section]:
    """Data sections as they were cut."""
    key = "amqp.body.lengths"
    if "lengths" not in body:
        if body.get("sections", 1) != 1:
            raise BadEnvelope("missing: how the data is cut into sections", key=key)
        return [data_section(content)]
    lengths = [fields.integer(item, key, 0, len(content)) for item in _array(body["lengths"], key)]
    if sum(lengths) != len(content):
        raise BadEnvelope(f"{sum(lengths)} bytes altogether, but body_base64 has {len(content)}", key=key)
    found, at = [], 0
    for length in lengths:
        found.append(data_section(content[at : at + length]))
        at += length
    return found


# ---- from the other keys ----


def _made_sections(envelope: Envelope) -> list[Section]:
    for key in _OF_CORE_ONLY & envelope.keys():
        raise BadEnvelope("an AMQP message has this in the key amqp", key=key)
    header: dict[str, object] = {"durable": fields.flag(envelope, "durable", default=True)}
    if "priority" in envelope:
        header["priority"] = fields.number(envelope, "priority", default=4, low=0, high=9)
    found = [section(SectionCode.HEADER, _fields(header, _HEADER, "header"))]
    properties = {
        "messageId": fields.text(envelope, "userId"),
        "absoluteExpiryTime": fields.number(envelope, "expiration", default=0) or None,
        "creationTime": fields.number(envelope, "timestamp", default=0) or None,
        "groupId": fields.text(envelope, "groupId"),
    }
    if any(value is not None for value in properties.values()):
        found.append(section(SectionCode.PROPERTIES, _fields(properties, _PROPERTIES, "properties")))
    pairs = _made_properties(envelope)
    if pairs:
        found.append(section(SectionCode.APPLICATION_PROPERTIES, amqp_types.map_of(pairs)))
    return found + _made_body(envelope)


def _made_properties(envelope: Envelope) -> list[tuple[Value, Value]]:
    values, types = fields.mapping(envelope, "properties"), fields.mapping(envelope, "propertyTypes")
    for name in types:
        if name not in values:
            raise BadEnvelope(f"{fields.shown(name)} is not among the properties", key="propertyTypes")
    pairs = []
    for name, value in values.items():
        key = f"properties.{name}"
        if name not in types and isinstance(value, (dict, list)):
            raise BadEnvelope("of what type it is stands in propertyTypes", key=key)
        item = {"t": types[name], "v": value} if name in types else value
        pairs.append((_scalar("string", name, key), amqp_value(item, key)))
    return pairs


def _made_body(envelope: Envelope) -> list[Section]:
    default = "amqp-data" if "body_base64" in envelope else "amqp-value" if "body" in envelope else "none"
    kind = envelope.get("type", default)
    for key in ("body", "body_base64"):
        if key in envelope and key != _BODY_KEYS.get(str(kind), key):
            raise BadEnvelope(f"a body of the type {fields.shown(kind)} has none", key=key)
    match kind:
        case "amqp-data":
            return [data_section(fields.base64(envelope.get("body_base64", ""), "body_base64"))]
        case "amqp-value":
            if "body" not in envelope:
                reason = 'there is no value: keep amqp, or give the value, or null, as "body"'
                raise BadEnvelope(reason, key="body")
            return [section(SectionCode.VALUE, amqp_value(envelope.get("body"), "body", 1))]
        case "none":
            return []
        case other:
            raise BadEnvelope(f"{fields.shown(other)} cannot be made without the key amqp", key="type")


# ---- values ----


def amqp_value(item: object, key: str, depth: int = 0) -> Value:
    """`{"t": type, "v": value}`, or a plain value: a string, boolean or null, a long or a double."""
    if depth > DEPTH_MAX:
        raise BadEnvelope(f"values nest deeper than {DEPTH_MAX}", key=key)
    if not isinstance(item, dict):
        return _plain(item, key)
    type_name, value = item.get("t"), item.get("v")
    if "v" not in item or not isinstance(type_name, str) or type_name not in amqp_types.TYPES:
        raise BadEnvelope(f'{fields.shown(item)} is no {{"t": AMQP type, "v": value}}', key=key)
    allowed = {"array": {"t", "v", "of"}, "described": {"t", "v", "descriptor"}}.get(type_name, {"t", "v"})
    if not item.keys() <= allowed:
        raise BadEnvelope(f"{fields.shown(item)} has keys that its type does not have", key=key)
    match type_name:
        case "list":
            return amqp_types.list_of(_items(value, key, depth + 1))
        case "map":
            return amqp_types.map_of(_pairs(value, key, depth + 1))
        case "array":
            return _array_value(item, key, depth + 1)
        case "described":
            descriptor = amqp_value(item.get("descriptor"), key, depth + 1)
            return amqp_types.described(descriptor, amqp_value(value, key, depth + 1))
        case _:
            return _scalar(type_name, value, key)


def _plain(item: object, key: str) -> Value:
    match item:
        case None:
            return amqp_types.scalar("null", None)
        case bool():
            return _scalar("boolean", item, key)
        case str():
            return _scalar("string", item, key)
        case int():
            return _scalar("long", item, key)
        case float():
            return _scalar("double", item, key)
        case _:
            raise BadEnvelope(f'{fields.shown(item)} is no {{"t": AMQP type, "v": value}}', key=key)


def _array(value: object, key: str) -> list[object]:
    if isinstance(value, list):
        return value
    raise BadEnvelope(f"{fields.shown(value)} is no array", key=key)


def _items(value: object, key: str, depth: int) -> list[Value]:
    return [amqp_value(item, key, depth) for item in _array(value, key)]


def _pairs(value: object, key: str, depth: int, *, key_type: str | None = None) -> list[tuple[Value, Value]]:
    """`key_type`: of all keys, which need not say it then."""
    pairs = []
    for pair in _array(value, key):
        if not isinstance(pair, list) or len(pair) != 2:
            raise BadEnvelope(f"{fields.shown(pair)} is no pair of key and value", key=key)
        name = amqp_value(pair[0], key, depth) if key_type is None else _key(pair[0], key_type, key)
        pairs.append((name, amqp_value(pair[1], key, depth)))
    return pairs


def _key(item: object, type_name: str, key: str) -> Value:
    if item is None or (isinstance(item, dict) and item.get("t") == "null"):
        raise BadEnvelope("null is no key", key=key)
    return _of_types(item, (type_name,), key)


def _array_value(item: Mapping[str, object], key: str, depth: int) -> Value:
    elements = _items(item["v"], key, depth)
    of = item.get("of")
    if not elements:
        if of is None:
            return amqp_types.empty_array(b"")
        if not isinstance(of, str) or of not in amqp_types.TYPES - {"described"}:
            raise BadEnvelope(f"{fields.shown(of)} is no AMQP type", key=key)
        return amqp_types.empty_array(amqp_types.constructor_of(of))
    if len({element.constructor for element in elements}) > 1:
        raise BadEnvelope("the elements of an array are all of one type", key=key)
    return amqp_types.array_of(elements)


def _bytes_of_text(value: object, key: str) -> bytes:
    if not isinstance(value, str):
        raise BadEnvelope(f"{fields.shown(value)} is no string", key=key)
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadEnvelope("a lone surrogate, which AMQP strings cannot hold", key=key) from None


def _code_point(value: object, key: str) -> int:
    if isinstance(value, str) and len(value) == 1:
        return ord(value)
    raise BadEnvelope(f"{fields.shown(value)} is no char, a string of one character", key=key)


_READERS: Final[Mapping[str, Callable[[object, str], Scalar]]] = {
    "null": fields.null, "boolean": fields.boolean, "float": fields.single, "double": fields.real,
    "char": _code_point, "uuid": fields.uuid_bytes, "binary": fields.base64, "string": _bytes_of_text,
    "symbol": _bytes_of_text,
}  # fmt: skip


def _scalar(type_name: str, value: object, key: str) -> Value:
    if type_name in _READERS:
        return amqp_types.scalar(type_name, _READERS[type_name](value, key))
    if type_name in _UNSIGNED:
        return amqp_types.scalar(type_name, fields.integer(value, key, 0, (1 << _UNSIGNED[type_name]) - 1))
    if type_name in _SIGNED:
        half = 1 << _SIGNED[type_name] - 1
        return amqp_types.scalar(type_name, fields.integer(value, key, -half, half - 1))
    digits = 2 * _HEX_BYTES[type_name]
    if not isinstance(value, str) or len(value) != digits:
        raise BadEnvelope(f"{fields.shown(value)} is not of {digits} hexadecimal digits", key=key)
    try:
        return amqp_types.scalar(type_name, binascii.unhexlify(value))
    except ValueError:
        raise BadEnvelope(f"{fields.shown(value)} is not of {digits} hexadecimal digits", key=key) from None
