"""The answers in `recorded/` are still the broker's."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.frozen import PristineStores
from tests.selector.oracle import Oracle
from tests.selector.record import FOLDER, answers_on_row, answers_on_stores

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as running:
        yield running


def test_recorded_answers_on_properties_are_the_brokers(oracle: Oracle) -> None:
    answers = json.loads(json.dumps(answers_on_row(oracle)))
    assert json.loads((FOLDER / "row.json").read_text(encoding="utf-8")) == answers


def test_recorded_answers_on_stores_are_the_brokers(oracle: Oracle, stores: PristineStores) -> None:
    answers = answers_on_stores(oracle, stores)
    assert json.loads((FOLDER / "stores.json").read_text(encoding="utf-8")) == answers
