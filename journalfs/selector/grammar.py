"""The grammar of selectors and the way from text to a tree.

Facts: the two JavaCC grammars of the broker's selector module (strict and hyphenated) and its parser front,
which takes the prefixes off. They differ in what an identifier is: with `hyphenated_props:` it may contain
hyphens, without it may be quoted ("any.name"). There are no reserved identifiers but the keywords.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from journalfs.errors import SelectorError

SELECTOR_CHARS_MAX = 65_536
"""Far longer than filters are; still parsed in about a second."""

DEPTH_MAX = 200
"""Levels of nesting. Evaluation recurses, and this keeps far below the interpreter's own limit."""

_GRAMMAR = r"""
?start: or_expression

?or_expression: and_expression
    | or_expression _OR and_expression                        -> or_
?and_expression: equality
    | and_expression _AND equality                            -> and_
?equality: comparison
    | equality EQUAL comparison                               -> equal
    | equality NOT_EQUAL comparison                           -> not_equal
    | equality IS _NULL                                       -> is_null
    | equality IS _NOT _NULL                                  -> is_not_null
?comparison: sum
    | comparison (GREATER|GREATER_EQUAL|LESS|LESS_EQUAL) sum  -> ordered
    | comparison LIKE STRING [_ESCAPE STRING]                 -> like
    | comparison _NOT LIKE STRING [_ESCAPE STRING]            -> not_like
    | comparison BETWEEN sum _AND sum                         -> between
    | comparison _NOT BETWEEN sum _AND sum                    -> not_between
    | comparison IN _OPEN STRING (_COMMA STRING)* _CLOSE      -> in_
    | comparison _NOT IN _OPEN STRING (_COMMA STRING)* _CLOSE -> not_in
?sum: product
    | sum (PLUS|MINUS) product                                -> arithmetic
?product: unary
    | product (TIMES|DIVIDE|MODULO) unary                     -> arithmetic
?unary: PLUS unary                                            -> plus
    | MINUS unary                                             -> negate
    | _NOT unary                                              -> not_
    | (XPATH|XQUERY) STRING                                   -> xml_query
    | primary
?primary: STRING                                              -> string
    | FLOAT                                                   -> floating
    | HEX                                                     -> hexadecimal
    | DECIMAL                                                 -> decimal
    | OCTAL                                                   -> octal
    | _TRUE                                                   -> true
    | _FALSE                                                  -> false
    | _NULL                                                   -> null
    | ID                                                      -> identifier
    | QUOTED_ID                                               -> quoted_identifier
    | _OPEN or_expression _CLOSE

%declare _OR _AND _NOT _ESCAPE _TRUE _FALSE _NULL IS LIKE BETWEEN IN XPATH XQUERY

EQUAL: "="
NOT_EQUAL: "<>"
GREATER_EQUAL: ">="
LESS_EQUAL: "<="
GREATER: ">"
LESS: "<"
PLUS: "+"
MINUS: "-"
TIMES: "*"
DIVIDE: "/"
MODULO: "%"
_OPEN: "("
_CLOSE: ")"
_COMMA: ","

STRING: /'(?:''|[^'])*'/
FLOAT.4: /[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
HEX.3: /0[xX][0-9a-fA-F]+/
DECIMAL.3: /[1-9][0-9]*[lL]?/
OCTAL.2: /0[0-7]*/
%IDENTIFIERS%

BLANK.5: /[ \t\n\r\f]+/
LINE_COMMENT.5: /--[^\n\r]*(?:\r\n|\n|\r)/
BLOCK_COMMENT.5: /\/\*[^*]*\*(?:\*|[^*\/][^*]*\*)*\//
%ignore BLANK
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""

_STRICT_IDENTIFIERS = r"""
ID: /[a-zA-Z_$][a-zA-Z0-9_$]*/
QUOTED_ID: /"(?:""|[^"])*"/
"""

_HYPHENATED_IDENTIFIERS = r"""
ID: /[a-zA-Z_$][a-zA-Z0-9_$-]*/
%declare QUOTED_ID
"""

_KEYWORDS = {
    "or": "_OR", "and": "_AND", "not": "_NOT", "escape": "_ESCAPE", "true": "_TRUE", "false": "_FALSE",
    "null": "_NULL", "is": "IS", "like": "LIKE", "between": "BETWEEN", "in": "IN", "xpath": "XPATH",
    "xquery": "XQUERY",
}  # fmt: skip

_VALUE = {
    "STRING", "FLOAT", "HEX", "DECIMAL", "OCTAL", "_TRUE", "_FALSE", "_NULL", "ID", "QUOTED_ID",
    "_OPEN", "PLUS", "MINUS", "_NOT", "XPATH", "XQUERY",
}  # fmt: skip
_OPERATORS = {
    "EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "PLUS", "MINUS", "TIMES",
    "DIVIDE", "MODULO", "IS", "LIKE", "BETWEEN", "IN", "_NOT", "_AND", "_OR",
}  # fmt: skip
_WORDS = {
    "STRING": "a quoted string", "_COMMA": "','", "_OPEN": "'('", "_CLOSE": "')'", "_NULL": "NULL",
    "_NOT": "NOT", "_AND": "AND", "_ESCAPE": "ESCAPE", "$END": "the end",
}  # fmt: skip

_PREFIXES = {
    "convert_string_expressions:": ("convert", True),
    "no_convert_string_expressions:": ("convert", False),
    "hyphenated_props:": ("hyphenated", True),
    "no_hyphenated_props:": ("hyphenated", False),
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A selector's tree, with what its prefixes asked for. Positions in the tree count from `offset`."""

    text: str
    tree: Tree[Token] | Token
    offset: int
    convert: bool


