"""Documents stay short: pages, the bold sentence of a rule, and what stands open below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.documents.rules import Rule, rules
from tests.tidy.sources import ROOT

USE = sorted((ROOT / "docs" / "use").glob("*.md"))
RULES = rules()


def words(text: str) -> int:
    return len([word for word in re.sub(r"\]\([^)]*\)", "]", text).split() if re.search(r"\w", word)])


@pytest.mark.parametrize("path", USE, ids=lambda path: path.name)
def test_a_page_of_use_fits_two_screens(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 150


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


@pytest.mark.parametrize("path", USE, ids=lambda path: path.name)
def test_a_page_of_use_begins_with_a_table(path: Path) -> None:
    assert "\n| --- |" in path.read_text().partition("\n**S-")[0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"S-{rule.number}")
def test_a_rule_is_one_sentence_and_a_short_body(rule: Rule) -> None:
    assert 0 < words(rule.sentence) <= 25
    assert rule.text.count("<details>") == rule.text.count("</details>")
    open_text = re.sub(r"<details>.*?</details>", "", rule.text, flags=re.DOTALL).partition("**S-")[2]
    body = open_text.partition("**")[2]
    paragraphs = [part for part in body.split("\n\n") if not part.lstrip("\n").startswith(("|", "`"))]
    assert words(" ".join(paragraphs)) <= 80
