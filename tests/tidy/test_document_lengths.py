"""Documents stay short and plain: pages, the bold sentence of a rule, words, and blocks of commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from journalfs.cli.main import COMMANDS
from scripts.documents import words as style
from scripts.documents.blocks import blocks
from scripts.documents.rules import Rule, rules
from tests.tidy.sources import ROOT

USE = sorted((ROOT / "docs" / "use").glob("*.md"))
RULES = rules()

WORDS_MOST = {"use": 10_769, "operate": 3_506, "recipes": 1_495, "": 48_926}
"""Words below each folder of docs/, as `wc -w` counts them; in the last row all, with README.md."""


def words(text: str) -> int:
    return len([word for word in re.sub(r"\]\([^)]*\)", "]", text).split() if re.search(r"\w", word)])


@pytest.mark.parametrize("path", USE, ids=lambda path: path.name)
def test_a_page_of_use_fits_two_screens(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 150


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 200
    assert len(text.split()) <= 1_130


@pytest.mark.parametrize("folder", WORDS_MOST)
def test_documents_have_few_words(folder: str) -> None:
    """A page that gains a rule loses as many words elsewhere."""
    paths = [*(ROOT / "docs" / folder).rglob("*.md"), *([] if folder else [ROOT / "README.md"])]
    assert sum(len(path.read_text().split()) for path in paths) <= WORDS_MOST[folder]


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


def test_no_text_has_one_of_the_worst_words() -> None:
    assert not style.refused()


def test_blocks_of_commands_can_be_read_by_a_shell() -> None:
    """Those of recipes and of README are run, by tests of their own."""
    for path in (ROOT / "docs").rglob("*.md"):
        for block in blocks(path):
            if block.kind == "sh":
                done = subprocess.run(
                    ["bash", "-n"], input=block.text, text=True, capture_output=True, check=False
                )
                assert done.returncode == 0, f"{path.name}:{block.line}: {done.stderr}"


def test_commands_in_blocks_exist() -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        for block in blocks(path):
            if block.kind in ("", "sh"):
                for name in re.findall(r"^(?:\$ )?journalfs ([a-z][\w-]*)", block.text, re.MULTILINE):
                    assert name in COMMANDS, f"{path.name}:{block.line}"
