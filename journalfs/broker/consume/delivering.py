"""Delivers a queue's messages to competing consumers.

A delivered message belongs to its consumer until it is acknowledged or released. The disk knows only what a
broker writes, too: the acknowledgement, and for a failed delivery the delivery count and the time of the next
attempt. So the end of this process releases all delivered messages.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import trio

from journalfs.api import ByteSource
from journalfs.broker.consume.forwarding import Forwarding
from journalfs.broker.consume.leaving import Leaving
from journalfs.change.address_rules import AddressRules
from journalfs.change.message_settings import stage_schedule
from journalfs.change.removing import Chosen
from journalfs.change.store_parts import StoreParts
from journalfs.engine.state_batch import keep_aside
from journalfs.engine.waiting import unbroken
from journalfs.errors import HeldByReaders, TooManyConsumers
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, PageNumber, Position, QueueId, RecordId
from journalfs.limits import SUPPLY_MESSAGES_MAX, WHOLE_LINE_BYTES_MAX
from journalfs.live.content import NOT_AS_MEASURED, OVERTAKEN, QueueContent, Why, attempts_max
from journalfs.live.core import Core
from journalfs.live.runs import Place, Run
from journalfs.message.envelope import envelope_decoder
from journalfs.views.filters import Filter
from journalfs.views.following import ArrivedMessages, Follower, line_of, place_run
from journalfs.views.queues import StoreQueue
from journalfs.views.views import QueueView

# The messages of a queue in the order in which consumers get them, without going through it for each.

SCANNED_AT_ONCE = 4096
"""Messages that a selector judges in one go."""


class Supply:
    """The messages that a queue, or a selector, has for its consumers: some thousands are found at once.

    They are found again when these are used up, when a message comes that goes before the last of them, when
    a scheduled one becomes due, and when one is released.
    """

    def __init__(self, content: QueueContent, selected: Filter | None) -> None:
        self._content = content
        self._selected = selected
        self._arrivals = ArrivedMessages(content)
        self._window: deque[Place] = deque()
        self._last_priority = 0
        self._version: object = None
        self._stale = True
        self._due_ms = 0

    def forget(self) -> None:
        """Find the messages again: some that were passed over may be free now."""
        self._stale = True

    @property
    def due_ms(self) -> int:
        """When a scheduled message is due next, in milliseconds since 1970; 0: none is."""
        return self._due_ms

    def is_found(self) -> bool:
        """Whether it is known which messages `next` chooses from, so that it needs no time."""
        return self._content.is_settled() and self._chosen()

    def _chosen(self) -> bool:
        return self._selected is None or not (
            self._stale or self._is_due() or (not self._window and self._version != self._content.version)
        )

    async def find(self) -> None:
        """Find that out, while others are served."""
        await self._content.settled()
        if self._selected is None or self._chosen():
            return
        found = 0
        for run in self._content.due()[0]:
            for piece in run.split(SCANNED_AT_ONCE):
                with contextlib.suppress(*NOT_AS_MEASURED, *OVERTAKEN):  # whoever renders them is told
                    await self._selected.learn(piece)
                    found += len(self._selected.apply(piece))
                if found >= SUPPLY_MESSAGES_MAX:
                    return

    def accepts(self, place: Place) -> bool:
        run = place_run(self._content, place)
        return run is not None and (self._selected is None or bool(len(self._selected.apply(run))))

    def next(self) -> tuple[Place, Run] | None:
        """The next message that is there and due; whether it may be had is the caller's business."""
        if self._stale or self._is_due() or self._overtaken():
            self._fill()
        while True:
            while self._window:
                place = self._window.popleft()
                run = due_run(self._content, place)
                if run is not None:
                    return place, run
            if self._version == self._content.version:
                return None
            self._fill()

    def _is_due(self) -> bool:
        return 0 < self._due_ms <= self._content.now_ms

    def _overtaken(self) -> bool:
        """Return True if a message came that goes before the last one found. A message behind that is found
        later.
        """
        state = self._content.state
        overtaken = False
        for run in self._arrivals.new():
            for info in map(state.ref, run.references if self._window else ()):
                overtaken = overtaken or info.priority > self._last_priority
                if info.scheduled_ms > self._content.now_ms:
                    self._due_ms = min(self._due_ms or info.scheduled_ms, info.scheduled_ms)
        return overtaken

    def _fill(self) -> None:
        content = self._content
        self._version = content.version
        self._stale = False
        self._arrivals.skip()
        self._window.clear()
        runs, self._due_ms = content.due()
        for run in runs:
            for piece in run.split(SCANNED_AT_ONCE):
                kept = self._selected.apply(piece) if self._selected is not None else piece
                self._window.extend(kept.places(content))
                if kept.page is not None:
                    # Pages come after all that the journal has: whatever comes to it goes before them.
                    self._last_priority = -1
                elif kept.references:
                    self._last_priority = content.state.ref(kept.references[-1]).priority
                if len(self._window) >= SUPPLY_MESSAGES_MAX:
                    return


