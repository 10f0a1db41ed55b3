"""Queues that let go of older messages when new ones come: last-value queues and rings.

What has to go is acknowledged in the transaction that brings the new message. Which message is the last of
its value, and which are in a ring in what order, is read from what is live when a queue is first sent to, and
kept in memory from then on.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from journalfs.bindings.model import BindingsState, Queue
from journalfs.format import core_message
from journalfs.ids import MessageId, QueueId, TxId
from journalfs.store.content import QueueContent
from journalfs.store.core import Core
from journalfs.store.outgoing import Outgoing
from journalfs.store.runs import JournalRun
from journalfs.store.stored_runs import stored_messages
from journalfs.store.write.removing import Removing

VALUES_SWEPT_MIN: Final = 1024
"""Values of which nothing is there any more are forgotten when there are so many, and then when there are
twice as many as were left.
"""


class _Kind(Protocol):
    def arrives(self, message_id: MessageId, message: Outgoing) -> Iterator[MessageId]:
        """Take a new message that is due; those that may have to go for it, which may be gone already."""

    def same_as(self, queue: Queue) -> bool:
        """Whether the queue's settings still ask for just this."""


@dataclass(slots=True)
class QueueKinds:
    core: Core
    removing: Removing
    _bindings: BindingsState | None = None
    _special: frozenset[QueueId] = frozenset()
    _kinds: dict[QueueId, tuple[_Kind, ...]] = field(default_factory=dict)
    """Of queues that were sent to."""
    _failures: int = 0

    def special(self, queues: Iterable[QueueId]) -> bool:
        """Whether one of the queues lets go of messages when others come."""
        if self._failures != self.removing.failures:
            # What they know may be of a transaction that came to nothing.
            self._failures = self.removing.failures
            self._kinds.clear()
        if self._bindings is not self.core.bindings:
            self._bindings = self.core.bindings
            bound = self._bindings.queues
            self._special = frozenset(one for one in bound if _wanted(bound[one]))
            for queue_id, kinds in list(self._kinds.items()):
                queue = bound.get(queue_id)
                if queue is None or not all(kind.same_as(queue) for kind in kinds):
                    del self._kinds[queue_id]
        return bool(self._special) and not self._special.isdisjoint(queues)

    def forget(self, queues: Iterable[QueueId]) -> None:
        """Messages came to these queues that this was not told of; all are shown by now."""
        for queue in queues:
            self._kinds.pop(queue, None)

    def arrived_in(
        self, tx: TxId, queues: Iterable[QueueId], message_id: MessageId, message: Outgoing, now_ms: int
    ) -> None:
        """Stage, as part of the transaction that brings a message, that others leave these queues. One that
        is not due makes none go: it is not in the queue yet.
        """
        if (message.scheduled_ms or 0) > now_ms:
            return
        for queue_id in queues:
            if queue_id in self._special:
                for kind in self._of(queue_id):
                    going = kind.arrives(message_id, message)
                    self.removing.replace_in(tx, queue_id, message_id, going)

    def _of(self, queue_id: QueueId) -> tuple[_Kind, ...]:
        kinds = self._kinds.get(queue_id)
        if kinds is None:
            queue = self.core.bindings.queues[queue_id]
            content = QueueContent(self.core, queue)
            kinds = self._kinds[queue_id] = tuple(self._made(queue, content))
        return kinds

    def _made(self, queue: Queue, content: QueueContent) -> Iterator[_Kind]:
        if queue.binding.last_value:
            yield LastValues.of(content, queue, self.removing)
        if queue.binding.ring_size >= 0:
            yield Ring.of(content, queue, self.removing)


def _wanted(queue: Queue) -> bool:
    return queue.binding.last_value or queue.binding.ring_size >= 0


@dataclass(slots=True)
class LastValues:
    """By value of the key, the messages that have it: the last one, and those that it takes the place of."""

    key: str | None
    removing: Removing
    queue_id: QueueId
    _by_value: dict[str, list[MessageId]] = field(default_factory=dict)
    _values_max: int = VALUES_SWEPT_MIN

    @classmethod
    def of(cls, content: QueueContent, queue: Queue, removing: Removing) -> LastValues:
        values = cls(queue.binding.last_value_key, removing, queue.queue_id)
        for run in _due(content):
            for message_id, message in stored_messages(content, run):
                value = values._value_of(message)
                if value is not None:
                    values._by_value.setdefault(value, []).append(message_id)
        return values

    def same_as(self, queue: Queue) -> bool:
        return queue.binding.last_value and queue.binding.last_value_key == self.key

    def arrives(self, message_id: MessageId, message: Outgoing) -> Iterator[MessageId]:
        value = self._value_of(message)
        if value is None:
            return
        before = self._there(self._by_value.get(value, ()))
        self._by_value[value] = [*before, message_id]
        yield from before
        if len(self._by_value) > self._values_max:
            there = {value: self._there(ids) for value, ids in self._by_value.items()}
            self._by_value = {value: ids for value, ids in there.items() if ids}
            self._values_max = max(VALUES_SWEPT_MIN, 2 * len(self._by_value))

    def _there(self, message_ids: Iterable[MessageId]) -> list[MessageId]:
        return [one for one in message_ids if self.removing.is_there(self.queue_id, one)]

    def _value_of(self, message: Outgoing) -> str | None:
        value = message.text(self.key) if self.key else None
        return message.text(core_message.LAST_VALUE) if value is None else value


@dataclass(slots=True)
class Ring:
    """The messages of a ring in the order in which they are delivered, by priority."""

    size: int
    removing: Removing
    queue_id: QueueId
    _levels: tuple[OrderedDict[MessageId, None], ...] = field(
        default_factory=lambda: tuple(OrderedDict() for _ in range(10))
    )
    _swept: int = -1
    """What had left queues when it was last looked which messages are still there."""

    @classmethod
    def of(cls, content: QueueContent, queue: Queue, removing: Removing) -> Ring:
        ring = cls(queue.binding.ring_size, removing, queue.queue_id)
        for run in _due(content):
            info = content.state.ref(run.refs[0])
            ring._levels[info.priority][MessageId(info.message_id)] = None
        return ring

    def same_as(self, queue: Queue) -> bool:
        return queue.binding.ring_size == self.size

    def arrives(self, message_id: MessageId, message: Outgoing) -> Iterator[MessageId]:
        self._levels[max(0, min(message.priority, 9))][message_id] = None
        if self._count() > self.size:
            self._sweep()
        while self._count() > self.size:
            level = next(level for level in reversed(self._levels) if level)
            first, _ = level.popitem(last=False)
            yield first

    def _count(self) -> int:
        return sum(map(len, self._levels))

    def _sweep(self) -> None:
        """Forget those that left otherwise."""
        if self._swept != self.removing.version:
            self._swept = self.removing.version
            for level in self._levels:
                for message_id in list(level):
                    if not self.removing.is_there(self.queue_id, message_id):
                        del level[message_id]


def _due(content: QueueContent) -> Iterator[JournalRun]:
    """The messages in the journal in delivery order, one by one, but for those that are not due."""
    refs = content.state.refs(content.slot, "delivery", "live")
    later = set(content.state.scheduled(content.slot, content.now_ms))
    for ref in refs:
        if ref not in later:
            yield JournalRun(array("I", [ref]))
