"""Deletes queues with `auto-delete`, and addresses that were made by themselves, once they are unused. As a
broker does, it scans every `address-queue-scan-period`.

A scan deletes what the one before had found unused already. The first scan, when the store is opened, deletes
what is empty at once: nothing can have used it since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from journalfs.bindings.model import Address, Queue
from journalfs.broker.consume.expiring import every_period
from journalfs.broker.queues.deleting import Deleting
from journalfs.change.address_rules import AddressRules
from journalfs.change.idle import NEVER, LastUse, LastUses
from journalfs.engine.waiting import Slices
from journalfs.errors import JournalfsError
from journalfs.live.core import Core

ANY_COUNT = -1


@dataclass(slots=True)
class AutoDeleting:
    """`change` is the lock of tasks that change addresses and queues. `awaited` are addresses to which
    content of an earlier mount is still to be published.
    """

    core: Core
    rules: AddressRules
    deleting: Deleting
    change: Callable[[], AbstractAsyncContextManager[None]]
    awaited: Callable[[], Sequence[str]]
    enabled: bool = True
    """Off: all stays."""

    @property
    def uses(self) -> LastUses:
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
        await every_period(self.core.clock, self.period_ms, self.scan)

    async def scan(self, *, first: bool = False) -> None:
        try:
            await self._scan(first, self.awaited() if first else ())
        except (JournalfsError, MemoryError) as error:
            self.core.events.add("not-deleted", f"unused queues stay until the next look: {error}")

    async def _scan(self, first: bool, awaited: Sequence[str]) -> None:
        slices, state = Slices(), self.core.bindings
        for queue in list(state.queues.values()):
            await slices.pause()
            if not queue.binding.auto_delete or queue.lost or queue.address in awaited:
                continue
            use, is_unused = self.uses.of(queue.queue_id), partial(self._is_unused, queue, first)
            if self._is_over(use, is_unused(), lambda queue=queue: first and self._is_empty(queue)):  # type: ignore[misc]
                async with self.change():
                    if await self.deleting.unused_queue(queue, is_unused):
                        self._tell(f"{queue.address}::{queue.name}", "auto-delete")
        for address in list(state.addresses.values()):
            await slices.pause()
            if address.address_id is None or not address.binding.auto_created or address.name in awaited:
                continue
            if self._is_over(self.uses.of(address.name), self._is_unbound(address, first), lambda: first):
                async with self.change():
                    if self._is_unbound(address, first):
                        await self.deleting.address(address.name)
                        self._tell(address.name, "auto-delete-addresses")

    @staticmethod
    def _is_over(use: LastUse, unused: bool, at_once: Callable[[], bool]) -> bool:
        """Whether the scan before found it unused, too, or it goes `at_once`."""
        if not unused:
            use.swept = NEVER
            return False
        if use.swept == use.opened or at_once():
            return True
        use.swept = use.opened
        return False

    def _is_unused(self, queue: Queue, first: bool) -> bool:
        """Whether a scan would take the queue, as far as one look tells."""
        bound = self.core.bindings.queues.get(queue.queue_id)
        if bound is None or not bound.binding.auto_delete or bound.binding.internal:
            return False
        use, binding = self.uses.of(queue.queue_id), bound.binding
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
        return self.deleting.parts.store.queue_at((queue.address, queue.name)).message_count

    def _is_empty(self, queue: Queue) -> bool:
        paged = self.core.paged(queue.address)
        return not self._count(queue) and not (paged is not None and paged.pages_now())

    def _is_unbound(self, address: Address, first: bool) -> bool:
        state, name = self.core.bindings, address.name
        diverted = any(divert.address == name for divert in state.diverts.values())
        if name not in state.addresses or state.queues_of(name) or diverted:
            return False
        if not self.rules.value(name, "auto-delete-addresses") or self.core.stray_page(name) is not None:
            return False
        if first:
            return True
        use = self.uses.of(name)
        used, since_ms = use.left_ms != NEVER, use.left_ms
        if self.rules.value(name, "auto-delete-addresses-skip-usage-check"):
            used, since_ms = True, use.since_ms
        delay_ms = self.rules.number(name, "auto-delete-addresses-delay")
        return used and self.core.clock.now_ms() - since_ms >= delay_ms

    def _tell(self, what: str, setting: str) -> None:
        message = f"{what}: nobody used it any more, and it was deleted ({setting})"
        self.core.events.add("deleted", message, level=logging.INFO, what=what)
