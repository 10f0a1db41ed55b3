"""A consumer of a queue that competes, by the broker's own rules, with all others of that broker."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from journalfs.api import ByteSource, QueuePath
from journalfs.live.sources import BytesSource
from journalfs.through.broker import Broker, Taken
from journalfs.through.encoding import line_of
from journalfs.through.errors import BrokerAway, BrokerRefused


class ThroughDelivery:
    """A message that the broker gave to this consumer."""

    def __init__(self, consumer: ThroughConsumer, taken: Taken, line: bytes) -> None:
        self._consumer = consumer
        self._taken = taken
        self._line = line

    @property
    def line(self) -> ByteSource:
        return BytesSource(self._line)

    async def acknowledge(self) -> None:
        """Returns when the broker has said that it is gone for good."""
        with trio.CancelScope(shield=True):
            await self._taken.acknowledge()
            await self._consumer.look()

    async def give_back(self, *, failed: bool) -> None:
        with trio.CancelScope(shield=True):
            await self._taken.give_back(failed=failed)


class ThroughConsumer:
    """Asks the broker for one message at a time, so that a slow reader keeps none from others."""

    ended = False

    def __init__(
        self, broker: Broker, queue: QueuePath, selector: str | None, look: Callable[[], Awaitable[None]]
    ) -> None:
        self._broker = broker
        self._queue = queue
        self._selector = selector
        self.look = look
        self._came: Taken | None = None
        self._asked = False

    def is_found(self) -> bool:
        return self._asked

    async def find(self) -> None:
        """Ask once: what the broker has for us now has come when this returns."""
        if self._came is None:
            self._came = await self._broker.take(self._queue, self._selector, 0)
        self._asked = True

    def ready(self) -> bool:
        return self._came is not None

    def take(self) -> ThroughDelivery | None:
        if self._came is None:
            self._asked = False  # whoever looks again asks the broker again
            return None
        taken, self._came, self._asked = self._came, None, False
        return ThroughDelivery(self, taken, line_of(taken.encoded, self._queue) + b"\n")

    def due_s(self) -> float:
        return math.inf

    async def next(self) -> ThroughDelivery | None:
        if self._came is None:
            self._came = await self._broker.take(self._queue, self._selector, None)
        return self.take()

    async def close(self) -> None:
        taken, self._came = self._came, None
        if taken is not None:
            with trio.CancelScope(shield=True), suppress(BrokerAway, BrokerRefused):
                await taken.give_back(failed=False)
