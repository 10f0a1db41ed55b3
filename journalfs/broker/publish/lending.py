"""Lends the end of the message journal to C, which then publishes lines without Python.

While the end is lent, no code of the store may stage anything. C decides nothing by itself: `lend` opens a
way only while each line written to it becomes an ADD and a reference for each queue, or one transaction of
these. Every other publication goes through `WritingStore.publish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from journalfs.api import LentEnd
from journalfs.broker.limits.admission import Admission
from journalfs.change.routing import AnyRoute
from journalfs.change.store_parts import StoreParts
from journalfs.clock import SystemClock
from journalfs.engine.tail import FLUSH, FULL, STAGE, UNFIT, UNLIMITED, Tail, TailWay
from journalfs.errors import JournalfsError
from journalfs.live.memory import Footprint, each_at_most
from journalfs.message.outgoing import USER_IDS


@dataclass(slots=True)
class LinesWay:
    """To an address, or to one of its queues."""

    address: str
    queue: str | None
    tail: TailWay
    route: AnyRoute | None = None
    """Where it leads, while it is open."""

    @property
    def pointer(self) -> int:
        return self.tail.address


@dataclass(frozen=True, slots=True)
class Lending:
    """`writable` says whether anything may be published at all, `published` is called when something was."""

    parts: StoreParts
    admission: Admission
    writable: Callable[[], bool]
    published: Callable[[], None]
    tail: Tail

    @property
    def defers(self) -> bool:
        return self.tail.is_left

    @property
    def needs_python(self) -> bool:
        backend = self.parts.journals.messages.backend
        return backend.defers and backend.performs

    async def settled(self) -> None:
        """Return when all that was published is durable. Raises WriteFailed."""
        store, position = self.parts.store, self.parts.journals.messages.position
        await store.settled_unbroken(position, only_adds=True)

    @property
    def end(self) -> LentEnd:
        """The C structure `jfs_tail` and what belongs to it."""
        return LentEnd(STAGE, FLUSH, FULL, UNFIT, self.tail.address)

    @property
    def failure(self) -> Exception | None:
        """Why nothing can be published any more."""
        return self.parts.journals.failure

    @staticmethod
    def way(address: str, queue: str | None) -> LinesWay:
        """A way that lines may take, which is closed."""
        return LinesWay(address, queue, TailWay())

    def lend(self, ways: Iterable[LinesWay]) -> bool:
        """Lend the end of the journal, and open the ways that C may publish on now. Returns False if it
        cannot be lent; then nothing changed.
        """
        if (
            not self.writable()
            or self.parts.arrivals.leaving
            or not self.parts.journals.messages.lend(self.tail)
        ):
            return False
        fields, clock = self.tail.fields, self.parts.core.clock
        fields.id_last, fields.id_end = self.parts.journals.ids.last, self.parts.journals.ids.end
        fields.step_last = USER_IDS.last
        fields.now_ms = -1 if isinstance(clock, SystemClock) else clock.now_ms()
        claimed: set[tuple[str, str | None]] = set()
        found = sum([self._opened(way, claimed) for way in ways])
        # Where an address has limits, these were looked at just now.
        fields.room_bytes, fields.room_messages = self.admission.room_everywhere() or (UNLIMITED, UNLIMITED)
        return found > 0

    def _opened(self, way: LinesWay, claimed: set[tuple[str, str | None]]) -> bool:
        way.tail.close()
        address = way.address
        try:
            route = way.route = self.parts.routing.of_any(address, way.queue)
            room = self.admission.room(address)
        except JournalfsError:
            return False
        if route is None or room is None or not route.queues_per_message:
            return False
        if self.parts.kinds.special((*route.every, *route.in_turn)):
            return False
        if way.queue is None and self.parts.routing.besides(address):
            return False
        # Nobody but one way knows whose turn it is, or how much room is left.
        needed: set[tuple[str, str | None]] = set()
        if len(route.in_turn) > 1:
            needed.add((address, route.turns_of))
        if room != (UNLIMITED, UNLIMITED):
            needed.add((address, None))
        if needed & claimed:
            return False
        claimed |= needed
        way.tail.open(
            self.parts.publishing.batch_of(address, route),
            turn=self.parts.routing.turn(address, route),
            expires_ms=self.parts.rules.expiry(address).delay_of_new_ms(),
            each_bytes=each_at_most(address, max(1, len(self.parts.core.bindings.queues_of(address)))),
        )
        fields = way.tail.fields
        fields.room_bytes, fields.room_messages = room
        return True

    def take_back(self, ways: Iterable[LinesWay]) -> bool:
        """Learn of all that was published; whether there was anything. If it failed, the store takes nothing
        any more.
        """
        fields = self.tail.fields
        if not (fields.records or fields.error):
            return False
        is_shown = fields.flushes or fields.error
        self.parts.journals.messages.take_back(self.tail)
        position = self.parts.journals.messages.position
        self.parts.journals.ids.drawn(int(fields.id_last))
        USER_IDS.drawn(int(fields.step_last))
        for way in ways:
            self._count(way, position)
        fields.error = 0
        if is_shown:
            self.published()
        return True

    def _count(self, way: LinesWay, position: int) -> None:
        fields, route = way.tail.fields, way.route
        if not fields.messages:
            return
        assert route is not None
        if route.in_turn:
            self.parts.routing.took_so_many(way.address, route, int(fields.messages))
        if self.admission.in_force.of(way.address).counted:
            self.admission.staged(way.address, position, Footprint(int(fields.bytes), int(fields.messages)))
        fields.messages = fields.bytes = 0
