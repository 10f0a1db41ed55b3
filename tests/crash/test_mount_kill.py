"""SIGKILL of mounts, and power cuts, while others write, remove and move: what they were told stays true."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.crash.disks import Disk
from tests.crash.history import History
from tests.crash.mount_client import MountClient
from tests.crash.plug import LONGEST_S, configure, killed_mount, texts_in
from tests.crash.test_shutdown import disk
from tests.kinds import BACKENDS
from tests.mounting import MountedStore
from tests.store.conftest import LittleStore

__all__ = ["disk"]

pytestmark = [pytest.mark.mount, pytest.mark.usefixtures("front_as_told")]

KILLS_QUICK, KILLS_LONG = 2, 200
CUTS_QUICK, CUTS_LONG = 2, 100
WRITERS = 3
OF_ONE_STORE = 10
"""So many crashes it survives before the next is taken: the reader that says what is there is not fast."""

FRONTS = {"off": 0.0, "on": 0.5}
"""How many of all writes C must have answered at least."""


@dataclass
class Crashes:
    """Ends of mounts of a store, by SIGKILL; with a disk, the power is cut before."""

    made: LittleStore
    folder: Path
    backend: str
    front: str
    disk: Disk | None = None
    history: History = field(default_factory=History)
    done: int = 0
    writes: int = 0
    """So many were answered,"""
    hot: int = 0
    """so many of them by C."""

    def survive(self, cycles: int) -> None:
        chance = Random(self.backend)
        mountpoint, root = self.folder / "mnt", (self.disk.mounted if self.disk else self.folder) / "killed"
        mountpoint.mkdir()
        for cycle in range(cycles):
            if cycle % OF_ONE_STORE == 0:
                self._begin(root)
            self._cycle(root, mountpoint, cycle, chance.uniform(0.02, LONGEST_S))
            wrong = self.history.settle(texts_in(root))
            assert not wrong, f"cycle {cycle}: {wrong[:5]}"
        self.done += self.history.done
        what = "power cuts" if self.disk else "kills"
        print(f"{self.backend}, front={self.front}: {cycles} {what}, {self.done} changes done,", end=" ")
        print(f"{self.hot} of {self.writes} writes answered by C")
        assert self.done > 0
        assert self.hot >= FRONTS[self.front] * self.writes

    def _begin(self, root: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.made.root, root)
        configure(root, self.backend)
        os.sync()
        self.done += self.history.done
        self.history = History()

    def _cycle(self, root: Path, mountpoint: Path, cycle: int, after_s: float) -> None:
        client = MountClient(mountpoint, self.history, cycle, writers=WRITERS)

        def before() -> None:
            self._count(MountedStore(mountpoint))
            if self.disk is not None:
                client.listen_no_more()
                self.disk.stop()

        with killed_mount(root, mountpoint, after_s, "-o", f"front={self.front}", before=before):
            client.work()
        if self.disk is not None:
            self.disk.unmount()
            self.disk.mount()

    def _count(self, mounted: MountedStore) -> None:
        found = mounted.control("mount.json")
        self.writes += found["requests"].get("write", 0)
        self.hot += found.get("frontRequests", {"write": 0})["write"]


@pytest.mark.parametrize(("backend", "front"), [*((backend, "off") for backend in BACKENDS), ("NIO", "on")])
def test_a_mount_killed_under_load(
    little_store: LittleStore, tmp_path: Path, backend: str, front: str
) -> None:
    Crashes(little_store, tmp_path, backend, front).survive(KILLS_QUICK)


def test_a_mount_whose_power_is_cut(little_store: LittleStore, tmp_path: Path, disk: Disk) -> None:
    Crashes(little_store, tmp_path, "NIO", "on", disk).survive(CUTS_QUICK)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mount_killed_again_and_again(
    little_store: LittleStore, tmp_path: Path, backend: str, front: str
) -> None:
    Crashes(little_store, tmp_path, backend, front).survive(KILLS_LONG)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mount_whose_power_is_cut_again_and_again(
    little_store: LittleStore, tmp_path: Path, disk: Disk, backend: str, front: str
) -> None:
    Crashes(little_store, tmp_path, backend, front, disk).survive(CUTS_LONG)
