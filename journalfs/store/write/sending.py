"""From messages that are published to what is staged: routed, and into the journal or into pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from journalfs.store.outgoing import NO_PROPERTIES, Outgoing
from journalfs.store.texts import Texts
from journalfs.store.write.address_rules import AddressRules
from journalfs.store.write.paging import Paging
from journalfs.store.write.publishing import Published, Publishing, has_ids, taken
from journalfs.store.write.queue_kinds import QueueKinds
from journalfs.store.write.routing import Alike, Routed, Routing


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of messages."""

    published: Published | None
    """None where there was nothing to stage."""
    duplicates: int = 0
    """How many were left out, since their duplicate ids are known."""


@dataclass(frozen=True, slots=True)
class Sending:
    routing: Routing
    rules: AddressRules
    publishing: Publishing
    paging: Paging
    kinds: QueueKinds

    def takes_pages(self, address: str) -> bool:
        """Whether what an address takes that is to page goes to pages. Nothing in a page can be replaced, so
        one in which new messages take the place of old ones begins none. One that has some goes on with them:
        who reads the store again takes what is in pages for newer than what is in the journal.
        """
        return self.paging.pages_now(address) or not self.replaces(address)

    def replaces(self, address: str) -> bool:
        """Whether new messages take the place of old ones in a queue."""
        queues = self.routing.core.bindings.queues_of(address)
        return self.kinds.special(tuple(queue.queue_id for queue in queues))

    def forget_kinds(self, address: str) -> None:
        """Messages came to an address that were not known to take the place of others."""
        self.kinds.forget(queue.queue_id for queue in self.routing.core.bindings.queues_of(address))

    async def stage(
        self,
        address: str,
        queue: str | None,
        messages: Sequence[Outgoing],
        settles: str | None,
        *,
        pages: bool,
    ) -> Sent:
        """Stage messages, or write them to pages, where they are durable at once. `settles`: the note of what
        was flushed that they take the place of.
        """
        alike = self.alike(address, queue, messages)
        if alike is not None and not self.kinds.special(alike.queues):
            published = await self._stage_alike(alike, settles, pages=pages)
            if published is not None:
                return Sent(published)
        routed = self.routed(address, queue, messages)
        if pages:
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

    def alike(self, address: str, queue: str | None, messages: Sequence[Outgoing]) -> Alike | None:
        """Messages that can be staged together; None where they have to be looked at one by one. Raises
        `NoRoute`.
        """
        if not isinstance(messages, Texts) or messages.properties is not NO_PROPERTIES:
            return None
        route = self.routing.of_any(address, queue)
        if route is None:
            return None
        return Alike(address, messages, route, self.routing.turn(address), self.rules.expiry(address))

    def routed(self, address: str, queue: str | None, messages: Sequence[Outgoing]) -> list[Routed]:
        return self.routing.routed(address, queue, self.rules.expiring(address, messages))
