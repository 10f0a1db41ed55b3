"""Which match applies to an address, and which of several is the more specific."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.config.wildcards import WildcardSyntax, compile_pattern, most_specific_first, routes

PLAIN = WildcardSyntax()
SLASHES = WildcardSyntax(delimiter="/", any_words=">", single_word="+")


@pytest.mark.parametrize(
    ("match", "applies", "does_not"),
    [
        ("#", ["a", "a.b", "", "a b"], ["a\nb"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["ab", "b.a", "a.", ""]),
        ("a#", ["a", "a.b"], ["ab"]),
        ("a.*", ["a.b", "a.bc"], ["a", "a.b.c", "a."]),
        ("a.*.c", ["a.b.c"], ["a.c", "a.b.b.c"]),
        ("*.b.#", ["a.b", "a.b.c"], ["b", "a.c"]),
        ("ab*", ["abc"], ["ab", "ab.c"]),
        ("*", ["a"], ["a.b", ""]),
        ("a+b.#", ["a+b", "a+b.c"], ["aab"]),
        ("$sys.*", ["$sys.mqtt"], ["$sys"]),
    ],
)
def test_pattern(match: str, applies: list[str], does_not: list[str]) -> None:
    pattern = compile_pattern(match, PLAIN)
    assert [address for address in applies if not pattern.applies_to(address)] == []
    assert [address for address in does_not if pattern.applies_to(address)] == []


def test_other_characters() -> None:
    assert compile_pattern("a/>", SLASHES).applies_to("a/b/c")
    assert compile_pattern("a/+", SLASHES).applies_to("a/b.c")
    assert not compile_pattern("a/+", SLASHES).applies_to("a/b/c")
    assert compile_pattern("a.#", SLASHES).applies_to("a.#")
    assert SLASHES.is_wild("a/>")
    assert not SLASHES.is_wild("a.#")


def test_what_is_wild_and_what_is_valid() -> None:
    assert PLAIN.is_wild("#")
    assert not PLAIN.is_wild("a.b")
    assert not PLAIN.is_wild("a\\*b")
    assert PLAIN.is_valid("a.#")
    assert not PLAIN.is_valid("#.a")


SPECIFICITY = ["a.b.*", "a.*.c", "a.*.*", "*.b.c", "*.b.longer", "a.b.c.#", "a.b.#", "a.#", "#"]
"""Most specific first."""


def test_specificity() -> None:
    for shuffled in itertools.islice(itertools.permutations(SPECIFICITY), 0, 362_880, 7919):
        patterns = [compile_pattern(match, PLAIN) for match in shuffled]
        assert [pattern.match for pattern in most_specific_first(patterns)] == SPECIFICITY


def test_word_without_wildcard_counts_from_the_left() -> None:
    order = most_specific_first([compile_pattern(match, PLAIN) for match in ("*.b", "a.*")])
    assert [pattern.match for pattern in order] == ["a.*", "*.b"]


@pytest.mark.parametrize(
    ("pattern", "address", "expected"),
    [
        ("sensors.#", "sensors.room1.temp", True),
        ("sensors.#", "sensors", True),
        ("sensors.*", "sensors.room1.temp", False),
        ("#.temp", "sensors.room1.temp", True),
        ("a.#.c", "a.c", True),
        ("a.#.c", "a.b.b.c", True),
        ("a.#.c", "a.b.b", False),
        ("*.b", "a.b", True),
        ("a*", "ab", False),
        ("orders", "orders", True),
        ("orders", "orders.eu", False),
    ],
)
def test_routing(pattern: str, address: str, expected: bool) -> None:
    assert routes(pattern, address, PLAIN) == expected


WORDS = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=6).map(".".join)
ADDRESS = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=6).map(".".join)


def matches_slowly(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(matches_slowly(pattern[1:], words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and matches_slowly(pattern[1:], words[1:])


@given(WORDS, ADDRESS)
def test_routing_is_what_the_wildcards_say(pattern: str, address: str) -> None:
    assert routes(pattern, address, PLAIN) == matches_slowly(pattern.split("."), address.split("."))


@given(WORDS.filter(PLAIN.is_valid), ADDRESS)
def test_settings_and_routing_agree_where_both_are_defined(pattern: str, address: str) -> None:
    assert compile_pattern(pattern, PLAIN).applies_to(address) == routes(pattern, address, PLAIN)
