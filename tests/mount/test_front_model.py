"""The model of the native request path, in all orders of its steps: docs/inside/front-model.md."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kinds import first_is_quick
from tests.tidy.sources import ROOT

MODEL = ROOT / "docs" / "inside" / "front.pml"
PAGE = MODEL.with_name("front-model.md")
PAIRS = ("WITHOUT_WRITER", "WITHOUT_CLOSER", "WITHOUT_READER")
STALE, OWNER, ORDER = "before&", "flushers==0", "durable|"
REFUTED = {
    "BELL": ("WITHOUT_WRITER", "invalid end state"),
    "BROKEN": ("WITHOUT_CLOSER", OWNER),
    "CLOSES": ("WITHOUT_READER", ORDER),
    "COUNT": ("WITHOUT_CLOSER DEFERS", "well"),
    "END": ("WITHOUT_CLOSER", OWNER),
    "EPOCHS": ("WITHOUT_CLOSER", STALE),
    "FAILURE": ("WITHOUT_CLOSER", "well"),
    "HOLD": ("WITHOUT_CLOSER", "violated"),
    "IDLE": ("WITHOUT_CLOSER", "violated"),
    "LOCK": ("WITHOUT_CLOSER", "answering"),
    "NEWS": ("WITHOUT_CLOSER DEFERS", "invalid end state"),
    "NEXT_EPOCH": ("WITHOUT_CLOSER", STALE),
    "ORDER": ("WITHOUT_CLOSER", ORDER),
    "RELEASES": ("WITHOUT_WRITER", STALE),
    "REVOKE": ("WITHOUT_WRITER", STALE),
    "SYNC": ("WITHOUT_CLOSER", "well"),
    "TAKING_BACK": ("WITHOUT_CLOSER", STALE),
}
"""Rules, each with what is left out or otherwise, and a part of what SPIN says where it is taken away."""


def searched(folder: Path, *defines: str, safety: bool = True) -> str:
    """What SPIN finds in all orders of steps; with `safety` also where nothing goes on."""

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout

    run("spin", "-a", *(f"-D{one}" for one in defines), str(MODEL))
    run("gcc", "-O1", "-w", *(("-DSAFETY", "-DNOCLAIM") if safety else ()), "-o", "pan", "pan.c")
    return run("./pan", "-m200000", "-w22", *(() if safety else ("-a",)))


@pytest.mark.rule("S-273")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("left_out", first_is_quick(*PAIRS, "WITHOUT_WRITER DEFERS", "WITHOUT_CLOSER DEFERS"))
def test_nobody_is_told_what_is_not_so(tmp_path: Path, left_out: str) -> None:
    found = searched(tmp_path, *left_out.split(), "ONE_LOOK")
    assert "errors: 0" in found
    assert "Search not completed" not in found


@pytest.mark.parametrize("rule", first_is_quick(*sorted(REFUTED, key=lambda rule: rule != "LOCK")))
def test_every_rule_of_the_front_is_needed(tmp_path: Path, rule: str) -> None:
    left_out, said = REFUTED[rule]
    found = searched(tmp_path, *left_out.split(), f"WITHOUT_{rule}")
    assert "errors: 1" in found
    assert said in found.partition("pan: wrote")[0]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("left_out", PAIRS)
def test_everybody_is_answered(tmp_path: Path, left_out: str) -> None:
    assert "errors: 0" in searched(tmp_path, left_out, "ONE_LOOK", "ASKING=2", safety=False)


def test_the_page_names_every_rule() -> None:
    named = {rule for rule in REFUTED if f"`{rule}`" in PAGE.read_text()}
    assert named == set(REFUTED)
    assert all(f"WITHOUT_{rule}" in MODEL.read_text() for rule in REFUTED)
