"""Writes whole files and unfinished lines without an end; says that each is kept as soon as it is flushed.

`python -m tests.crash.flush_worker STORE SEED SYNC` is killed by its caller.
"""

from __future__ import annotations

import random
import sys
from itertools import count
from pathlib import Path

import trio

from journalfs.api import Publisher
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import SyncMode, WritingStore
from tests.crash.history import Change
from tests.crash.worker import LARGE_CHARS, QUEUES, Said, text_of

TASKS = 6


class FlushWorker:
    """What earlier ones left is published and taken away first."""

    def __init__(self, store: WritingStore, seed: int) -> None:
        self._store = store
        self._seed = seed
        self._numbers = count(1)
        self._left_open: list[Publisher] = []

    async def work(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._store.run)
            await self._store.publish_left()
            for queue in QUEUES:
                await self._empty(queue)
            for task in range(TASKS):
                nursery.start_soon(self._task, task)

    async def _empty(self, name: str) -> None:
        address = self._store.address("work")
        queue = None if address is None else address.queue(name)
        assert queue is not None
        listing = queue.listing()
        ids = [listing.message_id(index) for index in range(len(listing))]
        places = frozenset((name, text_of(queue, message_id)) for message_id in ids)
        async with Said(Change(next(self._numbers), frozenset(), places)):
            assert await self._store.acknowledge(("work", name), ids) == len(ids)

    async def _task(self, task: int) -> None:
        chance = random.Random(f"{self._seed}/{task}")
        for turn in count():
            await self._write(chance, f"{self._seed}-{task}-{turn}")

    async def _write(self, chance: random.Random, text: str) -> None:
        if chance.random() < 0.1:
            text += "-" + "large" * (LARGE_CHARS // 5)
        queue = chance.choice((None, *QUEUES))
        places = frozenset((one, text) for one in (QUEUES if queue is None else (queue,)))
        publisher = self._store.publisher("work", queue, chance.choice(("in.txt", "in.bin")))
        async with Said(Change(next(self._numbers), places, frozenset())):
            await publisher.write(text.encode())
            await publisher.flush()
        if chance.random() < 0.9:
            await publisher.finish()
        else:
            self._left_open.append(publisher)


def main() -> None:
    store = open_for_writing(Path(sys.argv[1]), sync=SyncMode(sys.argv[3]))
    trio.run(FlushWorker(store, int(sys.argv[2])).work)


if __name__ == "__main__":
    main()
