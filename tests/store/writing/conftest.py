"""A store that is written, on each backend, and what an independent reader finds in it afterwards."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from journalfs.clock import FakeClock
from journalfs.ids import MessageId
from journalfs.store.queues import StoreQueue
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import SyncMode, WritingStore
from tests.reference.store import load
from tests.store.conftest import LittleStore

BACKENDS = ("NIO", "ASYNCIO", "MAPPED")


@dataclass
class Writable:
    """A little store and how to open it for writing."""

    little: LittleStore
    backend: str

    @property
    def root(self) -> Path:
        return self.little.root

    @property
    def clock(self) -> FakeClock:
        return self.little.clock

    @asynccontextmanager
    async def open(
        self, *, sync: SyncMode = SyncMode.ALWAYS, index: bool = False, attended: bool = True
    ) -> AsyncIterator[WritingStore]:
        """The store, with its own work going on; not `attended`, only that of its journals."""
        store = open_for_writing(self.root, sync=sync, clock=self.clock, index=index)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.run if attended else store.journals.run)
                yield store
                nursery.cancel_scope.cancel()
        finally:
            store.close()


@asynccontextmanager
async def no_upkeep(store: WritingStore) -> AsyncIterator[None]:
    """No journal file is made or set free meanwhile."""
    async with store.journals.messages.upkeep.turn, store.journals.bindings.upkeep.turn:
        yield


def queue_of(store: WritingStore, name: str, address: str = "work") -> StoreQueue:
    found = store.address(address)
    assert found is not None
    queue = found.queue(name)
    assert queue is not None
    return queue


def lines_of(store: WritingStore, name: str, address: str = "work") -> list[bytes]:
    source = queue_of(store, name, address).open_all()
    try:
        return bytes(source.read(0, source.size_bytes)).splitlines()
    finally:
        source.close()


def bodies_of(store: WritingStore, name: str = "work.a", address: str = "work") -> list[Any]:
    return [json.loads(line)["body"] for line in lines_of(store, name, address)]


def ids_of(store: WritingStore, name: str = "work.a", address: str = "work") -> list[MessageId]:
    return [MessageId(json.loads(line)["id"]) for line in lines_of(store, name, address)]


def on_disk(writable: Writable, queue: str) -> list[dict[str, Any]]:
    """The messages of a queue as the independent reader finds them."""
    found = load(writable.root, writable.clock.now_ms())
    (messages,) = (one["messages"] for one in found["queues"] if one["name"] == queue)
    return list(messages)


@pytest.fixture(params=BACKENDS)
def writable(little_store: LittleStore, request: pytest.FixtureRequest) -> Writable:
    backend = str(request.param)
    (little_store.root / "journalfs.toml").write_text(f'journal-type = "{backend}"\n')
    return Writable(little_store, backend)
