"""`AMQSize`: how many bytes the broker's encoding of a message has, worked out from its envelope.

The layout is that of a core message (docs/format/messages.md): a length, the body, then headers and
properties. An AMQP message may be encoded in more than one way, so its line does not tell; whoever has the
record says so beside what the line says.
"""

from __future__ import annotations

from collections.abc import Mapping

AMQP_BYTES = "amqpBytes"
"""The key by which an envelope that is to be judged says the size of an AMQP message. No line has it."""

_BODY_LENGTH_BYTES = 4
# Message id, type, durable, expiration, timestamp, priority.
_FIXED_HEADERS_BYTES = 8 + 1 + 1 + 8 + 8 + 1
_USER_ID_BYTES = 16

_VALUE_BYTES = {
    "boolean": 1, "byte": 1, "short": 2, "char": 2, "int": 4, "long": 8, "float": 4, "double": 8, "null": 0,
}  # fmt: skip

# Lengths from which a stream's strings are kept as UTF-8 with a short length, then as code units again.
_SHORT_STRING_UNITS = 9
_UTF8_STRING_UNITS = 4095


def encoded_size_bytes(envelope: Mapping[str, object]) -> int | None:
    """Size of a message's encoding; None when the envelope does not tell (AMQP, compressed)."""
    large = bool(envelope.get("largeMessage"))
    if envelope.get("protocol") == "AMQP":
        amqp_bytes = envelope.get(AMQP_BYTES)
        return 0 if large else amqp_bytes if isinstance(amqp_bytes, int) else None
    size = _headers_bytes(envelope) + _properties_bytes(envelope)
    if large:
        return size
    body = _body_bytes(envelope)
    return None if body is None else _BODY_LENGTH_BYTES + body + size


def _headers_bytes(envelope: Mapping[str, object]) -> int:
    address = envelope.get("address")
    user_id = 1 if envelope.get("userId") is None else 1 + _USER_ID_BYTES
    return _FIXED_HEADERS_BYTES + _nullable_string_bytes(address) + user_id


def _properties_bytes(envelope: Mapping[str, object]) -> int:
    values, types = envelope.get("properties"), envelope.get("propertyTypes")
    if not isinstance(values, Mapping) or not values:
        return 1
    known = types if isinstance(types, Mapping) else {}
    return _map_bytes((name, known.get(name), value) for name, value in values.items())


def _map_bytes(entries: object) -> int:
    size = 1 + 4
    for name, kind, value in entries:  # type: ignore[attr-defined]
        size += 4 + 2 * _units(name) + 1 + _value_bytes(kind, value)
    return size


def _value_bytes(kind: str | None, value: object) -> int:
    if kind is None:
        kind = "null" if value is None else "boolean" if isinstance(value, bool) else "string"
    if kind in _VALUE_BYTES:
        return _VALUE_BYTES[kind]
    return 4 + (_base64_bytes(str(value)) if kind == "bytes" else 2 * _units(str(value)))


def _body_bytes(envelope: Mapping[str, object]) -> int | None:
    kind, body, encoded = envelope.get("type"), envelope.get("body"), envelope.get("body_base64")
    if "_AMQ_LARGE_COMPRESSED" in (envelope.get("properties") or ()):  # type: ignore[operator]
        return None
    if isinstance(encoded, str):
        return _base64_bytes(encoded) + (4 if kind == "object" and encoded else 0)
    if kind == "text":
        return _nullable_string_bytes(body)
    if isinstance(body, Mapping):
        return _map_bytes((k, v.get("t"), v.get("v")) for k, v in body.items()) if body else 1
    if isinstance(body, list):
        return sum(_stream_value_bytes(entry) for entry in body)
    return 0 if body is None and encoded is None else None


def _stream_value_bytes(entry: Mapping[str, object]) -> int:
    kind, value = str(entry.get("t")), entry.get("v")
    if kind == "null":
        return 2
    if kind != "string":
        return 1 + _value_bytes(kind, value)
    text = str(value)
    units = _units(text)
    if units < _SHORT_STRING_UNITS:
        return 2 + 4 + 2 * units
    if units < _UTF8_STRING_UNITS:
        return 2 + 4 + 2 + _modified_utf8_bytes(text)
    return 2 + 4 + 4 + 2 * units


def _units(text: str) -> int:
    return len(text) + sum(char > "\uffff" for char in text) if not text.isascii() else len(text)


def _modified_utf8_bytes(text: str) -> int:
    """One to three bytes a code unit; NUL takes two."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return sum(1 if 0 < unit < 0x80 else 2 if unit < 0x800 else 3 for unit in units)


def _nullable_string_bytes(text: object) -> int:
    return 1 if text is None else 1 + 4 + 2 * _units(str(text))


def _base64_bytes(encoded: str) -> int:
    return len(encoded) // 4 * 3 - encoded.count("=", -2)
