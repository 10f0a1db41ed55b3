"""One store, back and forth between a mount and a broker: random work on both sides, and a model of it."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import JournalType
from tests.broker.shell import ShellStore, compact, in_a_shell
from tests.broker.test_interop import new_instance
from tests.broker.writing import account_of, body_text, complaints, take

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.mount]

ROUNDS, ROUNDS_LONG = 2, 10
STEPS = 25
BATCH_MAX = 40
LARGE_CHARS = 60_000


@dataclass(frozen=True)
class Entry:
    """A message in a queue."""

    digest: str
    """Of its body."""
    priority: int


def digest(body: str) -> str:
    return hashlib.sha256(body_text(body)).hexdigest()


@dataclass
class Model:
    """What there is: queues, all bound to one multicast address, and their messages in arrival order."""

    random: random.Random
    queues: dict[str, list[Entry]] = field(default_factory=dict)
    made: int = 0
    """Queues and bodies that there ever were, so that none comes twice."""
    added: int = 0
    """Messages that queues ever got, but for those moved into them."""

    def number(self) -> int:
        self.made += 1
        return self.made

    def some_queue(self) -> str:
        return self.random.choice(sorted(self.queues))

    def in_delivery_order(self, name: str) -> list[Entry]:
        return sorted(self.queues[name], key=lambda entry: -entry.priority)

    def bodies(self, most: int) -> list[str]:
        count = self.random.randint(1, most)
        return [f"{self.number()} {'x' * self.random.randint(0, 900)}" for _ in range(count)]

    def add(self, names: list[str], bodies: list[str], priority: int = 4) -> None:
        self.added += len(names) * len(bodies)
        for name in names:
            self.queues[name] += [Entry(digest(body), priority) for body in bodies]

    def summary(self) -> dict[str, list[Entry]]:
        return {name: self.in_delivery_order(name) for name in self.queues if self.queues[name]}


@dataclass
class OurTurn:
    """A mount at work, by file operations."""

    root: Path
    mountpoint: Path
    model: Model
    store: ShellStore = field(init=False)
    _mount: ExitStack = field(default_factory=ExitStack)

    def play(self) -> None:
        with self._mount:
            self._mounted()
            assert self.seen() == self.model.summary()
            steps = (
                self.lines_to_all,
                self.envelopes_to_one,
                self.in_one_step,
                self.large,
                self.acknowledge,
                self.acknowledge_parts,
                self.move,
                self.new_queue,
                self.drop_queue,
                self.compact,
            )
            for step in self.model.random.choices(steps, weights=(5, 4, 1, 1, 4, 1, 3, 1, 1, 1), k=STEPS):
                step()
            assert self.seen() == self.model.summary()

    def _mounted(self) -> None:
        self.store = self._mount.enter_context(in_a_shell(self.root, self.mountpoint))

    def seen(self) -> dict[str, list[Entry]]:
        found = {}
        for name in self.model.queues:
            by_id = {line["id"]: line for line in self.store.lines(("work", name))}
            lines = [by_id[one] for one in self.store.queue(("work", name)).listed_ids()]
            assert len(lines) == len(by_id)
            if lines:
                found[name] = [Entry(digest(line["body"]), line["priority"]) for line in lines]
        return found

    def lines_to_all(self) -> None:
        bodies = self.model.bodies(BATCH_MAX)
        self.store.publish("work", None, "in.txt", "".join(f"{body}\n" for body in bodies).encode())
        self.model.add(list(self.model.queues), bodies)

    def envelopes_to_one(self) -> None:
        queue, priority = self.model.some_queue(), self.model.random.randint(0, 9)
        bodies = self.model.bodies(BATCH_MAX)
        content = "".join(json.dumps({"body": body, "priority": priority}) + "\n" for body in bodies)
        self.store.publish("work", queue, "in.jsonl", content.encode())
        self.model.add([queue], bodies, priority)

    def in_one_step(self) -> None:
        """Several files as one transaction."""
        queue = self.model.some_queue()
        files = [self.model.bodies(BATCH_MAX) for _ in range(3)]
        contents = {f"{n}.txt": "".join(f"{body}\n" for body in one).encode() for n, one in enumerate(files)}
        self.store.publish_in_one_step(("work", queue), contents)
        for bodies in files:
            self.model.add([queue], bodies)

    def large(self) -> None:
        body = f"{self.model.number()} {'large' * (LARGE_CHARS // 5)}"
        self.store.publish("work", None, "in.lines", body.encode())
        self.model.add(list(self.model.queues), [body])

    def _some_messages(self, queue: str) -> tuple[list[int], list[Entry]]:
        """Ids of some messages, and their entries."""
        lines = self.store.lines(("work", queue))
        chosen = self.model.random.sample(lines, min(len(lines), self.model.random.randint(1, BATCH_MAX)))
        entries = [Entry(digest(line["body"]), line["priority"]) for line in chosen]
        return [line["id"] for line in chosen], entries

    def acknowledge(self) -> None:
        queue = self.model.some_queue()
        ids, entries = self._some_messages(queue)
        self.store.acknowledge(("work", queue), ids)
        for entry in entries:
            self.model.queues[queue].remove(entry)

    def acknowledge_parts(self) -> None:
        queue = self.model.some_queue()
        if self.model.queues[queue]:
            self.store.acknowledge_parts(("work", queue))
            self.model.queues[queue] = []

    def move(self) -> None:
        if len(self.model.queues) < 2:
            return
        source, target = self.model.random.sample(sorted(self.model.queues), 2)
        ids, entries = self._some_messages(source)
        there = {line["id"] for line in self.store.lines(("work", target))}
        # A message is in a queue once.
        both = [(one, entry) for one, entry in zip(ids, entries, strict=True) if one not in there]
        self.store.move(("work", source), [one for one, _ in both], ("work", target))
        for _, entry in both:
            self.model.queues[source].remove(entry)
            self.model.queues[target].append(entry)

    def new_queue(self) -> None:
        name = f"queue.{self.model.number()}"
        self.store.create_queue(("work", name))
        self.model.queues[name] = []

    def drop_queue(self) -> None:
        empty = [name for name, entries in self.model.queues.items() if not entries]
        if len(self.model.queues) > 2 and empty:
            self.store.delete_queue(("work", empty[0]))
            del self.model.queues[empty[0]]

    def compact(self) -> None:
        """The command takes the store for itself."""
        self._mount.close()
        compact(self.root)
        self._mounted()


@dataclass
class BrokersTurn:
    client: CoreClient
    model: Model

    def play(self) -> None:
        assert self.seen() == self.model.summary()
        steps: tuple[Callable[[], None], ...] = (
            self.send_to_all,
            self.send_large,
            self.send_not,
            self.consume,
            self.take_all,
            self.new_queue,
        )
        for step in self.model.random.choices(steps, weights=(6, 1, 1, 6, 1, 1), k=STEPS):
            step()
        assert self.seen() == self.model.summary()

    def seen(self) -> dict[str, list[Entry]]:
        return {
            name: [Entry(one["sha256"], one["priority"]) for one in messages]
            for name, messages in account_of(self.client).messages.items()
        }

    def send_to_all(self) -> None:
        count, priority, first = self.model.random.randint(1, BATCH_MAX), self.model.random.randint(0, 9), 0
        prefix = str(self.model.number())
        self.client.send_many(
            "work", count, body=prefix + " of the broker {n}", priority=priority, first=first
        )
        bodies = [f"{prefix} of the broker {n}" for n in range(count)]
        self.model.add(list(self.model.queues), bodies, priority)

    def send_large(self) -> None:
        body = f"{self.model.number()} {'huge' * (LARGE_CHARS // 4)}"
        self.client.send("work", body=body)
        self.model.add(list(self.model.queues), [body])

    def send_not(self) -> None:
        self.client.do("begin", session="not")
        self.client.send("work", count=5, body="rolled back {n}", session="not")
        self.client.do("rollback", session="not")
        self.client.do("end", session="not")

    def consume(self) -> None:
        queue = self.model.some_queue()
        waiting = self.model.in_delivery_order(queue)
        count = self.model.random.randint(0, min(BATCH_MAX, len(waiting)))
        self.client.consume_many(queue, count)
        for entry in waiting[:count]:
            self.model.queues[queue].remove(entry)

    def take_all(self) -> None:
        queue = self.model.some_queue()
        waiting = self.model.in_delivery_order(queue)
        taken = take(self.client, queue, len(waiting))
        assert [Entry(one["sha256"], one["priority"]) for one in taken] == waiting
        self.model.queues[queue] = []

    def new_queue(self) -> None:
        name = f"queue.{self.model.number()}"
        self.client.create_queue(name, address="work", routing="MULTICAST")
        self.model.queues[name] = []


def back_and_forth(broker: Broker, mountpoint: Path, model: Model, rounds: int) -> None:
    with in_a_shell(broker.root, mountpoint) as store:
        store.create("work", "queue.a", "queue.b")
    model.queues |= {"queue.a": [], "queue.b": []}
    for turn in range(rounds):
        OurTurn(broker.root, mountpoint, model).play()
        with broker, CoreClient(broker.port) as client:
            BrokersTurn(client, model).play()
            assert complaints(broker.log) == []
            if turn % 2:
                broker.stop()
    OurTurn(broker.root, mountpoint, model).play()


@pytest.mark.parametrize(
    ("journal_type", "seed", "rounds"),
    [
        pytest.param("NIO", 1, ROUNDS, marks=[pytest.mark.long]),
        pytest.param("NIO", 2, ROUNDS_LONG, marks=[pytest.mark.long]),
        pytest.param("ASYNCIO", 3, ROUNDS_LONG, marks=[pytest.mark.long]),
        pytest.param("MAPPED", 4, ROUNDS_LONG, marks=[pytest.mark.long]),
    ],
)
def test_back_and_forth(
    artemis_home: Path, tmp_path: Path, journal_type: JournalType, seed: int, rounds: int
) -> None:
    broker = new_instance(tmp_path / "broker", journal_type, file_size="100K")
    model = Model(random.Random(seed))
    back_and_forth(broker, tmp_path / "mnt", model, rounds)
    left = sum(len(entries) for entries in model.queues.values())
    print(f"{journal_type}: {rounds} rounds, {model.added} messages put into queues, {left} left")