def due_run(content: QueueContent, place: Place) -> Run | None:
    """The message at a place, if it is live and due."""
    run = place_run(content, place)
    times_ms = (content.state.ref(one).scheduled_ms for one in run.references) if run is not None else ()
    return None if any(due_ms > content.now_ms for due_ms in times_ms) else run


# What decides about deliveries: headers of a message, and settings of its address and of the broker.

_NEVER_BELOW_MS: Final = -(2**63) + 2**46
"""Expirations below this wrap around when a broker subtracts them from now. Clients with the longest time to
live send such.
"""
_HEAD: Final = envelope_decoder(frozenset(("expiration", "groupId")))
_PROPERTIES: Final = envelope_decoder(frozenset(("properties",)))
_AFTER_HEAD: Final = (b',"properties":', b',"body', b',"amqp":', b',"damage":', b',"message_base64":')
DELAY_MS_MAX: Final = 2.0**62
"""Upper bound of a delay, however often it was multiplied."""
_SEQUENCE: Final = b'"_AMQ_GROUP_SEQUENCE":'


@dataclass(frozen=True, slots=True)
class Headers:
    """The fields of a message that decide which consumer gets it."""

    expiration: int = 0
    """Milliseconds since 1970; 0: never."""
    group: str = ""
    group_sequence: int = 0
    """-1 ends the group."""

    def is_over(self, now_ms: int) -> bool:
        if self.expiration < 0:
            return self.expiration > _NEVER_BELOW_MS
        return 0 < self.expiration <= now_ms


def headers_of(line: ByteSource) -> Headers:
    """From an envelope line: its headers come before its properties and its body, which may be long."""
    text = bytes(line.read(0, min(line.size_bytes, WHOLE_LINE_BYTES_MAX)))
    ends = [at for at in (text.find(key) for key in _AFTER_HEAD) if at > 0]
    if not ends and line.size_bytes > len(text):
        return Headers()
    head = _HEAD(text[: min(ends)] + b"}" if ends else text)
    expiration, group = head.get("expiration", 0), head.get("groupId", "")
    sequence = 0
    if group and _SEQUENCE in text and line.size_bytes == len(text):
        properties = _PROPERTIES(text).get("properties")
        found = properties.get("_AMQ_GROUP_SEQUENCE") if isinstance(properties, dict) else None
        sequence = found if isinstance(found, int) else 0
    return Headers(
        expiration if isinstance(expiration, int) else 0, group if isinstance(group, str) else "", sequence
    )


