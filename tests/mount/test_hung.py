"""A mount whose process is stopped: whoever wants to be rid of it is told so, and does not hang with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from journalfs_mount.process.mount_table import mounted_at
from journalfs_mount.start import mountpoint
from journalfs_mount.start.mountpoint import MountSilent, is_dead, prepare, serving_process
from tests.cli.running import journalfs
from tests.frozen import PristineStores
from tests.mount.conftest import until
from tests.mount.test_launch import run, server_of

pytestmark = pytest.mark.mount


@pytest.fixture
def hung(stores: PristineStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(mountpoint, "ANSWER_WAIT_S", 0.5)
    place = tmp_path / "mnt"
    place.mkdir()
    assert run("mount", "--read-only", stores["aio"], place).returncode == 0
    process = server_of(place)
    os.kill(process, signal.SIGSTOP)
    yield place
    os.kill(process, signal.SIGCONT)
    if mounted_at(place) is not None:
        subprocess.run(["umount", "--lazy", "--no-canonicalize", place], check=True)
    until(lambda: not Path(f"/proc/{process}/fd/0").exists(), "the mount's process has ended")


def test_each_question_ends(hung: Path) -> None:
    for question in (is_dead, serving_process):
        with pytest.raises(MountSilent, match="does not answer"):
            question(hung)


def test_unmounting_and_mounting_again_say_what_to_do(hung: Path, stores: PristineStores) -> None:
    began = time.monotonic()
    done = journalfs("umount", hung)
    assert done.returncode == 32
    assert "does not answer" in done.stderr
    assert "umount --lazy" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    with pytest.raises(MountSilent, match="umount --lazy"):
        prepare(hung, stores["aio"], allow_nonempty=False)
    assert time.monotonic() - began < 30
    assert mounted_at(hung) is not None


@pytest.mark.parametrize("through", ["itself", "a link", "a link in the path"])
def test_unmounting_lazily_asks_nothing(hung: Path, through: str) -> None:
    (hung.parent / "link").symlink_to("mnt")
    (hung.parent / "up").symlink_to(hung.parent)
    given = {"itself": hung, "a link": hung.parent / "link", "a link in the path": hung.parent / "up" / "mnt"}
    # In a process of its own: if it did hang, it would be the one that is ended.
    done = run("umount", "--lazy", given[through])
    assert (done.returncode, done.stderr) == (0, "")
    assert mounted_at(hung) is None
