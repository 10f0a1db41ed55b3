"""Stores for these tests, written by the library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.writing.conftest import new_store


def written_store(path: Path, content: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """A new store with an address and a queue of each name, and envelopes published to it."""
    store = new_store(path / "store")
    for name in content:
        change(store, lambda opened, name=name: made(opened, name))
    for name, envelopes in content.items():
        publish(store, name, envelopes)
    return store


async def made(opened: WritingStore, name: str) -> None:
    await opened.create_address(name)
    await opened.create_queue(name, name)


def publish(store: Path, name: str, envelopes: Sequence[Mapping[str, Any]]) -> None:
    """Publish messages to a queue, in one transaction."""

    async def write(opened: WritingStore) -> None:
        publisher = opened.publisher(name, name, "in.jsonl")
        await publisher.write("".join(json.dumps(one) + "\n" for one in envelopes).encode())
        await publisher.finish()

    change(store, write)


def acknowledge(store: Path, name: str, ids: Sequence[Any]) -> int:
    removed = []

    async def remove(opened: WritingStore) -> None:
        removed.append(await opened.acknowledge((name, name), ids))

    change(store, remove)
    return removed[0]


def change(store: Path, action: Any) -> None:
    """Do something to a store that nobody holds."""

    async def run() -> None:
        opened = open_for_writing(store, index=False)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.run)
                await action(opened)
                nursery.cancel_scope.cancel()
        finally:
            opened.close()

    trio.run(run)
