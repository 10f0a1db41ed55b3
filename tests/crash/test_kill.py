"""SIGKILL in the midst of everything: nothing durable is lost, nothing is half there, nothing comes back."""

from __future__ import annotations

import subprocess
from random import Random

import pytest

from journalfs.store.write.store import SyncMode
from tests.crash.plug import Plug, configure
from tests.kinds import BACKENDS
from tests.store.conftest import LittleStore

CYCLES_QUICK, CYCLES_LONG = 3, 200
CANARY_CYCLES = 10
LATE = "tests.crash.late_worker"


def plug(
    little_store: LittleStore,
    backend: str,
    sync: SyncMode = SyncMode.ALWAYS,
    *,
    pages: bool = False,
    worker: str = Plug.worker,
) -> Plug:
    configure(little_store.root, backend, pages=pages)
    return Plug(little_store.root, subprocess.Popen.kill, Random(backend), sync, worker)


def survive(killed: Plug, cycles: int) -> None:
    """Each goes on from what the one before it left."""
    for _ in range(cycles):
        killed.cycle()
        assert not killed.wrong(), f"cycle {killed.cycles}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_under_load(little_store: LittleStore, backend: str) -> None:
    killed = plug(little_store, backend)
    survive(killed, CYCLES_QUICK)
    assert killed.history.done > 0


@pytest.mark.rule("S-111")
def test_killed_while_paging(little_store: LittleStore) -> None:
    killed = plug(little_store, "NIO", pages=True)
    pages: set[str] = set()
    for _ in range(CYCLES_QUICK):
        survive(killed, 1)
        pages |= {path.name for path in little_store.root.glob("paging/*/*.page") if path.stat().st_size}
    assert killed.history.done > 0
    assert pages


def test_killed_while_its_disk_is_late(little_store: LittleStore) -> None:
    """Much was begun, and some of it half written."""
    killed = plug(little_store, "MAPPED", pages=True, worker=LATE)
    survive(killed, CYCLES_QUICK)
    assert killed.history.done > 0


@pytest.mark.rule("S-139")
def test_what_is_told_before_it_is_written_is_noticed(little_store: LittleStore) -> None:
    """The test can fail: a store that answers before it wrote loses something soon."""
    killed = plug(little_store, "NIO", SyncMode.CLOSE)
    for _ in range(CANARY_CYCLES):
        killed.cycle()
        if killed.wrong():
            return
    pytest.fail("nothing was lost")


@pytest.mark.rule("S-139")
@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_without_syncs(little_store: LittleStore, backend: str) -> None:
    """What a call told is in the kernel, which goes on."""
    killed = plug(little_store, backend, SyncMode.NONE)
    survive(killed, CYCLES_QUICK)
    assert killed.history.done > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_under_load_again_and_again(little_store: LittleStore, backend: str) -> None:
    killed = plug(little_store, backend)
    survive(killed, CYCLES_LONG)
    print(f"{backend}: {CYCLES_LONG} kills, {killed.history.done} changes done")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_while_paging_again_and_again(little_store: LittleStore) -> None:
    killed = plug(little_store, "NIO", pages=True)
    survive(killed, CYCLES_LONG)
    print(f"{CYCLES_LONG} kills while paging, {killed.history.done} changes done")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_while_its_disk_is_late_again_and_again(
    little_store: LittleStore, backend: str, pages: bool
) -> None:
    killed = plug(little_store, backend, pages=pages, worker=LATE)
    survive(killed, CYCLES_LONG)
    print(f"{backend}, pages {pages}: {CYCLES_LONG} kills on a late disk, {killed.history.done} changes done")
