"""Every block of docs/recipes/ is typed as it stands there, on a store that a real broker wrote.

The page of Spark is tried by tests/spark/test_recipe.py, and that of a broker that runs by
tests/through/test_through_a_broker.py.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.documents.blocks import Block, blocks
from tests.frozen import PristineStores
from tests.recipes.desk import Desk, desk
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.mount

ELSEWHERE = ("README.md", "production.md")
PAGES = sorted(path for path in (ROOT / "docs" / "recipes").glob("*.md") if path.name not in ELSEWHERE)

LONG = ("incident", "migration")


@pytest.fixture
def at(stores: PristineStores, tmp_path: Path) -> Iterator[Desk]:
    with desk(stores["orders-basic"], stores["kaha-5.16.7-killed"], tmp_path) as made:
        yield made


def run_unit(at: Desk, block: Block) -> None:
    """As systemd reads it. Programs that a page lets somebody write are there."""
    handle = at.path / "handle"
    handle.write_text("#!/bin/sh\n")
    handle.chmod(0o755)
    units = at.path / "units"
    units.mkdir(exist_ok=True)
    # The place of a unit is on the machine that it is for.
    text = at.typed(block.text.replace("/mnt/", "/srv/").replace("/usr/local/bin/handle", str(handle)))
    (units / block.note).write_text(re.sub(r"^User=.*\n", "", text, flags=re.MULTILINE))
    name = block.note.replace("@.", "@1.")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", f"./{name}"],
        cwd=units,
        capture_output=True,
        text=True,
        env={"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def run_table(at: Desk, block: Block) -> None:
    """Each line is a time and a command, in which `%` is escaped; the command is run."""
    for line in block.text.splitlines():
        found = re.fullmatch(r"((?:[\d*/,-]+\s+){5})(.+)", line)
        assert found, line
        assert not re.search(r"(?<!\\)%", found[2]), f"cron ends a command at a %: {line}"
        at.shell(found[2].replace("\\%", "%"), options="")


def run_as_root(at: Desk, block: Block) -> None:
    at.shell(f"bash -n <<'END'\n{block.text}END\n")


def only_read(at: Desk, block: Block) -> None:
    """What a program prints."""


RUNS: dict[tuple[str, bool], Callable[[Desk, Block], object]] = {
    ("sh", False): lambda at, block: at.shell(block.text),
    ("sh", True): run_as_root,
    ("ini", True): run_unit,
    ("crontab", False): run_table,
    ("python", False): lambda at, block: at.python(block.text),
    ("text", False): only_read,
}
"""(kind, whether it has a note) -> how it is tried. A block of another kind fails the test."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.long] if page.stem in LONG else [])
        for page in PAGES
        if page.name != "spark.md"
    ],
)
def test_every_block_does_what_the_page_says(at: Desk, page: Path) -> None:
    found = blocks(page)
    assert found
    for block in found:
        run = RUNS.get((block.kind, bool(block.note)))
        assert run is not None, f"{page.name}:{block.line}: nothing tries a block of {block.kind!r}"
        run(at, block)
    assert str(at.path) not in Path("/proc/mounts").read_text(), "the page ends with nothing mounted"
