"""Values of an envelope's keys, checked one by one (docs/reference/envelope.md, "Writing")."""

from __future__ import annotations

import binascii
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from journalfs.errors import BadEnvelope
from journalfs.format.properties import CODES, INTEGER_BITS, Code, Property, PropertyValue

Envelope: TypeAlias = Mapping[str, object]

I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1

_NUMBER_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

UNTYPED_CODES: Final = {
    "_AMQ_ROUTING_TYPE": Code.BYTE,
    "_AMQ_ORIG_ROUTING_TYPE": Code.BYTE,
    "_AMQ_GROUP_SEQUENCE": Code.INT,
}
"""Numbers that brokers read as another type than `long`, which a number without a type becomes."""


def shown(value: object) -> str:
    """A value as an error names it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def text(envelope: Envelope, key: str) -> str | None:
    """None: the key is absent or null."""
    value = envelope.get(key)
    if value is None or isinstance(value, str):
        return value
    raise BadEnvelope(f"{shown(value)} is no string", key=key)


def flag(envelope: Envelope, key: str, *, default: bool) -> bool:
    return boolean(envelope.get(key, default), key)


def integer(value: object, key: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadEnvelope(f"{shown(value)} is no whole number", key=key)
    if not low <= value <= high:
        raise BadEnvelope(f"{shown(value)} is not between {low} and {high}", key=key)
    return value


def number(envelope: Envelope, key: str, *, default: int, low: int = I64_MIN, high: int = I64_MAX) -> int:
    return integer(envelope.get(key, default), key, low, high)


def real(value: object, key: str) -> float:
    if isinstance(value, str) and value in _NUMBER_WORDS:
        return _NUMBER_WORDS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadEnvelope(f"{shown(value)} is no number", key=key)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise BadEnvelope(f"{shown(value)} is too large", key=key)
    return found


def single(value: object, key: str) -> float:
    """The nearest value of four bytes. Raises BadEnvelope beyond the largest."""
    found = real(value, key)
    try:
        near = float(struct.unpack(">f", struct.pack(">f", found))[0])
    except OverflowError:
        raise BadEnvelope(f"{shown(value)} is too large for a float", key=key) from None
    if near == found or not math.isfinite(found):
        return near
    # A decimal fraction that became the middle between two floats was beside it: which side, its digits tell.
    bits = struct.unpack(">i", struct.pack(">f", near))[0]
    step = 1 if (found > near) == (near > 0 or (near == 0 and found > 0)) else -1
    other = float(struct.unpack(">f", struct.pack(">i", bits + step))[0]) if near else near
    if not math.isfinite(other) or abs(other - found) != abs(near - found):
        return near
    exact = Fraction(repr(found))
    return other if abs(Fraction(other) - exact) < abs(Fraction(near) - exact) else near


def base64(value: object, key: str) -> bytes:
    if not isinstance(value, str):
        raise BadEnvelope(f"{shown(value)} is no base64 text", key=key)
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError as error:
        raise BadEnvelope(f"no base64: {error}", key=key) from None


def uuid_bytes(value: object, key: str) -> bytes:
    if isinstance(value, str) and len(value) == 36:
        try:
            return uuid.UUID(value).bytes
        except ValueError:
            pass
    raise BadEnvelope(f"{shown(value)} is no UUID", key=key)


def mapping(envelope: Envelope, key: str) -> Mapping[str, object]:
    value = envelope.get(key)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise BadEnvelope(f"{shown(value)} is no object", key=key)


def _string(value: object, key: str) -> str:
    if isinstance(value, str):
        return value
    raise BadEnvelope(f"{shown(value)} is no string", key=key)


def boolean(value: object, key: str) -> bool:
    if isinstance(value, bool):
        return value
    raise BadEnvelope(f"{shown(value)} is neither true nor false", key=key)


def null(value: object, key: str) -> None:
    if value is not None:
        raise BadEnvelope(f"{shown(value)} is not null", key=key)


def _char(value: object, key: str) -> str:
    if isinstance(value, str) and len(value) == 1 and ord(value) <= 0xFFFF:
        return value
    raise BadEnvelope(f"{shown(value)} is no char, a string of one 16-bit character", key=key)


_READERS: Final[Mapping[Code, Callable[[object, str], PropertyValue]]] = {
    Code.STRING: _string, Code.BOOLEAN: boolean, Code.NULL: null, Code.BYTES: base64, Code.CHAR: _char,
    Code.FLOAT: single, Code.DOUBLE: real,
}  # fmt: skip


def core_value(code: Code, value: object, key: str) -> PropertyValue:
    """A value of a property or of a map or stream body, of the type that `code` says."""
    reader = _READERS.get(code)
    if reader is not None:
        return reader(value, key)
    bits = INTEGER_BITS[code]
    return integer(value, key, -(1 << bits - 1), (1 << bits - 1) - 1)


def untyped(value: object, key: str, number_code: Code = Code.LONG) -> tuple[Code, PropertyValue]:
    """A value whose type only JSON tells: whole numbers become long, others double."""
    match value:
        case None:
            return Code.NULL, None
        case bool():
            return Code.BOOLEAN, value
        case str():
            return Code.STRING, value
        case int():
            return number_code, core_value(number_code, value, key)
        case float():
            return Code.DOUBLE, real(value, key)
        case _:
            raise BadEnvelope(f"{shown(value)} is no value of a property", key=key)


def code_of(name: object, key: str) -> Code:
    found = CODES.get(name) if isinstance(name, str) else None
    if found is None:
        raise BadEnvelope(f"{shown(name)} is no type; there are {', '.join(CODES)}", key=key)
    return found


def properties(envelope: Envelope) -> list[Property]:
    """`properties`, with the types of `propertyTypes`."""
    values, types = mapping(envelope, "properties"), mapping(envelope, "propertyTypes")
    for name in types:
        if name not in values:
            raise BadEnvelope(f"{shown(name)} is not among the properties", key="propertyTypes")
    entries = []
    for name, value in values.items():
        key = f"properties.{name}"
        if name in types:
            code = code_of(types[name], f"propertyTypes.{name}")
            entries.append(Property(name, code, core_value(code, value, key)))
        else:
            entries.append(Property(name, *untyped(value, key, UNTYPED_CODES.get(name, Code.LONG))))
    return entries


def typed(value: object, key: str) -> tuple[Code, PropertyValue]:
    """`{"t": type, "v": value}`, or a plain value."""
    if not isinstance(value, dict):
        return untyped(value, key)
    if value.keys() != {"t", "v"}:
        raise BadEnvelope(f'{shown(value)} is no {{"t": type, "v": value}}', key=key)
    code = code_of(value["t"], key)
    return code, core_value(code, value["v"], key)


def typed_map(value: object, key: str) -> list[Property]:
    if not isinstance(value, dict):
        raise BadEnvelope(f"{shown(value)} is no object", key=key)
    return [Property(name, *typed(item, f"{key}.{name}")) for name, item in value.items()]
