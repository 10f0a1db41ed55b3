"""Every selector must mean here what it means to the broker: asked of the broker's own classes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.selector import strategies
from tests.selector.evaluate import Properties, evaluate
from tests.selector.oracle import Oracle

pytestmark = [pytest.mark.broker, pytest.mark.slow]

EXAMPLES = 4 * settings().max_examples
"""Each is a question to another process, and the profile says how far to search."""
thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as running:
        yield running


def agree(oracle: Oracle, selector: str, properties: Properties) -> None:
    if not selector.strip():
        return
    assert evaluate(selector, properties) == oracle.evaluate(selector, properties)


@thorough
@given(selector=strategies.SELECTORS, properties=strategies.PROPERTIES)
@example(selector="a = 1 + )", properties={"a": ("int", "1")})
@example(selector="5 < a", properties={"a": ("short", "9")})
@example(selector="NOT (a = b)", properties={"a": ("int", "1")})
@example(selector="a > -9223372036854775808", properties={"a": ("long", "-1")})
@example(selector="a = 16777217", properties={"a": ("float", "16777216")})
@example(selector="(a AND raw > 1) OR TRUE", properties={"raw": ("bytes", "AQI=")})
def test_generated_selectors_mean_the_same(oracle: Oracle, selector: str, properties: Properties) -> None:
    agree(oracle, selector, properties)


@thorough
@given(selector=st.one_of(strategies.TOKEN_SOUP, strategies.CHARACTER_SOUP), properties=strategies.PROPERTIES)
def test_nonsense_is_refused_where_the_broker_refuses_it(
    oracle: Oracle, selector: str, properties: Properties
) -> None:
    agree(oracle, selector, properties)


@thorough
@given(
    left=strategies.TYPED_VALUES,
    right=strategies.TYPED_VALUES,
    sign=st.sampled_from(("=", "<>", "<", ">=")),
    prefix=st.sampled_from(("", "convert_string_expressions:")),
)
def test_any_two_types_compare_the_same(
    oracle: Oracle, left: tuple[str, str], right: tuple[str, str], sign: str, prefix: str
) -> None:
    agree(oracle, f"{prefix}a {sign} b", {"a": left, "b": right})


@thorough
@given(
    left=strategies.TYPED_VALUES,
    right=strategies.TYPED_VALUES,
    form=st.sampled_from(("a {} b", "convert_string_expressions:a {} b", "-a {} b")),
    sign=st.sampled_from("+-*/%"),
    wanted=st.sampled_from(("= 1", "= 0.0", "= 1e2", "> -3", "= 'a5'", "= '51.5'", "IS NULL")),
)
def test_any_two_types_calculate_the_same(
    oracle: Oracle, *, left: tuple[str, str], right: tuple[str, str], form: str, sign: str, wanted: str
) -> None:
    agree(oracle, f"{form.format(sign)} {wanted}", {"a": left, "b": right})


@thorough
@given(
    text=st.text(alphabet="ab%_!\U0001f600\n", max_size=6),
    pattern=st.text(alphabet="ab%_!\U0001f600\n.", max_size=6),
    escape=st.sampled_from(("", " ESCAPE '!'", " ESCAPE '%'", " ESCAPE '_'", " ESCAPE 'a'")),
)
def test_patterns_match_the_same(oracle: Oracle, text: str, pattern: str, escape: str) -> None:
    agree(oracle, f"color LIKE '{pattern}'{escape}", {"color": ("string", text)})
