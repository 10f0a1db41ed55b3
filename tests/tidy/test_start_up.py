"""Start-up time is part of a shell tool's interface: what `--version` and `--help` may import and take."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

import pytest

from tests.mounting import JOURNALFS

HEAVY = {
    "cffi",
    "lark",
    "msgspec",
    "pandas",
    "platformdirs",
    "pyarrow",
    "pyfuse3",
    "pyspark",
    "rich",
    "sqlalchemy",
    "tomllib",
    "trio",
    "xml.etree",
    "journalfs.engine",
    "journalfs.store",
    "journalfs_mount.kernel.operations",
}
VERSION_S_MAX = 0.060
BARE_S = 0.020
"""What a bare interpreter takes where the budget was set; a slower machine gets more time."""


def imported(*arguments: str) -> set[str]:
    """Modules that are loaded when the command ends."""
    program = (
        "import atexit, sys\n"
        f"sys.argv = ['journalfs', *{arguments!r}]\n"
        "atexit.register(lambda: print('\\n'.join(sys.modules), file=sys.stderr))\n"
        "from journalfs.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["create", "--help"], ["mount", "--help"], ["umount", "--help"]],
    ids=" ".join,
)
def test_nothing_heavy_is_imported_to_say_what_there_is(arguments: list[str]) -> None:
    heavy = {
        name for name in imported(*arguments) if any(name == h or name.startswith(f"{h}.") for h in HEAVY)
    }
    assert not heavy


def test_version_imports_no_click() -> None:
    assert "click" not in imported("--version")


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )
    return time.perf_counter() - began


def test_version_is_quick() -> None:
    """Taken in turns with a bare interpreter, so that a busy machine slows both."""
    bare, version = [], []
    for _ in range(15):
        bare.append(seconds([sys.executable, "-c", ""]))
        version.append(seconds([str(JOURNALFS), "--version"]))
    slowness = max(1.0, statistics.median(bare) / BARE_S)
    took = statistics.median(version)
    print(f"--version: {took * 1000:.0f} ms, bare interpreter {statistics.median(bare) * 1000:.0f} ms")
    assert took < VERSION_S_MAX * slowness
