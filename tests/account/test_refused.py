"""What the operating system refuses ends every command with 2, the path and what to do, and makes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journalfs.errors import EXIT_SYSTEM
from tests.mounting import JOURNALFS, journalfs

Copy = Callable[[str], Path]
NOBODY = 65534

COMMANDS = {
    "check": ("check", "STORE"),
    "status": ("status", "STORE"),
    "cat": ("cat", "STORE"),
    "export": ("export", "STORE", "NEW"),
    "export-lines": ("export", "--format", "lines", "STORE", "NEW"),
    "backup": ("backup", "STORE", "NEW"),
    "replay": ("replay", "--dry-run", "STORE"),
    "diff": ("diff", "STORE", "STORE"),
    "scrub": ("scrub", "--state", "STATE", "STORE"),
    "compact": ("compact", "STORE"),
    "compact-dry": ("compact", "--dry-run", "STORE"),
    "convert": ("convert", "STORE", "NEW"),
    "recover": ("recover", "STORE", "--out", "NEW"),
    "repair": ("repair", "STORE", "--out", "NEW"),
    "archive": ("pipeline", "archive", "STORE", "--output", "NEW"),
}
QUICK = ("export", "backup", "replay", "archive")


@pytest.fixture
def shut(store_copy: Copy) -> Iterator[Path]:
    """A store of a user who may not look into a part of it; root acts as that user."""
    data = store_copy("retention") / "data"
    if os.geteuid() == 0:
        for path in (data.parent, *data.parent.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        for above in data.parents:
            if above.stat().st_uid == 0 and above.stat().st_mode & 0o005 != 0o005:
                above.chmod(above.stat().st_mode | 0o055)
    yield data
    for folder in ("journal", "bindings", "paging", "large-messages"):
        if (data / folder).exists():
            (data / folder).chmod(0o700)


@pytest.mark.rule("S-326")
@pytest.mark.parametrize(
    "name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.long) for one in COMMANDS]
)
@pytest.mark.parametrize("part", ["journal", pytest.param("bindings", marks=pytest.mark.long)])
def test_a_directory_that_may_not_be_looked_into(name: str, part: str, shut: Path, tmp_path: Path) -> None:
    if name in ("export-lines", "replay") and part == "bindings":
        pytest.skip("it does not read bindings")
    new = tmp_path / "new"
    (shut / part).chmod(0)
    given = {"STORE": shut, "NEW": new, "STATE": tmp_path / "state"}
    command: list[str | Path] = [JOURNALFS, *(given.get(word, word) for word in COMMANDS[name])]
    if name == "archive" and os.geteuid() == 0:  # root reads anything there, unless it lacks these
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_SYSTEM, done.stderr
    assert done.stdout == ""
    assert f"{shut / part}: cannot " in done.stderr
    assert "Permission denied" in done.stderr
    assert not new.exists() or not list(new.rglob("*.json"))


@pytest.mark.rule("S-326")
def test_whom_root_acts_as_is_said(shut: Path) -> None:
    (shut / "journal").chmod(0)
    done = journalfs("ls", shut)
    if os.geteuid() == 0:
        assert "root acts as user nobody (65534)" in done.stderr
        assert "setpriv --reuid=" in done.stderr
    (shut / "journal").chmod(0o700)
    assert journalfs("ls", shut).returncode == 0


@pytest.mark.rule("S-326")
def test_every_file_of_a_journal_is_refused(shut: Path, tmp_path: Path) -> None:
    for path in (shut / "journal").iterdir():
        path.chmod(0)
    done = journalfs("export", shut, tmp_path / "out")
    assert done.returncode == EXIT_SYSTEM
    assert "cannot read it: Permission denied" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.rule("S-326")
def test_a_file_that_cannot_be_imported(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert journalfs("create", store).returncode == 0
    (tmp_path / "in.jsonl").mkdir()
    done = journalfs("import", tmp_path / "in.jsonl", store)
    assert done.returncode == EXIT_SYSTEM
    assert str(tmp_path / "in.jsonl") in done.stderr
    shutil.rmtree(store)
