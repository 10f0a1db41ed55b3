"""Queues with `auto-delete`, and addresses that were made by themselves, go when nobody needs them any more:
found by looking every `address-queue-scan-period`, as a broker finds them.

A scan takes what the one before had found unused already. The first one, when the store is opened, takes what
is empty at once: nobody can have come back to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from journalfs.bindings.model import Address, Queue
from journalfs.broker.consume.expiring import every_period
from journalfs.broker.queues.deleting import Deleting
from journalfs.change.address_rules import AddressRules
from journalfs.change.idle import NEVER, Uses
from journalfs.engine.waiting import Slices
from journalfs.errors import JournalfsError
from journalfs.live.core import Core

ANY_COUNT = -1


@dataclass(slots=True)
class AutoDeleting:
    """`change` is held by whoever changes addresses and queues. `awaited` are addresses to which something is
    still to be published that an earlier mount was told to keep.
    """

    core: Core
    rules: AddressRules
    deleting: Deleting
    change: Callable[[], AbstractAsyncContextManager[None]]
    awaited: Callable[[], Sequence[str]]
    enabled: bool = True
    """Off: all stays."""

    @property
    def uses(self) -> Uses:
        return self.deleting.parts.uses

    @property
    def period_ms(self) -> int:
        period = self.core.layout.value_in_force("address-queue-scan-period")
        return period if isinstance(period, int) else 0

    async def run(self) -> None:
        """Look now, and then again and again until cancelled."""
        if not self.enabled:
            return
        await self.scan(first=True)
        await every_period(self.core.clock, lambda: self.period_ms, self.scan)

    async def scan(self, *, first: bool = False) -> None:
        try:
            awaited = self.awaited() if first else ()
            await self._scan_queues(first, awaited)
            await self._scan_addresses(first, awaited)
        except JournalfsError as error:
            self.core.events.add("not-deleted", f"unused queues stay until the next look: {error}")

    # ---- queues ----

    async def _scan_queues(self, first: bool, awaited: Sequence[str]) -> None:
        slices = Slices()
        for queue in list(self.core.bindings.queues.values()):
            await slices.pause()
            if not queue.binding.auto_delete or queue.lost or queue.address in awaited:
                continue
            use = self.uses.queue(queue.queue_id)
            if not self._is_unused(queue, first):
                use.swept = NEVER
            elif use.swept != use.opened and not (first and self._is_empty(queue)):
                use.swept = use.opened
            else:
                await self._delete_queue(queue, first)

    def _is_unused(self, queue: Queue, first: bool) -> bool:
        """Whether a scan would take the queue, as far as one look tells."""
        bound = self.core.bindings.queues.get(queue.queue_id)
        if bound is None or not bound.binding.auto_delete or bound.binding.internal:
            return False
        use, binding = self.uses.queue(queue.queue_id), bound.binding
        if use.consumers:
            return False
        most = binding.auto_delete_message_count
        if most != ANY_COUNT and self._count(queue) > most:
            return False
        if first:
            return True
        used = use.emptied or use.left_ms != NEVER
        since_ms = use.left_ms
        if self.rules.value(queue.address, "auto-delete-queues-skip-usage-check"):
            used, since_ms = True, use.since_ms
        return used and self.core.clock.now_ms() - since_ms >= binding.auto_delete_delay_ms

    def _count(self, queue: Queue) -> int:
        return self.deleting.parts.horizon.queue_at((queue.address, queue.name)).message_count

    def _is_empty(self, queue: Queue) -> bool:
        paged = self.core.paged(queue.address)
        return not self._count(queue) and not (paged is not None and paged.pages_now())

    async def _delete_queue(self, queue: Queue, first: bool) -> None:
        async with self.change():
            if await self.deleting.unused_queue(queue, lambda: self._is_unused(queue, first)):
                self._tell(f"{queue.address}::{queue.name}", "auto-delete")

    # ---- addresses ----

    async def _scan_addresses(self, first: bool, awaited: Sequence[str]) -> None:
        slices = Slices()
        for address in list(self.core.bindings.addresses.values()):
            await slices.pause()
            if address.address_id is None or not address.binding.auto_created or address.name in awaited:
                continue
            use = self.uses.address(address.name)
            if not self._is_unbound(address, first):
                use.swept = False
            elif not (first or use.swept):
                use.swept = True
            else:
                await self._delete_address(address, first)

    def _is_unbound(self, address: Address, first: bool) -> bool:
        state, name = self.core.bindings, address.name
        diverted = any(divert.address == name for divert in state.diverts.values())
        if name not in state.addresses or state.queues_of(name) or diverted:
            return False
        if not self.rules.value(name, "auto-delete-addresses") or self.core.stray_page(name) is not None:
            return False
        if first:
            return True
        use = self.uses.address(name)
        used, since_ms = use.unbound_ms != NEVER, use.unbound_ms
        if self.rules.value(name, "auto-delete-addresses-skip-usage-check"):
            used, since_ms = True, use.since_ms
        delay_ms = self.rules.number(name, "auto-delete-addresses-delay")
        return used and self.core.clock.now_ms() - since_ms >= delay_ms

    async def _delete_address(self, address: Address, first: bool) -> None:
        async with self.change():
            if self._is_unbound(address, first):
                await self.deleting.address(address.name)
                self._tell(address.name, "auto-delete-addresses")

    def _tell(self, what: str, setting: str) -> None:
        message = f"{what}: nobody used it any more, and it was deleted ({setting})"
        self.core.events.add("deleted", message, level=logging.INFO, what=what)
