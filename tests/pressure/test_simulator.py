"""The simulator of the whole store: random acts, failing calls, kills and power cuts, by seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pressure.conftest import ROOT

LIVES, LIVES_LONG = 3, 20
SEED_S_MAX = 900


def lived(failing: Path, store: Path, folder: Path, seed: int, lives: int) -> list[dict[str, object]]:
    """What each life of a chain did and left."""
    environment = {**os.environ, "LD_PRELOAD": str(failing), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [str(store), str(folder), str(seed), str(lives)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.pressure.simulator", *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        timeout=SEED_S_MAX,
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found, done.stderr
    return found


@pytest.mark.parametrize("seed", [2, 3])
def test_what_was_answered_holds(failing: Path, empty_store: Path, tmp_path: Path, seed: int) -> None:
    found = lived(failing, empty_store, tmp_path, seed, LIVES)
    assert not found[-1]["wrong"], found[-1]
    assert len(found) == LIVES


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_lives(failing: Path, empty_store: Path, tmp_path: Path, seed: int) -> None:
    found = lived(failing, empty_store, tmp_path, seed, LIVES_LONG)
    assert not found[-1]["wrong"], found[-1]
    assert len(found) == LIVES_LONG


@pytest.mark.long
def test_a_seed_lives_the_same_again(failing: Path, empty_store: Path, tmp_path: Path) -> None:
    first, second = (
        [(one["steps"], one["kinds"]) for one in lived(failing, empty_store, tmp_path / name, 5, LIVES)]
        for name in ("first", "second")
    )
    assert first == second
