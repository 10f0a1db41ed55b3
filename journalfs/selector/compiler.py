"""From a selector's tree to functions over an envelope.

Every expression becomes one closure; what can be decided once (types of literals, patterns, membership sets)
is decided here and not once per message. Most messages are judged by the core (`program`). A condition has
two functions, as in the broker: `get` gives True, False or None (unknown); `accepts` gives only whether it is
True, which lets AND stop at an unknown. They differ when a later operand would fail: `NOT` needs the first,
the whole selector the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from lark import Token, Tree

from journalfs.errors import SelectorError
from journalfs.selector import ordering
from journalfs.selector.grammar import DEPTH_MAX, Parsed
from journalfs.selector.identifiers import Envelope, Getter, compile_identifier
from journalfs.selector.like import compile_like
from journalfs.selector.ordering import order, require_comparable, same
from journalfs.selector.values import INT_MAX, INT_MIN, Big, Long, Value, utf16, wrap

Test: TypeAlias = Callable[[Envelope], bool | None]

_ASKS: dict[str, Callable[[int], bool]] = {
    ">": lambda answer: answer > 0,
    ">=": lambda answer: answer >= 0,
    "<": lambda answer: answer < 0,
    "<=": lambda answer: answer <= 0,
    "=": lambda answer: answer == 0,
}
_ARITHMETIC = {
    "+": ordering.add, "-": ordering.subtract, "*": ordering.multiply, "/": ordering.divide,
    "%": ordering.remainder,
}  # fmt: skip
INTEGERS: dict[str, Callable[[str], int]] = {
    "decimal": lambda digits: int(digits.rstrip("lL")),
    "hexadecimal": lambda digits: int(digits, 16),
    "octal": lambda digits: int(digits, 8),
}
"""Forms of integer literals, by their name in the grammar."""
TRUTHS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `place` is where its text begins, for messages about it."""

    get: Getter
    place: int
    name: str | None = None
    """Set for an identifier."""
    literal: bool = False
    constant: Value = None
    """The value of a literal, or of a negated one."""
    accepts: Test | None = None
    """Set for what is a condition by itself: comparisons, logic, TRUE, FALSE and NULL."""


