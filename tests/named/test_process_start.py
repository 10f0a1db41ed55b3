"""Commands started where an operator's shell may sit: a directory that is gone, closed descriptors, any
locale.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.broker.polling import eventually
from tests.mounting import JOURNALFS, MountedStore, mounted_for_writing
from tests.named.instances import make_instance

pytestmark = pytest.mark.rule("S-333")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_instance(tmp_path / "broker") / "data"


def run(command: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["/bin/bash", "-c", command], capture_output=True, check=False, timeout=60, **more)  # type: ignore[call-overload,no-any-return]


@pytest.mark.long
def test_a_working_directory_that_was_removed(store: Path, tmp_path: Path) -> None:
    mnt, gone, file = tmp_path / "mnt", tmp_path / "gone", tmp_path / "one.txt"
    mnt.mkdir()
    file.write_text("x\n")
    there = f"mkdir -p {gone}; cd {gone}; rmdir {gone};"
    calls = [
        f"ls {store}",
        f"put {store} DLQ::DLQ {file}",
        f"take {store} DLQ::DLQ --exec cat",
        f"check {store}",
        f"mount {store} {mnt}",
        f"umount {mnt}",
    ]
    for call in calls:
        done = run(f"{there} {JOURNALFS} {call}")
        assert done.returncode == 0, (call, done.stderr)
        assert b"rror" not in done.stderr.replace(b"getcwd: cannot access", b""), done.stderr
    done = run(f"{there} {JOURNALFS} ls data")
    assert done.returncode == 1
    assert b"the working directory is gone" in done.stderr


@pytest.mark.mount
def test_a_working_directory_inside_a_killed_mount(store: Path, tmp_path: Path) -> None:
    mnt, other = tmp_path / "mnt", tmp_path / "other"
    other.mkdir()
    try:
        with mounted_for_writing(store, mnt) as mounted:
            calls = (f"mount --read-only {store} {other}", f"umount {other}", f"ls {store}")
            command = "read; " + " && ".join(f"{JOURNALFS} {call}" for call in calls)
            with subprocess.Popen(
                ["/bin/bash", "-c", command], cwd=mnt / "DLQ", stdin=subprocess.PIPE, stderr=subprocess.PIPE
            ) as shell:
                os.kill(mounted.process_id(), signal.SIGKILL)
                wait_until_dead(mnt)
                _, errors = shell.communicate(b"\n", timeout=60)
            assert shell.returncode == 0, errors
    finally:
        subprocess.run(["umount", "--lazy", mnt], check=False, capture_output=True)


def wait_until_dead(mnt: Path) -> None:
    def is_dead() -> bool:
        try:
            os.statvfs(mnt)
        except OSError as error:
            return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
        return False

    eventually(is_dead, deadline_s=20, what="the mount goes on")


@pytest.mark.mount
@pytest.mark.long
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(store: Path, tmp_path: Path, closed: str) -> None:
    mnt, file = tmp_path / "mnt", tmp_path / "one.txt"
    mnt.mkdir()
    file.write_text("x\n")
    for call in (f"put {store} DLQ::DLQ {file}", f"ls {store}", "--version", f"mount {store} {mnt}"):
        done = run(f"{JOURNALFS} {call} {closed}")
        assert done.returncode == 0, (call, done.stderr)
        assert b"Traceback" not in done.stderr
    assert MountedStore(mnt).control("mount.json")["mountpoint"] == str(mnt)
    done = run(f"{JOURNALFS} umount {mnt} {closed}")
    assert done.returncode == 0, done.stderr
    done = run(f"{JOURNALFS} ls /nowhere {closed}")
    assert done.returncode == 3


@pytest.fixture(scope="module")
def latin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("locale")
    made = folder / "en_US.ISO-8859-1"
    subprocess.run(["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(made)], check=True)
    return {"LOCPATH": str(folder), "LC_ALL": "en_US.ISO-8859-1"}


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.long
@pytest.mark.parametrize("locale", ["latin", "C"])
def test_names_are_utf8_in_every_locale(
    store: Path, tmp_path: Path, locale: str, request: pytest.FixtureRequest
) -> None:
    said = request.getfixturevalue("latin") if locale == "latin" else C_LOCALE
    environment = {**os.environ, **said}
    name = "préfixe-日本"
    file = tmp_path / "naïve.txt"
    file.write_text("x\n")
    made = run(f"{JOURNALFS} put {store} '{name}::{name}' {file}", env=environment)
    if made.returncode:  # it has no such address yet
        with mounted_for_writing(store, tmp_path / "mnt") as mounted:
            (mounted.path / name / name).mkdir(parents=True)
        made = run(f"{JOURNALFS} put {store} '{name}::{name}' {file}", env=environment)
    assert made.returncode == 0, made.stderr
    listed = run(f"{JOURNALFS} ls {store}", env=environment)
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert name in listed.stdout.decode()
    taken = run(f"{JOURNALFS} take {store} '{name}::{name}'", env=environment)
    assert (taken.returncode, taken.stdout.count(b"\n")) == (0, 1), taken.stderr
