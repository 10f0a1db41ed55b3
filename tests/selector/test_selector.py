"""Selectors against the broker's recorded answers, and what only we promise: places of mistakes, limits."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journalfs.engine.lines import LineBatch
from journalfs.errors import SelectorError
from journalfs.message.envelope import decoder_for
from journalfs.selector import compile_selector
from journalfs.selector.grammar import DEPTH_MAX, SELECTOR_CHARS_MAX
from tests.frozen import PristineStores
from tests.reference.primitives import Cursor
from tests.selector.cases import ROW, SELECTORS, STORES
from tests.selector.evaluate import evaluate
from tests.selector.messages import stored_messages
from tests.selector.record import FOLDER
from tests.selector.strategies import CHARACTER_SOUP, TOKEN_SOUP
from tests.selector.strategies import SELECTORS as ANY_SELECTOR

ON_ROW: dict[str, Any] = json.loads((FOLDER / "row.json").read_text(encoding="utf-8"))
ON_STORES: dict[str, Any] = json.loads((FOLDER / "stores.json").read_text(encoding="utf-8"))


def test_every_case_has_an_answer() -> None:
    assert set(ON_ROW) == set(SELECTORS)
    assert set(ON_STORES) == set(STORES)


@pytest.mark.parametrize("selector", SELECTORS)
def test_selector_means_what_it_means_to_the_broker(selector: str) -> None:
    expected = ON_ROW[selector]
    assert evaluate(selector, ROW) == (None if expected is None else tuple(expected))


@pytest.mark.parametrize("name", STORES)
def test_filters_accept_the_messages_that_the_broker_accepts(stores: PristineStores, name: str) -> None:
    envelopes = [message.envelope for message in stored_messages(stores[name])]
    for kind, answers in ON_STORES[name].items():
        for text, expected in answers.items():
            selector = compile_selector(text, stored=kind == "core")
            ours = "".join("01"[selector.accepts(envelope)] for envelope in envelopes)
            wrong = [e for e, a, b in zip(envelopes, ours, expected, strict=True) if a != b]
            assert not wrong, f"{text} in {name}: {wrong[0]}"
            thin = [{key: e[key] for key in selector.keys or e if key in e} for e in envelopes]
            assert "".join("01"[selector.accepts(envelope)] for envelope in thin) == ours, text


@pytest.mark.parametrize("name", STORES)
def test_size_is_that_of_the_stored_message(stores: PristineStores, name: str) -> None:
    messages = [one for one in stored_messages(stores[name]) if one.envelope["protocol"] == "CORE"]
    batch = LineBatch.of_payloads([one.payload for one in messages], queue=None)
    for index, message in enumerate(messages):
        cursor = Cursor(message.payload)
        cursor.take(1 + 8)
        cursor.nullable_simple_string()
        selector = compile_selector(f"AMQSize = {cursor.i32()}")
        assert not selector.accepts(message.envelope)
        assert selector.accepts(decoder_for(selector)(batch, index))


@pytest.mark.parametrize(
    ("selector", "column", "said"),
    [
        ("a = 1 AN b = 2", 7, "'AN' stands where an operator or the end is expected"),
        ("a = ", 5, "the selector ends where a value or '(' is expected"),
        ("a = 'x", 5, "nothing closes this '"),
        ("color == 'red'", 8, "'=' stands where a value or '(' is expected"),
        ("(a", 3, "ends where an operator or ')' is expected"),
        ("a IN ('x'; 'y')", 10, "';' means nothing in a selector"),
        ("a LIKE 1", 8, "'1' stands where a quoted string is expected"),
        ("a IS 3", 6, "'3' stands where NOT or NULL is expected"),
        ("hyphenated_props:a-b > 'x'", 24, "only numbers and identifiers can stand beside >"),
        ("a = 5 AND b = NULL", 15, "write IS NULL"),
        ("a = 5 OR b + 1", 10, "a value where a condition is needed"),
        ("a = 1 OR XPATH 'x'", 10, "XPATH looks into message bodies, which is not supported"),
        ("xquery '//x'", 1, "XQUERY looks into message bodies, which is not supported"),
        ("a LIKE 'x' ESCAPE 'ab'", 19, "ESCAPE takes a string of one character"),
        ("a = 0xFFFFFFFFFFFFFFFF", 5, "does not fit 63 bits"),
        (f"a = {'9' * 5000}", 5, "too many digits"),
        ("1 IN ('x')", 1, "only an identifier can stand before IN"),
    ],
)
def test_mistakes_are_named_with_their_place(selector: str, column: int, said: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(selector)
    assert caught.value.position == column - 1
    assert said in str(caught.value)
    assert f"character {column}" in str(caught.value)


@pytest.mark.parametrize("text", ["", "  ", "\t\n"])
def test_no_text_accepts_everything(text: str) -> None:
    assert compile_selector(text).accepts({})


def test_identifiers_are_as_written() -> None:
    selector = compile_selector(
        "JMSPriority > 4 AND (color = 'red' OR NOT \"odd name\" IS NULL) AND color <> 'x'"
    )
    assert selector.identifiers == {"JMSPriority", "color", "odd name"}
    assert selector.keys is not None
    assert {"priority", "properties", "propertyTypes"} <= selector.keys
    assert "body" not in selector.keys


@given(text=st.one_of(st.text(), TOKEN_SOUP, CHARACTER_SOUP, ANY_SELECTOR))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    place, answer = -1, None
    try:
        answer = compile_selector(text).accepts({"properties": {"a": 1}, "propertyTypes": {"a": "int"}})
    except SelectorError as error:
        place = error.position
    assert isinstance(answer, bool) or 0 <= place <= len(text)


def test_long_chains_are_flat_and_deep_nesting_is_refused() -> None:
    chain = " OR ".join(f"n = {number}" for number in range(3000))
    assert compile_selector(chain).accepts({"properties": {"n": 2999}, "propertyTypes": {"n": "int"}})
    assert compile_selector("(" * 5000 + "TRUE" + ")" * 5000).accepts({})
    with pytest.raises(SelectorError, match=f"nested more than {DEPTH_MAX} deep"):
        compile_selector("NOT " * 5000 + "TRUE")
    with pytest.raises(SelectorError, match="longer than"):
        compile_selector("a" * (SELECTOR_CHARS_MAX + 1))


@pytest.mark.parametrize("pattern", ["%a%a%a%a%a%a%a%a%a%b", "%%%%%%%%%%%%%%%%%%b", "%_%_%_%_%_%_%_%_%_b"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    selector = compile_selector(f"color LIKE '{pattern}'")
    started = time.perf_counter()
    assert not selector.accepts({"properties": {"color": "a" * 5000}})
    assert time.perf_counter() - started < 20
