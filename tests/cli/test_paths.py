"""Paths that name no store, however odd: one line and the right exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from journalfs.config.layout import locate_store
from journalfs.errors import NotAStore, SystemFailure
from tests.cli.running import journalfs
from tests.frozen import PristineStores
from tests.mounting import JOURNALFS
from tests.tools.crash_copy import copy_as_left


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with a link to itself, a plain file and a mount point."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "mnt").mkdir()
    return tmp_path


ODD = [
    ("loop", 3, "Too many levels of symbolic links"),
    ("loop/below", 3, "Too many levels of symbolic links"),
    ("file/below", 3, "there is no such directory"),
    ("x" * 300, 3, "File name too long"),
    ("x/" * 3000, 3, "File name too long"),
    ("file", 3, "no message store here"),
    ("line\nbreak", 3, "there is no such directory"),
]


@pytest.mark.rule("S-58")
@pytest.mark.parametrize(("name", "code", "says"), ODD, ids=[name[:12] for name, _, _ in ODD])
@pytest.mark.parametrize(
    "command", [["ls"], ["mount", "--read-only"], ["check"], ["print"]], ids=lambda c: c[0]
)
def test_a_path_without_a_store_is_refused_in_one_line(
    odd: Path, command: list[str], name: str, code: int, says: str
) -> None:
    place = [odd / "mnt"] if command[0] == "mount" else []
    done = subprocess.run(
        [JOURNALFS, *command, odd / name, *place], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not os.path.ismount(odd / "mnt")


@pytest.mark.parametrize("command", [["ls"], ["mount", "--read-only"]], ids=lambda c: c[0])
def test_an_empty_path_is_a_variable_that_was_not_set(odd: Path, command: list[str]) -> None:
    place = [odd / "mnt"] if command[0] == "mount" else []
    done = journalfs(*command, "", *place)
    assert (done.returncode, "an empty path" in done.stderr) == (1, True)


@pytest.mark.parametrize("name", ["nul\0inside", "half a character \ud800"])
def test_what_no_file_can_be_named_holds_no_store(odd: Path, name: str) -> None:
    with pytest.raises(NotAStore, match="no directory can have this name"):
        locate_store(f"{odd}/{name}")


def test_a_directory_that_may_not_be_looked_into_is_said(tmp_path: Path) -> None:
    (tmp_path / "shut/data").mkdir(parents=True)
    (tmp_path / "shut").chmod(0)
    before = os.geteuid()
    os.seteuid(65534 if before == 0 else before)  # root may look everywhere
    try:
        with pytest.raises(SystemFailure, match="shut/data: cannot look for a store: Permission denied"):
            locate_store(tmp_path / "shut/data")
    finally:
        os.seteuid(before)
        (tmp_path / "shut").chmod(0o700)


def test_output_that_cannot_be_written_is_said_in_one_line(stores: PristineStores) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [JOURNALFS, "cat", "--no-index", stores["orders-basic"]],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 2
    assert done.stderr == "journalfs: No space left on device\n"


@pytest.mark.parametrize("name", ["broker.xml", "data/paging/pages/address.txt", "data/journal/serverlock.1"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    stores: PristineStores, tmp_path: Path, name: str
) -> None:
    store = tmp_path / "store"
    copy_as_left(stores["aio"], store)
    (store / name).parent.mkdir(parents=True, exist_ok=True)
    (store / name).unlink(missing_ok=True)
    os.mkfifo(store / name)
    done = subprocess.run([JOURNALFS, "ls", store], capture_output=True, text=True, check=False, timeout=60)
    said = f"journalfs: {store / name}: not a regular file, so no configuration is read\n"
    assert (done.returncode, done.stderr) == (0, said if name == "broker.xml" else "")
