"""How a mount begins and ends, well or badly."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from journalfs.errors import MountFailed, MountpointBusy, WrongCall
from journalfs_mount.process.mount_table import mounted_at
from journalfs_mount.start.mountpoint import MountInUse, holders, is_dead, prepare, unmount
from tests.mount.conftest import DEADLINE_S, MountFake, until

pytestmark = pytest.mark.mount

STORE = Path("/nowhere")


@pytest.mark.parametrize("loop", ["fast", "stock"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_unmounts_and_closes_the_store(mount_fake: MountFake, number: int, loop: str) -> None:
    mounted = mount_fake("small", f"loop={loop}")
    os.listdir(mounted.path / "orders")
    mounted.process.send_signal(number)
    assert mounted.answer() == {"closed": True, "open_sources": 0}
    assert mounted.process.wait(DEADLINE_S) == 0
    assert not mounted.is_mounted()


@pytest.mark.parametrize("loop", ["fast", "stock"])
def test_unmounting_ends_the_process(mount_fake: MountFake, loop: str) -> None:
    mounted = mount_fake("small", f"loop={loop}")
    os.listdir(mounted.path / "orders")
    unmount(mounted.path)
    assert mounted.answer() == {"closed": True, "open_sources": 0}
    assert mounted.process.wait(DEADLINE_S) == 0


def test_a_signal_ends_the_mount_though_files_are_open(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    file = os.open(mounted.path / "orders/billing/_tail.jsonl", os.O_RDONLY)
    assert os.read(file, 10)
    mounted.process.terminate()
    assert mounted.answer() == {"closed": True, "open_sources": 0}
    assert mounted.process.wait(DEADLINE_S) == 0
    with pytest.raises(OSError, match="not connected"):
        os.read(file, 10)
    with pytest.raises(OSError, match="not connected"):
        os.close(file)
    assert not mounted.is_mounted()


def test_a_mount_in_use_is_not_unmounted_and_its_users_are_named(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    with open(mounted.path / "orders/billing/_tail.jsonl", "rb"):
        with pytest.raises(MountInUse, match=rf"in use by .*\({os.getpid()}\)"):
            unmount(mounted.path)
        assert os.getpid() in dict(holders(mounted.path))
    assert mounted.is_mounted()
    unmount(mounted.path)
    assert mounted.process.wait(DEADLINE_S) == 0


def test_a_lazily_unmounted_file_can_be_read_to_its_end(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    with open(mounted.path / "orders/billing/part-0001-1-0000000001.jsonl", "rb") as file:
        unmount(mounted.path, lazy=True)
        assert not mounted.is_mounted()
        assert file.read().count(b"\n") == 10
    assert mounted.process.wait(DEADLINE_S) == 0


def test_a_killed_mount_is_recognised_and_replaced(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    mounted.process.kill()
    mounted.process.wait(DEADLINE_S)
    until(lambda: is_dead(mounted.path), "the mount is dead")
    assert mounted.is_mounted()
    again = mount_fake("small", path=mounted.path)
    assert sorted(os.listdir(again.path)) == ["DLQ", "orders"]


def test_a_killed_mount_is_recognised_though_the_kernel_still_answers_for_it(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "nofollow")
    os.stat(mounted.path)
    mounted.process.kill()
    mounted.process.wait(DEADLINE_S)
    until(lambda: is_dead(mounted.path), "the mount is dead")
    assert os.stat(mounted.path).st_ino == 1, "from what the kernel remembers"
    with pytest.raises(OSError, match="not connected"):
        os.statvfs(mounted.path)
    again = mount_fake("small", path=mounted.path)
    assert sorted(os.listdir(again.path)) == ["DLQ", "orders"]


def test_a_mount_that_lives_is_not_mounted_over(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    with pytest.raises(MountpointBusy, match=r"fuse\.journalfs\) is mounted there"):
        prepare(mounted.path, STORE, allow_nonempty=True)


def test_a_dead_mount_of_somebody_else_is_left_alone(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "subtype=other")
    mounted.process.kill()
    mounted.process.wait(DEADLINE_S)
    until(lambda: is_dead(mounted.path), "the mount is dead")
    with pytest.raises(MountpointBusy):
        prepare(mounted.path, STORE, allow_nonempty=True)
    assert mounted.is_mounted()


def test_mount_points_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_bytes(b"")
    (tmp_path / "around/store").mkdir(parents=True)
    with pytest.raises(MountFailed, match="does not exist; create it"):
        prepare(tmp_path / "absent", STORE, allow_nonempty=False)
    with pytest.raises(MountFailed, match="not a directory"):
        prepare(tmp_path / "file", STORE, allow_nonempty=False)
    with pytest.raises(MountpointBusy, match="not empty"):
        prepare(tmp_path / "full", STORE, allow_nonempty=False)
    assert prepare(tmp_path / "full", STORE, allow_nonempty=True) == tmp_path / "full"
    for place in ("around", "around/store"):
        with pytest.raises(WrongCall, match="would hide the store"):
            prepare(tmp_path / place, tmp_path / "around/store", allow_nonempty=True)
    (tmp_path / "around/store/deep/inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to("around/store/deep")
    for place in ("around/store/deep/inside", "link", "link/inside"):
        with pytest.raises(WrongCall, match="it lies inside the store"):
            prepare(tmp_path / place, tmp_path / "around/store", allow_nonempty=True)


def test_the_mount_table_is_read_with_its_escapes(mount_fake: MountFake, tmp_path: Path) -> None:
    place = tmp_path / "a b\tc\\d"
    mounted = mount_fake("small", path=place)
    entry = mounted_at(place)
    assert entry is not None
    assert (entry.filesystem, entry.source) == ("fuse.journalfs", "/nowhere")
    assert entry.device == f"{os.major(place.stat().st_dev)}:{os.minor(place.stat().st_dev)}"
    unmount(mounted.path)


def test_the_kernel_reads_ahead_as_far_as_it_can(mount_fake: MountFake) -> None:
    mounted = mount_fake("small")
    until(lambda: mounted.report().get("readAheadKib") is not None, "the mount tuned the kernel")
    entry = mounted_at(mounted.path)
    assert entry is not None
    assert Path(f"/sys/class/bdi/{entry.device}/read_ahead_kb").read_text() == "1024\n"


def test_df_and_mount_name_the_store(mount_fake: MountFake) -> None:
    mounted = mount_fake("small", "fsname=warehouse")
    done = subprocess.run(["df", "--output=source", mounted.path], check=True, capture_output=True, text=True)
    assert done.stdout.split()[-1] == "warehouse"
