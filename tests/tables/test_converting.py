"""Stores in files become stores in databases, and back, with every message as it was; after a kill, too."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.frozen import PristineStores
from tests.kinds import DATABASES
from tests.mounting import JOURNALFS, journalfs
from tests.tables.test_writing import shown

QUICK = ("sqlite", "orders-basic"), ("postgresql", "transactions")


def held(place: str | Path) -> dict[str, list[dict[str, Any]]]:
    return {name: lines for name, lines in shown(place).items() if lines}


def converted(source: str | Path, destination: str | Path) -> str:
    done = journalfs("convert", source, destination)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.mark.rule("S-237")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[] if (kind, name) in QUICK else [pytest.mark.long])
        for kind in DATABASES
        for name in ("orders-basic", "transactions", "large-and-paged", "hq-2.4-main", "amqp-exotic")
    ],
)
def test_there_and_back(
    kind: str, name: str, stores: PristineStores, empty_database: Callable[[str], str], tmp_path: Path
) -> None:
    url, files = empty_database(kind), tmp_path / "files"
    # Journal files of today's settings, and names that current clients know.
    converted(stores[name], files)
    there = held(files)
    assert url.rpartition("@")[2].removeprefix("sqlite:///") in converted(stores[name], url)
    assert held(url) == there
    back = tmp_path / "back"
    converted(url, back)
    assert held(back) == there
    again = journalfs("convert", stores[name], url)
    assert again.returncode != 0
    assert "there is a store already" in again.stderr


@pytest.mark.rule("S-237")
@pytest.mark.parametrize(
    "step", [*(pytest.param(one, marks=pytest.mark.long) for one in ("bodies", "packed")), "committed"]
)
def test_taken_up_after_a_kill(
    step: str, stores: PristineStores, empty_database: Callable[[str], str], tmp_path: Path
) -> None:
    url = empty_database("sqlite")
    kill = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from journalfs.convert import carrying\n"
        "from journalfs.records.tables import filling\n"
        "done, fill = carrying._done, filling.fill_tables\n"
        "def end(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "def kill_then(staging, state, step):\n"
        "    done(staging, state, step)\n"
        "    if step == sys.argv[3]: end()\n"
        "def kill_after(*given):\n"
        "    fill(*given)\n"
        "    end()\n"
        "carrying._done, filling.fill_tables = kill_then, kill_after\n"
        "carrying.Carrying(Path(sys.argv[1]), Path(sys.argv[2]), carrying.Mode.CONVERT).run()\n"
    )
    python = JOURNALFS.with_name("python")
    source = stores["large-and-paged"]
    killed = subprocess.run([python, "-c", kill, source, url, step], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "messages in" in converted(source, url)
    converted(source, tmp_path / "files")
    assert held(url) == held(tmp_path / "files")
    assert not list(Path(os.environ["JOURNALFS_DERIVED"]).glob("*/store"))
