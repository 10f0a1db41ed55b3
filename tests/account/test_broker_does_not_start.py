"""The page "My broker does not start": its commands are run on each kind of damage that it is about."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journalfs.errors import EXIT_DAMAGED
from tests.account import damaging
from tests.cli.running import journalfs

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "broker-does-not-start.md"
STORE = "large-and-paged"
QUICK = ("bindings_gone", "journal_header", "zeros_in_journal", "page_record", "body_gone", "page_gone")


def sections() -> Iterator[tuple[str, str]]:
    """Yield each kind of damage with the text of its section."""
    for section in PAGE.read_text().split("\n## ")[1:]:
        found = re.search(r"<!-- damage: (.*) -->", section)
        for name in found[1].split(", ") if found else ():
            yield name, section


CASES = dict(sections())


def test_every_kind_is_on_the_page() -> None:
    assert set(QUICK) <= CASES.keys()
    assert all(callable(getattr(damaging, name)) for name in CASES)


def cases() -> Iterator[object]:
    for name in CASES:
        marks = [] if name in QUICK else [pytest.mark.long]
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", list(cases()))
def test_its_commands(name: str, store_copy: Callable[[str], Path], tmp_path: Path) -> None:
    data, section = store_copy(STORE) / "data", CASES[name]
    getattr(damaging, name)(data)
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    kinds = set(re.findall(r"`([a-z-]+)`", section))
    for number, line in enumerate(block.splitlines()):
        program, *words = shlex.split(line)
        assert program == "journalfs"
        moved = [word.replace("/var/lib/artemis/data", str(data)) for word in words]
        done = journalfs(*(word.replace("/var/lib/artemis", str(tmp_path)) for word in moved))
        assert done.returncode in (0, EXIT_DAMAGED), f"{line}: {done.stderr}"
        if number == 0:
            assert done.returncode == EXIT_DAMAGED
            rows = [row.split("\t") for row in done.stdout.splitlines() if "\t" in row]
            assert kinds & {row[3] for row in rows}, done.stdout