@dataclass(slots=True)
class DeliveryRules:
    core: Core
    addresses: AddressRules
    random: Random = field(default_factory=Random)

    def is_last_attempt(self, address: str, count: int) -> bool:
        """`max-delivery-attempts`; none or a negative number is no limit."""
        most = self.addresses.number(address, "max-delivery-attempts")
        return 0 < most <= count

    def redelivery_delay_ms(self, address: str, count: int) -> int:
        """How long a message waits after its attempt number `count` failed."""
        delay_ms = self.addresses.number(address, "redelivery-delay")
        if delay_ms <= 0:
            return 0
        longest_ms = self.addresses.number(address, "max-redelivery-delay")
        try:
            grown = self._decimal(address, "redelivery-delay-multiplier", 1.0) ** max(count - 1, 0)
        except OverflowError:
            return longest_ms
        # A broker takes a negative multiplier, too; what is due in the past is due now.
        waits = int(max(0.0, min(delay_ms * grown, DELAY_MS_MAX)))
        spread = self._decimal(address, "redelivery-collision-avoidance-factor", 0.0)
        if spread > 0:
            waits += int(waits * self.random.uniform(-spread, spread))
        return min(waits, longest_ms)

    def is_recorded(self, count: int) -> bool:
        """`max-redelivery-records`: so many attempts are recorded of one message; -1: all."""
        most = self.core.layout.value_in_force("max-redelivery-records")
        return not isinstance(most, int) or most < 0 or count <= most

    def counts_before(self) -> bool:
        return bool(self.core.layout.value_in_force("persist-delivery-count-before-delivery"))

    def _decimal(self, address: str, name: str, otherwise: float) -> float:
        value = self.addresses.value(address, name)
        return float(value) if isinstance(value, int | float) else otherwise


KEPT: Final = MessageId(0)


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that a consumer has. `line` is its envelope."""

    consumer: Consumer
    place: Place
    chosen: Chosen | None
    """None where a queue keeps what it delivers (`non-destructive`)."""
    line: ByteSource
    count: int
    """Attempts before this one."""
    message_id: MessageId
    """`KEPT` where a queue keeps what it delivers."""

    async def acknowledge(self) -> None:
        """Acknowledge the message; durable on return."""
        chosen = self.chosen
        if chosen is not None:
            await unbroken(lambda: self.consumer.queue.acknowledge(self, chosen))

    async def give_back(self, *, failed: bool) -> None:
        """Release the message. `failed=True` counts as an attempt to deliver it."""
        self.line.close()
        if self.chosen is None:
            return
        if failed:
            await self.consumer.queue.failed(self, self.chosen)
        else:
            await self.consumer.queue.returned(self.chosen)


class Consumer:
    """One of those who compete for the messages of a queue, or of a selection of it."""

    def __init__(self, queue: QueueDelivery, supply: Supply) -> None:
        self.queue = queue
        self.supply = supply
        self.assigned: deque[Place] = deque()
        """Messages of groups that are this consumer's, met by others."""
        self.closed = False
        self.selectors: tuple[str, ...] = ()
        """The selectors by which `supply` is selected."""

    @property
    def ended(self) -> bool:
        """The queue is gone, so nothing will come."""
        return self.queue.content.gone

    def is_found(self) -> bool:
        """Whether it is known which messages it chooses from, so that `ready` and `take` need no time."""
        return bool(self.assigned) or self.supply.is_found()

    async def find(self) -> None:
        """Find that out, while others are served."""
        if not self.assigned and not self.ended:
            await self.supply.find()

    def ready(self) -> bool:
        """Whether there is a message for this consumer at this moment."""
        delivery = self.take()
        if delivery is None:
            return False
        delivery.line.close()
        self.put_back(delivery)
        return True

    def put_back(self, delivery: Delivery) -> None:
        if delivery.chosen is not None:
            self.queue.handing.let_go(delivery.chosen, quietly=True)
        self.assigned.appendleft(delivery.place)

    def take(self) -> Delivery | None:
        """The next message that is this consumer's; None when there is none now."""
        return self.queue.take(self)

    def due_s(self) -> float:
        due_ms = self.queue.due_ms(self)
        return max(due_ms - self.queue.core.clock.now_ms(), 1) / 1000 if due_ms else math.inf

    async def next(self) -> Delivery | None:
        """The next message, waited for; None when the queue is gone."""
        waking = self.queue.core.waking
        while True:
            seen = waking.count
            await self.find()
            delivery = self.take()
            if delivery is not None:
                return await self.queue.counted_before(delivery)
            if self.ended:
                return None
            with trio.move_on_after(self.due_s()):
                await waking.beyond(seen)

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            await self.queue.closed(self)


