"""Rules of mounting and unmounting: what the command promises, and its exit codes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.polling import eventually
from tests.mounting import journalfs, mounted

StoreCopy = Callable[[str], Path]


@pytest.mark.rule("S-55")
def test_the_mount_answers_when_the_command_returns(store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("aio")
    for _ in range(5):
        with mounted(store, tmp_path / "mnt") as mount:
            assert os.path.ismount(mount.path)
            assert os.listdir(mount.path)
        assert not os.path.ismount(tmp_path / "mnt")


def ended(process_id: int) -> bool:
    return not os.path.exists(f"/proc/{process_id}")


@pytest.mark.rule("S-56")
@pytest.mark.parametrize(
    "end",
    [
        lambda mountpoint, pid: journalfs("umount", mountpoint),
        lambda mountpoint, pid: subprocess.run(["umount", mountpoint], check=True),
        lambda mountpoint, pid: subprocess.run(["fusermount3", "-u", mountpoint], check=True),
        lambda mountpoint, pid: os.kill(pid, signal.SIGTERM),
        lambda mountpoint, pid: os.kill(pid, signal.SIGINT),
        lambda mountpoint, pid: os.kill(pid, signal.SIGHUP),
    ],
    ids=["journalfs-umount", "umount", "fusermount3", "SIGTERM", "SIGINT", "SIGHUP"],
)
def test_every_way_to_end_it(
    store_copy: StoreCopy, tmp_path: Path, end: Callable[[Path, int], object]
) -> None:
    store = store_copy("aio")
    with mounted(store, tmp_path / "mnt") as mount:
        process_id = mount.process_id()
        end(mount.path, process_id)
        eventually(lambda: ended(process_id), deadline_s=60, what="the mount's process ends")
        assert not os.path.ismount(mount.path)
        assert os.listdir(mount.path) == []
    assert [path for path in store.rglob("journalfs/index") if path.is_file()]


@pytest.mark.rule("S-57")
def test_a_dead_mount_is_replaced(store_copy: StoreCopy, tmp_path: Path) -> None:
    """By one that is alone there, shows the same and ends as any other."""
    store = store_copy("aio")
    with mounted(store, tmp_path / "mnt") as mount:
        before = content_of(mount.path)
        assert len(before) > 3
        killed = mount.process_id()
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: is_dead(mount.path), deadline_s=60, what="the mount is dead")
        again = journalfs("mount", "--read-only", store, mount.path)
        assert again.returncode == 0, again.stderr
        assert mount.process_id() != killed
        assert content_of(mount.path) == before
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        assert len([line for line in mounts if line.split()[4] == str(mount.path)]) == 1
        done = journalfs("umount", mount.path)
        assert done.returncode == 0, done.stderr
        assert not os.path.ismount(mount.path)
        assert os.listdir(mount.path) == []


def content_of(mountpoint: Path) -> dict[str, bytes]:
    """Every listed file with its content. After a kill tails go on with higher numbers."""
    return {
        re.sub(r"_tail-[0-9-]+", "_tail", str(Path(folder, name).relative_to(mountpoint))): Path(
            folder, name
        ).read_bytes()
        for folder, _, names in os.walk(mountpoint)
        for name in names
    }


def is_dead(path: Path) -> bool:
    try:
        os.listdir(path)
    except OSError:
        return True
    return False


@pytest.mark.rule("S-58", "S-55")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["mount", "--read-only", "{store}", "{mnt}/missing"], 32, "does not exist"),
        (["mount", "--read-only", "{store}", "{file}"], 32, "not a directory"),
        (["mount", "--read-only", "{store}", "{full}"], 32, "not empty"),
        (["mount", "--read-only", "{empty}", "{mnt}"], 3, "looked for"),
        (["mount", "--read-only", "{empty}/nowhere", "{mnt}"], 3, "nowhere"),
        (["mount", "--read-only", "-o", "bogus", "{store}", "{mnt}"], 1, "bogus"),
        (["mount", "-o", "sync=fast", "{store}", "{mnt}"], 1, "sync=always"),
        (["mount", "--read-only", "{store}"], 1, "MOUNTPOINT"),
        (["mount", "--read-only", "{badxml}", "{mnt}"], 6, "broker.xml"),
        (["umount", "{mnt}"], 32, "no journalfs filesystem"),
        (["frobnicate"], 1, "frobnicate"),
        (["--version"], 0, ""),
    ],
)
def test_exit_codes(
    store_copy: StoreCopy, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    places = {name: tmp_path / name for name in ("mnt", "empty", "full", "file")}
    for name in ("mnt", "empty", "full"):
        places[name].mkdir()
    places["file"].write_text("")
    (places["full"] / "something").write_text("")
    places["store"] = store_copy("aio")
    places["badxml"] = store_copy("aio")
    (places["badxml"] / "broker.xml").write_text("<configuration><core></configuration>\n")
    done = journalfs(*[argument.format(**places) for argument in arguments])
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not os.path.ismount(places["mnt"])
    if code not in (0, 1):
        assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.rule("S-58")
def test_a_store_of_another_kind_says_which(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    export = tmp_path / "export"
    export.mkdir()
    for name in ("bindings.txt", "data.txt"):
        (export / name).write_text("")
    done = journalfs("mount", "--read-only", export, tmp_path / "mnt")
    assert done.returncode == 4, done.stderr
    assert "a text export of journals" in done.stderr


@pytest.mark.rule("S-58")
def test_a_mountpoint_in_use_is_refused(store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("aio")
    with mounted(store, tmp_path / "mnt") as mount:
        second = journalfs("mount", "--read-only", store, mount.path)
        assert second.returncode == 32
        assert "is mounted there" in second.stderr
        with (mount.path / os.listdir(mount.path)[0] / ".status").open():
            busy = journalfs("umount", mount.path)
            assert busy.returncode == 7
            assert "in use" in busy.stderr


@pytest.mark.rule("S-55")
def test_a_mount_point_inside_the_store_is_refused(store_copy: StoreCopy) -> None:
    store = store_copy("aio")
    inside = store / "data" / "paging" / "mnt"
    inside.mkdir(parents=True)
    done = journalfs("mount", "--read-only", store, inside)
    assert done.returncode == 1
    assert "lies inside the store" in done.stderr
