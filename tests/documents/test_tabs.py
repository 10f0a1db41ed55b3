"""What a page shows in three ways works in each of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts.documents.blocks import in_tabs
from tests.frozen import PristineStores
from tests.recipes.desk import desk
from tests.tidy.sources import ROOT

PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if '\n=== "' in path.read_text()]
WAYS = ["Shell", "Python", "Spark"]


def test_there_are_pages_with_tabs() -> None:
    assert len(PAGES) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_place_has_all_three_ways(page: Path) -> None:
    named = [name for name, _ in in_tabs(page)]
    assert named == WAYS * (len(named) // 3)
    assert len(named) == page.read_text().count('\n=== "')


@pytest.mark.mount
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tabs_are_typed(page: Path, stores: PristineStores, tmp_path: Path) -> None:
    """Spark's are read only: tests/spark runs such lines."""
    with desk(stores["orders-basic"], stores["kaha-5.16.7-killed"], tmp_path) as at:
        at.shell("journalfs mount /var/lib/artemis/data /mnt")
        printed = {"Shell": "", "Python": ""}
        for name, block in in_tabs(page):
            if name == "Spark":
                ast.parse(block.text)
            else:
                printed[name] += at.shell(block.text) if name == "Shell" else at.python(block.text)
        if page.stem in ("read", "select"):  # these change nothing
            assert printed["Shell"] == printed["Python"] != ""
        at.shell("journalfs umount /mnt")