class KeepingConsumer(Consumer):
    """A consumer of a queue that keeps its messages: it gets each message once, whatever other
    consumers get.
    """

    def __init__(self, queue: QueueDelivery, supply: Supply, selected: Filter | None) -> None:
        super().__init__(queue, supply)
        content = queue.content
        self._follower = Follower(content, selected)
        for run in content.due()[0]:
            kept = selected.apply(run) if selected is not None else run
            self.assigned.extend(kept.places(content))

    def is_found(self) -> bool:
        return bool(self.assigned) or self._follower.is_found()

    async def find(self) -> None:
        await self._follower.find()

    def take(self) -> Delivery | None:
        content = self.queue.content
        if not self.queue.dispatches():
            return None
        while self.assigned:
            place = self.assigned.popleft()
            line = line_of(content, place)
            if line is not None:
                return Delivery(self, place, None, line, 0, KEPT)
        found = self._follower.take_place()
        return None if found is None else Delivery(self, found[0], None, found[1], 0, KEPT)

    def put_back(self, delivery: Delivery) -> None:
        self.assigned.appendleft(delivery.place)


@dataclass(slots=True)
class Deliveries:
    """Consumers of all queues of a store, and what delivering needs of it."""

    parts: StoreParts
    leaving: Leaving
    forwarding: Forwarding
    rules: DeliveryRules = field(init=False)
    _queues: dict[QueueId, QueueDelivery] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rules = DeliveryRules(self.parts.core, self.parts.rules)

    def consumer(self, queue: StoreQueue, selectors: Sequence[str]) -> Consumer:
        """A new consumer of a queue, or of what selectors leave of it. Raises `TooManyConsumers`."""
        view: QueueView = queue
        for selector in selectors:
            view = view.where(selector)
        delivery = self._queues.get(queue.content.queue_id)
        if delivery is None or delivery.queue is not queue:
            delivery = self._queues[queue.content.queue_id] = QueueDelivery(queue, self)
        consumer = delivery.open(view.selected)
        consumer.selectors = tuple(selectors)
        return consumer

    async def purge(self, queue: StoreQueue) -> None:
        """Remove all messages of a queue that nobody consumes."""
        removing, content = self.parts.removing, queue.content
        chosen = removing.choose(content, content.live())
        if len(chosen):
            self.parts.core.tally[content.queue_id, Why.KILLED.counter] += len(chosen)
            try:
                await self.leaving.consume(chosen)
            finally:
                removing.let_go(chosen)
            await self.leaving.clear(chosen)

    def hold(self, chosen: Chosen) -> None:
        """Mark the chosen messages as delivered, so that no other consumer gets them."""
        self.parts.core.in_delivery.hold(chosen.queue, chosen.messages(), _pages(chosen))

    def let_go(self, chosen: Chosen, *, quietly: bool = False) -> None:
        """Unmark the messages. `quietly=True`: no consumer has to look for them."""
        self.parts.core.in_delivery.let_go(chosen.queue, chosen.messages(), _pages(chosen))
        self.parts.removing.let_go(chosen)
        if not quietly:
            self.look_again(chosen.queue)

    def keep_aside(self, chosen: Chosen) -> None:
        """Hide delivered messages from views, until they are released or gone."""
        ids = array("q", chosen.messages())
        self.hold(chosen)
        self.parts.core.in_delivery.aside.put(chosen.queue, ids, _pages(chosen))
        keep_aside(chosen.content.state, chosen.content.slot, ids, aside=True)
        self.parts.core.waking.left()

    def show_again(self, chosen: Chosen) -> None:
        """Show hidden messages again, and unmark them."""
        ids = array("q", chosen.messages())
        self.parts.core.in_delivery.aside.drop(chosen.queue, ids, _pages(chosen))
        keep_aside(chosen.content.state, chosen.content.slot, ids, aside=False)
        self.let_go(chosen)

    def forget(self, chosen: Chosen) -> None:
        """Forget hidden messages that left, or that a prepared transaction hides from now on: the journal
        says so.
        """
        self.parts.core.in_delivery.aside.drop(chosen.queue, array("q", chosen.messages()), _pages(chosen))
        self.let_go(chosen, quietly=True)

    def look_again(self, queue: QueueId) -> None:
        """Messages came to a queue, or are free again."""
        delivery = self._queues.get(queue)
        for supply in delivery.supplies.values() if delivery is not None else ():
            supply.forget()
        self.parts.core.waking.ring()

    def consumers_of(self, queue: QueueId) -> Sequence[Sequence[str]]:
        """The selectors, all of which count, of each consumer of a queue."""
        delivery = self._queues.get(queue)
        return () if delivery is None else [consumer.selectors for consumer in delivery.consumers]

    def refuse_consumed(self, queue: StoreQueue) -> None:
        """Raises `HeldByReaders` while anybody consumes a queue: it is not deleted then."""
        delivery = self._queues.get(queue.content.queue_id)
        if delivery is not None and delivery.consumers:
            where = f"{queue.model.address}::{queue.name}"
            raise HeldByReaders(f"{where}: {len(delivery.consumers)} readers consume it")


