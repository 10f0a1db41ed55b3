"""Calls that bring messages to an address, and those that wait until there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio


@dataclass(slots=True)
class Arrivals:
    """While something is on its way to an address, none of its queues is deleted."""

    concerns: Callable[[str, str], bool]
    """Return True if messages for the second address may reach queues of the first."""
    administered: trio.Lock = field(default_factory=trio.Lock)
    """A lock held by a task that changes addresses and queues: each change must see the result of the one
    before.
    """
    leaving: set[str] = field(default_factory=set)
    """Addresses of which a queue is about to be deleted."""
    _arriving: Counter[str] = field(default_factory=Counter)
    """Calls on their way, by address."""
    _quiet: trio.Event = field(default_factory=trio.Event)

    async def begin(self, *addresses: str) -> None:
        """Announce publications to addresses until `end`, to all of them at once: two tasks that announced
        one and waited for another could wait for each other.
        """
        while self.leaving and any(
            self.concerns(left, address) for left in self.leaving for address in addresses
        ):
            async with self.administered:
                pass
        for address in addresses:
            self._arriving[address] += 1

    def end(self, *addresses: str) -> None:
        for address in addresses:
            self._arriving[address] -= 1
            if not self._arriving[address]:
                del self._arriving[address]
                self._quiet.set()

    @asynccontextmanager
    async def bringing(self, *addresses: str) -> AsyncIterator[None]:
        """Be on the way to addresses."""
        await self.begin(*addresses)
        try:
            yield
        finally:
            self.end(*addresses)

    async def none(self, address: str) -> None:
        """Return when nothing is on its way to an address that is `leaving`."""
        while any(self.concerns(address, arriving) for arriving in self._arriving):
            self._quiet = trio.Event()
            await self._quiet.wait()
