"""Calls that bring messages to an address, and those that wait until there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio


@dataclass(slots=True)
class Arrivals:
    """While something is on its way to an address, none of its queues is deleted."""

    administered: trio.Lock
    """Held by whoever is changing addresses and queues."""
    leaving: set[str] = field(default_factory=set)
    """Addresses of which a queue is about to be deleted."""
    _arriving: Counter[str] = field(default_factory=Counter)
    """Calls on their way, by address."""
    _quiet: trio.Event = field(default_factory=trio.Event)

    async def begin(self, address: str) -> None:
        """Be on the way to an address, until `end`."""
        while address in self.leaving:
            async with self.administered:
                pass
        self._arriving[address] += 1

    def end(self, address: str) -> None:
        self._arriving[address] -= 1
        if not self._arriving[address]:
            del self._arriving[address]
            self._quiet.set()

    @asynccontextmanager
    async def bringing(self, address: str) -> AsyncIterator[None]:
        """Be on the way to an address."""
        await self.begin(address)
        try:
            yield
        finally:
            self.end(address)

    async def none(self, address: str) -> None:
        """Return when nothing is on its way to an address that is `leaving`."""
        while self._arriving[address]:
            self._quiet = trio.Event()
            await self._quiet.wait()
