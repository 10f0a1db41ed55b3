"""Wildcards in addresses: which settings' match applies to an address, and how specific it is.

`#` stands for any number of words, `*` for one word (also as part of one), `.` separates words; a broker
may be configured to use other characters.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

WILDCARDS: Final = "wildcard-addresses"
ROUTING: Final = "routing-enabled"
SYNTAX_FIELDS: Final = {
    "delimiter": "delimiter",
    "any-words": "any_words",
    "single-word": "single_word",
    ROUTING: "routes",
}
"""What a configuration calls the fields of a `WildcardSyntax`."""

# What `.` matches in the broker's own patterns: all but line terminators.
_ANYTHING: Final = "[^\\n\\r\\x85\\u2028\\u2029]"


@dataclass(frozen=True, slots=True)
class WildcardSyntax:
    delimiter: str = "."
    any_words: str = "#"
    single_word: str = "*"
    routes: bool = True
    """Whether queues of wildcard addresses get what is sent to addresses that match."""

    def is_wild(self, match: str) -> bool:
        """True when `match` has a wildcard that no backslash precedes."""
        if self.any_words not in match and self.single_word not in match:
            return False
        for index, character in enumerate(match):
            if character in (self.any_words, self.single_word) and (index == 0 or match[index - 1] != "\\"):
                return True
        return False

    def is_valid(self, match: str) -> bool:
        """False when the any-words wildcard is not at the end; no broker starts with such a match."""
        return self.any_words not in match[:-1]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A settings match with wildcards, ready to be tried."""

    match: str
    syntax: WildcardSyntax
    compiled: re.Pattern[str]

    def applies_to(self, address: str) -> bool:
        return self.compiled.fullmatch(address) is not None


def compile_pattern(match: str, syntax: WildcardSyntax) -> Pattern:
    """Prepare a match. `a.#` and `a#` apply to `a` and to everything below it, `#` to everything."""
    if match == syntax.any_words:
        return Pattern(match, syntax, re.compile(f"{_ANYTHING}*"))
    delimiter = re.escape(syntax.delimiter)
    text = match.replace(syntax.delimiter + syntax.any_words, syntax.any_words)
    parts = []
    for character in text:
        if character == syntax.any_words:
            parts.append(f"(?:{delimiter}{_ANYTHING}+)?")
        elif character == syntax.single_word:
            parts.append(f"[^{delimiter}]+")
        else:
            parts.append(re.escape(character))
    return Pattern(match, syntax, re.compile("".join(parts)))


def most_specific_first(patterns: list[Pattern]) -> list[Pattern]:
    """Order patterns as the broker does when it merges their settings: the first one that sets a value wins.

    Without `#` before with it; among those with `#` the longer text first; among those with `*` the one
    whose first differing word is no `*`; then the shorter. What the broker leaves to chance is ordered by
    name.
    """
    return sorted(
        sorted(patterns, key=lambda pattern: pattern.match), key=functools.cmp_to_key(_compare_specificity)
    )


def _compare_specificity(one: Pattern, other: Pattern) -> int:
    syntax = one.syntax
    first, second = one.match, other.match
    any_first, any_second = syntax.any_words in first, syntax.any_words in second
    if any_first or any_second:
        if any_first and any_second:
            return len(second) - len(first)
        return 1 if any_first else -1
    by_word = _compare_words(_words(first, syntax), _words(second, syntax), syntax.single_word)
    return by_word or len(first) - len(second)


def _words(match: str, syntax: WildcardSyntax) -> list[str]:
    """Without empty ones at the end, which the broker does not see."""
    return match.rstrip(syntax.delimiter).split(syntax.delimiter)


def _compare_words(first: list[str], second: list[str], single_word: str) -> int:
    for index, word in enumerate(first):
        if index >= len(second):
            return -1
        if (word == single_word) != (second[index] == single_word):
            return 1 if word == single_word else -1
    return 0


def routes(pattern: str, address: str, syntax: WildcardSyntax) -> bool:
    """True when a message sent to `address` also goes to queues bound to the wildcard address `pattern`.

    Word by word, unlike settings: here `#` may stand anywhere, and `*` only as a whole word.
    """
    if pattern == address or not syntax.is_wild(pattern):
        return pattern == address
    words = address.split(syntax.delimiter)
    # reached[i]: the pattern's words so far can match the first i words.
    reached = [True] + [False] * len(words)
    for word in pattern.split(syntax.delimiter):
        if word == syntax.any_words:
            for index in range(len(words)):
                reached[index + 1] |= reached[index]
            continue
        before, reached = reached, [False] * (len(words) + 1)
        for index, candidate in enumerate(words):
            reached[index + 1] = before[index] and word in (syntax.single_word, candidate)
    return reached[-1]
