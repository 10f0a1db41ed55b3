"""SIGKILL of the mount while others write to it, remove and move: what they were told stays true."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from random import Random

import pytest

from tests.crash.history import History
from tests.crash.mount_client import MountClient
from tests.crash.plug import BACKENDS, LONGEST_S, configure, texts_in
from tests.mounting import MountedStore, journalfs
from tests.store.conftest import LittleStore

pytestmark = pytest.mark.mount

CYCLES_QUICK, CYCLES_LONG = 2, 200


def kill_mounts(little_store: LittleStore, mountpoint: Path, backend: str, cycles: int) -> History:
    configure(little_store.root, backend)
    mountpoint.mkdir()
    history, chance = History(), Random(backend)
    for cycle in range(cycles):
        done = journalfs("mount", little_store.root, mountpoint)
        assert done.returncode == 0, done.stderr
        process = MountedStore(mountpoint).process_id()
        killer = threading.Timer(chance.uniform(0.02, LONGEST_S), os.kill, (process, signal.SIGKILL))
        killer.start()
        try:
            MountClient(mountpoint, history, cycle).work()
        finally:
            killer.join()
            subprocess.run(["umount", "--lazy", mountpoint], check=True)
        wrong = history.settle(texts_in(little_store.root))
        assert not wrong, f"cycle {cycle}: {wrong[:5]}"
    return history


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mount_killed_under_load(little_store: LittleStore, tmp_path: Path, backend: str) -> None:
    history = kill_mounts(little_store, tmp_path / "mnt", backend, CYCLES_QUICK)
    assert history.done > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mount_killed_again_and_again(little_store: LittleStore, tmp_path: Path, backend: str) -> None:
    history = kill_mounts(little_store, tmp_path / "mnt", backend, CYCLES_LONG)
    print(f"{backend}: {CYCLES_LONG} kills of the mount, {history.done} changes done")
