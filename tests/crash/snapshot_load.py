"""Makes and removes snapshots of a store that others work on, without an end, and says so as `worker` does.

`python -m tests.crash.snapshot_load STORE SEED SYNC` is killed by its caller.
"""

from __future__ import annotations

import json
import random
import sys
from itertools import count
from pathlib import Path

import trio

from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import SyncMode, WritingStore
from tests.crash.snapshot_history import Word
from tests.crash.worker import Worker, say

KEPT = 3


async def snapshots(store: WritingStore, seed: int) -> None:
    chance = random.Random(seed)
    for turn in count():
        names = [snapshot.name for snapshot in store.snapshots.all()]
        if len(names) > KEPT:
            name = chance.choice(names)
            _say(Word.REMOVING, name)
            await store.snapshots.delete(name)
            _say(Word.REMOVED, name)
        name = f"{seed}-{turn}"
        _say(Word.MAKING, name)
        await store.snapshots.create(name)
        _say(Word.MADE, name)


def _say(word: Word, name: str) -> None:
    say(json.dumps([word, name, [], []]) + "\n")


async def work(store: WritingStore, seed: int) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Worker(store, seed).work)
        nursery.start_soon(snapshots, store, seed)


def main() -> None:
    store = open_for_writing(Path(sys.argv[1]), sync=SyncMode(sys.argv[3]))
    trio.run(work, store, int(sys.argv[2]))


if __name__ == "__main__":
    main()
