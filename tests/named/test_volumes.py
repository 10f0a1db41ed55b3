"""The volume of a container: the data directory is root's, and what lies in it the broker's user's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mounting import journalfs, mounted_for_writing
from tests.named.instances import make_instance

pytestmark = [
    pytest.mark.rule("S-339"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
]

USER, GROUP = 12_345, 12_346
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups"]


def let_in(path: Path) -> None:
    """Let every user get to a folder of this test."""
    for one in (path, *path.parents[:3]):
        one.chmod(one.stat().st_mode | 0o011)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    data = (make_instance(tmp_path / "broker") / "data").rename(tmp_path / "volume")
    shutil.rmtree(data / "journalfs", ignore_errors=True)
    for part in data.iterdir():
        for one in (part, *part.rglob("*")):
            shutil.chown(one, USER, GROUP)
    let_in(tmp_path)
    assert data.stat().st_uid == 0
    return data


@pytest.mark.mount
def test_root_mounts_it_and_all_stays_the_brokers(volume: Path, tmp_path: Path) -> None:
    with mounted_for_writing(volume, tmp_path / "mnt") as store:
        (store.path / "orders/orders").mkdir(parents=True)
        (store.path / "orders/.staged").mkdir()
        (store.path / "orders/.staged/one.txt").write_text("x\n")
        (store.path / "orders/.staged").rename(store.path / "orders/published")
        assert not [event for event in store.events() if "Errno" in str(event)]
    theirs = {(one.lstat().st_uid, one.lstat().st_gid) for one in volume.rglob("*")}
    assert theirs == {(USER, GROUP)}
    assert volume.stat().st_uid == 0
    assert journalfs("compact", volume).stderr == ""


def test_a_missing_part_has_a_remedy(volume: Path) -> None:
    (volume / "paging").rmdir()
    done = journalfs("put", volume, "DLQ::DLQ", __file__)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    (remedy,) = re.findall(r"install -d .*", done.stderr)
    subprocess.run(remedy.split(), check=True)
    assert journalfs("put", volume, "DLQ::DLQ", __file__).returncode == 0


@pytest.mark.long
def test_its_user_is_told_what_root_has_to_make(volume: Path, tmp_path: Path) -> None:
    """The broker's user cannot make anything in it."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.chown(home, USER, GROUP)
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    program = (
        "import sys; from journalfs.store.write.opening import open_for_writing\n"
        "store = open_for_writing(sys.argv[1])\n"
        "try: store.staging_directory()\n"
        "except OSError as error: sys.exit(error.strerror)\n"
        "finally: store.close()"
    )
    command = [*AS_USER, sys.executable, "-c", program, str(volume)]

    def stage() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    done = stage()
    if "Permission denied" in done.stderr and "install -d" not in done.stderr:
        pytest.skip(f"this user cannot run the program: {done.stderr}")
    (remedy,) = re.findall(r"install -d .*", done.stderr)
    subprocess.run(remedy.split(), check=True)
    done = stage()
    assert done.returncode == 0, done.stderr


def test_an_instance_of_roots_has_a_remedy(tmp_path: Path) -> None:
    broker = make_instance(tmp_path / "broker")
    let_in(tmp_path)
    for one in (broker / "data", *(broker / "data").rglob("*")):
        shutil.chown(one, USER, GROUP)
    done = journalfs("put", broker, "DLQ::DLQ", __file__)
    assert done.returncode == 2
    (remedy,) = re.findall(r"install -d .*", done.stderr)
    subprocess.run(remedy.split(), check=True)
    assert journalfs("put", broker, "DLQ::DLQ", __file__).returncode == 0
