"""Comparing two values and calculating with them, by the broker's rules of promotion.

Facts: the comparison, arithmetic and unary expressions of the broker's selector module, checked against it by
the differential test. What surprises is kept: a wider number on the left does not accept a byte or short on
the right, +0.0 and -0.0 differ, NaN equals itself and is above everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from journalfs.selector import values
from journalfs.selector.failure import EvaluationFailed

_NUMBERS = (values.Byte, values.Short, int, values.Long, values.Single, float)


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
    return compare_floats(values.single(left), values.single(right))


def _compare_doubles(left: float, right: float) -> int:
    return compare_floats(float(left), float(right))


def _compare_strings(left: str, right: str) -> int:
    if left == right:
        return 0
    return 1 if values.utf16(left) > values.utf16(right) else -1


def _compare_opaque(left: values.Opaque, right: values.Opaque) -> int | None:
    if left.kind != right.kind or left.order is None or right.order is None:
        return None
    return (left.order > right.order) - (left.order < right.order)  # type: ignore[operator]


_Comparison = Callable[[object, object], int | None]


def _comparisons() -> dict[tuple[type, type], _Comparison]:
    """Every pair of types (left, right) that the broker can bring together, and how it then compares."""
    table: dict[tuple[type, type], Callable[..., int | None]] = {
        (str, str): _compare_strings, (values.Char, values.Char): _compare_strings,
        (bool, bool): _compare_integers, (values.Big, values.Big): _compare_integers,
        (values.Opaque, values.Opaque): _compare_opaque, (float, float): compare_floats,
        (values.Single, values.Single): compare_floats, (values.Single, float): _compare_doubles,
    }  # fmt: skip
    integers = (values.Byte, values.Short, int, values.Long)
    for place, left in enumerate(integers):
        for right in integers[place:]:
            table[left, right] = _compare_integers
        table[left, values.Single] = _compare_singles
        table[left, float] = _compare_doubles
    table[values.Long, int] = _compare_integers
    for right in (int, values.Long):
        table[values.Single, right] = _compare_singles
        table[float, right] = _compare_doubles
    table[float, values.Single] = _compare_doubles
    return table


COMPARISONS = _comparisons()

_PARSERS: dict[type, Callable[[str], values.Value]] = {
    bool: lambda text: text.lower() == "true",
    values.Byte: lambda text: values.Byte(values.parse_integer(text, 8)),
    values.Short: lambda text: values.Short(values.parse_integer(text, 16)),
    int: lambda text: values.parse_integer(text, 32),
    values.Long: lambda text: values.Long(values.parse_integer(text, 64)),
    values.Single: values.parse_single,
    float: values.parse_double,
}


def order(left: values.Value, right: values.Value, *, convert: bool) -> int | None:
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


def same(left: values.Value, right: values.Value) -> bool:
    """Whether two values of one type are equal, as the broker's `equals`."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        return compare_floats(left, right) == 0
    if isinstance(left, values.Opaque) and isinstance(right, values.Opaque):
        return left.kind == right.kind and left.identity == right.identity
    return left == right


def require_comparable(value: values.Value) -> None:
    """Byte arrays and the like have no order; asking for it makes the broker give the message up."""
    if type(value) is values.Opaque and value.order is None:
        raise EvaluationFailed(f"{value.kind} cannot be compared")


def as_number(value: values.Value, *, convert: bool) -> int | float:
    """The number to calculate with. Raises `EvaluationFailed` where the broker throws."""
    if type(value) in _NUMBERS or type(value) is values.Big:
        return value  # type: ignore[return-value]
    if convert and type(value) is str:
        try:
            return (
                values.parse_double(value) if "." in value else values.Long(values.parse_integer(value, 64))
            )
        except ValueError:
            raise EvaluationFailed(f"{value!r} is no number") from None
    raise EvaluationFailed("this value is no number")


def _whole(operation: Callable[[int, int], int], left: float, right: float) -> values.Value:
    assert isinstance(left, int)
    assert isinstance(right, int)
    if type(left) is values.Long or type(right) is values.Long:
        return values.Long(values.wrap(operation(values.wrap(left, 64), values.wrap(right, 64)), 64))
    return values.wrap(operation(values.wrap(left, 32), values.wrap(right, 32)), 32)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _calculation(
    whole: Callable[[int, int], int], real: Callable[[float, float], float]
) -> Callable[..., values.Value]:
    def calculate(left: values.Value, right: values.Value, *, convert: bool) -> values.Value:
        a, b = as_number(left, convert=convert), as_number(right, convert=convert)
        if isinstance(a, float) or isinstance(b, float):
            return real(_double(a), _double(b))
        return _whole(whole, a, b)

    return calculate


subtract = _calculation(int.__sub__, float.__sub__)
multiply = _calculation(int.__mul__, float.__mul__)
_add_numbers = _calculation(int.__add__, float.__add__)


def add(left: values.Value, right: values.Value, *, convert: bool) -> values.Value:
    if type(left) is str:
        return left + values.as_text(right)
    return _add_numbers(left, right, convert=convert)


def divide(left: values.Value, right: values.Value, *, convert: bool) -> values.Value:
    """Always in doubles, so a division by zero gives an infinity or NaN."""
    a = _double(as_number(left, convert=convert))
    b = _double(as_number(right, convert=convert))
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def remainder(left: values.Value, right: values.Value, *, convert: bool) -> values.Value:
    """Always in doubles, with the sign of the dividend."""
    a = _double(as_number(left, convert=convert))
    b = _double(as_number(right, convert=convert))
    if b == 0.0 or math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.fmod(a, b)


def negate(value: values.Value) -> values.Value:
    """Bytes and shorts cannot be negated; what is no number at all gives unknown."""
    if type(value) is int:
        return values.wrap(-value, 32)
    if type(value) is values.Long:
        return values.Long(values.wrap(-value, 64))
    if type(value) is values.Single:
        return values.Single(-value)
    if type(value) is float:
        return -value
    if type(value) is values.Big:
        return values.Long(-value) if value == 2**63 else values.Big(-value)
    if type(value) in (values.Byte, values.Short):
        raise EvaluationFailed("a byte or short cannot be negated")
    return None
