"""Rules and tests name each other: no rule of the documents without a test, no number that is no rule."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

from scripts.documents.rules import ANCHOR, BY_NUMBER, numbers_as_anchors, pages, rules
from tests.tidy.sources import ROOT, python_sources

RULES = rules()
TEXT = {rule.number: rule.text for rule in RULES}


@cache
def named_by_tests() -> dict[str, list[str]]:
    """Rule -> places of the tests that carry it."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in python_sources():
        if not source.is_test or "mark.rule" not in source.text:
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and _is_mark(node.func):
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), (
                        f"{source.name}:{node.lineno} names a rule indirectly"
                    )
                    found[str(argument.value)].append(f"{source.name}:{node.lineno}")
    return found


def _is_mark(function: ast.expr) -> bool:
    # Asked first, as to write out each call takes long.
    return getattr(function, "attr", "") == "rule" and ast.unparse(function) == "pytest.mark.rule"


def test_no_number_stands_for_two_rules() -> None:
    assert len(TEXT) == len(RULES) > 50


def test_every_anchor_begins_a_rule() -> None:
    """One within a line, or misspelt, would be no rule, and nothing would ask for its test."""
    anchors = [
        path.name for path in pages() for _ in re.findall(r"id=.?s-?\d", path.read_text(), re.IGNORECASE)
    ]
    assert len(anchors) == len(RULES)
    assert ANCHOR.findall(BY_NUMBER.read_text()) == [str(rule.number) for rule in RULES]


def test_pages_for_users_say_no_numbers() -> None:
    assert not numbers_as_anchors(), "run python -m scripts.documents: it makes anchors and links of them"


def test_every_rule_has_a_test() -> None:
    named = named_by_tests()
    missing = [f"S-{number}" for number in TEXT if f"S-{number}" not in named]
    assert not missing, f"no test carries {missing}"


def test_every_number_is_a_rule() -> None:
    known = {f"S-{number}" for number in TEXT}
    wrong = {rule: places for rule, places in named_by_tests().items() if rule not in known}
    assert not wrong, wrong


def test_text_refers_only_to_rules_that_exist() -> None:
    """Sources and documents may point at a rule; it has to exist."""
    known = {f"S-{number}" for number in TEXT}
    documents = [(path.name, path.read_text()) for path in (ROOT / "docs").rglob("*.md")]
    sources = [(source.name, source.text) for source in python_sources()]
    wrong = [
        f"{name}: {match[0]}"
        for name, text in [*documents, *sources]
        for match in re.finditer(r"\bS-\d+\b", text)
        if match[0] not in known
    ]
    assert not wrong, wrong
