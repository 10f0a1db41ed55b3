"""Changes by several at once while the disk takes its time: what is shown, counted and found is the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio

from journalfs.api import ByteSource
from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.kinds import BACKENDS
from tests.reference.store import load
from tests.store.conftest import LittleStore
from tests.store.writing.conftest import Writable, lines_of, queue_of
from tests.tools.late_disk import LateDisk, late

QUEUES = ("work.a", "work.b", "aside")
WORKERS, KEEPERS, STEPS = 4, 2, 12
TURNS = 0, 1, 3, 10, 30, 100, 300, 100_000
PAGING = '[address-settings."#"]\nmax-size-messages = 300\npage-size-bytes = 4096\n'
FILE_BYTES = 20_000, 32_768, 65_536, 131_072
BUFFER_BYTES = 4096, 8192, 65_536, 500_000


@dataclass
class Sent:
    """Texts of messages that are published together, and how many queues each gets into."""

    bodies: list[str]
    queues: int
    told: bool = False
    """Whoever published them knows that it is done."""


class Work:
    """What several do to the queues, and what must be in them afterwards."""

    weights: ClassVar = (6, 6, 4, 4, 1, 4, 2, 5, 3, 3)

    def __init__(self, store: WritingStore, chance: random.Random, folder: Path) -> None:
        self.store, self.chance, self.folder = store, chance, folder
        self.published: Counter[str] = Counter()
        """What was published, or is on its way."""
        self.sent: list[Sent] = []
        self.left = 0
        self._number = 0

    async def worker(self) -> None:
        steps: list[Callable[[], Any]] = [
            self.publish_many,
            self.publish_few,
            self.move_all,
            self.move_some,
            self.acknowledge_all,
            self.acknowledge_some,
            self.store.look,
            self.store.journals.messages.upkeep.compact,
            self.store.journals.messages.upkeep.reclaim,
            self.look,
        ]
        for _ in range(STEPS):
            await self.perform(self.chance.choices(steps, self.weights)[0])
            for _ in range(self.chance.randrange(8)):
                await trio.lowlevel.checkpoint()

    async def perform(self, step: Callable[[], Any]) -> None:
        await step()

    def new(self, queue: str | None, count: int) -> Sent:
        """So many new messages. Sent to an address they get into both of its queues."""
        self._number += count
        numbers = range(self._number - count, self._number)
        bodies = [f"{number} {'x' * (number * 7 % 300)}" for number in numbers]
        self.sent.append(Sent(bodies, 2 if queue is None else 1))
        self.published.update(bodies * self.sent[-1].queues)
        return self.sent[-1]

    def queue(self) -> str:
        return self.chance.choice(QUEUES)

    async def publish_many(self) -> None:
        queue = self.chance.choice((None, *QUEUES))
        sent = self.new(queue, self.chance.randrange(1, 900))
        path = self.folder / f"_{self._number}"
        path.write_text("".join(f"{body}\n" for body in sent.bodies))
        await self.store.publish_files(address_of(queue), queue, [(path, "in.txt")])
        sent.told = True

    async def publish_few(self) -> None:
        queue = self.queue()
        sent = self.new(queue, self.chance.randrange(1, 4))
        publisher = self.store.publisher(*path_of(queue), "in.txt")
        await publisher.write("".join(f"{body}\n" for body in sent.bodies).encode())
        await publisher.finish()
        sent.told = True

    async def move_all(self) -> None:
        await self.store.move_part(path_of(self.queue()), ".all.jsonl", path_of(self.queue()))

    def some(self, queue: str) -> list[MessageId]:
        ids = [MessageId(json.loads(line)["id"]) for line in self.lines(queue)]
        return self.chance.sample(ids, min(len(ids), self.chance.randrange(1, 200)))

    async def move_some(self) -> None:
        queue = self.queue()
        if some := self.some(queue):
            await self.store.move(path_of(queue), some, path_of(self.queue()))

    async def acknowledge_all(self) -> None:
        left = await self.store.acknowledge_part(path_of(self.queue()), ".all.jsonl")
        self.left += left

    async def acknowledge_some(self) -> None:
        queue = self.queue()
        if some := self.some(queue):
            left = await self.store.acknowledge(path_of(queue), some)
            self.left += left

    async def look(self) -> None:
        shown = Counter(body for queue in QUEUES for body in self.shown(queue))
        assert not shown - self.published

    def lines(self, queue: str) -> list[bytes]:
        return lines_of(self.store, queue, address_of(queue))

    def shown(self, queue: str) -> list[str]:
        return [json.loads(line)["body"] for line in self.lines(queue)]


class KeptWork(Work):
    """The same beside a queue from which nobody takes anything, and somebody who reads it all the time."""

    def __init__(self, store: WritingStore, chance: random.Random, folder: Path) -> None:
        super().__init__(store, chance, folder)
        self.told: list[str] = []
        """What must be there."""
        self._begun = 0
        self._publishing = KEEPERS
        self.readings = 0

    async def keeper(self) -> None:
        for _ in range(STEPS):
            self._begun += 1
            count = self.chance.choice((1, 1, 3, 30, 300))
            bodies = [f"{self._begun}-{number}-{count} {'y' * (number * 7 % 200)}" for number in range(count)]
            path = self.folder / f"_kept_{self._begun}"
            path.write_text("".join(f"{body}\n" for body in bodies))
            await self.store.publish_files("kept", "kept", [(path, "in.txt")])
            self.told += bodies
            for _ in range(self.chance.randrange(20)):
                await trio.lowlevel.checkpoint()
        self._publishing -= 1

    async def reader(self) -> None:
        """One file, and another time one after the other, while much else is done."""
        while self._publishing:
            queue = queue_of(self.store, "kept", "kept")
            told = list(self.told)
            check_kept(await self.read_slowly(queue.open_all()), told)
            queue = queue_of(self.store, "kept", "kept")
            told = list(self.told)
            files = [*map(queue.open_part, queue.parts()), queue.open_tail()]
            check_kept([body for file in files for body in await self.read_slowly(file)], told)
            self.readings += 2
            await trio.lowlevel.checkpoint()

    async def read_slowly(self, source: ByteSource) -> list[str]:
        content = bytearray()
        with closing(source):
            while len(content) < source.size_bytes:
                length = self.chance.choice((100, 4096, 70_000, 1_000_000))
                content += source.read(len(content), min(length, source.size_bytes - len(content)))
                for _ in range(self.chance.randrange(6)):
                    await trio.lowlevel.checkpoint()
        return [json.loads(line)["body"] for line in content.splitlines()]


def check_kept(bodies: list[str], told: list[str]) -> None:
    """All that was told is there, once, and each publication whole and in its order."""
    places = {body: place for place, body in enumerate(bodies)}
    assert len(places) == len(bodies)
    assert not set(told) - places.keys()
    numbers: dict[str, list[int]] = {}
    for body in bodies:
        publication, number, count = body.split()[0].split("-")
        numbers.setdefault(f"{publication} {count}", []).append(int(number))
    for publication, found in numbers.items():
        assert found == list(range(int(publication.split()[1])))


class CancelledWork(Work):
    """The same, much of it cancelled half way. Nothing is acknowledged: how much would not be known."""

    weights: ClassVar = (6, 6, 6, 6, 0, 0, 2, 5, 3, 3)

    async def perform(self, step: Callable[[], Any]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled_after, self.chance.choice(TURNS), nursery.cancel_scope)
            await step()
            nursery.cancel_scope.cancel()


async def cancelled_after(turns: int, scope: trio.CancelScope) -> None:
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    scope.cancel()


def address_of(queue: str | None) -> str:
    return "aside" if queue == "aside" else "work"


def path_of(queue: str) -> tuple[str, str]:
    return address_of(queue), queue


def on_disk(store: WritingStore) -> dict[str, list[str]]:
    queues = load(store.core.root, store.core.clock.now_ms())["queues"]
    found = {one["name"]: [message["body"] for message in one["messages"]] for one in queues}
    return {queue: found[queue] for queue in QUEUES}


@pytest.fixture(params=BACKENDS)
def late_store(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, seed: int
) -> Writable:
    chance = LateDisk.chance = random.Random(seed)
    monkeypatch.setattr("journalfs.store.journal_setup.open_backend", late)
    writable = Writable(little_store, str(request.param))
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\njournal-file-size = {chance.choice(FILE_BYTES)}\n'
        f"journal-buffer-size = {chance.choice(BUFFER_BYTES)}\njournal-compact-min-files = 4\n"
        f"journal-compact-percentage = 50\n{PAGING if seed % 4 == 3 else ''}"
    )
    return writable


def _seeds(seeds: range, *quick: int) -> list[Any]:
    """All of them, of which `quick` are for the quick suite, one that pages among them."""
    return [seed if seed in quick else pytest.param(seed, marks=pytest.mark.long) for seed in seeds]


async def worked(writable: Writable, kind: type[Work], folder: Path) -> tuple[Work, Counter[str]]:
    """What was done, and what is there afterwards: the same however it is looked at."""
    async with writable.open() as store:
        await store.create_address("aside")
        await store.create_queue("aside", "aside")
        work = kind(store, LateDisk.chance, folder)
        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(work.worker)
        await store.published()
        shown = {queue: work.shown(queue) for queue in QUEUES}
        assert on_disk(store) == shown
        await store.look()
        assert {queue: work.shown(queue) for queue in QUEUES} == shown
        assert not store.core.damage()
    assert on_disk(store) == shown
    return work, Counter(body for bodies in shown.values() for body in bodies)


@pytest.mark.parametrize("seed", _seeds(range(8), 5))
async def test_nothing_is_lost_doubled_or_invented(late_store: Writable, tmp_path: Path) -> None:
    work, there = await worked(late_store, Work, tmp_path)
    assert all(sent.told for sent in work.sent)
    assert not there - work.published
    assert there.total() == work.published.total() - work.left


@pytest.mark.parametrize("seed", _seeds(range(100, 104), 103))
async def test_what_is_cancelled_happened_whole_or_not_at_all(late_store: Writable, tmp_path: Path) -> None:
    work, there = await worked(late_store, CancelledWork, tmp_path)
    assert not there - work.published
    for sent in work.sent:
        (times,) = {there[body] for body in sent.bodies}
        assert times == sent.queues or (times == 0 and not sent.told)


@pytest.mark.parametrize("seed", _seeds(range(200, 204), 203))
async def test_nothing_is_hidden_while_others_work(late_store: Writable, tmp_path: Path) -> None:
    async with late_store.open() as store:
        for name in ("aside", "kept"):
            await store.create_address(name)
            await store.create_queue(name, name)
        work = KeptWork(store, LateDisk.chance, tmp_path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work.reader)
            for _ in range(KEEPERS):
                nursery.start_soon(work.keeper)
                nursery.start_soon(work.worker)
        assert work.readings > 1
        check_kept([json.loads(line)["body"] for line in lines_of(store, "kept", "kept")], work.told)
        assert not store.core.damage()
