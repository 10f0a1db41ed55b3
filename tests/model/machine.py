"""Random histories, played to a model and to every world at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.model.model import (
    DEAD_LETTERS,
    EXPIRED,
    LIMITS,
    Kind,
    Message,
    Model,
    Queue,
    limit_of,
    sent_on,
)
from tests.model.world import Framing, QueuePath, World

QUEUES_MAX, ADDRESSES_MAX, BATCH_MAX, HELD_MAX = 5, 3, 3, 8
PAGED_MAX = 20
"""Messages in a queue of an address that pages: some three pages."""
STEP_MS = 1000
DEADLINE_S = 60
_numbers = count(1)

PICK = st.integers(0, 999)
KINDS = st.sampled_from(
    [
        Kind(),
        Kind(),
        Kind(anycast=True),
        Kind(filtered=True),
        Kind(last_value=True),
        Kind(ring=True),
        Kind(last_value=True, ring=True),
        Kind(exclusive=True),
    ]
)
FRAMINGS = st.sampled_from(["lines", "values", "whole", "staged"])


class Histories(RuleBasedStateMachine):
    worlds: ClassVar[Sequence[World]] = ()
    now_ms: ClassVar[int] = 0
    """Goes on from one history to the next: clocks are not set back."""

    def __init__(self) -> None:
        super().__init__()
        self.prefix = f"h{next(_numbers)}."
        self.model = Model(Histories.now_ms)
        self.made = 0
        for path in ((DEAD_LETTERS, DEAD_LETTERS), (EXPIRED, EXPIRED)):
            self.each(lambda world, path=path: world.acknowledge_all(path))  # type: ignore[misc]

    def each(self, change: Callable[[World], None]) -> None:
        for world in self.worlds:
            change(world)

    # ---- what there is to choose from ----

    def number(self) -> int:
        self.made += 1
        return self.made

    def queue(self, pick: int, queues: Sequence[Queue] | None = None) -> Queue:
        chosen = list(self.model.queues.values()) if queues is None else queues
        return chosen[pick % len(chosen)]

    def holding(self) -> list[Queue]:
        return [one for one in self.model.queues.values() if one.messages]

    def ready(self) -> list[Queue]:
        return [one for one in self.model.queues.values() if one.due(self.model.now_ms)]

    def movable(self) -> list[Queue]:
        return [one for one in self.free() if one.messages]

    def failing(self) -> list[Queue]:
        """Attempts of what is in pages are counted in memory only, so not from one mount to the next."""
        return [one for one in self.ready() if limit_of(one.address) is None]

    def contended(self) -> list[Queue]:
        return [one for one in self.ready() if one.kind.exclusive and len(one.due(self.model.now_ms)) > 1]

    def empty(self) -> list[Queue]:
        return [one for one in self.model.queues.values() if not one.messages]

    def unbound(self) -> list[str]:
        return [name for name in self.model.addresses if not self.model.queues_of(name)]

    def roomy(self) -> list[Queue]:
        return [one for one in self.free() if len(one.messages) < HELD_MAX]

    def free(self) -> list[Queue]:
        """Queues of addresses without a limit."""
        return [one for one in self.model.queues.values() if limit_of(one.address) is None]

    def limited(self) -> list[Queue]:
        return [
            one
            for one in self.model.queues.values()
            if limit_of(one.address) is not None and len(one.messages) < PAGED_MAX
        ]

    # ---- addresses and queues ----

    @precondition(lambda self: len(self.model.addresses) < ADDRESSES_MAX)
    @rule()
    def create_address(self) -> None:
        name = f"{self.prefix}a{self.number()}"
        self.create(name)

    @precondition(lambda self: len(self.model.addresses) < ADDRESSES_MAX)
    @rule(word=st.sampled_from(sorted(LIMITS)))
    def create_limited_address(self, word: str) -> None:
        self.create(f"{self.prefix}a{self.number()}.{word}")

    def create(self, name: str) -> None:
        self.each(lambda world: world.create_address(name))
        self.model.addresses[name] = set()

    @precondition(lambda self: self.model.addresses and len(self.model.queues) < QUEUES_MAX)
    @rule(pick=PICK, kind=KINDS)
    def create_queue(self, pick: int, kind: Kind) -> None:
        address = list(self.model.addresses)[pick % len(self.model.addresses)]
        if any(one.kind.anycast for one in self.model.queues_of(address)):
            kind = kind._replace(anycast=False)  # whose turn it is, nobody keeps
        if limit_of(address) is not None:
            kind = Kind()
        name = f"{self.prefix}q{self.number()}"
        self.each(lambda world: world.create_queue((address, name), kind))
        self.model.queues[name] = Queue(address, name, kind)

    @precondition(lambda self: self.empty() and len(self.model.queues) > 1)
    @rule(pick=PICK)
    def delete_queue(self, pick: int) -> None:
        queue = self.queue(pick, self.empty())
        self.each(lambda world: world.delete_queue(_path(queue)))
        self.model.delete_queue(queue.name)

    @precondition(lambda self: self.unbound() and len(self.model.addresses) > 1)
    @rule()
    def delete_address(self) -> None:
        name = self.unbound()[0]
        self.each(lambda world: world.delete_address(name))
        del self.model.addresses[name]

    # ---- publishing ----

    def publish(self, queue: Queue, framing: Framing, messages: list[Message], *, routed: bool) -> None:
        if queue.kind.filtered:
            # Here a queue takes what is written to it, with a broker its filter decides of that, too.
            routed = routed or not all(map(queue.accepts, messages))
        to = None if routed else queue.name
        self.each(lambda world: world.publish(queue.address, to, framing, messages))
        self.model.publish(queue.address, to, messages)

    @precondition(lambda self: self.roomy())
    @rule(pick=PICK, framing=FRAMINGS, size=st.integers(1, BATCH_MAX), routed=st.booleans())
    def publish_plain(self, pick: int, framing: Framing, size: int, routed: bool) -> None:
        size = 1 if framing == "whole" else size
        messages = [Message(self.body()) for _ in range(size)]
        self.publish(self.queue(pick, self.roomy()), framing, messages, routed=routed)

    @precondition(lambda self: self.roomy())
    @rule(
        pick=PICK,
        routed=st.booleans(),
        stated=st.lists(
            st.tuples(
                st.integers(0, 9),
                st.sampled_from([0, 0, 1, 3]),
                st.sampled_from([0, 0, 0, 2, 4]),
                st.sampled_from(["", "", "g", "h"]),
                st.sampled_from(["", "red", "blue"]),
                st.sampled_from(["", "k", "l"]),
                st.sampled_from(["", "", "d1", "d2"]),
            ),
            min_size=1,
            max_size=BATCH_MAX,
        ),
    )
    def publish_stated(
        self, pick: int, routed: bool, stated: list[tuple[int, int, int, str, str, str, str]]
    ) -> None:
        queue = self.queue(pick, self.roomy())
        routed = routed or queue.kind.filtered
        targets = self.model.queues_of(queue.address) if routed else [queue]
        replaces = any(one.kind.replaces for one in targets)
        messages = [
            Message(
                self.body(),
                priority=priority,
                expires_ms=expires and self.time(expires),
                due_ms=0 if replaces else due and self.time(due),
                group=group,
                color=color,
                key=key,
                duplicate_id=duplicate_id if routed else "",
            )
            for priority, expires, due, group, color, key, duplicate_id in stated
        ]
        self.publish(queue, "envelopes", messages, routed=routed)

    def body(self) -> str:
        """It is a line, and a JSON value."""
        return f'{{"body":{self.number()}}}'

    def time(self, steps: int) -> int:
        """So many steps of time from now, and no other message's."""
        return self.model.now_ms + steps * STEP_MS - self.number() % STEP_MS

    @precondition(lambda self: self.limited())
    @rule(pick=PICK, framing=FRAMINGS, times=st.integers(1, 6))
    def publish_limited(self, pick: int, framing: Framing, times: int) -> None:
        """One by one, since a publication of many is taken whole, and without priorities, by which a broker
        orders what it read of its pages.
        """
        address = self.queue(pick, self.limited()).address
        for _ in range(times):
            message = Message(self.body())
            taken = self.model.offer(address, message)
            for world in self.worlds:
                same(world, f"{address} takes one", world.offer(address, framing, message), taken)

    # ---- taking away ----

    @precondition(lambda self: self.holding())
    @rule(pick=PICK, which=st.sets(st.integers(0, HELD_MAX), min_size=1, max_size=3))
    def acknowledge(self, pick: int, which: set[int]) -> None:
        queue = self.queue(pick, self.holding())
        bodies = self.some(queue, which)
        self.each(lambda world: world.acknowledge(_path(queue), bodies))
        queue.remove(bodies)

    def some(self, queue: Queue, which: set[int]) -> list[str]:
        return [one.body for index, one in enumerate(queue.messages) if index in which] or [
            queue.messages[0].body
        ]

    @precondition(lambda self: self.holding())
    @rule(pick=PICK)
    def acknowledge_all(self, pick: int) -> None:
        queue = self.queue(pick, self.holding())
        self.each(lambda world: world.acknowledge_all(_path(queue)))
        queue.messages.clear()

    @precondition(lambda self: self.holding())
    @rule(pick=PICK)
    def acknowledge_selected(self, pick: int) -> None:
        queue = self.queue(pick, self.holding())
        self.each(lambda world: world.acknowledge_selected(_path(queue)))
        queue.remove([one.body for one in queue.messages if one.color == "red"])

    @precondition(lambda self: self.movable() and len(self.free()) > 1)
    @rule(pick=PICK, to=PICK, which=st.sets(st.integers(0, HELD_MAX), min_size=1, max_size=3))
    def move(self, pick: int, to: int, which: set[int]) -> None:
        source = self.queue(pick, self.movable())
        target = self.queue(to, [one for one in self.free() if one is not source])
        # A broker's management moves nothing that is scheduled, and takes expirations away; here they stay.
        left_out = {one.body for one in source.messages if one.due_ms or one.expires_ms}
        bodies = [one for one in self.some(source, which) if not target.has(one) and one not in left_out]
        if bodies:
            self.each(lambda world: world.move(_path(source), bodies, _path(target)))
            self.model.move(source.name, bodies, target.name)

    # ---- consuming ----

    @precondition(lambda self: self.ready())
    @rule(pick=PICK, count=st.integers(1, 3))
    def take(self, pick: int, count: int) -> None:
        queue = self.queue(pick, self.ready())
        bodies = self.model.take(queue.name, count)
        for world in self.worlds:
            same(world, f"taken of {queue.name}", world.take(_path(queue), len(bodies)), bodies)

    @precondition(lambda self: self.contended())
    @rule(pick=PICK, count=st.integers(1, 2))
    def compete(self, pick: int, count: int) -> None:
        queue = self.queue(pick, self.contended())
        count = min(count, len(queue.due(self.model.now_ms)) - 1)
        wanted = self.model.compete(queue.name, count)
        for world in self.worlds:
            same(world, f"taken of {queue.name} by two", world.compete(_path(queue), count), wanted)

    @precondition(lambda self: self.failing())
    @rule(pick=PICK)
    def give_back(self, pick: int) -> None:
        queue = self.queue(pick, self.failing())
        body = self.model.give_back(queue.name)
        for world in self.worlds:
            same(world, f"given back to {queue.name}", world.give_back(_path(queue)), body)

    # ---- time, and being opened again ----

    @rule(steps=st.integers(1, 3))
    def pass_time(self, steps: int) -> None:
        self.model.pass_time(steps * STEP_MS)
        Histories.now_ms = self.model.now_ms
        self.each(lambda world: world.pass_time(self.model.now_ms))

    @precondition(lambda self: self.holding())
    @rule(chance=st.integers(0, 2))
    def restart(self, chance: int) -> None:
        if not chance:  # it takes long
            self.each(lambda world: world.restart() if world.restarts else None)

    # ---- no difference ----

    @invariant()
    def all_see_the_same(self) -> None:
        for world in self.worlds:
            self.settled(world)
            for queue in self.model.queues.values():
                path = _path(queue)
                same(world, f"{path}", world.seen(path), self.model.seen(queue.name))
                arrived = world.arrived(path)
                if arrived is not None:
                    same(world, f"{path}, by arrival", arrived, self.model.arrived(queue.name))

    def settled(self, world: World) -> None:
        """What was sent on is where it should be; what expires in a mount does so a moment later."""
        for name, wanted in ((DEAD_LETTERS, self.model.dead), (EXPIRED, self.model.expired)):
            eventually_same(world, name, lambda name=name: world.sent_on((name, name)), sent_on(wanted))  # type: ignore[misc]

    def teardown(self) -> None:
        """Leave every world without anything of this history, also where they differ."""
        for queue in self.model.queues.values():
            self.each(lambda world, queue=queue: world.acknowledge_all(_path(queue)))  # type: ignore[misc]
            self.each(lambda world, queue=queue: world.delete_queue(_path(queue)))  # type: ignore[misc]
        for name in self.model.addresses:
            self.each(lambda world, name=name: world.delete_address(name))  # type: ignore[misc]


def _path(queue: Queue) -> QueuePath:
    return queue.address, queue.name


def same(world: World, what: str, found: object, wanted: object) -> None:
    assert found == wanted, f"{type(world).__name__}, {what}:\n{found} instead of\n{wanted}"


def eventually_same(world: World, what: str, look: Callable[[], object], wanted: object) -> None:
    end = time.monotonic() + DEADLINE_S
    while look() != wanted and time.monotonic() < end:
        time.sleep(0.005)
    same(world, what, look(), wanted)
