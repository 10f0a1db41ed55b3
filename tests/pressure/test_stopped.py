"""A mount whose interpreter stops for good: all who wait for it are answered, and it ends by itself."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from journalfs_mount.process.mount_table import mounted_at
from tests.crash.plug import texts_in
from tests.mount.conftest import until

pytestmark = [pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

SILENT_S = "1"
HUNG = 70
ENDS_S_MAX = 30
ROOT = Path(__file__).parents[2]


@contextmanager
def stopping(store: Path, place: Path) -> Iterator[subprocess.Popen[str]]:
    place.mkdir()
    environment = {**os.environ, "JOURNALFS_SILENT_MAX_S": SILENT_S, "JOURNALFS_FRONT": "on"}
    command = [sys.executable, "-m", "tests.pressure.stopping_mount", "mount", "-f", str(store), str(place)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)
    try:
        until(lambda: mounted_at(place) is not None or process.poll() is not None, "the mount is there")
        yield process
    finally:
        process.kill()
        process.wait()
        if mounted_at(place) is not None:
            subprocess.run(["umount", "--lazy", "--no-canonicalize", place], check=True)


def asked(what: Callable[[], object], answers: list[object]) -> threading.Thread:
    def ask() -> None:
        try:
            answers.append(what())
        except OSError as error:
            answers.append(error.errno)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def store(empty_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(empty_store, tmp_path / "data"))


@pytest.mark.rule("S-360")
def test_who_waits_is_answered_and_the_mount_ends(store: Path, tmp_path: Path) -> None:
    place, answers = tmp_path / "mnt", list[object]()
    with stopping(store, place) as process:
        (place / "work/work.a/in.txt").write_text("told\n")
        began = time.monotonic()
        waiting = [asked(lambda: os.statvfs(place), answers)]
        assert process.stdout is not None
        assert process.stdout.readline() == "stopped\n"
        waiting += [asked(lambda: os.listdir(place / "paged"), answers) for _ in range(3)]
        assert process.wait(ENDS_S_MAX) == HUNG
        for thread in waiting:
            thread.join(ENDS_S_MAX)
            assert not thread.is_alive()
        assert time.monotonic() - began < ENDS_S_MAX
        assert len(answers) == 4
        assert errno.EIO in answers
        assert set(answers) <= {errno.EIO, errno.ENOTCONN, errno.ECONNABORTED}
        assert mounted_at(place) is None
        assert process.stderr is not None
        assert "the mount hangs" in process.stderr.read()
    assert texts_in(store)["work.a"] == ["told"]


def test_work_is_no_silence(store: Path, tmp_path: Path) -> None:
    """Nothing is asked for a while: the loop beats all the same."""
    place = tmp_path / "mnt"
    with stopping(store, place) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(4 * float(SILENT_S))
        assert {"paged", "work"} <= set(os.listdir(place))
