"""Documents are plain: rules have sentences, texts none of the worst words, and commands in blocks exist."""

from __future__ import annotations

import re
import subprocess

import pytest

from journalfs.cli.main import COMMANDS
from scripts.documents import words as style
from scripts.documents.blocks import blocks
from scripts.documents.rules import Rule, rules
from tests.tidy.sources import ROOT

RULES = rules()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"S-{rule.number}")
def test_a_rule_is_one_sentence_that_is_not_folded(rule: Rule) -> None:
    assert rule.sentence
    assert rule.text.count("<details>") == rule.text.count("</details>")


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
