"""A selector as steps over registers, for whoever judges many messages at once.

What the functions of `compiler` do for one envelope, written down: the same order of evaluation, the same
jumps past what does not count any more. What no step stands for is left to those functions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lark import Token, Tree

from journalfs.selector.compiler import INTEGERS, TRUTHS, operands_of, sized, unquote
from journalfs.selector.grammar import Parsed
from journalfs.selector.identifiers import NATIVE_ID, broker_name, is_plain_property, names_amqp_field
from journalfs.selector.like import ANY, ONE, split_pattern
from journalfs.selector.ordering import negate
from journalfs.selector.values import Big, Value
from journalfs.steps import NOTHING, Name, Program, Register, Step

NAMES_MAX: Final = 256

TRUE, FALSE, UNKNOWN = 1, 2, 4
"""Outcomes after which a step jumps; they are added up."""

_OF_HEADERS: Final = {
    "AMQPriority": "PRIORITY", "AMQTimestamp": "TIMESTAMP", "AMQExpiration": "EXPIRATION",
    "AMQDurable": "DURABLE", "AMQAddress": "ADDRESS", "AMQGroupID": "GROUP", "AMQUserID": "USER_ID",
}  # fmt: skip
_ORDERS: Final = {"<": "LESS", "<=": "LESS_EQUAL", ">": "GREATER", ">=": "GREATER_EQUAL"}
_CALCULATIONS: Final = {"+": "ADD", "-": "SUBTRACT", "*": "MULTIPLY", "/": "DIVIDE", "%": "REMAINDER"}
_NEGATED: Final = {"not_equal": "equal", "is_not_null": "is_null", "not_like": "like", "not_in": "in_"}
_NEGATIONS: Final = {"not_", "not_between", *_NEGATED}
_PLAIN: Final = {"identifier", "quoted_identifier", "string", "floating", *INTEGERS, *TRUTHS}
"""What takes no step."""


class NoStepsError(Exception):
    """Something in a selector has no steps. Never leaves this package."""


def assemble(parsed: Parsed, *, stored: bool) -> Program | None:
    """The steps of a selector that `compiler` takes; None where only its functions can judge."""
    if parsed.convert:
        return None
    assembler = _Assembler(stored)
    try:
        assembler.test(parsed.tree, 0, only_true=True)
    except NoStepsError:
        return None
    return assembler.program


class _Assembler:
    """What goes to temporary n may use those above n."""

    def __init__(self, stored: bool) -> None:
        self._stored = stored
        self._landing = 0
        """The last step that another one jumps to."""
        self.program = Program()

    def _emit(self, code: str, target: int, a: Register, b: Register = NOTHING, **more: int) -> None:
        self.program.temporaries = max(self.program.temporaries, target + 1)
        self.program.steps.append(Step(code, ("temporary", target), a, b, **more))

    # --- conditions: what is true, false or unknown goes to a temporary

    def test(self, tree: Tree[Token] | Token, target: int, *, only_true: bool) -> None:
        """`only_true`: it counts only whether the outcome is TRUE, which ends AND at what is unknown."""
        assert isinstance(tree, Tree)
        while tree.data == "plus":
            tree = operands_of(tree)[0]
        if tree.data in _NEGATIONS:
            self._negated(tree, target)
        elif tree.data in ("or_", "and_"):
            self._joined(operands_of(tree), target, either=tree.data == "or_", only_true=only_true)
        elif tree.data == "between":
            self._between(tree, target, ">=", "<=", only_true=only_true)
        elif tree.data in ("identifier", "quoted_identifier"):
            self._emit("TRUTH", target, self.value(tree, target))
        else:
            self._value_to(tree, target)

    def _negated(self, tree: Tree[Token], target: int) -> None:
        if tree.data == "not_between":
            self._between(tree, target, "<", ">", only_true=False)
            return
        if tree.data == "not_":
            self.test(operands_of(tree)[0], target, only_true=False)
        else:
            self._value_to(Tree(_NEGATED[tree.data], tree.children, tree.meta), target)
        self._emit("NOT", target, ("temporary", target))

    def _joined(self, operands: list[Tree[Token]], target: int, *, either: bool, only_true: bool) -> None:
        jumps = []
        for place, operand in enumerate(operands):
            last = place == len(operands) - 1
            if only_true or place == 0:
                self.test(operand, target, only_true=only_true)
            else:
                self.test(operand, target + 1, only_true=False)
                self._join(target, target + 1, either=either)
            if not last:
                jumps.append(self._last_step(target))
        ends = TRUE if either else FALSE | UNKNOWN if only_true else FALSE
        self._jump_to_end(jumps, ends)

    def _join(self, target: int, other: int, *, either: bool) -> None:
        self._emit("OR" if either else "AND", target, ("temporary", target), ("temporary", other))

    def _last_step(self, target: int) -> int:
        """The step that was emitted last; one that jumps already is followed by one that may."""
        steps = self.program.steps
        if steps[-1].jump or self._landing == len(steps):
            self._emit("MOVE", target, ("temporary", target))
        return len(steps) - 1

    def _jump_to_end(self, places: list[int], outcomes: int) -> None:
        steps = self.program.steps
        for place in places:
            steps[place] = replace(steps[place], jump=outcomes, to=len(steps))
            self._landing = len(steps)

    def _between(self, tree: Tree[Token], target: int, first: str, second: str, *, only_true: bool) -> None:
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

    def _binary(self, code: str, left: Tree[Token], right: Tree[Token], target: int) -> None:
        """The right side is not looked at where the left one is unknown, except for equality."""
        first = self.value(left, target)
        jumps = []
        if code != "EQUAL" and right.data not in _PLAIN:
            self._emit("MOVE", target, first)
            jumps = [self._last_step(target)]
            first = "temporary", target
        second = self.value(right, target + 1 if first == ("temporary", target) else target)
        self._emit(code, target, first, second)
        self._jump_to_end(jumps, UNKNOWN)

    def value(self, tree: Tree[Token], target: int) -> Register:
        """The register that holds it: a name's, a constant's, or the temporary that it was put into."""
        if tree.data in ("identifier", "quoted_identifier"):
            return self._name(str(tree.children[0]), quoted=tree.data == "quoted_identifier")
        if tree.data == "plus":
            return self.value(operands_of(tree)[0], target)
        known, constant = self._literal(tree)
        if known:
            return self._constant(constant)
        if tree.data in ("or_", "and_", "between") or tree.data in _NEGATIONS:
            self.test(tree, target, only_true=False)
        else:
            self._value_to(tree, target)
        return "temporary", target

    def _value_to(self, tree: Tree[Token], target: int) -> None:
        operands = operands_of(tree)
        tokens = [child for child in tree.children if isinstance(child, Token)]
        match tree.data:
            case "equal":
                self._binary("EQUAL", operands[0], operands[1], target)
            case "ordered":
                self._binary(_ORDERS[tokens[0]], operands[0], operands[1], target)
            case "arithmetic":
                self._binary(_CALCULATIONS[tokens[0]], operands[0], operands[1], target)
            case "is_null":
                self._emit("IS_NULL", target, self.value(operands[0], target))
            case "negate":
                self._emit("NEGATE", target, self.value(operands[0], target))
            case "like":
                self._like(self.value(operands[0], target), tokens, target)
            case "in_":
                self._in(self.value(operands[0], target), tokens, target)
            case _:
                self._emit("MOVE", target, self.value(tree, target))

    def _like(self, value: Register, tokens: list[Token], target: int) -> None:
        strings = [unquote(token) for token in tokens if token.type == "STRING"]
        parts = split_pattern(strings[0], strings[1] if len(strings) > 1 else None)
        first, characters = len(self.program.characters), self.program.characters
        for part in parts:
            characters += [-1] if part is ONE else [-2] if part is ANY else map(ord, _whole(str(part)))
        self._emit("LIKE", target, value, first=first, count=len(characters) - first)

    def _in(self, value: Register, tokens: list[Token], target: int) -> None:
        members = sorted({_whole(unquote(token)) for token in tokens if token.type == "STRING"})
        first = len(self.program.constants)
        self.program.constants += members
        self._emit("IN", target, value, first=first, count=len(members))

    def _literal(self, tree: Tree[Token]) -> tuple[bool, Value]:
        """Whether it is the same for every message, and what it is."""
        if tree.data == "string":
            return True, _whole(unquote(_token(tree)))
        if tree.data == "floating":
            return True, float(_token(tree))
        if tree.data in INTEGERS:
            return True, sized(INTEGERS[tree.data](_token(tree)))
        if tree.data in TRUTHS:
            return True, TRUTHS[tree.data]
        if tree.data == "negate":
            known, constant = self._literal(operands_of(tree)[0])
            if known and operands_of(tree)[0].data != "negate":
                return True, negate(constant)
        return False, None

    def _constant(self, constant: Value) -> Register:
        if type(constant) is Big:
            raise NoStepsError
        self.program.constants.append(constant)
        return "constant", len(self.program.constants) - 1

    def _name(self, text: str, *, quoted: bool) -> Register:
        if quoted:
            text = text[1:-1].replace('""', '"')
        name = Name(broker_name(text, stored=self._stored), self._kind(text))
        names = self.program.names
        if name not in names:
            if len(names) >= NAMES_MAX - 1:
                raise NoStepsError
            names.append(name)
            if name.kind == "USER_ID":
                names.append(
                    Name(NATIVE_ID, "PROPERTY")
                )  # which comes next where a message has no such header
            _whole(name.text)
        return "name", names.index(name)

    def _kind(self, text: str) -> str:
        if text == "JMSDeliveryMode" and not self._stored:
            return "MODE"
        name = broker_name(text, stored=self._stored)
        if name in _OF_HEADERS:
            return _OF_HEADERS[name]
        if is_plain_property(text, stored=self._stored):
            return "PROPERTY"
        if names_amqp_field(name):
            return "AMQP_FIELD"
        raise NoStepsError


def _token(tree: Tree[Token]) -> Token:
    token = tree.children[0]
    assert isinstance(token, Token)
    return token


def _whole(text: str) -> str:
    """Text of whole characters: lone surrogates have no steps."""
    if any("\ud800" <= char <= "\udfff" for char in text) and not text.isascii():
        raise NoStepsError
    return text
