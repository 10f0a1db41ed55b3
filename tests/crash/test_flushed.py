"""A close or `fsync` that went well before a crash: what was written is there exactly once afterwards."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest
import trio

from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import SyncMode
from tests.broker.settings import ONE_IS_QUICK
from tests.crash.disks import Disk
from tests.crash.flush_client import FlushClient
from tests.crash.history import History
from tests.crash.plug import LONGEST_S, Plug, configure, text_of
from tests.crash.test_shutdown import CANARY_CYCLES, disk, plug
from tests.kinds import BACKENDS, first_is_quick
from tests.mounting import MountedStore, journalfs
from tests.store.conftest import LittleStore

__all__ = ["disk"]

CYCLES_QUICK, CYCLES_LONG = 2, 100

Cycle = Callable[[], list[str]]


def publish_left(root: Path) -> None:
    """What the next mount does."""
    with closing(open_for_writing(root)) as store:
        trio.run(store.publish_left)
    # What is mapped of it keeps a disk from being unmounted.
    del store
    gc.collect()


# ---- the process is killed, or the power is cut, in the midst of writing ----


def kill(little_store: LittleStore, backend: str, sync: SyncMode = SyncMode.ALWAYS) -> tuple[Plug, Cycle]:
    configure(little_store.root, backend)
    pulled = Plug(
        little_store.root, subprocess.Popen.kill, Random(backend), sync, worker="tests.crash.flush_worker"
    )

    def cycle() -> list[str]:
        pulled.cycle()
        publish_left(pulled.root)
        return pulled.wrong()

    return pulled, cycle


def cut(
    little_store: LittleStore, disk: Disk, backend: str, sync: SyncMode = SyncMode.ALWAYS
) -> tuple[Plug, Cycle]:
    pulled = plug(little_store, disk, backend, sync)
    pulled.worker = "tests.crash.flush_worker"

    def cycle() -> list[str]:
        pulled.cycle()
        disk.unmount()
        disk.mount()
        publish_left(pulled.root)
        return pulled.wrong()

    return pulled, cycle


def repeat(pulled: Plug, cycle: Cycle, times: int) -> None:
    for number in range(times):
        wrong = cycle()
        assert not wrong, f"cycle {number}: {wrong[:5]}"
    assert pulled.history.done > 0


@pytest.mark.rule("S-70")
@pytest.mark.parametrize("backend", ONE_IS_QUICK)
def test_killed_while_flushing(little_store: LittleStore, backend: str) -> None:
    repeat(*kill(little_store, backend), CYCLES_QUICK)


@pytest.mark.parametrize("backend", ONE_IS_QUICK)
def test_cut_off_while_flushing(little_store: LittleStore, disk: Disk, backend: str) -> None:
    repeat(*cut(little_store, disk, backend), CYCLES_QUICK)


def test_what_is_noted_and_not_synced_is_lost_and_noticed(little_store: LittleStore, disk: Disk) -> None:
    """The test can fail: without syncs a power cut loses something soon."""
    _, cycle = cut(little_store, disk, "NIO", SyncMode.NONE)
    for _ in range(CANARY_CYCLES):
        if cycle():
            return
    pytest.fail("nothing was lost")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_while_flushing_again_and_again(little_store: LittleStore, backend: str) -> None:
    repeat(*kill(little_store, backend), CYCLES_LONG)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_cut_off_while_flushing_again_and_again(little_store: LittleStore, disk: Disk, backend: str) -> None:
    repeat(*cut(little_store, disk, backend), CYCLES_LONG)


# ---- the mount is killed ----


@contextmanager
def killable(root: Path, mountpoint: Path, *options: str) -> Iterator[Callable[[], None]]:
    """Mount; yields what kills the mount. Afterwards it is away, killed or not."""
    mountpoint.mkdir(exist_ok=True)
    done = journalfs("mount", *options, root, mountpoint)
    assert done.returncode == 0, done.stderr
    process = MountedStore(mountpoint).process_id()
    try:
        yield lambda: os.kill(process, signal.SIGKILL)
    finally:
        subprocess.run(["umount", "--lazy", mountpoint], check=True)


def texts_on(mountpoint: Path) -> dict[str, list[str]]:
    queues = ("work.a", "work.b")
    mount = MountedStore(mountpoint)
    return {queue: [text_of(line) for line in mount.queue("work", queue).lines()] for queue in queues}


def kill_mounts(little_store: LittleStore, mountpoint: Path, backend: str, cycles: int) -> History:
    configure(little_store.root, backend)
    history, chance = History(), Random(backend)
    for cycle in range(cycles):
        with killable(little_store.root, mountpoint) as killing:
            killer = threading.Timer(chance.uniform(0.1, LONGEST_S), killing)
            killer.start()
            FlushClient(mountpoint, history, cycle).work()
            killer.join()
        with killable(little_store.root, mountpoint) as killing:
            wrong = history.settle(texts_on(mountpoint))
            assert not wrong, f"cycle {cycle}: {[one[:80] for one in wrong[:5]]}"
            for queue in ("work.a", "work.b"):
                (mountpoint / "work" / queue / ".all.jsonl").unlink()
            history.there.clear()
            killing()
    return history


@pytest.mark.mount
@pytest.mark.rule("S-70")
@pytest.mark.parametrize("backend", ONE_IS_QUICK)
def test_a_mount_killed_while_files_are_closed(
    little_store: LittleStore, tmp_path: Path, backend: str
) -> None:
    assert kill_mounts(little_store, tmp_path / "mnt", backend, CYCLES_QUICK).done > 0


@pytest.mark.long
@pytest.mark.mount
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mount_killed_while_files_are_closed_again_and_again(
    little_store: LittleStore, tmp_path: Path, backend: str
) -> None:
    history = kill_mounts(little_store, tmp_path / "mnt", backend, CYCLES_LONG)
    print(f"{backend}: {CYCLES_LONG} kills of the mount, {history.done} files kept")


@pytest.mark.mount
@pytest.mark.rule("S-69", "S-70")
@pytest.mark.parametrize("name", first_is_quick("in.txt", "in.bin"))
def test_a_child_that_closes_makes_durable_and_publishes_nothing(
    little_store: LittleStore, tmp_path: Path, name: str
) -> None:
    mountpoint, queue = tmp_path / "mnt", Path("work/work.a")
    with killable(little_store.root, mountpoint) as killing:
        descriptor = os.open(mountpoint / queue / name, os.O_WRONLY | os.O_CREAT)
        for piece in (b"told", b" twice"):
            os.write(descriptor, piece)
            # Its copy of the descriptor is closed when it ends, which is a flush.
            subprocess.run(["true"], pass_fds=[descriptor], check=True)
            assert texts_on(mountpoint)["work.a"] == []
        os.write(descriptor, b", not told")
        killing()
        with pytest.raises(OSError, match=r"not connected|abort"):
            os.close(descriptor)
    for _ in range(2):
        with killable(little_store.root, mountpoint) as killing:
            assert texts_on(mountpoint)["work.a"] == ["told twice"]
            killing()


@pytest.mark.mount
@pytest.mark.rule("S-139")
@pytest.mark.parametrize("sync", first_is_quick("none", "close"))
def test_what_was_closed_or_moved_outlives_the_mount(
    little_store: LittleStore, tmp_path: Path, sync: str
) -> None:
    """Whatever the mount waits for with a write."""
    mountpoint, options = tmp_path / "mnt", ("-o", f"sync={sync}")
    queue = mountpoint / "work/work.a"
    with killable(little_store.root, mountpoint, *options) as killing:
        for number in range(20):
            (queue / "in.txt").write_text(f"{number}\n")
        (queue / "in.bin").write_text("whole")
        killing()
    whole = [*map(str, range(20)), "whole"]
    with killable(little_store.root, mountpoint, *options) as killing:
        assert texts_on(mountpoint)["work.a"] == whole
        queue.joinpath(".all.jsonl").rename(mountpoint / "work/work.b/all")
        killing()
    with killable(little_store.root, mountpoint, *options) as killing:
        assert texts_on(mountpoint) == {"work.a": [], "work.b": whole}
        killing()
