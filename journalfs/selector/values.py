"""The values a selector computes with, kept apart by the broker's own types.

A comparison in the broker depends on the exact number type of both sides (an int literal is comparable with a
short property only when the property stands on the left), so each type has its own Python class here and
`type(a) is type(b)` answers whether the broker sees one type:

====================  =======================  ====================  =====================
broker type           class                    broker type           class
====================  =======================  ====================  =====================
string                `str`                    byte, short, long     `Byte` `Short` `Long`
boolean               `bool`                   float                 `Single`
int                   `int`                    character             `Char`
double                `float`                  integer beyond long   `Big`
none                  `None`                   everything else       `Opaque`
====================  =======================  ====================  =====================
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from journalfs.selector.failure import EvaluationFailed

INT_MIN, INT_MAX = -(2**31), 2**31 - 1

# Integers up to here are exact as doubles, so rounding them on to a float rounds only once.
_DOUBLE_EXACT_MAX = 2**53
_SINGLE_MANTISSA_BITS = 24
_SINGLE_EXPONENT_MIN = -149


class Byte(int):
    __slots__ = ()


class Short(int):
    __slots__ = ()


class Long(int):
    __slots__ = ()


class Big(int):
    """An integer literal that fits no long; all it is good for is being negated."""

    __slots__ = ()


class Single(float):
    """A 32-bit float; the value is always one that a float can hold."""

    __slots__ = ()


class Char(str):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that equals and compares only with its own kind (bytes, symbols, uuids, timestamps, decimals).

    `order` is None for kinds that cannot be compared at all, which makes the broker throw.
    """

    kind: str
    identity: object
    order: int | tuple[int, ...] | None
    text: str | None = None
    """What string concatenation appends; None: something that differs from run to run of the broker."""


Value: TypeAlias = str | bool | int | float | Opaque | None

_WRAPPING: dict[str, tuple[type[int], int]] = {"byte": (Byte, 8), "short": (Short, 16), "long": (Long, 64)}
_AS_LONG = frozenset({"ubyte", "ushort", "uint", "ulong"})


def from_json(raw: Any, type_name: str | None, name: str) -> Value:  # noqa: PLR0911 - one return a type
    """Turn one property of an envelope into a value; `type_name` is its entry in `propertyTypes`.

    Unsigned AMQP numbers count as long, as the broker's filter converts them. `name` identifies byte arrays:
    the broker finds an array equal to itself only.
    """
    if raw is None:
        return None
    if type_name is None:
        return _untyped(raw, name)
    if type_name == "int":
        return int(raw)
    if type_name in ("double", "float"):
        number = float(raw)
        return number if type_name == "double" else single(number)
    if type_name in _WRAPPING:
        return _WRAPPING[type_name][0](raw)
    if type_name in _AS_LONG:
        return Long(wrap(int(raw), 64))
    if type_name == "char":
        return Char(raw)
    return _opaque(raw, type_name, name)


def _untyped(raw: object, name: str) -> Value:
    if isinstance(raw, str | bool | float):
        return raw
    if isinstance(raw, int):
        return raw if INT_MIN <= raw <= INT_MAX else Long(wrap(raw, 64))
    return Opaque("nested", repr(raw), None)


def _opaque(raw: object, type_name: str, name: str) -> Opaque:
    text = str(raw)
    if type_name in ("bytes", "binary"):
        return Opaque("bytes", name, None)
    if type_name == "symbol":
        return Opaque("symbol", text, tuple(utf16(text)), text)
    if type_name == "timestamp" and isinstance(raw, int):
        return Opaque("timestamp", raw, raw)
    if type_name == "uuid":
        bits = int(text.replace("-", ""), 16)
        return Opaque("uuid", bits, (wrap(bits >> 64, 64), wrap(bits, 64)), text)
    return Opaque(type_name, repr(raw), None)


def wrap(number: int, bits: int) -> int:
    """Two's complement: what is left of `number` in a signed integer of `bits` bits."""
    half = 1 << (bits - 1)
    return ((number + half) & ((1 << bits) - 1)) - half


def single(number: float) -> Single:
    """Round a number to the nearest float, once, ties to even; beyond its range is infinity."""
    if isinstance(number, int) and abs(number) > _DOUBLE_EXACT_MAX:
        return Single(_round_exactly(Fraction(number)))
    try:
        return Single(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return Single(math.copysign(math.inf, number))


def _round_exactly(exact: Fraction) -> float:
    """Round a fraction to a float without going through a double, which would round twice."""
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - _SINGLE_MANTISSA_BITS + 1, _SINGLE_EXPONENT_MIN)
    rounded = float(round(size / unit) * unit)
    if rounded >= 2.0**128:
        rounded = math.inf
    return rounded if exact > 0 else -rounded


def utf16(text: str) -> bytes:
    """Bytes that order as the broker orders strings: by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")


def parse_integer(text: str, bits: int) -> int:
    """Read a signed decimal integer of at most `bits` bits. Raises `ValueError`."""
    if _INTEGER.fullmatch(text) is None or max(text) > "\uffff":
        raise ValueError(text)
    number = int(text)
    if wrap(number, bits) != number:
        raise ValueError(text)
    return number


def parse_double(text: str) -> float:
    """Read a floating point number as the broker's language does: blanks around it, suffixes, hexadecimal."""
    digits = _float_text(text)
    if "x" in digits.lower():
        try:
            return float.fromhex(digits)
        except OverflowError:
            return -math.inf if digits.startswith("-") else math.inf
    return float(digits)


def parse_single(text: str) -> Single:
    """Like `parse_double`, rounded once to a float."""
    digits = _float_text(text)
    wide = parse_double(text)
    if not math.isfinite(wide) or "x" in digits.lower():
        return single(wide)
    return Single(_round_exactly(Fraction(digits))) if wide != 0.0 else Single(wide)


def _float_text(text: str) -> str:
    trimmed = text.strip("".join(map(chr, range(0x21))))
    if _HEX_FLOAT.fullmatch(trimmed) is not None:
        return trimmed.rstrip("fFdD") if "p" in trimmed.rstrip("fFdD").lower() else trimmed
    if _DECIMAL.fullmatch(trimmed) is None:
        raise ValueError(text)
    return trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("fFdD")


def as_text(value: Value) -> str:
    """What appending `value` to a string appends."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _float_as_text(value)
    if isinstance(value, Opaque):
        return value.text if value.text is not None else f"[{value.kind}]"
    raise EvaluationFailed("nothing has no text form")


def _shortest(value: float) -> str:
    if not isinstance(value, Single):
        return float.__repr__(value)
    for digits in range(1, 10):
        candidate = f"{float(value):.{digits}g}"
        if single(float(candidate)) == value:
            return candidate
    return float.__repr__(value)


def _float_as_text(value: float) -> str:
    """Decimal notation from 1e-3 up to 1e7, otherwise d.dddEn; always with a digit after the point."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    mantissa, _, exponent_text = _shortest(value).lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0.0"
    leading_zeros = len(whole + fraction) - len(digits)
    exponent = len(whole) - 1 - leading_zeros + int(exponent_text or 0)
    digits = digits.rstrip("0") or "0"
    if not -3 <= exponent < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    digits = digits.ljust(exponent + 2, "0")
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
