"""Each feature, setting, default and warning of the founding documents has a row in `features.toml`: what
holds here, and a test that shows it, which is there and is collected.
"""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("features.toml")
DOCUMENTS = {
    "artemis-persistence": 90,
    "artemis-paging": 50,
    "hornetq-persistence": 30,
    "activemq-1.x-persistence": 60,
    "amq-message-store": 30,
}
"""The documents, and how many features each has at least."""


class Feature(NamedTuple):
    document: str
    section: str
    feature: str
    holds: str
    test: str


def features() -> list[Feature]:
    table = tomllib.loads(TABLE.read_text())
    return [Feature(document, *row) for document, rows in table.items() for row in rows]


FEATURES = features()


@cache
def functions(file: str) -> frozenset[str]:
    """Tests that are collected of a file."""
    path = TESTS / file
    if not path.is_file() or not path.name.startswith("test_"):
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    # A function within another is not collected.
    found = ast.parse(path.read_text()).body
    return frozenset(one.name for one in found if isinstance(one, kinds) and one.name.startswith("test_"))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_document_has_its_rows(document: str) -> None:
    rows = [one for one in FEATURES if one.document == document]
    assert len(rows) >= DOCUMENTS[document]
    assert len({(one.section, one.feature) for one in rows}) == len(rows)
    assert {one.document for one in FEATURES} == DOCUMENTS.keys()


def test_a_row_without_a_test_fails() -> None:
    lacking = [one for one in FEATURES if not all(part.strip() for part in one)]
    assert not lacking
    named = {one.test for one in FEATURES}
    gone = [test for test in named if test.partition("::")[2] not in functions(test.partition("::")[0])]
    assert not gone, "named by features.toml, and no test that is collected"
