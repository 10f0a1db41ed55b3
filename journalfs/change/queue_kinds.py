"""Queues whose new messages displace older ones: last-value queues and rings.

The displaced message is acknowledged in the transaction of the new message. The last message of each value,
and the order of a ring, are read from the live messages when a queue is first sent to, and kept in memory.

A message that a reader has, or that is not due, does not count as in the queue: it is not displaced, and
displaces none. When it is released or becomes due, it is judged again: a full ring has no room for it, and a
later message of its value may be there. Brokers do the same. Messages that a failed removal leaves in the
queue are treated alike.

A message that cannot be read has no value, so it stays beside the others; it takes a place in a ring.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Final, Protocol, TypeAlias

from journalfs.bindings.model import BindingsState, Queue
from journalfs.change.removing import Removing
from journalfs.errors import JournalfsError, LastValueRefused
from journalfs.format import core_message
from journalfs.ids import MessageId, Position, QueueId, TxId
from journalfs.live.content import QueueContent
from journalfs.live.core import Core
from journalfs.live.runs import JournalRun, Run
from journalfs.live.stored_runs import stored_messages
from journalfs.message.outgoing import Outgoing

VALUES_SWEPT_MIN: Final = 1024
"""Values of which nothing is there any more are forgotten when there are so many, and then when there are
twice as many as were left.
"""


class _Again(Enum):
    """Why a message is looked at again."""

    GIVEN_BACK = auto()
    """A reader had it."""
    DUE = auto()
    """The message became due."""
    STAYS = auto()
    """A removal of the message failed, so it stays in the queue."""


class _Message(Protocol):
    """The facts about a message that matter here."""

    @property
    def priority(self) -> int: ...

    def text(self, name: str) -> str | None:
        """Return a property as text; None if the message has none of that name."""


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """A message that cannot be read. Its priority is known from its queue."""

    priority: int

    def text(self, name: str) -> None:
        del name


_Read: TypeAlias = Callable[[QueueContent, JournalRun], _Message]


class _Kind(Protocol):
    def arrives(self, message_id: MessageId, message: Outgoing) -> Iterator[MessageId]:
        """Take a new message that is due, and return those that it may displace, which may be
        gone already.
        """

    def returns(self, message_id: MessageId, message: _Message, why: _Again) -> list[MessageId]:
        """Take a message that is in the queue again, and return those that leave for it: others, which may be
        gone already, or itself.
        """

    def left(self, message_ids: Iterable[MessageId]) -> None:
        """These had to go for a new one."""

    def waits(self, message_id: MessageId, message: _Message) -> None:
        """Note that a message is not due any more."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The settings of a queue that the state in memory was made for."""

    last_values: bool
    last_value_key: str | None
    ring_size: int | None

    @classmethod
    def by(cls, queue: Queue) -> _Asked:
        """Return the settings. As in brokers, a queue with a last-value key is a last-value queue
        (`QueueFactoryImpl` in 2.44).
        """
        binding = queue.binding
        return cls(
            binding.last_value or bool(binding.last_value_key),
            binding.last_value_key,
            binding.ring_size if binding.ring_size >= 0 else None,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """Properties that may say the value of a message; the first that is there counts."""
        if not self.last_values:
            return ()
        return (*filter(None, (self.last_value_key,)), core_message.LAST_VALUE)


def _lets_go(queue: Queue) -> bool:
    """Whether its settings ask for anything. Asked of all queues at once."""
    binding = queue.binding
    return bool(binding.last_value or binding.last_value_key or binding.ring_size >= 0)


@dataclass(slots=True)
class QueueKinds:
    core: Core
    removing: Removing
    _bindings: BindingsState | None = None
    _special: set[QueueId] = field(default_factory=set)
    _kinds: dict[QueueId, tuple[_Asked, tuple[_Kind, ...]]] = field(default_factory=dict)
    """Of queues that were sent to, or that something came back to, and what was asked of each then."""
    _later: list[tuple[int, QueueId, MessageId]] = field(default_factory=list)
    """A heap of when messages are due, in milliseconds since 1970."""
    _unknown: set[QueueId] = field(default_factory=set)
    """Special queues of which it is not known yet when their messages are due."""
    _failures: int = 0
    _told: set[tuple[QueueId, MessageId]] = field(default_factory=set)
    """Messages that could not be read."""

    def special(self, queues: Iterable[QueueId]) -> bool:
        """Whether one of the queues lets go of messages when others come."""
        self._refresh()
        return bool(self._special) and not self._special.isdisjoint(queues)

    def refuse_unloadable(self, queues: Sequence[QueueId], message: Outgoing) -> None:
        """Raises `LastValueRefused` for a message that a broker would not load into one of the queues."""
        for queue_id in queues if self.special(queues) else ():
            queue = self.core.bindings.queues[queue_id]
            for name in _Asked.by(queue).keys:
                if not message.is_text(name):
                    raise LastValueRefused(f"{queue.address}::{queue.name}", name)
                if message.text(name) is not None:
                    break

    def _refresh(self) -> None:
        if self._failures != self.removing.failures:
            # What they know may be of a transaction that came to nothing.
            self._failures = self.removing.failures
            self._kinds.clear()
        if self._bindings is not self.core.bindings:
            before, self._bindings = self._bindings, self.core.bindings
            changed, bound = self._bindings.changed_since(before), self._bindings.queues
            ids = self._special | bound.keys() if changed is None else changed.queues
            special = {one for one in ids if one in bound and _lets_go(bound[one])}
            gone = (ids & self._special) - special
            self._unknown = (self._unknown - gone) | (special - self._special)
            self._special = (self._special - gone) | special
            self._forget_times(gone)
            for queue_id in ids & self._kinds.keys():
                if queue_id not in special or _Asked.by(bound[queue_id]) != self._kinds[queue_id][0]:
                    del self._kinds[queue_id]

    def forget(self, queues: Iterable[QueueId]) -> None:
        """Messages came to these queues that this was not told of; all are shown by now."""
        some = frozenset(queues)
        for queue in some:
            self._kinds.pop(queue, None)
        self._forget_times(some)
        self._unknown |= some & self._special

    @contextmanager
    def coming(self, queues: Collection[QueueId]) -> Iterator[None]:
        """Within the block messages come to queues. If one of these starts to displace messages in the
        meantime, its state is read again afterwards.
        """
        known = self.special(queues)
        yield
        if not known and self.special(queues):
            self.forget(queues)

    def _forget_times(self, queues: Set[QueueId]) -> None:
        if queues:
            self._later = [one for one in self._later if one[1] not in queues]
            heapify(self._later)

    def arrived_in(
        self, tx: TxId, queues: Iterable[QueueId], message_id: MessageId, message: Outgoing, now_ms: int
    ) -> None:
        """Stage the displacements for a message, as part of the transaction that brings it. A message that is
        not due displaces none before it is.
        """
        due_ms = message.scheduled_ms
        for queue_id in queues:
            if queue_id not in self._special:
                continue
            if due_ms > now_ms:
                heappush(self._times(), (due_ms, queue_id, message_id))
                continue
            kinds = self._of(queue_id)
            for kind in kinds:
                going = kind.arrives(message_id, message)
                left = self.removing.replace_in(tx, queue_id, message_id, going)
                for other in kinds if left else ():
                    other.left(left)

    def returned(self, queue_id: QueueId, message_id: MessageId, due_ms: int) -> Position | None:
        """A reader gave a message back, to be delivered again from `due_ms` on: stage what leaves the queue
        for it, or that itself does. The position is where that is durable; None: nothing has to go.
        """
        if not self.special((queue_id,)):
            return None
        position = self._again(queue_id, message_id, _Again.GIVEN_BACK)
        if due_ms > self.core.clock.now_ms():
            self.rescheduled(queue_id, message_id, due_ms)
        return position

    def rescheduled(self, queue_id: QueueId, message_id: MessageId, due_ms: int) -> None:
        """A message that is there is due at another time now, which may be over."""
        if not self.special((queue_id,)):
            return
        heappush(self._times(), (due_ms, queue_id, message_id))
        if due_ms <= self.core.clock.now_ms() or queue_id not in self._kinds:
            return
        message = self._stored(queue_id, message_id)
        if message is not None:
            for kind in self._of(queue_id):
                kind.waits(message_id, message)

    def stayed(self, queue_id: QueueId, message_ids: Iterable[MessageId]) -> Position | None:
        """Judge messages again that a failed removal leaves in their queue, and stage what leaves for them,
        or that they leave. Messages that came in between were judged as if they had left.
        """
        position = self.became_due()  # one that became due meanwhile is the last of its value
        if self.special((queue_id,)):
            for message_id in message_ids:
                if not self._is_later(queue_id, message_id):
                    position = self._again(queue_id, message_id, _Again.STAYS) or position
        return position

    def became_due(self) -> Position | None:
        """Stage what has to go for messages that became due since the last call, or that they do."""
        self._refresh()
        times, position = self._times(), None
        if not times:
            return None
        now_ms = self.core.clock.now_ms()
        leaving: list[tuple[int, QueueId, MessageId]] = []
        while times and times[0][0] <= now_ms:
            one = heappop(times)
            _, queue_id, message_id = one
            if self.removing.is_leaving(queue_id, message_id):
                leaving.append(one)  # it may stay after all, and is due then
            elif not self._is_later(queue_id, message_id):
                position = self._again(queue_id, message_id, _Again.DUE) or position
        for one in leaving:
            heappush(times, one)
        return position

    def _again(self, queue_id: QueueId, message_id: MessageId, why: _Again) -> Position | None:
        message, kinds = self._stored(queue_id, message_id), self._of(queue_id)
        if message is None:
            return None
        going: list[MessageId] = []
        for kind in kinds:
            found = kind.returns(message_id, message, why)
            some = [one for one in found if self.removing.is_there(queue_id, one)]
            for other in kinds:
                other.left(some)
            going += some
            if message_id in some:
                break
        if not going:
            return None

        def stage(tx: TxId) -> None:
            self.removing.replace_in(tx, queue_id, message_id, going)

        return self.removing.in_transaction(stage)

    def _is_later(self, queue_id: QueueId, message_id: MessageId) -> bool:
        """Whether another time was set since, which is known as well."""
        state = self.core.loader.state
        ref = state.find(state.register_queue(queue_id), message_id)
        return ref >= 0 and state.ref(ref).scheduled_ms > self.core.clock.now_ms()

    def _stored(self, queue_id: QueueId, message_id: MessageId) -> _Message | None:
        """A message of the queue, if it is there, and in the journal."""
        content = QueueContent(self.core, self.core.bindings.queues[queue_id])
        run = content.find(message_id)
        if run is None or not run.references or not self.removing.is_there(queue_id, message_id):
            return None
        return self._read(content, run)

    def _read(self, content: QueueContent, run: Run) -> _Message:
        """The one message of a run."""
        try:
            ((_, message),) = stored_messages(content, run)
        except JournalfsError as error:
            info = content.state.ref(run.references[0])
            which = content.queue_id, MessageId(info.message_id)
            if which not in self._told:
                self._told.add(which)
                where = f"{content.model.address}::{content.name}"
                text = f"{where}: {which[1]} cannot be read, so no other takes its place: {error}"
                self.core.events.add("not-replaced", text)
            return _Unreadable(info.priority)
        return message

    def _times(self) -> list[tuple[int, QueueId, MessageId]]:
        for queue_id in self._unknown:
            content = QueueContent(self.core, self.core.bindings.queues[queue_id])
            for message_id, due_ms in content.due_ms().items():
                heappush(self._later, (due_ms, queue_id, MessageId(message_id)))
        self._unknown.clear()
        return self._later

    def _of(self, queue_id: QueueId) -> tuple[_Kind, ...]:
        if queue_id not in self._kinds:
            queue = self.core.bindings.queues[queue_id]
            asked = _Asked.by(queue)
            self._kinds[queue_id] = asked, tuple(self._made(asked, QueueContent(self.core, queue)))
        _, kinds = self._kinds[queue_id]
        return kinds

    def _made(self, asked: _Asked, content: QueueContent) -> Iterator[_Kind]:
        if asked.last_values:
            yield LastValues.of(content, asked.last_value_key, self.removing, self._read)
        if asked.ring_size is not None:
            yield Ring.of(content, asked.ring_size, self.removing)


@dataclass(slots=True)
class LastValues:
    """By value of the key, the messages that have it in the order in which they came: the last one, and those
    that readers have.
    """

    key: str | None
    removing: Removing
    queue_id: QueueId
    _by_value: dict[str, list[MessageId]] = field(default_factory=dict)
    _values_max: int = VALUES_SWEPT_MIN

    @classmethod
    def of(cls, content: QueueContent, key: str | None, removing: Removing, read: _Read) -> LastValues:
        values = cls(key, removing, content.queue_id)
        for run in _due(content):
            value = values._value_of(read(content, run))
            if value is not None:
                message_id = MessageId(content.state.ref(run.references[0]).message_id)
                values._by_value.setdefault(value, []).append(message_id)
        return values

    def arrives(self, message_id: MessageId, message: Outgoing) -> Iterator[MessageId]:
        value = self._value_of(message)
        if value is None:
            return
        before = self._by_value.get(value, ())
        self._by_value[value] = [*self._with_readers(before), message_id]
        yield from self._there(before)
        if len(self._by_value) > self._values_max:
            self._sweep()

    def returns(self, message_id: MessageId, message: _Message, why: _Again) -> list[MessageId]:
        """Take a message back: one that became due is the last of its value now. A released one has its old
        place: it does not displace a later one, and is the last beside other released ones.
        """
        value = self._value_of(message)
        if value is None:
            return []
        known = self._by_value.get(value, [])
        others = [one for one in known if one != message_id]
        at = len(others) if why is _Again.DUE else known.index(message_id) if message_id in known else 0
        before, after = others[:at], others[at:]
        if self._there(after):
            self._by_value[value] = [*before, *after]
            return [message_id]
        self._by_value[value] = [*self._with_readers(before), message_id, *self._with_readers(after)]
        return self._there(before)

    def left(self, message_ids: Iterable[MessageId]) -> None:
        """Which are there is asked whenever that matters."""

    def waits(self, message_id: MessageId, message: _Message) -> None:
        known = self._by_value.get(self._value_of(message) or "", [])
        if message_id in known:
            known.remove(message_id)

    def _there(self, message_ids: Iterable[MessageId]) -> list[MessageId]:
        return [one for one in message_ids if self.removing.is_there(self.queue_id, one)]

    def _with_readers(self, message_ids: Iterable[MessageId]) -> list[MessageId]:
        return [one for one in message_ids if self.removing.is_with_reader(self.queue_id, one)]

    def _sweep(self) -> None:
        """Forget values that nothing has any more."""
        there = {
            value: [*self._with_readers(ids), *self._there(ids)] for value, ids in self._by_value.items()
        }
        self._by_value = {value: ids for value, ids in there.items() if ids}
        self._values_max = max(VALUES_SWEPT_MIN, 2 * len(self._by_value))

    def _value_of(self, message: _Message) -> str | None:
        value = message.text(self.key) if self.key else None
        return message.text(core_message.LAST_VALUE) if value is None else value


@dataclass(slots=True)
class Ring:
    """The messages of a ring in order of delivery, by priority. Messages that readers have may be among them,
    until there are too many.
    """

    size: int
    removing: Removing
    queue_id: QueueId
    _levels: tuple[OrderedDict[MessageId, None], ...] = field(
        default_factory=lambda: tuple(OrderedDict() for _ in range(10))
    )
    _swept: int = -1
    """Counts of removals when the ring was last compared with the live messages."""

    @classmethod
    def of(cls, content: QueueContent, size: int, removing: Removing) -> Ring:
        ring = cls(size, removing, content.queue_id)
        for run in _due(content):
            info = content.state.ref(run.references[0])
            ring._levels[info.priority][MessageId(info.message_id)] = None
        return ring

    def arrives(self, message_id: MessageId, message: Outgoing) -> Iterator[MessageId]:
        self._level(message)[message_id] = None
        return self._surplus()

    def _surplus(self) -> Iterator[MessageId]:
        """Let go of the first to be delivered while there are too many."""
        if self._count() > self.size:
            self._sweep()
        while self._count() > self.size:
            level = next(level for level in reversed(self._levels) if level)
            first, _ = level.popitem(last=False)
            yield first

    def returns(self, message_id: MessageId, message: _Message, why: _Again) -> list[MessageId]:
        """Take a message back: nothing makes room for it, since later messages stay. If it never left, the
        message to be delivered first leaves, as if no removal had been tried.
        """
        level = self._level(message)
        if message_id not in level:
            later = list(takewhile(lambda one: one > message_id, reversed(level)))
            level[message_id] = None
            for one in reversed(later):
                level.move_to_end(one)
        if why is _Again.STAYS:
            return list(self._surplus())
        if self._count() > self.size:
            self._sweep()
        return [message_id] if self._count() > self.size else []

    def left(self, message_ids: Iterable[MessageId]) -> None:
        for message_id in message_ids:
            for level in self._levels:
                level.pop(message_id, None)

    def waits(self, message_id: MessageId, message: _Message) -> None:
        self._level(message).pop(message_id, None)

    def _level(self, message: _Message) -> OrderedDict[MessageId, None]:
        return self._levels[max(0, min(message.priority, 9))]

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
