"""SIGKILL of the mount while others write to it, remove and move: what they were told stays true."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.crash.history import History
from tests.crash.mount_client import MountClient
from tests.crash.plug import LONGEST_S, configure, killed_mount, texts_in
from tests.kinds import BACKENDS
from tests.store.conftest import LittleStore

pytestmark = pytest.mark.mount

CYCLES_QUICK, CYCLES_LONG = 2, 200


def kill_mounts(
    little_store: LittleStore, mountpoint: Path, backend: str, cycles: int, front: str
) -> History:
    configure(little_store.root, backend)
    mountpoint.mkdir()
    history, chance = History(), Random(backend)
    for cycle in range(cycles):
        with killed_mount(
            little_store.root, mountpoint, chance.uniform(0.02, LONGEST_S), "-o", f"front={front}"
        ):
            MountClient(mountpoint, history, cycle).work()
        wrong = history.settle(texts_in(little_store.root))
        assert not wrong, f"cycle {cycle}: {wrong[:5]}"
    return history


@pytest.mark.parametrize(("backend", "front"), [*((backend, "off") for backend in BACKENDS), ("NIO", "on")])
def test_a_mount_killed_under_load(
    little_store: LittleStore, tmp_path: Path, backend: str, front: str
) -> None:
    history = kill_mounts(little_store, tmp_path / "mnt", backend, CYCLES_QUICK, front)
    assert history.done > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("front", ["off", "on"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mount_killed_again_and_again(
    little_store: LittleStore, tmp_path: Path, backend: str, front: str
) -> None:
    history = kill_mounts(little_store, tmp_path / "mnt", backend, CYCLES_LONG, front)
    print(f"{backend}, front={front}: {CYCLES_LONG} kills of the mount, {history.done} changes done")
