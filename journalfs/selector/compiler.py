"""From a selector's tree to steps over registers, and what the steps say of one envelope.

Whoever judges many messages has the core take the steps, straight from their records. What the core does not
know (`program` is None then, or it cannot tell of one message) is decided here. Conditions are true, false or
unknown (None), as in the broker. What only counts if it is true, as the whole selector, ends AND at an
unknown; below NOT and in comparisons it does not. The two differ when a later operand would fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from lark import Token, Tree

from journalfs.errors import SelectorError
from journalfs.selector import ordering
from journalfs.selector.grammar import DEPTH_MAX, Parsed
from journalfs.selector.identifiers import (
    NATIVE_ID,
    Envelope,
    Getter,
    broker_name,
    compile_identifier,
    is_plain_property,
    names_amqp_field,
)
from journalfs.selector.like import ANY, ONE, compile_like, split_pattern
from journalfs.selector.ordering import negate, order, require_comparable, same
from journalfs.selector.values import INT_MAX, INT_MIN, Big, Long, Value, utf16, wrap
from journalfs.steps import NOTHING, Name, Program, Register, Step

Node: TypeAlias = Tree[Token]

NAMES_MAX: Final = 256
"""Of those that the core takes."""

TRUE, FALSE, UNKNOWN = 1, 2, 4
"""Outcomes after which a step jumps; they are added up."""

_INTEGERS: Final[Mapping[str, Callable[[str], int]]] = {
    "decimal": lambda digits: int(digits.rstrip("lL")),
    "hexadecimal": lambda digits: int(digits, 16),
    "octal": lambda digits: int(digits, 8),
}
"""Forms of integer literals, by their name in the grammar."""
_TRUTHS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None}
_OF_HEADERS: Final = {
    "AMQPriority": "PRIORITY", "AMQTimestamp": "TIMESTAMP", "AMQExpiration": "EXPIRATION",
    "AMQDurable": "DURABLE", "AMQAddress": "ADDRESS", "AMQGroupID": "GROUP", "AMQUserID": "USER_ID",
}  # fmt: skip
_ORDERS: Final = {"<": "LESS", "<=": "LESS_EQUAL", ">": "GREATER", ">=": "GREATER_EQUAL"}
_CALCULATIONS: Final = {"+": "ADD", "-": "SUBTRACT", "*": "MULTIPLY", "/": "DIVIDE", "%": "REMAINDER"}
_NEGATED: Final = {"not_equal": "equal", "is_not_null": "is_null", "not_like": "like", "not_in": "in_"}
_NEGATIONS: Final = {"not_", "not_between", *_NEGATED}
_NAMES: Final = {"identifier", "quoted_identifier"}
_LITERALS: Final = {"string", "floating", *_INTEGERS, *_TRUTHS}
_PLAIN: Final = {*_NAMES, *_LITERALS}
"""What takes no step."""
_VALUES: Final = {*_NAMES, "string", "floating", *_INTEGERS, "arithmetic", "negate"}
"""What is no condition by itself."""


class Compiler:
    """Compiles one selector. What goes to temporary n may use those above n. Raises `SelectorError`."""

    def __init__(self, parsed: Parsed, *, stored: bool, only_true: bool = True) -> None:
        self._parsed = parsed
        self._stored = stored
        self._steps = Program()
        self._in_core = not parsed.convert
        self._landing = 0
        """The last step that another one jumps to."""
        self._getters: list[Getter] = []
        """Of the program's names."""
        self._matches: dict[int, Callable[[str], bool]] = {}
        """Of LIKE and IN, by `first`."""
        self.identifiers: set[str] = set()
        """Those it met, as they are written."""
        self.compared_names: list[tuple[str, str]] = []
        """Pairs of names that it compares with each other."""
        tree = parsed.tree
        assert isinstance(tree, Tree)
        self._check(tree, 0)
        self._require_condition(tree)
        self._test(tree, 0, only_true=only_true)

    @property
    def program(self) -> Program | None:
        """What the core takes; None where it does not know how to judge."""
        return self._steps if self._in_core else None

    # --- what the broker refuses

    def _error(self, place: Node | Token, reason: str) -> SelectorError:
        start = place.meta.start_pos if isinstance(place, Tree) else place.start_pos or 0
        return SelectorError(self._parsed.text, self._parsed.offset + start, reason)

    def _check(self, tree: Node, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise self._error(tree, f"nested more than {DEPTH_MAX} deep")
        operands, tokens = operands_of(tree), _tokens(tree)
        for operand in operands:
            self._check(operand, depth + 1)
        match str(tree.data):
            case "or_" | "and_" | "not_":
                for operand in operands:
                    self._require_condition(operand)
            case "equal" | "not_equal":
                self._check_equality(*map(_bare, operands))
                self._note_names(*map(_bare, operands))
            case "ordered":
                self._note_names(*map(_bare, operands))
                self._check_order(operands, str(tokens[0]))
            case "between" | "not_between" as which:
                self._check_order(operands[:2], ">=" if which == "between" else "<")
                self._check_order([operands[0], operands[2]], "<=" if which == "between" else ">")
            case "like" | "not_like":
                self._check_pattern(tokens)
            case "in_" | "not_in" if _bare(operands[0]).data not in _NAMES:
                raise self._error(_bare(operands[0]), "only an identifier can stand before IN")
            case "xml_query":
                reason = "looks into message bodies, which is not supported; use properties"
                raise self._error(tree, f"{str(tokens[0]).upper()} {reason}")
            case "identifier" | "quoted_identifier":
                self.identifiers.add(_name_in(tree))
            case kind if kind in _INTEGERS:
                self._check_integer(tree, kind)

    def _require_condition(self, tree: Node) -> None:
        """An identifier stands for its being TRUE."""
        tree = _bare(tree)
        if tree.data in _VALUES - _NAMES:
            raise self._error(tree, "this is a value where a condition is needed")

    def _check_equality(self, left: Node, right: Node) -> None:
        for operand in (left, right):
            if operand.data == "null":
                raise self._error(operand, "NULL cannot be compared; write IS NULL or IS NOT NULL")
        if left.data in _TRUTHS and right.data in _LITERALS - _TRUTHS.keys():
            raise self._error(right, "a truth value cannot be compared with this")

    def _note_names(self, left: Node, right: Node) -> None:
        if left.data in _NAMES and right.data in _NAMES:
            self.compared_names.append((_name_in(left), _name_in(right)))

    def _check_order(self, operands: list[Node], sign: str) -> None:
        for operand in map(_bare, operands):
            if operand.data == "string" or operand.data not in _VALUES:
                raise self._error(operand, f"only numbers and identifiers can stand beside {sign}")

    def _check_pattern(self, tokens: list[Token]) -> None:
        strings = [token for token in tokens if token.type == "STRING"]
        if len(strings) > 1 and len(utf16(_unquote(strings[1]))) != 2:
            raise self._error(strings[1], "ESCAPE takes a string of one character")
        try:
            compile_like(*_pattern(tokens))
        except ValueError as error:
            raise self._error(strings[0], str(error)) from None

    def _check_integer(self, tree: Node, kind: str) -> None:
        try:
            number = _INTEGERS[kind](_tokens(tree)[0])
        except ValueError:  # Python reads so many digits only
            raise self._error(tree, "this number has too many digits") from None
        if kind != "decimal" and number >= 2**63:
            raise self._error(tree, "this number does not fit 63 bits")

    # --- conditions: what is true, false or unknown goes to a temporary

    def _emit(self, code: str, target: int, a: Register, b: Register = NOTHING, **more: int) -> None:
        self._steps.temporaries = max(self._steps.temporaries, target + 1)
        self._steps.steps.append(Step(code, ("temporary", target), a, b, **more))

    def _test(self, tree: Node, target: int, *, only_true: bool) -> None:
        """`only_true`: it counts only whether the outcome is TRUE, which ends AND at what is unknown."""
        tree = _bare(tree)
        if tree.data in _NEGATIONS:
            self._negated(tree, target)
        elif tree.data in ("or_", "and_"):
            self._joined(operands_of(tree), target, either=tree.data == "or_", only_true=only_true)
        elif tree.data == "between":
            self._between(tree, target, ">=", "<=", only_true=only_true)
        elif tree.data in _NAMES:
            self._emit("TRUTH", target, self._value(tree, target))
        else:
            self._value_to(tree, target)

    def _negated(self, tree: Node, target: int) -> None:
        if tree.data == "not_between":
            self._between(tree, target, "<", ">", only_true=False)
            return
        if tree.data == "not_":
            self._test(operands_of(tree)[0], target, only_true=False)
        else:
            self._value_to(Tree(_NEGATED[tree.data], tree.children, tree.meta), target)
        self._emit("NOT", target, ("temporary", target))

    def _joined(self, operands: list[Node], target: int, *, either: bool, only_true: bool) -> None:
        jumps = []
        for place, operand in enumerate(operands):
            last = place == len(operands) - 1
            if only_true or place == 0:
                self._test(operand, target, only_true=only_true)
            else:
                self._test(operand, target + 1, only_true=False)
                self._join(target, target + 1, either=either)
            if not last:
                jumps.append(self._last_step(target))
        ends = TRUE if either else FALSE | UNKNOWN if only_true else FALSE
        self._jump_to_end(jumps, ends)

    def _join(self, target: int, other: int, *, either: bool) -> None:
        self._emit("OR" if either else "AND", target, ("temporary", target), ("temporary", other))

    def _last_step(self, target: int) -> int:
        """The step that was emitted last; one that jumps already is followed by one that may."""
        steps = self._steps.steps
        if steps[-1].jump or self._landing == len(steps):
            self._emit("MOVE", target, ("temporary", target))
        return len(steps) - 1

    def _jump_to_end(self, places: list[int], outcomes: int) -> None:
        steps = self._steps.steps
        for place in places:
            steps[place] = replace(steps[place], jump=outcomes, to=len(steps))
            self._landing = len(steps)

    def _between(self, tree: Node, target: int, first: str, second: str, *, only_true: bool) -> None:
        value, low, high = operands_of(tree)
        either = tree.data == "not_between"
        place = target if only_true else target + 1
        self._binary(_ORDERS[first], value, low, target)
        jumps = [self._last_step(target)]
        self._binary(_ORDERS[second], value, high, place)
        if not only_true:
            self._join(target, place, either=either)
        ends = TRUE if either else FALSE | UNKNOWN if only_true else FALSE
        self._jump_to_end(jumps, ends)

    # --- values: in a register

    def _binary(self, code: str, left: Node, right: Node, target: int) -> None:
        """The right side is not looked at where the left one is unknown, except for equality."""
        first = self._value(left, target)
        jumps = []
        if code != "EQUAL" and right.data not in _PLAIN:
            self._emit("MOVE", target, first)
            jumps = [self._last_step(target)]
            first = "temporary", target
        second = self._value(right, target + 1 if first == ("temporary", target) else target)
        self._emit(code, target, first, second)
        self._jump_to_end(jumps, UNKNOWN)

    def _value(self, tree: Node, target: int) -> Register:
        """The register that holds it: a name's, a constant's, or the temporary that it was put into."""
        tree = _bare(tree)
        if tree.data in _NAMES:
            return self._name(_name_in(tree))
        known, constant = self._literal(tree)
        if known:
            return self._constant(constant)
        if tree.data in ("or_", "and_", "between") or tree.data in _NEGATIONS:
            self._test(tree, target, only_true=False)
        else:
            self._value_to(tree, target)
        return "temporary", target

    def _value_to(self, tree: Node, target: int) -> None:
        operands, tokens = operands_of(tree), _tokens(tree)
        match tree.data:
            case "equal":
                self._binary("EQUAL", operands[0], operands[1], target)
            case "ordered":
                self._binary(_ORDERS[tokens[0]], operands[0], operands[1], target)
            case "arithmetic":
                self._binary(_CALCULATIONS[tokens[0]], operands[0], operands[1], target)
            case "is_null":
                self._emit("IS_NULL", target, self._value(operands[0], target))
            case "negate":
                self._emit("NEGATE", target, self._value(operands[0], target))
            case "like":
                self._like(self._value(operands[0], target), tokens, target)
            case "in_":
                self._in(self._value(operands[0], target), tokens, target)
            case _:
                self._emit("MOVE", target, self._value(tree, target))

    def _like(self, value: Register, tokens: list[Token], target: int) -> None:
        first, characters = len(self._steps.characters), self._steps.characters
        self._matches[len(self._steps.steps)] = compile_like(*_pattern(tokens))
        for part in split_pattern(*_pattern(tokens)):
            text = "" if part is ONE or part is ANY else self._whole(str(part))
            characters += [-1] if part is ONE else [-2] if part is ANY else map(ord, text)
        self._emit("LIKE", target, value, first=first, count=len(characters) - first)

    def _in(self, value: Register, tokens: list[Token], target: int) -> None:
        members = {self._whole(_unquote(token)) for token in tokens if token.type == "STRING"}
        self._matches[len(self._steps.steps)] = members.__contains__
        first = len(self._steps.constants)
        self._steps.constants += sorted(members)
        self._emit("IN", target, value, first=first, count=len(members))

    def _literal(self, tree: Node) -> tuple[bool, Value]:
        """Whether it is the same for every message, and what it is."""
        if tree.data == "string":
            return True, self._whole(_unquote(_tokens(tree)[0]))
        if tree.data == "floating":
            return True, float(_tokens(tree)[0])
        if tree.data in _INTEGERS:
            return True, _sized(_INTEGERS[tree.data](_tokens(tree)[0]))
        if tree.data in _TRUTHS:
            return True, _TRUTHS[tree.data]
        if tree.data == "negate":
            known, constant = self._literal(_bare(operands_of(tree)[0]))
            if known and _bare(operands_of(tree)[0]).data != "negate":
                return True, negate(constant)
        return False, None

    def _constant(self, constant: Value) -> Register:
        self._in_core &= type(constant) is not Big
        self._steps.constants.append(constant)
        return "constant", len(self._steps.constants) - 1

    def _name(self, text: str) -> Register:
        name = Name(broker_name(text, stored=self._stored), self._kind(text))
        names = self._steps.names
        if name not in names:
            self._in_core &= len(names) < NAMES_MAX - 1
            get = compile_identifier(text, stored=self._stored)
            names.append(name)
            self._getters.append(get)
            if name.kind == "USER_ID":  # which comes next where a message has no such header
                names.append(Name(NATIVE_ID, "PROPERTY"))
                self._getters.append(get)
            self._whole(name.text)
        return "name", names.index(name)

    def _kind(self, text: str) -> str:
        if text == "JMSDeliveryMode" and not self._stored:
            return "MODE"
        name = broker_name(text, stored=self._stored)
        if name in _OF_HEADERS:
            return _OF_HEADERS[name]
        if is_plain_property(text, stored=self._stored):
            return "PROPERTY"
        self._in_core &= names_amqp_field(name)
        return "AMQP_FIELD"

    def _whole(self, text: str) -> str:
        """The core takes text of whole characters, without lone surrogates."""
        self._in_core &= text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
        return text

    # --- judging

    def judge(self, envelope: Envelope) -> Value:
        """True, False or unknown (None). Raises `EvaluationFailed` where the broker throws."""
        temporaries: list[Value] = [None] * self._steps.temporaries
        constants, getters, convert = self._steps.constants, self._getters, self._parsed.convert

        def read(register: Register) -> Value:
            kind, at = register
            if kind == "name":
                return getters[at](envelope)
            return temporaries[at] if kind == "temporary" else constants[at]  # type: ignore[return-value]

        steps, place = self._steps.steps, 0
        while place < len(steps):
            step = steps[place]
            a = read(step.a)
            if step.code in _OF_ONE:
                outcome = _OF_ONE[step.code](a)
            elif place in self._matches:
                outcome = self._matches[place](a) if type(a) is str else _OF_OTHERS[step.code](a)
            elif a is None and step.code not in _OF_UNKNOWN:
                outcome = None
            else:
                outcome = _OF_TWO[step.code](a, read(step.b), convert)
            temporaries[step.target[1]] = outcome
            said = TRUE if outcome is True else UNKNOWN if outcome is None else FALSE
            place = step.to if step.jump & said else place + 1
        return temporaries[0]


def _equal(a: Value, b: Value, convert: bool) -> bool | None:
    if a is None:
        # Two unknowns are equal; that makes IS NULL work, and `a = b` of two missing properties.
        return True if b is None else None
    if b is None:
        return False
    return same(a, b) if type(a) is type(b) else order(a, b, convert=convert) == 0


def _ordered(asks: Callable[[int], bool]) -> Callable[[Value, Value, bool], Value]:
    def ordered(a: Value, b: Value, convert: bool) -> bool | None:
        require_comparable(a)
        if b is None:
            return None
        require_comparable(b)
        answer = order(a, b, convert=convert)
        return answer is not None and asks(answer)

    return ordered


def _calculated(calculate: Callable[..., Value]) -> Callable[[Value, Value, bool], Value]:
    return lambda a, b, convert: None if b is None else calculate(a, b, convert=convert)


def _joined(a: Value, b: Value, *, ends: bool) -> Value:
    return ends if ends in (a, b) else None if None in (a, b) else not ends


_OF_ONE: Final[Mapping[str, Callable[[Value], Value]]] = {
    "MOVE": lambda a: a, "IS_NULL": lambda a: a is None, "NEGATE": negate,
    "TRUTH": lambda a: None if a is None else a is True, "NOT": lambda a: None if a is None else not a,
}  # fmt: skip
_OF_OTHERS: Final[Mapping[str, Callable[[Value], Value]]] = {
    "LIKE": lambda a: None if a is None else False, "IN": lambda a: None,
}  # fmt: skip
"""What comes of values that are no text."""
_OF_UNKNOWN: Final = {"EQUAL", "AND", "OR"}
"""Where the left side is unknown, these look at the right one."""
_OF_TWO: Final[Mapping[str, Callable[[Value, Value, bool], Value]]] = {
    "EQUAL": _equal,
    "AND": lambda a, b, _: _joined(a, b, ends=False), "OR": lambda a, b, _: _joined(a, b, ends=True),
    "LESS": _ordered(lambda answer: answer < 0), "LESS_EQUAL": _ordered(lambda answer: answer <= 0),
    "GREATER": _ordered(lambda answer: answer > 0), "GREATER_EQUAL": _ordered(lambda answer: answer >= 0),
    "ADD": _calculated(ordering.add), "SUBTRACT": _calculated(ordering.subtract),
    "MULTIPLY": _calculated(ordering.multiply), "DIVIDE": _calculated(ordering.divide),
    "REMAINDER": _calculated(ordering.remainder),
}  # fmt: skip


def operands_of(tree: Node) -> list[Node]:
    """The operands of a node; those of a chain of one logical operator all together, however long it is."""
    operands = [child for child in tree.children if isinstance(child, Tree)]
    if tree.data not in ("or_", "and_"):
        return operands
    chain = []
    while tree.data == operands[0].data:
        chain.append(operands[1])
        operands = [child for child in operands[0].children if isinstance(child, Tree)]
    return [*operands, *reversed(chain)]


def _tokens(tree: Node) -> list[Token]:
    return [child for child in tree.children if isinstance(child, Token)]


def _bare(tree: Node) -> Node:
    """Without a sign that means nothing."""
    while tree.data == "plus":
        tree = operands_of(tree)[0]
    return tree


def _name_in(tree: Node) -> str:
    text = str(_tokens(tree)[0])
    return text[1:-1].replace('""', '"') if tree.data == "quoted_identifier" else text


def _unquote(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _pattern(tokens: list[Token]) -> tuple[str, str | None]:
    """What follows LIKE, and ESCAPE."""
    strings = [_unquote(token) for token in tokens if token.type == "STRING"]
    return strings[0], strings[1] if len(strings) > 1 else None


def _sized(number: int) -> Value:
    """An int if the low 64 bits fit one (the broker looks at no more), else a long, else a big integer."""
    low = wrap(number, 64)
    if INT_MIN <= low <= INT_MAX:
        return low
    return Long(number) if low == number else Big(number)
