"""The place where a store is mounted goes while it is in use: by a lazy unmount, or because the kernel breaks
the mount's connection off.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from journalfs.store.locks import lock_holder
from journalfs_mount.process.mount_table import mounted_at
from tests.faults.places import TOLD, bodies, fill, make_store, write
from tests.mounting import COMMAND_S_MAX, MountedStore, QueueOnDisk, journalfs, mounted, mounted_for_writing
from tests.writing.conftest import errno_of


@dataclass
class InUse:
    """A mount whose files somebody has open."""

    store: Path
    mount: MountedStore
    queue: QueueOnDisk
    log: Path
    process: int
    """A descriptor that stands for the mount's process."""

    def ends(self) -> None:
        """The process ends in order, and has let go of the store."""
        ended, _, _ = select.select([self.process], [], [], COMMAND_S_MAX)
        assert ended, self.log.read_text()
        assert "Traceback" not in self.log.read_text()
        assert "is unmounted" in self.log.read_text()
        assert lock_holder(self.store / "journal") is None


@contextmanager
def in_use(tmp_path: Path, *options: str) -> Iterator[InUse]:
    store, place, log = make_store(tmp_path / "store", "NIO"), tmp_path / "mnt", tmp_path / "mnt.log"
    with mounted_for_writing(store, place) as mount:
        fill(mount)
    done = journalfs("mount", "--log-file", log, *options, store, place)
    assert done.returncode == 0, done.stderr
    mount = MountedStore(place)
    process = os.pidfd_open(mount.process_id())
    try:
        yield InUse(store, mount, mount.queue("work", "work.a"), log, process)
    finally:
        if not select.select([process], [], [], 0)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)
        while mounted_at(place) is not None:
            subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[Path]:
    """Where the kernel shows its connections of FUSE."""
    if os.geteuid() != 0:
        pytest.skip("breaking a connection off needs root")
    folder = tmp_path / "connections"
    folder.mkdir()
    subprocess.run(["mount", "-t", "fusectl", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def break_off(connections: Path, mount: MountedStore) -> None:
    (connections / str(os.minor(mount.path.stat().st_dev)) / "abort").write_text("1")


@pytest.mark.rule("S-134")
def test_a_connection_that_is_broken_off(tmp_path: Path, connections: Path) -> None:
    with in_use(tmp_path) as used:
        folder = used.queue.path
        writer = os.open(folder / "in.txt", os.O_WRONLY | os.O_CREAT)
        taker = os.open(folder / ".take", os.O_RDONLY)
        reader = os.open(folder / ".all.jsonl", os.O_RDONLY)
        os.write(writer, b"complete\nunfinished")
        os.fsync(writer)
        os.write(writer, b", and more")
        assert b"told 0" in os.read(taker, 65536)
        break_off(connections, used.mount)
        assert errno_of(os.write, writer, b"later\n") == errno.ENOTCONN
        assert errno_of(os.pread, reader, 100, 0) == errno.ENOTCONN
        assert errno_of(os.read, taker, 100) == errno.ENOTCONN
        assert errno_of(os.listdir, folder) == errno.ENOTCONN
        for descriptor in (writer, taker, reader):
            assert errno_of(os.close, descriptor) == errno.ENOTCONN
        used.ends()
        assert "the kernel broke the mount's connection off, with 3 files open" in used.log.read_text()
    with mounted_for_writing(used.store, tmp_path / "mnt"):
        # What the reader of `.take` had is not acknowledged; what was not flushed was not told to be kept.
        assert bodies(used.queue) == [*TOLD, "complete", "unfinished"]
        write(folder.parent / "in.txt", b"again\n")
        assert bodies(used.queue)[-1] == "again"


@pytest.mark.rule("S-134")
def test_a_connection_that_is_broken_off_while_nothing_is_written(tmp_path: Path, connections: Path) -> None:
    with in_use(tmp_path, "--read-only") as used:
        before = {path: path.read_bytes() for path in used.store.rglob("*.amq")}
        break_off(connections, used.mount)
        used.ends()
        assert "the kernel broke the mount's connection off" in used.log.read_text()
    assert {path: path.read_bytes() for path in used.store.rglob("*.amq")} == before
    with mounted(used.store, tmp_path / "mnt"):
        assert bodies(used.queue) == TOLD


@pytest.mark.rule("S-134")
def test_a_mount_that_is_detached_while_files_are_open(tmp_path: Path) -> None:
    """They go on until they are closed; then the process ends."""
    with in_use(tmp_path) as used:
        folder = used.queue.path
        writer = os.open(folder / "in.txt", os.O_WRONLY | os.O_CREAT)
        taker = os.open(folder / ".take", os.O_RDONLY)
        os.write(writer, b"complete\nunfinished")
        assert b"told 0" in os.read(taker, 65536)
        subprocess.run(["fusermount3", "-u", "-z", folder.parents[1]], check=True)
        assert errno_of(folder.stat) == errno.ENOENT
        os.write(writer, b", and more\n")
        assert b"told 1" in os.read(taker, 65536)
        os.close(writer)
        os.close(taker)
        used.ends()
        assert "broke" not in used.log.read_text()
    with mounted_for_writing(used.store, tmp_path / "mnt"):
        # A reader that closes and goes on has acknowledged what it got.
        assert bodies(used.queue)[-2:] == ["complete", "unfinished, and more"]
        assert bodies(used.queue)[-3] == TOLD[-1]
        assert TOLD[0] not in bodies(used.queue)
