"""Selectors and property maps to compare by: mostly sensible, some nearly so, some not at all."""

from __future__ import annotations

import math

from hypothesis import strategies as st

NAMES = ("a", "b", "color", "price", "flag", "raw", "when", "$x_1")

_INTEGERS = st.one_of(
    st.integers(-3, 3), st.sampled_from((127, 128, 255, 32767, 2**31 - 1, 2**31, 2**53 + 1))
)
_FLOATS = st.one_of(
    st.sampled_from((0.0, -0.0, 0.1, 1.0, 1.5, 16777217.0, 1e10, float("nan"), float("inf"))),
    st.floats(width=32),
)
_SINGLES = _FLOATS.filter(lambda x: not math.isfinite(x) or abs(x) < 3e38)
_TEXTS = st.one_of(
    st.sampled_from(("", "a", "red", "5", "1.5", "true", "it's", "50%", "a_b", "é", "\U0001f600", "\ue000")),
    st.text(alphabet="ab%_!'é5.", max_size=5),
)


def _java_float(value: float) -> str:
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))


def _in_range(bits: int) -> st.SearchStrategy[str]:
    edge = 2 ** (bits - 1)
    return st.one_of(
        st.integers(-3, 6), st.sampled_from((-edge, edge - 1)), st.integers(-edge, edge - 1)
    ).map(str)


TYPED_VALUES: st.SearchStrategy[tuple[str, str]] = st.one_of(
    st.tuples(st.just("string"), _TEXTS),
    st.tuples(st.just("boolean"), st.sampled_from(("true", "false"))),
    st.tuples(st.just("byte"), _in_range(8)),
    st.tuples(st.just("short"), _in_range(16)),
    st.tuples(st.just("int"), _in_range(32)),
    st.tuples(st.just("long"), _in_range(64)),
    st.tuples(
        st.just("float"),
        _SINGLES.map(_java_float),
    ),
    st.tuples(st.just("double"), st.one_of(_FLOATS, st.floats()).map(_java_float)),
    st.tuples(st.just("char"), st.sampled_from(("a", "b", "5", "é"))),
    st.tuples(st.just("bytes"), st.sampled_from(("AQI=", "YQ=="))),
    st.tuples(st.just("timestamp"), st.integers(0, 5).map(str)),
    st.tuples(
        st.just("uuid"),
        st.sampled_from(("00000000-0000-0000-0000-000000000005", "f0000000-0000-0000-8000-000000000005")),
    ),
)

PROPERTIES = st.dictionaries(st.sampled_from(NAMES), TYPED_VALUES, max_size=6)

_STRING_LITERALS = _TEXTS.map(lambda text: "'" + text.replace("'", "''") + "'")
_NUMBER_LITERALS = st.one_of(
    _INTEGERS.map(str),
    _INTEGERS.map(lambda n: f"{n}L"),
    st.sampled_from(
        (
            "0x1F",
            "0X7fffffffffffffff",
            "017",
            "0",
            "1.5",
            ".5",
            "5.",
            "1e3",
            "2E-3",
            "0.1",
            "9223372036854775807",
        )
    ),
    st.sampled_from(("9223372036854775808", "18446744073709551617", "99999999999999999999", "2147483648")),
)
_LITERALS = st.one_of(
    _STRING_LITERALS, _NUMBER_LITERALS, _NUMBER_LITERALS, st.sampled_from(("TRUE", "false"))
)
_IDENTIFIERS = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(('"color"', '"a"', "missing", "AND_x", "nullx")),
)


def _spaced(*parts: str) -> str:
    return " ".join(parts)


def _sum(operands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(_spaced, operands, st.sampled_from("+-*/%"), operands),
        st.builds(lambda sign, x: sign + x, st.sampled_from(("-", "+", "- ")), operands),
        operands.map(lambda x: f"({x})"),
    )


VALUES = st.recursive(st.one_of(_IDENTIFIERS, _LITERALS), _sum, max_leaves=4)

_COMPARISONS = st.one_of(
    st.builds(_spaced, VALUES, st.sampled_from(("=", "<>", "<", ">", "<=", ">=")), VALUES),
    st.builds(_spaced, _IDENTIFIERS, st.sampled_from(("=", "<>", "<", ">", "<=", ">=")), _LITERALS),
    st.builds(_spaced, VALUES, st.sampled_from(("IS NULL", "is not null", "IS  NOT\tNULL"))),
    st.builds(
        lambda x, no, low, high: f"{x} {no} BETWEEN {low} and {high}",
        VALUES,
        st.sampled_from(("", "NOT")),
        VALUES,
        VALUES,
    ),
    st.builds(
        lambda x, no, pattern, escape: f"{x} {no} LIKE {pattern} {escape}",
        VALUES,
        st.sampled_from(("", "not")),
        _STRING_LITERALS,
        st.sampled_from(("", "", "ESCAPE '!'", "escape 'a'")),
    ),
    st.builds(
        lambda x, no, members: f"{x} {no} IN ({', '.join(members)})",
        _IDENTIFIERS,
        st.sampled_from(("", "NOT")),
        st.lists(_STRING_LITERALS, min_size=1, max_size=6),
    ),
    _IDENTIFIERS,
    st.sampled_from(("TRUE", "FALSE", "NULL")),
)


def _logic(conditions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(_spaced, conditions, st.sampled_from(("AND", "or", "Or", "and")), conditions),
        conditions.map(lambda x: f"NOT ({x})"),
        conditions.map(lambda x: f"not {x}"),
        conditions.map(lambda x: f"({x})"),
        conditions.map(lambda x: f"/* c **/ {x} -- end\n"),
    )


CONDITIONS = st.recursive(_COMPARISONS, _logic, max_leaves=5)

_PREFIXES = st.sampled_from(
    (
        "",
        "",
        "",
        "convert_string_expressions:",
        "hyphenated_props:",
        "no_hyphenated_props:convert_string_expressions:",
    )
)
SELECTORS = st.builds(lambda prefix, text: prefix + text, _PREFIXES, CONDITIONS)

_PIECES = st.one_of(
    st.sampled_from(
        ("a", "b", "color", "a-b", "XPATHx", "$", "_", '"a"', "1", "2L", "0x1", "1.5", ".5", "'x'")
    ),
    st.sampled_from(("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "(", ")", ",")),
    st.sampled_from(("AND", "OR", "NOT", "IS", "NULL", "LIKE", "ESCAPE", "BETWEEN", "IN", "TRUE")),
    st.sampled_from(
        ("0x", "09", "5.", "1e2", "1e", "''", "'it''s'", '"', "'", "--", "/*", "*/", ".", "!", "==", "'a'b")
    ),
)
TOKEN_SOUP = st.lists(_PIECES, min_size=1, max_size=9).map(" ".join)
"""Tokens in any order, nearly always to be refused."""

CHARACTER_SOUP = st.builds(
    lambda prefix, text: prefix + text,
    st.sampled_from(("", "a = 1 ", "hyphenated_props:", "a ")),
    st.text(alphabet="a1='\"()+-*/% .eExXlL0<>,n\n\r\t\x0b_$!K\u017f\u0131\u03a9", max_size=10),
)
