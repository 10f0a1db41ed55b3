"""`.journalfs/snapshots/`, through the kernel: `mkdir`, reading what was there, `rmdir`."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.mounting import MountedStore, QueueOnDisk, journalfs, mounted, mounted_for_writing
from tests.writing.conftest import Address, Remount, bodies, errno_of, new_store, shell


def snapshots(mount: MountedStore) -> Path:
    return mount.path / ".journalfs/snapshots"


def within(snapshot: Path, queue: QueueOnDisk) -> QueueOnDisk:
    """A queue as it is in a snapshot."""
    return QueueOnDisk(snapshot / queue.path.parent.name / queue.path.name)


@pytest.mark.rule("S-126")
def test_everything_that_was_there_and_nothing_since(mount: MountedStore, address: Address) -> None:
    shell("seq 100 > in.txt; printf '{\"a\":1}' > b.json", address.path)
    first = snapshots(mount) / "first"
    first.mkdir()
    now = within(first, address.first)
    before = address.first.lines(), address.first.listed(), bodies(address.second)
    shell("echo late > in.txt; rm *-first/.messages/*", address.path)
    assert not address.first.lines()
    assert (now.lines(), now.listed(), bodies(within(first, address.second))) == before
    assert not (now.path / "_tail.jsonl").stat().st_size
    assert sorted(os.listdir(now.path)) == sorted(path.name for path in now.path.glob("part-*.jsonl"))
    some = now.path / ".messages" / before[1][0]
    assert some.read_bytes() == b"1"
    assert os.listdir(now.path / ".where" / "JMSPriority = 4" / ".messages") == before[1]
    assert len((now.path / ".all.jsonl").read_bytes().splitlines()) == 101
    assert now.status()["messageCount"] == 101
    assert os.getxattr(some, "user.journalfs.priority") == b"4"
    assert mount.control("snapshots/first/.journalfs/status.json")["messages"] >= 202
    assert json.loads((first / ".status").read_text())["name"] == "first"
    assert mount.control("snapshots/.status")["snapshots"] == 1
    first.rmdir()
    assert not first.exists()


@pytest.mark.rule("S-126", "S-128")
def test_one_that_was_looked_into_gives_back_its_room(remount: Remount) -> None:
    mount = remount()
    queue = mount.path / "a" / "q"
    queue.mkdir(parents=True)
    shell("seq 1000 > in.txt", queue)
    made = snapshots(mount) / "x"
    made.mkdir()
    assert len(within(made, QueueOnDisk(queue)).lines()) == 1000
    (made / ".status").read_bytes()
    maps = Path(f"/proc/{mount.process_id()}/maps")
    assert "/snapshots/" in maps.read_text()
    made.rmdir()
    until(lambda: "/snapshots/" not in maps.read_text(), "nothing of it is mapped any more")


@pytest.mark.rule("S-126")
def test_it_outlives_the_mount(remount: Remount) -> None:
    mount = remount()
    queue = mount.path / "a" / "q"
    queue.mkdir(parents=True)
    shell("seq 10 > in.txt", queue)
    (snapshots(mount) / "x").mkdir()
    shell("rm part-*.jsonl _tail.jsonl; seq 20 30 > in.txt", queue)
    names: list[list[str]] = []
    for words in ([], ["ro"]):
        mount = remount(*words)
        then = QueueOnDisk(snapshots(mount) / "x" / "a" / "q")
        assert bodies(then) == [str(number) for number in range(1, 11)]
        names.append(sorted(os.listdir(then.path)))
        assert bodies(mount.queue("a", "q"))[0] == "20"
    assert names[0] == names[1] != []
    assert errno_of(os.mkdir, snapshots(mount) / "y") == errno.EROFS
    assert errno_of(os.rmdir, snapshots(mount) / "x") == errno.EROFS


@pytest.mark.rule("S-129")
def test_names_and_refusals(mount: MountedStore, address: Address) -> None:
    folder = snapshots(mount)
    (folder / "x").mkdir()
    (folder / "a%2Fb").mkdir()
    assert sorted(os.listdir(folder)) == ["a%2Fb", "x"]
    assert errno_of(os.mkdir, folder / "x") == errno.EEXIST
    assert errno_of(os.mkdir, folder / ".x") == errno.EINVAL
    assert errno_of(os.mkdir, folder / "_x") == errno.EINVAL
    assert errno_of(os.mkdir, folder / "x" / "new") == errno.EROFS
    assert errno_of(os.rmdir, folder / "missing") == errno.ENOENT
    assert errno_of(os.rename, folder / "x", folder / "y") == errno.EPERM
    assert "a snapshot keeps its name" in mount.events()[-1]["message"]
    assert errno_of(os.rmdir, folder) == errno.EPERM
    assert "snapshots that were removed from it are gone" in mount.events()[-1]["message"]
    queue = folder / "x" / address.path.name / address.first.path.name
    for name in ("in.txt", "_staged", "_SUCCESS"):
        assert errno_of(os.open, queue / name, os.O_WRONLY | os.O_CREAT) == errno.EROFS
    assert errno_of(os.rmdir, queue) == errno.EROFS
    assert errno_of(os.setxattr, queue, "user.journalfs.max-consumers", b"3") == errno.EROFS
    within_it = queue.relative_to(mount.path)
    said = [one for one in mount.events() if one["event"] == "refused" and "snapshots/x" in one["what"]]
    names = ("in.txt", "_staged", "_SUCCESS")
    refused = [f"{within_it}/{name}" for name in names] + [str(within_it)] * 2
    assert [one["what"] for one in said[-5:]] == [f"{path}: EROFS" for path in refused]
    assert {one["reason"] for one in said[-5:]} == {
        "a snapshot never changes; it is removed as a whole, by rmdir of its directory"
    }
    assert not (queue / ".take").exists()
    assert not (queue / ".follow").exists()
    assert not (folder / "x/.journalfs/snapshots").exists()
    for name in ("x", "a%2Fb"):
        (folder / name).rmdir()
    assert not os.listdir(folder)


@pytest.mark.rule("S-128")
def test_one_that_is_being_read_is_not_removed(mount: MountedStore, address: Address) -> None:
    shell("seq 100 > in.txt", address.path)
    made = snapshots(mount) / "busy"
    made.mkdir()
    (part,) = within(made, address.first).path.glob("part-*.jsonl")
    with part.open("rb") as opened:
        assert errno_of(os.rmdir, made) == errno.EBUSY
        assert len(opened.readlines()) == 100
    message = next((within(made, address.first).path / ".messages").iterdir())
    with message.open("rb"):
        assert errno_of(os.rmdir, made) == errno.EBUSY
    made.rmdir()


@pytest.mark.rule("S-128")
def test_the_same_name_again_is_another_snapshot(mount: MountedStore, address: Address) -> None:
    made = snapshots(mount) / "again"
    for number in range(3):
        shell(f"echo {number} > in.txt", address.path)
        made.mkdir()
        queue = within(made, address.first)
        assert bodies(queue) == [str(one) for one in range(number + 1)]
        assert [path.read_bytes() for path in sorted((queue.path / ".messages").iterdir())] == [
            b"%d" % one for one in range(number + 1)
        ]
        made.rmdir()
        assert not queue.path.exists()


def test_messages_of_a_snapshot_are_other_files_than_those_of_the_store(
    mount: MountedStore, address: Address
) -> None:
    shell("echo one > in.txt", address.path)
    made = snapshots(mount) / "inodes"
    made.mkdir()
    (name,) = address.first.listed()
    there, then = (queue.path / ".messages" / name for queue in (address.first, within(made, address.first)))
    assert there.stat().st_ino != then.stat().st_ino
    there.unlink()
    assert then.read_bytes() == b"one"
    assert errno_of(os.unlink, then) == errno.EROFS
    made.rmdir()


@pytest.mark.rule("S-127")
def test_read_while_others_publish_and_remove(remount: Remount) -> None:
    mount = remount()
    queue = mount.path / "a" / "q"
    queue.mkdir(parents=True)
    done = threading.Event()

    def work() -> None:
        number = 0
        while not done.is_set():
            (queue / "in.txt").write_bytes(b"".join(b"%d-%d\n" % (number, one) for one in range(50)))
            for path in list((queue / ".messages").iterdir())[:50]:
                path.unlink()
            number += 1

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for turn in range(5):
            made = snapshots(mount) / f"s{turn}"
            made.mkdir()
            then = QueueOnDisk(made / "a" / "q")
            found = [bodies(then) for _ in range(3)]
            assert found[0] == found[1] == found[2]
            assert len(set(found[0])) == len(found[0]) == len(then.listed())
    finally:
        done.set()
        worker.join()
    again = {path.name: bodies(QueueOnDisk(path / "a" / "q")) for path in snapshots(mount).iterdir()}
    mount = remount()
    assert again == {path.name: bodies(QueueOnDisk(path / "a" / "q")) for path in snapshots(mount).iterdir()}


def test_a_copy_of_a_snapshot_is_a_copy_of_the_store(remount: Remount, tmp_path: Path) -> None:
    mount = remount()
    queue = mount.path / "a" / "q"
    queue.mkdir(parents=True)
    shell("seq 10 > in.txt", queue)
    (snapshots(mount) / "x").mkdir()
    other = new_store(tmp_path / "other")
    with mounted_for_writing(other, tmp_path / "mnt2") as target:
        shell(f"cp -r {snapshots(mount)}/x/* {target.path}/", tmp_path)
        assert bodies(target.queue("a", "q")) == [str(number) for number in range(1, 11)]


@pytest.mark.rule("S-130")
def test_the_status_says_what_is_wrong(remount: Remount, tmp_path: Path) -> None:
    mount = remount()
    (mount.path / "a" / "q").mkdir(parents=True)
    shell("seq 10 > in.txt", mount.path / "a" / "q")
    (snapshots(mount) / "x").mkdir()
    description = tmp_path / "store/journalfs/snapshots/x/snapshot.json"
    description.write_bytes(b"{}")
    mount = remount()
    status = json.loads((snapshots(mount) / "x/.status").read_text())
    assert "no description" in status["problem"]
    assert errno_of(os.listdir, snapshots(mount) / "x") == errno.EIO
    assert (mount.path / "a" / "q").exists()
    (snapshots(mount) / "x").rmdir()


@pytest.mark.rule("S-129")
def test_a_snapshot_s_folder_is_not_mounted_for_writing(remount: Remount, tmp_path: Path) -> None:
    mount = remount()
    (mount.path / "a" / "q").mkdir(parents=True)
    shell("echo one > in.txt", mount.path / "a" / "q")
    (snapshots(mount) / "x").mkdir()
    shell("echo two > in.txt", mount.path / "a" / "q")
    folder = tmp_path / "store/journalfs/snapshots/x"
    target = tmp_path / "mnt2"
    target.mkdir()
    done = journalfs("mount", folder, target)
    assert done.returncode == 1
    assert "snapshot" in done.stderr
    with mounted(folder, target) as then:
        assert bodies(then.queue("a", "q")) == ["one"]
    listed: subprocess.CompletedProcess[str] = journalfs("cat", folder, "a::q")
    assert '"one"' in listed.stdout
    assert '"two"' not in listed.stdout
