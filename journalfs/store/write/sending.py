"""From messages that are published to what is staged: routed, and into the journal or into pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from journalfs.store.outgoing import NO_PROPERTIES, Outgoing
from journalfs.store.texts import Texts
from journalfs.store.write.address_rules import AddressRules
from journalfs.store.write.paging import Paging
from journalfs.store.write.publishing import Published, Publishing
from journalfs.store.write.queue_kinds import QueueKinds
from journalfs.store.write.routing import Alike, Routed, Routing


@dataclass(frozen=True, slots=True)
class Sending:
    routing: Routing
    rules: AddressRules
    publishing: Publishing
    paging: Paging
    kinds: QueueKinds

    def replaces(self, address: str) -> bool:
        """Whether new messages take the place of old ones in a queue. Nothing in a page can be replaced, so
        then nothing is written to pages either.
        """
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
    ) -> Published | None:
        """Stage messages, or write them to pages, where they are durable at once; None when there is nothing
        to stage. `settles`: the note of what was flushed that they take the place of.
        """
        alike = self.alike(address, queue, messages)
        if alike is not None and not self.kinds.special(alike.queues):
            published = await self._stage_alike(alike, settles, pages=pages)
            if published is not None:
                return published
        routed = self.routed(address, queue, messages)
        if pages:
            return await self.paging.stage(address, routed, settles)
        return await self.publishing.stage(address, routed, settles=settles)

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
