"""Deletes queues and addresses: what must have ended before, and what goes with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from journalfs.bindings.model import Queue
from journalfs.broker.consume.delivering import Deliveries
from journalfs.broker.pages.page_cleanup import PageCleanup
from journalfs.broker.queues.administering import Administering, address_named, queue_named
from journalfs.change.store_parts import StoreParts
from journalfs.errors import HeldByReaders, NotEmpty
from journalfs.ids import Position
from journalfs.views.transactions import any_concerned, refuse_concerned


@dataclass(slots=True)
class Deleting:
    """Deletes bindings. The caller must hold the lock for changes of the bindings. `bound` waits for such a
    change.
    """

    parts: StoreParts
    administering: Administering
    deliveries: Deliveries
    paged: PageCleanup
    bound: Callable[[Position | None], Awaitable[None]]

    async def address(self, name: str) -> None:
        """Raises `NoSuchName`, and `NotEmpty` while it has queues, or a page of others in its folder."""
        address = address_named(self.parts.core.bindings, name)
        if self.parts.core.bindings.queues_of(name):
            raise NotEmpty(f"{name}: queues are bound to it")
        stray = self.parts.core.stray_page(name)
        if stray is not None:
            what = "is of queues of another address and would go too; unmount, and move it where it belongs"
            raise NotEmpty(f"{name}: {stray} {what}")
        await self.bound(self.administering.delete_address(address))
        self.administering.deleted.add(address)
        await self.paged.forget_address(name)
        self.parts.uses.gone(name)

    async def queue(self, address: str, name: str) -> None:
        """Raises `NoSuchName`, `NotEmpty` while it holds messages, `HeldByReaders` while it is consumed, and
        `HeldByTransaction` while it is not decided what it holds.
        """
        async with self._alone(address):
            model = queue_named(self.parts.core.bindings, address, name)
            found = self.parts.store.queue_at((address, name))
            if len(found):
                raise NotEmpty(f"{address}::{name}: it holds messages")
            refuse_concerned(found.content)
            self.deliveries.refuse_consumed(found)
            if found.message_count:
                raise HeldByReaders(f"{address}::{name}: a transaction has messages of it")
            await self._unbind(model)

    async def unused_queue(self, model: Queue, is_unused: Callable[[], bool]) -> bool:
        """Delete a queue with what it holds, if it is there and unused even after all that was on its way to
        it has come.
        """
        async with self._alone(model.address):
            if not is_unused():
                return False
            found = self.parts.store.queue_at((model.address, model.name))
            if len(found):
                await self.deliveries.purge(found)
            if found.message_count or any_concerned(found.content):
                return False
            await self._unbind(model)
            return True

    @asynccontextmanager
    async def _alone(self, address: str) -> AsyncIterator[None]:
        """Nothing comes to an address, and all that came before is there."""
        self.parts.arrivals.leaving.add(address)
        try:
            await self.parts.arrivals.none(address)
            await self.parts.store.published()
            yield
        finally:
            self.parts.arrivals.leaving.discard(address)

    async def _unbind(self, model: Queue) -> None:
        await self.bound(self.administering.delete_queue(model))
        self.administering.deleted.add(model)
        await self.paged.queue_deleted(model.address, model.queue_id)
        self.parts.uses.gone(model.queue_id)
        self.parts.uses.left(model.address)
        reached = [
            one
            for one in self.parts.duplicates.addresses()
            if self.parts.routing.concerns(model.address, one)
        ]
        for address in reached:
            if not self.parts.routing.reached_from(address):
                # What is sent to it again is no duplicate of what queues had that are gone.
                for record in self.parts.duplicates.clear(address):
                    self.parts.journals.messages.stage_delete(record)
