"""Every block of docs/tutorial/ is typed as it stands there, and prints what stands below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.documents.blocks import blocks
from tests.frozen import PristineStores
from tests.recipes.desk import Desk, desk
from tests.tidy.sources import ROOT

PAGES = ("shell", "operator")
"""The page of Spark is typed by tests/spark/test_recipe.py."""

pytestmark = pytest.mark.mount


@pytest.fixture
def at(stores: PristineStores, tmp_path: Path) -> Iterator[Desk]:
    with desk(stores["orders-basic"], stores["kaha-5.16.7-killed"], tmp_path) as made:
        yield made


def pattern(shown: str) -> str:
    """The expression for what a page shows: `…` stands for anything, also for several lines."""
    return r"(?:.|\n)*".join(map(re.escape, shown.strip().split("…")))


@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_prints_what_it_shows(page: str, at: Desk) -> None:
    found = blocks(ROOT / f"docs/tutorial/{page}.md")
    compared = 0
    for block, following in pairwise([*found, *found[-1:]]):
        if block.kind == "text":
            continue
        assert (block.kind, block.note) == ("sh", ""), block.line
        printed = at.shell(f"{block.text}")
        if following.kind == "text":
            compared += 1
            assert re.fullmatch(pattern(following.text), printed.strip()), (
                f"line {block.line} prints:\n{printed}"
            )
    assert compared
