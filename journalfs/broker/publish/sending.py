"""From messages that are published to what is staged: routed, and into the journal or into pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from journalfs.broker.limits.admission import Action, Admission, Admitted
from journalfs.change.address_rules import AddressRules
from journalfs.change.paging import Paging
from journalfs.change.publishing import Published, Publishing, has_ids, taken
from journalfs.change.queue_kinds import QueueKinds
from journalfs.change.routing import Alike, Routed, Routing
from journalfs.ids import QueueId
from journalfs.message.outgoing import NO_PROPERTIES, Outgoing, Texts


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of messages."""

    published: Published | None
    """None where there was nothing to stage."""
    duplicates: int = 0
    """How many were left out, since their duplicate ids are known."""


class Ways(NamedTuple):
    """Where the queues of each address get what is sent."""

    stored: tuple[str, ...]
    """These from the journal."""
    pages: frozenset[str] = frozenset()
    """These from the pages of their address."""
    drops: frozenset[str] = frozenset()
    """These do not get it."""


@dataclass(frozen=True, slots=True)
class Sending:
    routing: Routing
    rules: AddressRules
    publishing: Publishing
    paging: Paging
    kinds: QueueKinds
    refuse: Callable[[Outgoing], None]
    """Raises where the store has no place for a message."""

    def takes_pages(self, address: str) -> bool:
        """Whether what an address takes that is to page goes to pages. Nothing in a page can be replaced, so
        one in which new messages take the place of old ones begins none. One that has some goes on with them:
        who reads the store again takes what is in pages for newer than what is in the journal.
        """
        if self.paging.pages_now(address):
            return True
        queues = self.routing.core.bindings.queues_of(address)
        return not self.kinds.special(tuple(queue.queue_id for queue in queues))

    def replaces(self, address: str) -> bool:
        """Whether messages that are sent to an address take the place of old ones in a queue."""
        return self.kinds.special(tuple(queue.queue_id for queue in self.routing.reached_from(address)))

    def forget_kinds(self, address: str) -> None:
        """Messages came to an address that were not known to take the place of others."""
        self.kinds.forget(queue.queue_id for queue in self.routing.reached_from(address))

    async def stage(
        self,
        address: str,
        queue: str | None,
        messages: Sequence[Outgoing],
        settles: str | None,
        ways: Ways,
    ) -> Sent:
        """Stage messages, or write them to pages, where they are durable at once. `settles`: the note of what
        was flushed that they take the place of.
        """
        alike = self.alike(address, queue, messages, ways)
        if alike is not None and not self.kinds.special(alike.queues):
            published = await self._stage_alike(alike, settles, pages=bool(ways.pages))
            if published is not None:
                return Sent(published)
        routed = self.routed(address, queue, messages, ways)
        if ways.pages:
            published = await self.paging.stage(address, routed, settles)
        else:
            published = await self.publishing.stage(address, routed, settles=settles)
        left = published.messages if published is not None else 0
        return Sent(published, taken(routed) - left if has_ids(routed) else 0)

    async def _stage_alike(self, alike: Alike, settles: str | None, *, pages: bool) -> Published | None:
        """Stage texts together; None where they have to be looked at one by one all the same."""
        if pages:
            begun = self.paging.begun_texts(alike, settles=settles)
            if begun is None:
                return None
            self.routing.took_turns(alike)
            return await self.paging.stage_texts(begun)
        published = self.publishing.stage_texts(alike, settles=settles)
        if published is not None:
            self.routing.took_turns(alike)
        return published

    def alike(
        self, address: str, queue: str | None, messages: Sequence[Outgoing], ways: Ways
    ) -> Alike | None:
        """Messages that can be staged together; None where they have to be looked at one by one. Raises
        `NoRoute`.
        """
        if ways.drops or (ways.pages and queue is None and self.routing.besides(address)):
            return None
        if not isinstance(messages, Texts) or messages.properties is not NO_PROPERTIES:
            return None
        route = self.routing.of_any(address, queue)
        if route is None:
            return None
        turn = self.routing.turn(address, route)
        return Alike(address, messages, route, turn, self.rules.expiry(address))

    def routed(
        self, address: str, queue: str | None, messages: Sequence[Outgoing], ways: Ways
    ) -> list[Routed]:
        """Messages with the queues that get them, and how."""
        routed = self.routing.routed(address, queue, self.rules.expiring(address, messages), ways.pages)
        for one in routed:
            self.refuse(one.message)
            self.kinds.refuse_unloadable(one.queues, one.message)
        if not ways.pages and not ways.drops:
            return routed
        return [part for one in routed for part in self._parts(one, ways)]

    def _parts(self, one: Routed, ways: Ways) -> Iterator[Routed]:
        """A message once for each way that it takes: pages hold nothing for queues of other addresses."""
        parts: dict[str | None, list[QueueId]] = {}
        for queue in one.queues:
            of = self.routing.address_of(queue)
            if of not in ways.drops:
                parts.setdefault(of if of in ways.pages else None, []).append(queue)
        if not parts:
            yield Routed(one.message, ())
        for number, (pages_of, queues) in enumerate(parts.items()):
            yield Routed(one.message, tuple(queues), pages_of, is_copy=number > 0)


# The ways that what is sent to an address takes to queues: those of the address itself, and those of
# wildcard addresses that match it. Each of these addresses has limits and pages of its own.


@dataclass(frozen=True, slots=True)
class FindingWays:
    routing: Routing
    sending: Sending
    admission: Admission

    def has_besides(self, address: str, queue: str | None) -> bool:
        """Whether queues of other addresses get what is sent."""
        return queue is None and bool(self.routing.besides(address))

    def check(self, address: str, queue: str | None) -> None:
        """Raises `AddressFull` where a wildcard address refuses what is sent to an address."""
        if queue is None:
            for wild in self.routing.besides(address):
                self.admission.decide_beside(wild, late=False)

    def find(self, address: str, queue: str | None, taken: Admitted) -> Ways:
        """The ways of a publication that was taken. Raises `AddressFull`: `check`."""
        besides = self.routing.besides(address) if queue is None else ()
        if not besides and taken.action is Action.STORE:
            return Ways((address,))
        actions = {address: taken.action}
        for wild in besides:
            actions[wild] = self.admission.decide_beside(wild, late=taken.late).action
        drops = frozenset(of for of, action in actions.items() if action is Action.DROP)
        paging = (of for of, action in actions.items() if action is Action.PAGE)
        pages = frozenset(filter(self.sending.takes_pages, paging))
        stored = tuple(of for of in actions if of not in drops | pages)
        return Ways(stored, pages, drops)
