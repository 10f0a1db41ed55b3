"""The file system stops as it does in a power cut: what was not synced is gone, in whatever order."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from journalfs.store.write.store import SyncMode
from tests.crash.disks import Disk, small_ext4
from tests.crash.plug import Plug, configure
from tests.kinds import BACKENDS
from tests.store.conftest import LittleStore

CYCLES_QUICK, CYCLES_LONG = 3, 100
CANARY_CYCLES = 10
LONG_S = 60
IMAGE_BYTES = 256 * 1024 * 1024
ROOM_BYTES = 2 * 1024 * 1024
"""A second file of the bindings, and a few journal files."""
TEXT_CHARS = 1000
"""So long that what the worker lets live does not fit there."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_ext4(tmp_path, IMAGE_BYTES, reserved_percent=0) as made:
        yield made


def plug(
    little_store: LittleStore,
    disk: Disk,
    backend: str,
    sync: SyncMode = SyncMode.ALWAYS,
    *,
    pages: bool = False,
) -> Plug:
    configure(little_store.root, backend, pages=pages)
    root = disk.mounted / "data"
    shutil.copytree(little_store.root, root)
    os.sync()

    def pull(process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        disk.stop()
        process.kill()

    return Plug(root, pull, Random(backend), sync)


def fill(disk: Disk, cut_off: Plug) -> None:
    """Leave little room on the disk, and let publishers come up against its end."""
    cut_off.more = (str(TEXT_CHARS),)
    with (cut_off.root / "journalfs.toml").open("a") as settings:
        settings.write("max-disk-usage = -1\n")
    os.sync()
    found = os.statvfs(disk.mounted)
    with (disk.mounted / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, found.f_bavail * found.f_frsize - ROOM_BYTES)
        os.fsync(filler.fileno())
    os.sync()


def cut(cut_off: Plug, disk: Disk) -> list[str]:
    cut_off.cycle()
    disk.unmount()
    disk.mount()
    return cut_off.wrong()


@pytest.mark.parametrize("backend", BACKENDS)
def test_cut_off_under_load(little_store: LittleStore, disk: Disk, backend: str) -> None:
    cut_off = plug(little_store, disk, backend)
    for cycle in range(CYCLES_QUICK):
        assert not cut(cut_off, disk), f"cycle {cycle}"
    assert cut_off.history.done > 0


@pytest.mark.rule("S-111")
def test_cut_off_while_paging(little_store: LittleStore, disk: Disk) -> None:
    cut_off = plug(little_store, disk, "NIO", pages=True)
    pages: set[str] = set()
    for cycle in range(CYCLES_QUICK):
        assert not cut(cut_off, disk), f"cycle {cycle}"
        pages |= {path.name for path in cut_off.root.glob("paging/*/*.page") if path.stat().st_size}
    assert cut_off.history.done > 0
    assert pages


def test_cut_off_on_a_full_disk(little_store: LittleStore, disk: Disk) -> None:
    """The last journal file is written otherwise than the others there (`JournalWriter.switch`)."""
    cut_off = plug(little_store, disk, "ASYNCIO")
    fill(disk, cut_off)
    for cycle in range(CYCLES_QUICK):
        assert not cut(cut_off, disk), f"cycle {cycle}"
    assert cut_off.history.done > 0
    assert cut_off.history.failed > 0


def test_what_is_not_synced_is_lost_and_noticed(little_store: LittleStore, disk: Disk) -> None:
    """The test can fail: without syncs a power cut loses something soon."""
    cut_off = plug(little_store, disk, "NIO", SyncMode.NONE)
    for _ in range(CANARY_CYCLES):
        if cut(cut_off, disk):
            return
    pytest.fail("nothing was lost")


def test_a_worker_without_power_says_nothing(little_store: LittleStore) -> None:
    """What the tests above take for done was said before the disk began to stop."""
    codes: list[int | None] = []

    def pull(process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            codes.append(process.wait(LONG_S))
        finally:
            process.kill()

    configure(little_store.root, "NIO")
    cut_off = Plug(little_store.root, pull, Random(1))
    cut_off.cycle()
    assert codes == [0]
    assert not cut_off.wrong()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_cut_off_while_paging_again_and_again(little_store: LittleStore, disk: Disk) -> None:
    cut_off = plug(little_store, disk, "NIO", pages=True)
    for cycle in range(CYCLES_LONG):
        assert not cut(cut_off, disk), f"cycle {cycle}"
    print(f"{CYCLES_LONG} power cuts while paging, {cut_off.history.done} changes done")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_cut_off_under_load_again_and_again(little_store: LittleStore, disk: Disk, backend: str) -> None:
    cut_off = plug(little_store, disk, backend)
    for cycle in range(CYCLES_LONG):
        assert not cut(cut_off, disk), f"cycle {cycle}"
    print(f"{backend}: {CYCLES_LONG} power cuts, {cut_off.history.done} changes done")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_cut_off_on_a_full_disk_again_and_again(little_store: LittleStore, disk: Disk, backend: str) -> None:
    cut_off = plug(little_store, disk, backend)
    fill(disk, cut_off)
    for cycle in range(CYCLES_LONG):
        assert not cut(cut_off, disk), f"cycle {cycle}"
    history = cut_off.history
    print(f"{backend}: {CYCLES_LONG} power cuts, {history.done} changes done, {history.failed} refused")
