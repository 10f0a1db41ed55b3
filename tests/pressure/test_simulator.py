"""The simulator of the whole store: random acts, failing calls, kills and power cuts, by seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pressure.conftest import ROOT

LIVES, LIVES_LONG = 2, 20
STEPS, STEPS_LONG = 40, 200
SEED_S_MAX = 900


def lived(
    failing: Path, store: Path, folder: Path, seed: int, *, lives: int = LIVES, steps: int = STEPS
) -> list[dict[str, object]]:
    """What each life of a chain did and left."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(failing),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }
    words = list(map(str, (store, folder, seed, lives, steps)))
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


def test_a_seed_lives_the_same_again(failing: Path, empty_store: Path, tmp_path: Path) -> None:
    """What was answered holds, and each act, fault, error and message of a seed is that of the other run: a
    seed that fails can be looked at.
    """
    first, second = (lived(failing, empty_store, tmp_path / name, 2) for name in ("first", "second"))
    assert not first[-1]["wrong"], first[-1]
    assert len(first) == LIVES
    assert [one["trace"] for one in first] == [one["trace"] for one in second]
    assert len({one["trace"] for one in first}) == LIVES


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_lives(failing: Path, empty_store: Path, tmp_path: Path, seed: int) -> None:
    found = lived(failing, empty_store, tmp_path, seed, lives=LIVES_LONG, steps=STEPS_LONG)
    assert not found[-1]["wrong"], found[-1]
    assert len(found) == LIVES_LONG