@dataclass(slots=True)
class QueueDelivery:
    """The consumers of one queue, and the messages that each may have."""

    queue: StoreQueue
    handing: Deliveries
    consumers: list[Consumer] = field(default_factory=list)
    groups: dict[str, Consumer] = field(default_factory=dict)
    exclusive: Consumer | None = None
    supplies: dict[Filter | None, Supply] = field(default_factory=dict)
    _dispatching: bool = False
    _dispatch_ms: int = -1
    _shared_anew: bool = False
    """Assign message groups to the consumers again, and wait for messages of them that others hold."""

    @property
    def core(self) -> Core:
        return self.handing.parts.core

    @property
    def content(self) -> QueueContent:
        return self.queue.content

    @property
    def delayed(self) -> dict[Place, int]:
        return self.core.in_delivery.delayed(self.content.queue_id)

    # ---- who consumes ----

    def open(self, selected: Filter | None) -> Consumer:
        """A new consumer. Raises `TooManyConsumers`."""
        binding = self.content.model.binding
        where = f"{self.content.model.address}::{self.content.name}"
        if binding.max_consumers != -1 and len(self.consumers) >= binding.max_consumers:
            raise TooManyConsumers(
                f"{where}: {len(self.consumers)} readers consume, and max-consumers does not allow more"
            )
        supply = self.supplies.get(selected) or Supply(self.content, selected)
        if binding.non_destructive:
            consumer: Consumer = KeepingConsumer(self, supply, selected)
        else:
            self.supplies[selected] = supply
            consumer = Consumer(self, supply)
        if binding.group_rebalance:
            self.groups.clear()
            if binding.group_rebalance_pause_dispatch:
                self._dispatching, self._dispatch_ms, self._shared_anew = False, -1, True
        self.consumers.append(consumer)
        self.handing.parts.uses.consumer_came(self.content.queue_id)
        delay_ms = binding.delay_before_dispatch_ms
        if delay_ms is not None and delay_ms >= 0 and self._dispatch_ms < 0:
            self._dispatch_ms = self.content.now_ms + delay_ms
        self.core.waking.ring()
        return consumer

    async def closed(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        self.handing.parts.uses.consumer_left(self.content.queue_id)
        if self.exclusive is consumer:
            self.exclusive = None
        self._forget_groups_of(consumer)
        for supply in self.supplies.values() if consumer.assigned else ():
            supply.forget()
        consumer.assigned.clear()
        self.core.waking.ring()
        if self.consumers:
            return
        self._dispatching, self._dispatch_ms = False, -1
        if self.content.model.binding.purge_on_no_consumers and not self.content.gone:
            await self.handing.purge(self.queue)

    def _forget_groups_of(self, consumer: Consumer) -> None:
        for group in [group for group, owner in self.groups.items() if owner is consumer]:
            del self.groups[group]

    # ---- who gets what ----

    def dispatches(self) -> bool:
        """Whether messages are handed out at all: not while the queue is paused, or waits for more consumers
        (`consumers-before-dispatch`, `delay-before-dispatch`), or for what others have
        (`group-rebalance-pause-dispatch`).
        """
        model = self.content.model
        if model.paused:
            return False
        if not self._dispatching:
            if self._shared_anew and self.core.in_delivery.any(self.content.queue_id):
                return False
            self._shared_anew = False
            enough = len(self.consumers) >= (model.binding.consumers_before_dispatch or 0)
            self._dispatching = enough or 0 <= self._dispatch_ms <= self.content.now_ms
        return self._dispatching

    def due_ms(self, consumer: Consumer) -> int:
        """When time alone may bring a message, in milliseconds since 1970; 0: it does not."""
        now_ms = self.content.now_ms
        times = [consumer.supply.due_ms, self._dispatch_ms, *self.delayed.values()]
        return min((time_ms for time_ms in times if time_ms > now_ms), default=0)

    def take(self, consumer: Consumer) -> Delivery | None:
        if self.content.gone or not self.dispatches():
            return None
        if self.content.model.binding.exclusive and self.exclusive not in (None, consumer):
            return None
        self._end_delays()
        while True:
            try:
                found = self._candidate(consumer)
                if found is None:
                    return None
                delivery = self._delivery(consumer, *found)
            except BaseException:
                # What was passed over, as where memory ran out, is nobody's, and is looked for again.
                consumer.supply.forget()
                raise
            if delivery is not None:
                return delivery

    def _candidate(self, consumer: Consumer) -> tuple[Place, Run] | None:
        while consumer.assigned:
            place = consumer.assigned.popleft()
            run = due_run(self.content, place)
            if run is not None:
                return place, run
        return consumer.supply.next()

    def _delivery(self, consumer: Consumer, place: Place, run: Run) -> Delivery | None:
        """Hand a message out, unless somebody else has it or shall have it."""
        removing, content = self.handing.parts.removing, self.content
        if self.delayed.get(place, 0) > content.now_ms:
            return None
        chosen = removing.choose(content, [run])
        delivery = None
        try:
            delivery = self._handed_out(consumer, place, run, chosen)
        finally:
            if (
                delivery is None
            ):  # also for lack of memory: nobody could have it until the store is opened again
                removing.let_go(chosen)
        return delivery

    def _handed_out(self, consumer: Consumer, place: Place, run: Run, chosen: Chosen) -> Delivery | None:
        content = self.content
        line = line_of(content, place) if len(chosen) else None
        if line is None:
            return None
        message_id = MessageId(run.columns(content).ids[0])
        on_disk = max((content.state.ref(one).delivery_count for one in run.references), default=0)
        count = max(on_disk, self.core.in_delivery.attempts(content.queue_id, message_id))
        headers = headers_of(line)
        stays = headers.is_over(content.now_ms) or 0 < attempts_max(self.core, content.model.address) <= count
        if stays or not self._is_for(consumer, place, headers):
            line.close()
            return None
        delivery = Delivery(consumer, place, chosen, line, count, message_id)
        if content.model.binding.exclusive:
            self.exclusive = consumer
        self.handing.hold(chosen)
        return delivery

    def _is_for(self, consumer: Consumer, place: Place, headers: Headers) -> bool:
        """Return True if a message may go to a consumer: a group's messages go to the consumer
        of its first one.
        """
        binding = self.content.model.binding
        buckets = binding.group_buckets
        if not headers.group or binding.internal or binding.exclusive or buckets == 0:
            return True
        group = headers.group
        if buckets is not None and buckets > 0:
            group = str(zlib.crc32(group.encode("utf-8", "surrogatepass")) % buckets)
        owner = self.groups.setdefault(group, consumer)
        if owner is not consumer:
            if owner.supply is consumer.supply or owner.supply.accepts(place):
                owner.assigned.append(place)
                self.core.waking.ring()
            return False
        if headers.group_sequence == -1:
            del self.groups[group]
        return True

    async def returned(self, chosen: Chosen, due_ms: int = 0) -> None:
        """Note that a message is in the queue again, from `due_ms` on, unless the queue has no place for it
        any more.
        """
        self.handing.let_go(chosen)
        await unbroken(lambda: self.handing.leaving.returned(chosen, due_ms))

    def _end_delays(self) -> None:
        over = [place for place, due_ms in self.delayed.items() if due_ms <= self.content.now_ms]
        for place in over:
            del self.delayed[place]
        for supply in self.supplies.values() if over else ():
            supply.forget()

    # ---- what becomes of it ----

    async def acknowledge(self, delivery: Delivery, chosen: Chosen) -> None:
        try:
            consumer = delivery.consumer
            await self.handing.leaving.consume(chosen, consumer, lambda: consumer.closed)
        except BaseException:
            await self.returned(chosen)
            raise
        self.handing.let_go(chosen, quietly=self._dispatching)
        self.core.in_delivery.forget(chosen.queue, delivery.message_id)
        delivery.line.close()
        await self.handing.leaving.clear(chosen)

    async def counted_before(self, delivery: Delivery) -> Delivery:
        """`persist-delivery-count-before-delivery`: the attempt is on disk before it is made."""
        place, rules = delivery.place, self.handing.rules
        if delivery.chosen is None or isinstance(place, tuple) or not rules.counts_before():
            return delivery
        position = self._stage_count(place, delivery.count + 1)
        if position is not None:
            await unbroken(lambda: self.handing.parts.store.settled(position))
        return delivery

    async def failed(self, delivery: Delivery, chosen: Chosen) -> None:
        """An attempt failed: it counts, and the message is delivered again, later or never."""
        await unbroken(lambda: self._failed(delivery, chosen))

    async def _failed(self, delivery: Delivery, chosen: Chosen) -> None:
        content, place = self.content, delivery.place
        address = content.model.address
        if content.model.binding.internal:
            self.handing.let_go(chosen)
            return
        count, due_ms = delivery.count + 1, 0
        try:
            position = None if isinstance(place, tuple) else self._stage_count(place, count)
            if position is None:
                self.core.in_delivery.count(chosen.queue, delivery.message_id, count)
            if self.handing.rules.is_last_attempt(address, count):
                await self._kill(delivery, chosen, position)
                return
            delay_ms = self.handing.rules.redelivery_delay_ms(address, count)
            if delay_ms > 0:
                due_ms = content.now_ms + delay_ms
                position = self._stage_delay(place, due_ms, count) or position
            if position is not None:
                await self.handing.parts.store.settled(position)
        finally:
            await self.returned(chosen, due_ms)

    async def _kill(self, delivery: Delivery, chosen: Chosen, counted: Position | None) -> None:
        """No further attempt: it goes to the dead letters, if it can."""
        if counted is not None:
            await self.handing.parts.store.settled(counted)
        if not await self.handing.forwarding.forward_chosen(self.queue, chosen, Why.KILLED):
            return
        self.core.in_delivery.forget(chosen.queue, delivery.message_id)
        await self.handing.leaving.clear(chosen)

    def _stage_count(self, place: MessageId, count: int) -> Position | None:
        """None: no more records of it are kept."""
        last = 0 < attempts_max(self.core, self.content.model.address) <= count
        if not last and not self.handing.rules.is_recorded(count):
            return None
        body = record_bodies.delivery_count(self.content.queue_id, count)
        return self.handing.parts.journals.messages.stage_update(
            RecordId(place), MessageType.DELIVERY_COUNT, body
        )

    def _stage_delay(self, place: Place, due_ms: int, count: int) -> Position | None:
        if isinstance(place, tuple) or not self.handing.rules.is_recorded(count):
            self.delayed[place] = due_ms
            return None
        return stage_schedule(self.handing.parts.journals.messages, self.content, place, due_ms)


def _pages(chosen: Chosen) -> Iterator[tuple[PageNumber, int]]:
    return ((one.number, one.index) for one in chosen.paged_messages())
