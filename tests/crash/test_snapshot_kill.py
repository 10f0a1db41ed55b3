"""SIGKILL at each of the calls that make or remove a snapshot: it is whole or not there, and the store is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from journalfs.store import open_store
from journalfs.store.snapshot_folder import SNAPSHOTS
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_for_writing
from tests.kinds import BACKENDS
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_pages import small, write_page

QUEUES = ("work.a", "work.b")
CALLS_MIN = {"create": 12, "delete": 12}
QUICK = {("create", "MAPPED")}
CASES = [
    pytest.param(what, backend, marks=[] if (what, backend) in QUICK else [pytest.mark.long])
    for what in CALLS_MIN
    for backend in BACKENDS
]


def content(store: JournalStore) -> list[list[bytes]]:
    found = []
    address = store.address("work")
    assert address is not None
    for name in QUEUES:
        queue = address.queue(name)
        assert queue is not None
        source = queue.open_all()
        found.append(bytes(source.read(0, source.size_bytes)).splitlines())
        source.close()
    return found


async def prepare(root: Path) -> tuple[list[list[bytes]], list[list[bytes]]]:
    """A store with a snapshot `old`; what that holds, and what the store does."""
    store = open_for_writing(root, index=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        for name, text in (("in", b"".join(b"%d\n" % n for n in range(500))), ("l.bin", os.urandom(150_000))):
            publisher = store.publisher("work", "work.a", name)
            await publisher.write(text)
            await publisher.finish()
        old = content(store)
        await store.snapshots.create("old")
        publisher = store.publisher("work", None, "in")
        await publisher.write(b"".join(b"later %d\n" % n for n in range(500)))
        await publisher.finish()
        nursery.cancel_scope.cancel()
    live = content(store)
    store.close()
    return old, live


@pytest.mark.rule("S-132")
@pytest.mark.parametrize(("what", "backend"), CASES)
async def test_killed_at_each_call(
    little_store: LittleStore, tmp_path: Path, what: str, backend: str
) -> None:
    (little_store.root / "journalfs.toml").write_text(
        f'journal-type = "{backend}"\njournal-file-size = 65536\n'
    )
    write_page(little_store, 1, [small(2000, queues=(QUEUE_A, QUEUE_B))])
    old, live = await prepare(little_store.root)
    copies = tmp_path / "copies"
    copies.mkdir()
    worker = [sys.executable, "-m", "tests.crash.snapshot_worker", str(little_store.root), str(copies), what]
    done = await trio.to_thread.run_sync(lambda: subprocess.run(worker, capture_output=True, check=False))
    assert done.returncode == 0, done.stderr.decode()
    states: set[tuple[str, ...]] = set()
    for root in sorted(copies.iterdir(), key=lambda path: int(path.name)):
        before = open_store(root, index=False)
        there = tuple(snapshot.name for snapshot in before.snapshots.all())
        store = open_for_writing(root, index=False)
        assert content(store) == live, root.name
        assert not store.core.damage(), root.name
        assert all(not path.name.startswith(".") for path in (root / SNAPSHOTS).iterdir()), root.name
        names = tuple(snapshot.name for snapshot in store.snapshots.all())
        assert names == there
        for name in names:
            snapshot = store.snapshots.named(name)
            assert snapshot is not None
            then = await snapshot.opened()
            assert content(then) == (old if name == "old" else live), (root.name, name)
            assert not then.core.damage(), (root.name, name)
        states.add(names)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            for name in names:
                await store.snapshots.delete(name)
            await store.snapshots.create("x")
            nursery.cancel_scope.cancel()
        store.close()
    assert len(list(copies.iterdir())) >= CALLS_MIN[what]
    assert states == ({("old",), ("old", "x")} if what == "create" else {("old",), ()})
