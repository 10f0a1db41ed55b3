"""What queues hold after a history of changes, said in the plainest way: lists, and nothing of any file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

ATTEMPTS_MAX = 3
"""`max-delivery-attempts` in every world."""
RING_SIZE = 3
SELECTOR = "color = 'red'"
"""The one filter there is, for queues and for what is removed by selection."""
DEAD_LETTERS, EXPIRED = "DLQ", "ExpiryQueue"


class Limit(NamedTuple):
    policy: str
    """`address-full-policy`."""
    messages: int
    """`max-size-messages`."""


LIMITS = {"page": Limit("PAGE", 2), "drop": Limit("DROP", 3), "fail": Limit("FAIL", 3)}
"""Of addresses, by the last word of their names."""
PAGE_BYTES = 2048
"""A few messages."""


def limit_of(address: str) -> Limit | None:
    return LIMITS.get(address.rpartition(".")[2])


class Kind(NamedTuple):
    """What a queue is."""

    anycast: bool = False
    filtered: bool = False
    last_value: bool = False
    ring: bool = False
    exclusive: bool = False

    @property
    def replaces(self) -> bool:
        """Whether what comes can make others leave."""
        return self.last_value or self.ring


@dataclass(frozen=True)
class Message:
    """As it is published, and how often it was given back. No two of a history have the same body."""

    body: str
    priority: int = 4
    expires_ms: int = 0
    due_ms: int = 0
    group: str = ""
    color: str = ""
    key: str = ""
    duplicate_id: str = ""
    attempts: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but a body, as in a line."""
        return self == Message(self.body)


class Seen(NamedTuple):
    """What every world has to show of a message."""

    body: str
    priority: int
    expires_ms: int
    group: str
    attempts: int
    due_ms: int
    """0 for one that is due."""


class QueueSeen(NamedTuple):
    due: list[Seen]
    """In the order of delivery."""
    later: list[Seen]
    """What is scheduled, by time."""
    total: int


@dataclass
class Queue:
    address: str
    name: str
    kind: Kind
    messages: list[Message] = field(default_factory=list)
    """In the order of arrival."""

    def due(self, now_ms: int) -> list[Message]:
        """In the order of delivery."""
        return sorted(
            (one for one in self.messages if one.due_ms <= now_ms), key=lambda message: -message.priority
        )

    def later(self, now_ms: int) -> list[Message]:
        return sorted(
            (one for one in self.messages if one.due_ms > now_ms), key=lambda one: (one.due_ms, one.body)
        )

    def has(self, body: str) -> bool:
        return any(one.body == body for one in self.messages)

    def accepts(self, message: Message) -> bool:
        return not self.kind.filtered or message.color == "red"

    def add(self, message: Message, now_ms: int) -> None:
        if self.kind.last_value and message.key:
            self.remove(one.body for one in self.messages if one.key == message.key)
        self.messages.append(message)
        while self.kind.ring and len(self.due(now_ms)) > RING_SIZE:
            self.remove([self.due(now_ms)[0].body])

    def remove(self, bodies: Iterable[str]) -> list[Message]:
        leaving = set(bodies)
        left = [one for one in self.messages if one.body in leaving]
        self.messages = [one for one in self.messages if one.body not in leaving]
        return left


@dataclass
class Model:
    now_ms: int
    addresses: dict[str, set[str]] = field(default_factory=dict)
    """Names, and the duplicate ids that each knows."""
    queues: dict[str, Queue] = field(default_factory=dict)
    dead: dict[str, list[Message]] = field(default_factory=dict)
    """Dead letters, by the queue that they come from."""
    expired: dict[str, list[Message]] = field(default_factory=dict)

    def queues_of(self, address: str) -> list[Queue]:
        return [queue for queue in self.queues.values() if queue.address == address]

    def publish(self, address: str, queue: str | None, messages: Iterable[Message]) -> None:
        for message in messages:
            if queue is not None:
                self.queues[queue].add(message, self.now_ms)
            elif not message.duplicate_id or message.duplicate_id not in self.addresses[address]:
                if message.duplicate_id:
                    self.addresses[address].add(message.duplicate_id)
                for one in self.queues_of(address):
                    if one.accepts(message):
                        one.add(message, self.now_ms)

    def offer(self, address: str, message: Message) -> bool:
        """Publish to an address with a limit; False: it is refused. In pages there is room for all."""
        limit = limit_of(address)
        assert limit is not None
        held = {one.body for queue in self.queues_of(address) for one in queue.messages}
        if limit.policy == "PAGE" or len(held) < limit.messages:
            self.publish(address, None, [message])
            return True
        return limit.policy == "DROP"

    def delete_queue(self, name: str) -> None:
        address = self.queues.pop(name).address
        if not self.queues_of(address):
            self.addresses[address].clear()

    def move(self, source: str, bodies: Iterable[str], target: str) -> None:
        for message in self.queues[source].remove(bodies):
            self.queues[target].add(replace(message, attempts=0), self.now_ms)

    def take(self, name: str, count: int) -> list[str]:
        bodies = [one.body for one in self.queues[name].due(self.now_ms)[:count]]
        self.queues[name].remove(bodies)
        return bodies

    def compete(self, name: str, count: int) -> tuple[list[str], list[str]]:
        """Two readers of an exclusive queue: one takes so many and leaves, then the other takes one."""
        return self.take(name, count), self.take(name, 1)

    def give_back(self, name: str) -> str:
        """The next message is taken, and its reader fails."""
        queue = self.queues[name]
        first = queue.due(self.now_ms)[0]
        again = replace(first, attempts=first.attempts + 1)
        if again.attempts >= ATTEMPTS_MAX:
            queue.remove([first.body])
            self.dead.setdefault(name, []).append(first)
        else:
            queue.messages[queue.messages.index(first)] = again
        return first.body

    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms
        for name, queue in self.queues.items():
            over = [one for one in queue.due(self.now_ms) if 0 < one.expires_ms <= self.now_ms]
            queue.remove(one.body for one in over)
            if over:
                self.expired.setdefault(name, []).extend(over)

    def seen(self, name: str) -> QueueSeen:
        queue = self.queues[name]
        due, later = queue.due(self.now_ms), queue.later(self.now_ms)
        return QueueSeen(
            [_seen(one, 0) for one in due], [_seen(one, one.due_ms) for one in later], len(queue.messages)
        )

    def arrived(self, name: str) -> list[str]:
        return [one.body for one in self.queues[name].messages]


def sent_on(messages: Mapping[str, Sequence[Message]]) -> dict[str, list[str]]:
    """Bodies of dead letters or expired messages in the order of delivery, by origin."""
    return {
        queue: [one.body for one in sorted(found, key=lambda message: -message.priority)]
        for queue, found in messages.items()
    }


def _seen(message: Message, due_ms: int) -> Seen:
    return Seen(message.body, message.priority, message.expires_ms, message.group, message.attempts, due_ms)
