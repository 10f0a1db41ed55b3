"""Small manners of commands: what they end with, what they print, and what they need."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.errors import EXIT_BUSY, EXIT_MOUNT_FAILED, EXIT_NOT_A_STORE
from tests.mounting import JOURNALFS, journalfs, mounted, mounted_for_writing
from tests.tidy.sources import ROOT

WITHOUT_OPTIONAL = """
import importlib.abc, runpy, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"matplotlib", "pyspark", "pyarrow", "numpy", "pandas", "pytest"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv = ["bench", "--help"]
runpy.run_module("scripts.benchmarks", run_name="__main__")
"""


def test_what_can_be_measured_is_said_without_what_measures() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPTIONAL], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "side by side" in done.stdout


def test_a_sound_store_is_said_to_be_one_as_json(store_copy: Callable[[str], Path]) -> None:
    done = journalfs("check", "--json", store_copy("aio"))
    assert done.returncode == 0
    said, *settings = map(json.loads, done.stdout.splitlines())
    assert {one["kind"] for one in settings} <= {"setting-without-effect"}
    assert said["kind"] == "sound"
    assert said["messages"] > 0


def test_where_no_store_of_ours_is_mounted_unmounting_fails_as_a_mount_does(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/proc")):
        done = journalfs("umount", path)
        assert done.returncode == EXIT_MOUNT_FAILED
        assert "no journalfs filesystem is mounted there" in done.stderr


@pytest.mark.mount
@pytest.mark.parametrize("words", ["ls", "status", "check --json"])
def test_a_mount_stands_for_its_store(store_copy: Callable[[str], Path], tmp_path: Path, words: str) -> None:
    store = store_copy("aio")
    before = journalfs(*words.split(), store)
    with mounted(store, tmp_path / "mnt") as mount:
        shown = journalfs(*words.split(), mount.path)
    assert (shown.returncode, shown.stderr) == (before.returncode, before.stderr)
    assert shown.stdout.splitlines()[:3] == before.stdout.splitlines()[:3]


@pytest.mark.mount
def test_who_wants_to_change_a_store_that_is_taken_is_not_told_to_look_at_it(tmp_path: Path) -> None:
    subprocess.run([JOURNALFS, "create", tmp_path / "store"], check=True, capture_output=True)
    with mounted_for_writing(tmp_path / "store", tmp_path / "mnt"):
        for words in (["compact"], ["check", "--set-aside"], ["take"], ["put"]):
            target = ["DLQ::DLQ"] if words[0] in {"take", "put"} else []
            done = journalfs(*words, tmp_path / "store", *target)
            assert done.returncode == EXIT_BUSY
            assert "stop that first" in done.stderr
            assert "read-only" not in done.stderr


@pytest.mark.mount
def test_a_mount_is_no_store_to_rewrite(tmp_path: Path) -> None:
    subprocess.run([JOURNALFS, "create", tmp_path / "store"], check=True, capture_output=True)
    with mounted_for_writing(tmp_path / "store", tmp_path / "mnt") as mount:
        done = journalfs("compact", mount.path)
        assert done.returncode == EXIT_NOT_A_STORE
        assert "a store is mounted here; give the path of that store, after umount" in done.stderr
