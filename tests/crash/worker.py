"""Works on a store without an end, saying on its standard output what it begins and what is done.

`python -m tests.crash.worker STORE SEED SYNC [CHARS]` is killed by its caller. No text is shorter than CHARS.
Once its standard input is at its end, the power is being cut: it says nothing more.
"""

from __future__ import annotations

import errno
import os
import random
import select
import sys
import zlib
from itertools import count
from pathlib import Path

import trio

from journalfs.broker.publish.framing import Framer, Framing
from journalfs.errors import NoSpace, SystemFailure
from journalfs.ids import MessageId
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import SyncMode, WritingStore
from journalfs.views.queues import StoreQueue
from tests.crash.history import Change, Place

TASKS = 8
QUEUES = ("work.a", "work.b")
LARGE_CHARS = 150_000
SHARE_MAX = 100
"""Messages that one task lets live at most."""


class Worker:
    def __init__(self, store: WritingStore, seed: int, chars: int = 0) -> None:
        self._store = store
        self._seed = seed
        self._chars = chars
        self._numbers = count(1)
        self._texts: dict[MessageId, str] = {}
        """Every body is read once."""

    async def work(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._store.run)
            for task in range(TASKS):
                nursery.start_soon(self._task, task)

    async def _task(self, task: int) -> None:
        chance = random.Random(f"{self._seed}/{task}")
        mine = self._share(task)
        for turn in count():
            try:
                await self._turn(chance, mine, f"{self._seed}-{task}-{turn}")
            except (NoSpace, SystemFailure) as error:
                if not is_full(error):
                    raise
                # It is refused at once, and the others are to go on.
                await trio.lowlevel.checkpoint()
                await self._acknowledge(chance, mine)

    async def _turn(self, chance: random.Random, mine: set[Place], name: str) -> None:
        choice = chance.random()
        if len(mine) < 4 or (choice < 0.5 and len(mine) < SHARE_MAX):
            await self._publish(chance, mine, name)
        elif choice < 0.85:
            await self._acknowledge(chance, mine)
        elif choice < 0.98:
            await self._move(chance, mine)
        else:
            await self._compact()

    async def _compact(self) -> None:
        try:
            await self._store.journals.messages.upkeep.compact()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def _share(self, task: int) -> set[Place]:
        """What earlier workers left, shared out among the tasks so that no two touch one text."""
        return {
            (queue, text)
            for queue in QUEUES
            for text, _ in self._messages(queue)
            if zlib.crc32(text.encode()) % TASKS == task
        }

    async def _publish(self, chance: random.Random, mine: set[Place], name: str) -> None:
        texts = [f"{name}-{n}".ljust(self._chars, ".") for n in range(chance.choice((1, 1, 1, 5, 40)))]
        if chance.random() < 0.03:
            texts = [name + "-" + "large" * (LARGE_CHARS // 5)]
        queue = chance.choice((None, *QUEUES))
        queues = QUEUES if queue is None else (queue,)
        places = frozenset((one, text) for one in queues for text in texts)
        change = Change(next(self._numbers), places, frozenset())
        messages = Framer(Framing.LINES).feed("".join(t + "\n" for t in texts).encode())
        async with Said(change):
            await self._store.publish("work", queue, messages)
        mine |= places

    async def _acknowledge(self, chance: random.Random, mine: set[Place]) -> None:
        queue = chance.choice(QUEUES)
        places = sorted(place for place in mine if place[0] == queue)
        if not places:
            return
        chosen = chance.sample(places, min(len(places), chance.choice((1, 1, 3, 20))))
        change = Change(next(self._numbers), frozenset(), frozenset(chosen))
        ids = self._ids(queue, {text for _, text in chosen})
        async with Said(change):
            assert await self._store.acknowledge(("work", queue), ids) == len(chosen)
        mine.difference_update(chosen)

    async def _move(self, chance: random.Random, mine: set[Place]) -> None:
        source, target = chance.sample(QUEUES, 2)
        places = sorted(place for place in mine if place[0] == source and (target, place[1]) not in mine)
        if not places:
            return
        place = chance.choice(places)
        moved = (target, place[1])
        change = Change(next(self._numbers), frozenset({moved}), frozenset({place}))
        ids = self._ids(source, {place[1]})
        async with Said(change):
            assert await self._store.move(("work", source), ids, ("work", target)) == 1
        mine.remove(place)
        mine.add(moved)

    def _ids(self, queue: str, texts: set[str]) -> list[MessageId]:
        """Ids of the messages of these texts."""
        return [message_id for text, message_id in self._messages(queue) if text in texts]

    def _messages(self, queue_name: str) -> list[tuple[str, MessageId]]:
        """Texts and ids of all messages of a queue."""
        queue = self._queue(queue_name)
        listing = queue.listing()
        ids = [listing.message_id(index) for index in range(len(listing))]
        for message_id in ids:
            if message_id not in self._texts:
                self._texts[message_id] = text_of(queue, message_id)
        return [(self._texts[message_id], message_id) for message_id in ids]

    def _queue(self, name: str) -> StoreQueue:
        address = self._store.address("work")
        assert address is not None
        queue = address.queue(name)
        assert queue is not None
        return queue


def text_of(queue: StoreQueue, message_id: MessageId) -> str:
    message = queue.message(message_id)
    assert message is not None
    source = message.open()
    try:
        return bytes(source.read(0, source.size_bytes)).decode()
    finally:
        source.close()


class Said:
    """Says that a change begins, and that it is done, or did not happen for lack of room."""

    def __init__(self, change: Change) -> None:
        self._change = change

    async def __aenter__(self) -> None:
        say(self._change.line("begun"))

    async def __aexit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is None:
            say(self._change.line("done"))
        elif is_full(error):
            say(self._change.line("failed"))


def is_full(error: object) -> bool:
    """Whether something was refused for lack of room."""
    return isinstance(error, NoSpace) or (
        isinstance(error, SystemFailure) and error.system_errno == errno.ENOSPC
    )


def say(line: str) -> None:
    """Say it, unless the power is being cut. Of an `fsync` that is under way while the disk stops, ext4 may
    say that it went well although nothing was kept: answers from then on are none.
    """
    if select.select([0], [], [], 0)[0]:
        os._exit(0)
    data = line.encode()
    while data:
        data = data[os.write(1, data) :]


def main() -> None:
    store = open_for_writing(Path(sys.argv[1]), sync=SyncMode(sys.argv[3]))
    trio.run(Worker(store, int(sys.argv[2]), int(sys.argv[4]) if sys.argv[4:] else 0).work)


if __name__ == "__main__":
    main()