def parse(text: str) -> Parsed:
    """Parse a selector. Raises `SelectorError` with the place of the mistake and what was expected there."""
    if len(text) > SELECTOR_CHARS_MAX:
        shown = f"{text[:40]}..."
        raise SelectorError(shown, SELECTOR_CHARS_MAX, f"longer than {SELECTOR_CHARS_MAX} characters")
    rest, convert, hyphenated = _take_prefixes(text)
    offset = len(text) - len(rest)
    reading = _Reading(text, rest, offset)
    tree = reading.run(_parser(hyphenated))
    return Parsed(text=text, tree=tree, offset=offset, convert=convert)


def _take_prefixes(text: str) -> tuple[str, bool, bool]:
    chosen = {"convert": False, "hyphenated": False}
    rest = text
    while (prefix := next((p for p in _PREFIXES if rest.startswith(p)), None)) is not None:
        name, value = _PREFIXES[prefix]
        chosen[name] = value
        rest = rest[len(prefix) :]
    return rest, chosen["convert"], chosen["hyphenated"]


@cache
def _parser(hyphenated: bool) -> Lark:
    identifiers = _HYPHENATED_IDENTIFIERS if hyphenated else _STRICT_IDENTIFIERS
    return Lark(
        _GRAMMAR.replace("%IDENTIFIERS%", identifiers),
        parser="lalr",
        lexer="basic",
        maybe_placeholders=False,
        propagate_positions=True,
        lexer_callbacks={"ID": _keyword_or_identifier},
    )


def _keyword_or_identifier(token: Token) -> Token:
    keyword = _KEYWORDS.get(token.lower())
    return token if keyword is None else Token.new_borrow_pos(keyword, token.value, token)


@dataclass(slots=True)
class _Reading:
    """One run over one text."""

    text: str
    rest: str
    offset: int

    def run(self, parser: Lark) -> Tree[Token] | Token:
        state = parser.parse_interactive(self.rest)
        tokens: Iterable[Token] = state.lexer_thread.lex(state.parser_state)  # type: ignore[no-untyped-call]
        fed: list[Token] = []
        try:
            for token in tokens:
                state.feed_token(token)
                fed.append(token)
            result: Tree[Token] | Token = state.feed_token(Token("$END", ""))
        except UnexpectedCharacters as error:
            raise self._bad_character(error) from None
        except UnexpectedToken as error:
            raise self._bad_token(error, _acceptable_after(parser, fed)) from None
        return result

    def _bad_character(self, error: UnexpectedCharacters) -> SelectorError:
        place = error.pos_in_stream or 0
        char = self.rest[place]
        if char in "'\"":
            return self._error(place, f"nothing closes this {char}")
        return self._error(place, f"{char!r} means nothing in a selector")

    def _bad_token(self, error: UnexpectedToken, accepts: set[str]) -> SelectorError:
        expected = _in_words(accepts)
        if error.token.type == "$END":
            return self._error(len(self.rest), f"the selector ends where {expected} is expected")
        place = error.token.start_pos or 0
        return self._error(place, f"{str(error.token)!r} stands where {expected} is expected")

    def _error(self, place: int, reason: str) -> SelectorError:
        return SelectorError(self.text, self.offset + place, reason)


def _acceptable_after(parser: Lark, fed: list[Token]) -> set[str]:
    """What could have come after these tokens; a state that has met a wrong one no longer knows it all."""
    state = parser.parse_interactive("")
    for token in fed:
        state.feed_token(token)
    names: set[str] = state.accepts()  # type: ignore[no-untyped-call]
    return names


def _in_words(expected: set[str]) -> str:
    """What may stand at a place, in a user's words and not token by token."""
    words = []
    if _VALUE.issubset(expected | {"QUOTED_ID"}):
        words.append("a value or '('")
        expected = expected - _VALUE
    if _OPERATORS.issubset(expected):
        words.append("an operator")
        expected = expected - _OPERATORS
    words += sorted(_WORDS.get(name, name.lstrip("_")) for name in expected)
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
