"""SIGKILL in the midst of everything: nothing durable is lost, nothing is half there, nothing comes back."""

from __future__ import annotations

import subprocess
from random import Random

import pytest

from journalfs.store.write.store import SyncMode
from tests.crash.plug import BACKENDS, Plug, configure
from tests.store.conftest import LittleStore

CYCLES_QUICK, CYCLES_LONG = 3, 200
CANARY_CYCLES = 10


def plug(little_store: LittleStore, backend: str, sync: SyncMode = SyncMode.ALWAYS) -> Plug:
    configure(little_store.root, backend)
    return Plug(little_store.root, subprocess.Popen.kill, Random(backend), sync)


@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_under_load(little_store: LittleStore, backend: str) -> None:
    killed = plug(little_store, backend)
    for cycle in range(CYCLES_QUICK):
        killed.cycle()
        assert not killed.wrong(), f"cycle {cycle}"
    assert killed.history.done > 0


def test_what_is_told_before_it_is_written_is_noticed(little_store: LittleStore) -> None:
    """The test can fail: a store that answers before it wrote loses something soon."""
    killed = plug(little_store, "NIO", SyncMode.CLOSE)
    for _ in range(CANARY_CYCLES):
        killed.cycle()
        if killed.wrong():
            return
    pytest.fail("nothing was lost")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_under_load_again_and_again(little_store: LittleStore, backend: str) -> None:
    killed = plug(little_store, backend)
    for cycle in range(CYCLES_LONG):
        killed.cycle()
        assert not killed.wrong(), f"cycle {cycle}"
    print(f"{backend}: {CYCLES_LONG} kills, {killed.history.done} changes done")
