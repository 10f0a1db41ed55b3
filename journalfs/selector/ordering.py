"""Comparing two values and calculating with them, by the broker's rules of promotion.

Facts: the comparison, arithmetic and unary expressions of the broker's selector module, checked against it by
the differential test. What surprises is kept: a wider number on the left does not accept a byte or short on
the right, +0.0 and -0.0 differ, NaN equals itself and is above everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from journalfs.selector.failure import EvaluationFailed
from journalfs.selector.values import (
    Big,
    Byte,
    Char,
    Long,
    Opaque,
    Short,
    Single,
    Value,
    as_text,
    parse_double,
    parse_integer,
    parse_single,
    single,
    utf16,
    wrap,
)

_NUMBERS = (Byte, Short, int, Long, Single, float)


def compare_floats(left: float, right: float) -> int:
    """-1, 0 or 1 in the total order in which -0.0 < 0.0 and NaN is the greatest."""
    if left < right:
        return -1
    if left > right:
        return 1
    left_rank = 2.0 if math.isnan(left) else math.copysign(1.0, left)
    right_rank = 2.0 if math.isnan(right) else math.copysign(1.0, right)
    return (left_rank > right_rank) - (left_rank < right_rank)


def _compare_integers(left: int, right: int) -> int:
    return (left > right) - (left < right)


def _compare_singles(left: float, right: float) -> int:
    return compare_floats(single(left), single(right))


def _compare_doubles(left: float, right: float) -> int:
    return compare_floats(float(left), float(right))


def _compare_strings(left: str, right: str) -> int:
    if left == right:
        return 0
    return 1 if utf16(left) > utf16(right) else -1


def _compare_opaque(left: Opaque, right: Opaque) -> int | None:
    if left.kind != right.kind or left.order is None or right.order is None:
        return None
    return (left.order > right.order) - (left.order < right.order)  # type: ignore[operator]


_Comparison = Callable[[object, object], int | None]


def _comparisons() -> dict[tuple[type, type], _Comparison]:
    """Every pair of types (left, right) that the broker can bring together, and how it then compares."""
    table: dict[tuple[type, type], Callable[..., int | None]] = {
        (str, str): _compare_strings,
        (Char, Char): _compare_strings,
        (bool, bool): _compare_integers,
        (Big, Big): _compare_integers,
        (Opaque, Opaque): _compare_opaque,
        (float, float): compare_floats,
        (Single, Single): compare_floats,
        (Single, float): _compare_doubles,
    }
    integers = (Byte, Short, int, Long)
    for place, left in enumerate(integers):
        for right in integers[place:]:
            table[left, right] = _compare_integers
        table[left, Single] = _compare_singles
        table[left, float] = _compare_doubles
    table[Long, int] = _compare_integers
    for right in (int, Long):
        table[Single, right] = _compare_singles
        table[float, right] = _compare_doubles
    table[float, Single] = _compare_doubles
    return table


COMPARISONS = _comparisons()

_PARSERS: dict[type, Callable[[str], Value]] = {
    bool: lambda text: text.lower() == "true",
    Byte: lambda text: Byte(parse_integer(text, 8)),
    Short: lambda text: Short(parse_integer(text, 16)),
    int: lambda text: parse_integer(text, 32),
    Long: lambda text: Long(parse_integer(text, 64)),
    Single: parse_single,
    float: parse_double,
}


def order(left: Value, right: Value, *, convert: bool) -> int | None:
    """-1, 0 or 1; None when the broker holds the two for incomparable, which makes any comparison false.

    `convert`: a string on one side is read as the other side's type (`convert_string_expressions:`).
    """
    comparison = COMPARISONS.get((type(left), type(right)))
    if comparison is not None:
        return comparison(left, right)
    if not convert:
        return None
    try:
        if type(right) is str and type(left) in _PARSERS:
            return order(left, _PARSERS[type(left)](right), convert=False)
        if type(left) is str and type(right) in _PARSERS:
            return order(_PARSERS[type(right)](left), right, convert=False)
    except ValueError:
        return None
    return None


def same(left: Value, right: Value) -> bool:
    """Whether two values of one type are equal, as the broker's `equals`."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        return compare_floats(left, right) == 0
    if isinstance(left, Opaque) and isinstance(right, Opaque):
        return left.kind == right.kind and left.identity == right.identity
    return left == right


def require_comparable(value: Value) -> None:
    """Byte arrays and the like have no order; asking for it makes the broker give the message up."""
    if type(value) is Opaque and value.order is None:
        raise EvaluationFailed(f"{value.kind} cannot be compared")


def as_number(value: Value, *, convert: bool) -> int | float:
    """The number to calculate with. Raises `EvaluationFailed` where the broker throws."""
    if type(value) in _NUMBERS or type(value) is Big:
        return value  # type: ignore[return-value]
    if convert and type(value) is str:
        try:
            return parse_double(value) if "." in value else Long(parse_integer(value, 64))
        except ValueError:
            raise EvaluationFailed(f"{value!r} is no number") from None
    raise EvaluationFailed("this value is no number")


def _whole(operation: Callable[[int, int], int], left: float, right: float) -> Value:
    assert isinstance(left, int)
    assert isinstance(right, int)
    if type(left) is Long or type(right) is Long:
        return Long(wrap(operation(wrap(left, 64), wrap(right, 64)), 64))
    return wrap(operation(wrap(left, 32), wrap(right, 32)), 32)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def add(left: Value, right: Value, *, convert: bool) -> Value:
    if type(left) is str:
        return left + as_text(right)
    a, b = as_number(left, convert=convert), as_number(right, convert=convert)
    if isinstance(a, float) or isinstance(b, float):
        return _double(a) + _double(b)
    return _whole(int.__add__, a, b)


def subtract(left: Value, right: Value, *, convert: bool) -> Value:
    a, b = as_number(left, convert=convert), as_number(right, convert=convert)
    if isinstance(a, float) or isinstance(b, float):
        return _double(a) - _double(b)
    return _whole(int.__sub__, a, b)


def multiply(left: Value, right: Value, *, convert: bool) -> Value:
    a, b = as_number(left, convert=convert), as_number(right, convert=convert)
    if isinstance(a, float) or isinstance(b, float):
        return _double(a) * _double(b)
    return _whole(int.__mul__, a, b)


def divide(left: Value, right: Value, *, convert: bool) -> Value:
    """Always in doubles, so a division by zero gives an infinity or NaN."""
    a = _double(as_number(left, convert=convert))
    b = _double(as_number(right, convert=convert))
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def remainder(left: Value, right: Value, *, convert: bool) -> Value:
    """Always in doubles, with the sign of the dividend."""
    a = _double(as_number(left, convert=convert))
    b = _double(as_number(right, convert=convert))
    if b == 0.0 or math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.fmod(a, b)


def negate(value: Value) -> Value:
    """Bytes and shorts cannot be negated; what is no number at all gives unknown."""
    if type(value) is int:
        return wrap(-value, 32)
    if type(value) is Long:
        return Long(wrap(-value, 64))
    if type(value) is Single:
        return Single(-value)
    if type(value) is float:
        return -value
    if type(value) is Big:
        return Long(-value) if value == 2**63 else Big(-value)
    if type(value) in (Byte, Short):
        raise EvaluationFailed("a byte or short cannot be negated")
    return None
