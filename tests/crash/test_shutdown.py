"""The file system stops as it does in a power cut: what was not synced is gone, in whatever order."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from journalfs.store.write.store import SyncMode
from tests.crash.plug import BACKENDS, Plug, configure
from tests.store.conftest import LittleStore

CYCLES_QUICK, CYCLES_LONG = 3, 100
CANARY_CYCLES = 10
IMAGE_BYTES = 256 * 1024 * 1024

FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
"""Nothing more is written, the file system's own journal included."""


@dataclass
class Disk:
    """An ext4 of its own, in a file."""

    image: Path
    mounted: Path

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.mounted))

    def unmount(self) -> None:
        _run("umount", str(self.mounted))

    def stop(self) -> None:
        descriptor = os.open(self.mounted, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("mounting a disk image needs root and a loop device")
    made = Disk(tmp_path / "disk.img", tmp_path / "disk")
    made.mounted.mkdir()
    with made.image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    _run("mkfs.ext4", "-q", str(made.image))
    try:
        made.mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"disk images cannot be mounted here: {error.stderr.decode()}")
    yield made
    made.unmount()


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
        disk.stop()
        process.kill()

    return Plug(root, pull, Random(backend), sync)


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


def test_what_is_not_synced_is_lost_and_noticed(little_store: LittleStore, disk: Disk) -> None:
    """The test can fail: without syncs a power cut loses something soon."""
    cut_off = plug(little_store, disk, "NIO", SyncMode.NONE)
    for _ in range(CANARY_CYCLES):
        if cut(cut_off, disk):
            return
    pytest.fail("nothing was lost")


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
