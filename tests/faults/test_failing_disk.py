"""The disk of a mounted store fails: who changes something is told, nobody tries again, nothing is lost."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.disks import Disk, small_ext4
from tests.faults.places import TOLD, bodies, fill, make_store, named, refusals, write
from tests.kinds import BACKENDS
from tests.mounting import MountedStore, QueueOnDisk, mounted_for_writing
from tests.writing.conftest import errno_of

IMAGE_BYTES = 64 << 20
MIB = 1 << 20
FAILED = "activemq-data-1.amq: writing failed: Input/output error"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_ext4(tmp_path, IMAGE_BYTES) as made:
        yield made


@pytest.fixture(scope="module")
def failing_syncs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that makes a process's syncs fail as long as a file is there."""
    library = tmp_path_factory.mktemp("failing") / "count_syncs.so"
    source = Path(__file__).parents[1] / "journal" / "c" / "count_syncs.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def refused(path: Path, content: bytes) -> int | None:
    """The errno that a write fails with."""
    try:
        write(path, content)
    except OSError as error:
        return error.errno
    return None


def is_refused_everything(queue: QueueOnDisk) -> None:
    """Whoever changes something, from the first failure on."""
    work = queue.path.parent
    message = queue.path / ".messages" / queue.listed()[0]
    assert errno_of(write, work / "later.txt", b"not taken\n") == errno.EROFS
    assert errno_of(message.unlink) == errno.EROFS
    assert errno_of((work / "work.b").mkdir) == errno.EROFS
    assert errno_of(os.setxattr, work, "user.journalfs.max-delivery-attempts", b"3") == errno.EROFS


def says_why(mount: MountedStore) -> None:
    (event,) = named(mount, "write-failed")
    assert event["message"].startswith(FAILED)
    assert "takes no changes until it is mounted again" in event["message"]
    assert mount.control("status.json")["writeFailure"].startswith(FAILED)
    (first, why), *others = refusals(mount)
    assert first == "work/late.txt: EIO"
    assert why.startswith(FAILED)
    assert {what.rpartition(": ")[2] for what, _ in others} == {"EROFS"}
    assert all(FAILED in why for _, why in others)


@pytest.mark.rule("S-74")
@pytest.mark.parametrize("journal_type", BACKENDS)
def test_a_disk_that_stops(tmp_path: Path, disk: Disk, journal_type: str) -> None:
    """The kernel refuses every write of the file system, whatever way the journal is written."""
    store = make_store(disk.mounted / "store", journal_type)
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        queue = fill(mount)
        disk.stop()
        assert errno_of(write, queue.path.parent / "late.txt", b"not told\n") == errno.EIO
        is_refused_everything(queue)
        assert bodies(queue) == TOLD
        says_why(mount)
    assert "is unmounted" in (tmp_path / "mnt.log").read_text()
    disk.unmount()
    disk.mount()
    with mounted_for_writing(store, tmp_path / "mnt"):
        assert bodies(queue) == TOLD
        write(queue.path.parent / "in.txt", b"again\n")
        assert bodies(queue) == [*TOLD, "again"]
        assert refusals(mount) == []


@pytest.mark.parametrize("journal_type", ["NIO", "MAPPED"])
def test_a_sync_that_fails_once_is_not_tried_again(
    tmp_path: Path, failing_syncs: Path, monkeypatch: pytest.MonkeyPatch, journal_type: str
) -> None:
    """The next sync would succeed, and say nothing of what the failed one lost."""
    flag, log = tmp_path / "fail", tmp_path / "syncs"
    store = make_store(tmp_path / "store", journal_type)
    with monkeypatch.context() as environment:
        environment.setenv("LD_PRELOAD", str(failing_syncs))
        environment.setenv("SYNCS_FAIL_IF", str(flag))
        environment.setenv("SYNCS_LOG", str(log))
        mounting = ExitStack()
        mount = mounting.enter_context(mounted_for_writing(store, tmp_path / "mnt"))
    with mounting:
        queue = fill(mount)
        flag.touch()
        assert errno_of(write, queue.path.parent / "late.txt", b"not told\n") == errno.EIO
        flag.unlink()
        syncs = log.read_text().split()
        assert syncs.count("refused") == 1
        is_refused_everything(queue)
        assert log.read_text().split() == syncs
        assert bodies(queue) == TOLD
        says_why(mount)
    with mounted_for_writing(store, tmp_path / "mnt"):
        # The disk may have had it after all.
        assert bodies(queue) in (TOLD, [*TOLD, "not told"])
        write(queue.path.parent / "in.txt", b"again\n")
        assert bodies(queue)[-1] == "again"


@pytest.mark.parametrize("journal_type", BACKENDS)
def test_a_disk_without_room(tmp_path: Path, disk: Disk, journal_type: str) -> None:
    # Nobody looks at the disk meanwhile, and has writers wait before it is full.
    settings = {"max-disk-usage": 100, "disk-scan-period": 3_600_000}
    store = make_store(disk.mounted / "store", journal_type, **settings)
    with mounted_for_writing(store, tmp_path / "mnt") as mount:
        queue = fill(mount)
        (disk.mounted / "filler").write_bytes(bytes(os.statvfs(disk.mounted).f_bavail * 1024 - 8 * MIB))
        line = b"x" * 50_000 + b"\n"
        taken = 0
        while (number := refused(queue.path.parent / "in.txt", line)) is None:
            taken += 1
            assert taken < 1000, "the disk is never full"
        assert number == errno.ENOSPC
        assert len(bodies(queue)) == len(TOLD) + taken
        what, why = refusals(mount)[-1]
        assert what == "work/in.txt: ENOSPC"
        assert "no room for another journal file" in why
        for name in queue.listed():
            (queue.path / ".messages" / name).unlink()
        assert bodies(queue) == []
        write(queue.path.parent / "in.txt", line)
        assert mount.control("status.json")["writeFailure"] is None
    with mounted_for_writing(store, tmp_path / "mnt"):
        assert [len(body) for body in bodies(queue)] == [50_000]
