"""A small store of which the tests know every byte: two queues, one journal file, clocks under control."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from tests.differential.encode import record
from tests.store.appending import ADD, ADD_TX, COMMIT, DELETE, JournalAppender
from tests.tools import store_bytes

START_MS = 1_800_000_000_000


@dataclass
class LittleStore:
    """Address `work` with queues `work.a` (id 21) and `work.b` (id 22)."""

    root: Path
    journal: JournalAppender
    clock: FakeClock
    bindings: JournalAppender

    def open(self, *, index: bool = True) -> JournalStore:
        return open_store(self.root, clock=self.clock, index=index)

    def rebind(self, name: str, *, old_id: int, new_id: int) -> None:
        """Delete a queue and create one of the same name, as a broker does."""
        body = store_bytes.queue_binding(name, "work", 0)
        self.bindings.append(
            record(DELETE, 1, record_id=old_id),
            record(ADD, 1, record_id=new_id, user_type=21, body=body),
        )


QUEUE_A, QUEUE_B = 21, 22


@pytest.fixture
def little_store(tmp_path: Path) -> LittleStore:
    root = tmp_path / "data"
    for name in ("journal", "bindings", "paging", "large-messages"):
        (root / name).mkdir(parents=True)
    bindings = JournalAppender.create(root / "bindings/activemq-bindings-1.bindings", 1)
    bound = [
        (20, 44, store_bytes.address_binding("work", 0)),
        (QUEUE_A, 21, store_bytes.queue_binding("work.a", "work", 0)),
        (QUEUE_B, 21, store_bytes.queue_binding("work.b", "work", 0)),
    ]
    for record_id, user_type, body in bound:
        tx_id = record_id + 100
        bindings.append(
            record(ADD_TX, 1, tx_id=tx_id, record_id=record_id, user_type=user_type, body=body),
            record(COMMIT, 1, tx_id=tx_id, count=1),
        )
    bindings.append(record(ADD, 1, record_id=5, user_type=24, body=store_bytes.i64(1_000_000)))
    journal = JournalAppender.create(root / "journal/activemq-data-1.amq", 1)
    return LittleStore(root, journal, FakeClock(wall_ms=START_MS), bindings)


@pytest.fixture
def lines_of() -> Callable[[JournalStore, str], list[bytes]]:
    def read(store: JournalStore, queue: str) -> list[bytes]:
        address = store.address("work")
        assert address is not None
        found = address.queue(queue)
        assert found is not None
        source = found.open_all()
        try:
            return bytes(source.read(0, source.size_bytes)).splitlines()
        finally:
            source.close()

    return read


@pytest.fixture
def held_by_a_broker(little_store: LittleStore) -> Iterator[None]:
    """Another process holds the active broker's lock."""
    path = little_store.root / "journal/serverlock.1"
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'wb'); fcntl.lockf(file, fcntl.LOCK_EX);"
        "print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.communicate(b"\n")
