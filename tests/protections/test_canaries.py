"""Take each protection away in a copy of the project, and see its test fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protections.canaries import Canary, canaries
from tests.tidy.sources import ROOT

COPIED = ("journalfs", "mount", "native", "tests", "scripts", "docs", "pyproject.toml", "README.md")
TESTS_FAILED = 1
"""Pytest's exit code when tests ran and some failed; 2 to 5 mean that none ran as they should."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the project, with its compiled core, that a canary may damage."""
    place = tmp_path_factory.mktemp("canaries")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, place / name)
    # The environment's own journalfs_mount is the folder mount/ of the project that is not damaged.
    (place / "journalfs_mount").symlink_to("mount")
    yield place
    shutil.rmtree(place)


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONPYCACHEPREFIX": str(project / "build")}
    return subprocess.run(
        arguments,
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def failed(project: Path, canary: Canary) -> tuple[bool, str]:
    """Whether the tests of a canary ran and failed, and what they printed."""
    if canary.test.endswith(".c"):
        done = run(project, "sh", "native/tests/run.sh", canary.test.removeprefix("native/"))
        return "not true: " in done.stderr + done.stdout, done.stdout + done.stderr
    options = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider")
    done = run(project, sys.executable, "-m", "pytest", *options, *canary.test.split())
    return done.returncode == TESTS_FAILED, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "canary", canaries(), ids=lambda canary: f"{canary.protection}-{Path(canary.file).name}"
)
def test_a_protection_that_is_taken_away_is_missed(canary: Canary, project: Path) -> None:
    file = project / canary.file
    was, cores = file.read_text(), {path: path.read_bytes() for path in project.rglob("*.abi3.so")}
    file.write_text(was.replace(canary.old, canary.new))
    try:
        if file.suffix == ".c" and not canary.test.endswith(".c"):
            built = run(project, sys.executable, "native/build_engine.py")
            assert built.returncode == 0, built.stderr
        missed, printed = failed(project, canary)
    finally:
        file.write_text(was)
        for path, content in cores.items():
            path.write_bytes(content)
    assert missed, printed[-8000:]
