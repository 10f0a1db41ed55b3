"""File names: every name has one, no two share one, and it leads back."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from journalfs.errors import NameRefused
from journalfs_mount.names import grammar

# Text with lone surrogates: queue names come from UTF-16 that nobody checked.
ANY_NAME = st.text(st.characters(exclude_categories=()), max_size=120)
AWKWARD_NAME = st.text(st.sampled_from("._%/~=:aF0\0\n\x7f\x9b é名🜁\ud800\udfff"), max_size=300)
NAME = ANY_NAME | AWKWARD_NAME | st.builds(lambda a, b: a + b, AWKWARD_NAME, ANY_NAME)


@given(NAME)
@example("~0123456789abcdef")
@example("a~0123456789abcdef")
@example("a%7E0123456789abcdef")
@example("n" * 255)
@example("n" * 256)
@example("%" * 255)
@example("🜁" * 90)
def test_name_leads_back(name: str) -> None:
    encoded = grammar.encode_name(name)
    assert grammar.NameTable([name]).decode(encoded) == name
    if not grammar.is_short_form(encoded):
        assert grammar.decode_name(encoded) == name


@given(NAME)
@example("." * 300)
@example("/" * 100)
@example("a" + "é" * 200)
@example("aa" + "%" * 200)
def test_file_name_is_legal_everywhere(name: str) -> None:
    encoded = grammar.encode_name(name)
    assert 1 <= len(encoded) <= 255
    assert not re.search(rb"[\0-\x1f/=:]", encoded)
    assert not grammar.is_reserved(encoded)
    encoded.decode("utf-8")  # cut neither within a character ...
    assert not re.search(rb"%(?![0-9A-F]{2})", encoded) or encoded == b"%"  # ... nor within an escape


@given(NAME, NAME)
@example("a/b", "a%2Fb")
@example("", "%")
@example("\ud83d\ude00", "😀")
@example("x" * 300 + "1", "x" * 300 + "2")
def test_no_two_names_share_a_file_name(one: str, other: str) -> None:
    assert (grammar.encode_name(one) == grammar.encode_name(other)) == (one == other)


@given(st.binary(min_size=1, max_size=40) | st.builds(lambda b: b"%" + b, st.binary(max_size=4)))
@example(b"%41")
@example(b"%2f")
@example(b"%ED%A0%BD%ED%B8%80")
@example(b"a%")
@example(b".a")
def test_only_the_one_spelling_is_taken(file_name: bytes) -> None:
    try:
        name = grammar.decode_name(file_name)
    except NameRefused:
        return
    assert grammar.encode_name(name) == file_name.replace(b"=", b"%3D").replace(b":", b"%3A")


@given(NAME)
@example("priority=high")
@example("topic://orders:a")
@example("=" * 85)
@example("=" * 86)
def test_equals_signs_and_colons_are_found_as_they_are(name: str) -> None:
    """However long they make the name: what is looked up is not longer than a file name may be."""
    literal = grammar.escape_name(name).replace(b"%3D", b"=").replace(b"%3A", b":")
    if len(literal) <= 255 and not grammar.is_short_form(literal):
        assert grammar.decode_name(literal) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", b"orders"),
        ("a/b", b"a%2Fb"),
        (".hidden", b"%2Ehidden"),
        ("..", b"%2E."),
        ("_temporary", b"%5Ftemporary"),
        ("percent%2Fname", b"percent%252Fname"),
        ("with space", b"with space"),
        ("priority=high", b"priority%3Dhigh"),
        ("topic://a", b"topic%3A%2F%2Fa"),
        ("ключ.名前", "ключ.名前".encode()),
        ("$sys.mqtt.sessions", b"$sys.mqtt.sessions"),
        ("a\nb", b"a%0Ab"),
        ("\ud800", b"%ED%A0%80"),
        ("", b"%"),
        ("x~0123456789abcdef", b"x%7E0123456789abcdef"),
    ],
)
def test_spelling(name: str, expected: bytes) -> None:
    assert grammar.encode_name(name) == expected


def test_short_form_is_stable_and_needs_the_name_to_exist() -> None:
    long = "long-" + "n" * 300
    encoded = grammar.encode_name(long)
    assert encoded == b"long-" + b"n" * 233 + b"~6a583b509342dc74"
    assert grammar.is_short_form(encoded)
    table = grammar.NameTable(["orders", long])
    assert table.decode(encoded) == long
    assert table.decode(b"orders") == "orders"
    table.discard(long)
    with pytest.raises(NameRefused):
        table.decode(encoded)


@given(st.integers(0, 2**63 - 1), st.sampled_from(grammar.MESSAGE_SUFFIXES))
def test_message_name_leads_back(message_id: int, suffix: str) -> None:
    assert grammar.parse_message_name(f"{message_id}.{suffix}".encode()) == (message_id, suffix)


@pytest.mark.parametrize(
    "name", [b"04411.txt", b"4411.TXT", b"4411", b"-1.txt", b"4411.doc", b"4411.txt\n", b".txt"]
)
def test_other_names_are_no_messages(name: bytes) -> None:
    assert grammar.parse_message_name(name) is None


@given(
    st.builds(
        grammar.PartName,
        st.integers(0, 10**10 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        st.booleans(),
    )
)
def test_part_name_leads_back(part: grammar.PartName) -> None:
    encoded = grammar.format_part_name(part)
    assert grammar.parse_part_name(encoded) == part
    assert grammar.is_tail_name(encoded) == part.is_tail


def test_part_name_spelling() -> None:
    assert grammar.format_part_name(grammar.PartName(1, 23, 7)) == b"part-0001-23-0000000007.jsonl"
    assert (
        grammar.format_part_name(grammar.PartName(1, 23, 7, is_tail=True))
        == b"_tail-0001-23-0000000007.jsonl"
    )
    assert grammar.is_tail_name(b"_tail.jsonl")
    for other in (
        b"part-1-23-7.jsonl",
        b"part-0001-0000000007.jsonl",
        b"part-0001-023-0000000007.jsonl",
        b"part-0001-23-00000000007.jsonl",
        b"part-0001-23-0000000007.json",
        b"_tail.jsonl",
    ):
        assert grammar.parse_part_name(other) is None


@given(st.integers(0, 10**10 - 1), st.lists(st.integers(0, 10**10 - 1), min_size=2, unique=True))
def test_part_names_sort_as_their_numbers(generation: int, numbers: list[int]) -> None:
    by_name = sorted(
        numbers, key=lambda number: grammar.format_part_name(grammar.PartName(generation, 23, number))
    )
    assert by_name == sorted(numbers)


@pytest.mark.parametrize(
    ("file_name", "spellings"),
    [
        (b"a%2fb", [b"a%2Fb", b"a%252fb"]),
        (b"%41", [b"A"]),
        (b"%4a%2F", [b"J%2F", b"%254a%2F"]),
        (b"a%ff", [b"a%25ff"]),
        (b"100%", [b"100%25"]),
    ],
)
def test_a_wrong_spelling_is_told_the_right_ones(file_name: bytes, spellings: list[bytes]) -> None:
    """Each can be given, and the hexadecimal digits of escapes are capitals."""
    with pytest.raises(NameRefused) as refused:
        grammar.decode_name(file_name)
    told = str(refused.value)
    assert told.startswith(f"file name {file_name.decode()!r}: ")
    assert re.findall(r"'(.*?)'", told.partition(": ")[2]) == [one.decode() for one in spellings]
    for one in spellings:
        assert grammar.encode_name(grammar.decode_name(one)) == one