class Compiler:
    """Compiles one selector; collects the identifiers it meets."""

    def __init__(self, parsed: Parsed, *, stored: bool) -> None:
        self._parsed = parsed
        self._stored = stored
        self.identifiers: set[str] = set()

    def compile(self) -> Expression:
        """The whole selector as a condition."""
        return self._condition(self._expression(self._parsed.tree, 0))

    def _error(self, place: int, reason: str) -> SelectorError:
        return SelectorError(self._parsed.text, place, reason)

    def _expression(self, tree: Tree[Token] | Token, depth: int) -> Expression:
        assert isinstance(tree, Tree)
        place = self._parsed.offset + tree.meta.start_pos
        if depth > DEPTH_MAX:
            raise self._error(place, f"nested more than {DEPTH_MAX} deep")
        operands = [self._expression(child, depth + 1) for child in operands_of(tree)]
        tokens = [c for c in tree.children if isinstance(c, Token)]
        if tree.data in TRUTHS:
            return _literal(TRUTHS[tree.data], place, condition=True)
        if tree.data in INTEGERS:
            return self._integer(tree.data, place, tokens[0])
        compiled: Expression = getattr(self, f"_{tree.data}")(place, operands, tokens)
        return compiled

    def _condition(self, expression: Expression) -> Expression:
        """`expression` where a truth value is needed: an identifier then stands for its being TRUE."""
        if expression.accepts is not None:
            return expression
        if expression.name is None:
            raise self._error(expression.place, "this is a value where a condition is needed")
        get = expression.get

        def is_true(envelope: Envelope) -> bool | None:
            value = get(envelope)
            return None if value is None else value is True

        return _test(is_true, expression.place)

    # --- logic

    def _or_(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return self._logic(place, operands, either=True)

    def _and_(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return self._logic(place, operands, either=False)

    def _logic(self, place: int, operands: list[Expression], *, either: bool) -> Expression:
        return _join(place, [self._condition(operand) for operand in operands], either=either)

    def _not_(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return _negated(place, self._condition(operands[0]))

    # --- comparisons

    def _equal(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        left, right = operands
        for operand in operands:
            if operand.literal and operand.constant is None:
                raise self._error(operand.place, "NULL cannot be compared; write IS NULL or IS NOT NULL")
        if left.literal and right.literal and isinstance(left.constant, bool) and right.accepts is None:
            raise self._error(right.place, "a truth value cannot be compared with this")
        return self._equality(place, left, right)

    def _not_equal(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return _negated(place, self._equal(place, operands, tokens))

    def _equality(self, place: int, left: Expression, right: Expression) -> Expression:
        return _test(_equal_test(left.get, right.get, convert=self._parsed.convert), place)

    def _is_null(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        get = operands[0].get
        return _test(lambda envelope: get(envelope) is None, place)

    def _is_not_null(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return _negated(place, self._is_null(place, operands, tokens))

    def _ordered(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return self._order_test(place, operands[0], operands[1], str(tokens[0]))

    def _order_test(self, place: int, left: Expression, right: Expression, sign: str) -> Expression:
        for operand in (left, right):
            is_number = type(operand.constant) in (int, Long, Big, float)
            if (operand.literal and not is_number) or operand.accepts is not None:
                raise self._error(operand.place, f"only numbers and identifiers can stand beside {sign}")
        return _test(_ordered_test(left.get, right.get, sign, convert=self._parsed.convert), place)

    def _between(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        value, low, high = operands
        above = self._order_test(place, value, low, ">=")
        return _join(place, [above, self._order_test(place, value, high, "<=")], either=False)

    def _not_between(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        value, low, high = operands
        below = self._order_test(place, value, low, "<")
        return _join(place, [below, self._order_test(place, value, high, ">")], either=True)

    # --- strings

    def _like(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        strings = [token for token in tokens if token.type == "STRING"]
        escape = unquote(strings[1]) if len(strings) > 1 else None
        if escape is not None and len(utf16(escape)) != 2:
            raise self._error(self._place(strings[1]), "ESCAPE takes a string of one character")
        try:
            matches = compile_like(unquote(strings[0]), escape)
        except ValueError as error:
            raise self._error(self._place(strings[0]), str(error)) from None
        get = operands[0].get

        def like(envelope: Envelope) -> bool | None:
            value = get(envelope)
            if value is None:
                return None
            return type(value) is str and matches(value)

        return _test(like, place)

    def _not_like(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return _negated(place, self._like(place, operands, tokens))

    def _in_(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        if operands[0].name is None:
            raise self._error(operands[0].place, "only an identifier can stand before IN")
        get = operands[0].get
        members = frozenset(unquote(token) for token in tokens if token.type == "STRING")

        def is_member(envelope: Envelope) -> bool | None:
            value = get(envelope)
            return value in members if type(value) is str else None

        return _test(is_member, place)

    def _not_in(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return _negated(place, self._in_(place, operands, tokens))

    def _xml_query(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        kind = str(tokens[0]).upper()
        raise self._error(place, f"{kind} looks into message bodies, which is not supported; use properties")

    # --- values

    def _arithmetic(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        calculate, convert = _ARITHMETIC[str(tokens[0])], self._parsed.convert
        left, right = operands[0].get, operands[1].get

        def arithmetic(envelope: Envelope) -> Value:
            a = left(envelope)
            if a is None:
                return None
            b = right(envelope)
            if b is None:
                return None
            return calculate(a, b, convert=convert)

        return Expression(arithmetic, place)

    def _plus(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return operands[0]

    def _negate(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        operand = operands[0]
        if operand.literal:
            negated = ordering.negate(operand.constant)
            return Expression(lambda envelope: negated, place, constant=negated)
        get = operand.get
        return Expression(lambda envelope: ordering.negate(get(envelope)), place)

    def _identifier(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return self._named(place, str(tokens[0]))

    def _quoted_identifier(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return self._named(place, tokens[0][1:-1].replace('""', '"'))

    def _named(self, place: int, name: str) -> Expression:
        self.identifiers.add(name)
        get = compile_identifier(name, stored=self._stored)
        return Expression(get, place, name=name)

    def _string(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return _literal(unquote(tokens[0]), place)

    def _floating(self, place: int, operands: list[Expression], tokens: list[Token]) -> Expression:
        return _literal(float(tokens[0]), place)

    def _integer(self, kind: str, place: int, token: Token) -> Expression:
        try:
            number = INTEGERS[kind](token)
        except ValueError:  # Python reads so many digits only
            raise self._error(place, "this number has too many digits") from None
        if kind != "decimal" and number >= 2**63:
            raise self._error(place, "this number does not fit 63 bits")
        return _literal(sized(number), place)

    def _place(self, token: Token) -> int:
        return self._parsed.offset + (token.start_pos or 0)


def operands_of(tree: Tree[Token]) -> list[Tree[Token]]:
    """The operands of a node; those of a chain of one logical operator all together, however long it is."""
    operands = [child for child in tree.children if isinstance(child, Tree)]
    if tree.data not in ("or_", "and_"):
        return operands
    chain = []
    while tree.data == operands[0].data:
        chain.append(operands[1])
        operands = [child for child in operands[0].children if isinstance(child, Tree)]
    return [*operands, *reversed(chain)]


def unquote(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def sized(number: int) -> Value:
    """An int if the low 64 bits fit one (the broker looks at no more), else a long, else a big integer."""
    low = wrap(number, 64)
    if INT_MIN <= low <= INT_MAX:
        return low
    return Long(number) if low == number else Big(number)


def _literal(value: Value, place: int, *, condition: bool = False) -> Expression:
    accepts: Test | None = (lambda envelope: value is True) if condition else None
    return Expression(lambda envelope: value, place, literal=True, constant=value, accepts=accepts)


def _test(test: Test, place: int) -> Expression:
    return Expression(test, place, accepts=test)


def _negated(place: int, operand: Expression) -> Expression:
    test = operand.get

    def negated(envelope: Envelope) -> bool | None:
        value = test(envelope)
        return None if value is None else not value

    return _test(negated, place)


def _join(place: int, operands: list[Expression], *, either: bool) -> Expression:
    tests = tuple(operand.get for operand in operands)
    accepts = tuple(operand.accepts for operand in operands if operand.accepts is not None)
    assert len(tests) == len(accepts)

    def all_of(envelope: Envelope) -> bool | None:
        unknown = False
        for test in tests:
            value = test(envelope)
            if value is False:
                return False
            unknown = unknown or value is None
        return None if unknown else True

    def any_of(envelope: Envelope) -> bool | None:
        unknown = False
        for test in tests:
            value = test(envelope)
            if value is True:
                return True
            unknown = unknown or value is None
        return None if unknown else False

    if either:
        return Expression(any_of, place, accepts=lambda envelope: any(test(envelope) for test in accepts))
    return Expression(all_of, place, accepts=lambda envelope: all(test(envelope) for test in accepts))


def _equal_test(left: Getter, right: Getter, *, convert: bool) -> Test:
    def equal(envelope: Envelope) -> bool | None:
        a, b = left(envelope), right(envelope)
        if a is None:
            # Two unknowns are equal; that makes IS NULL work, and `a = b` of two missing properties.
            return True if b is None else None
        if b is None:
            return False
        if type(a) is type(b):
            return same(a, b)
        return order(a, b, convert=convert) == 0

    return equal


def _ordered_test(left: Getter, right: Getter, sign: str, *, convert: bool) -> Test:
    asks = _ASKS[sign]

    def ordered(envelope: Envelope) -> bool | None:
        a = left(envelope)
        if a is None:
            return None
        require_comparable(a)
        b = right(envelope)
        if b is None:
            return None
        require_comparable(b)
        answer = order(a, b, convert=convert)
        return answer is not None and asks(answer)

    return ordered
