"""Concurrent users of a mount that is killed: nothing is lost, twice, invented, or overtakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pressure.conftest import ROOT

pytestmark = [pytest.mark.long, pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

SECONDS, ENDS_S_MAX = 60, 600
ACTS = ("published", "taken", "moved", "removed", "brought back")


@pytest.mark.parametrize("backend", ["NIO", "ASYNCIO", "MAPPED"])
def test_what_was_answered_holds(tmp_path: Path, backend: str) -> None:
    words = [str(tmp_path / "data"), str(tmp_path / "mnt"), str(SECONDS), "48", backend]
    done = subprocess.run(
        [sys.executable, "-m", "tests.pressure.crowd", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=ENDS_S_MAX,
        check=False,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, (last, done.stderr)
    assert all(last["counts"].get(act) for act in ACTS), last
