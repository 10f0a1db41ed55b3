"""A store whose broker runs: its files are read here, and the broker changes what is to be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Never

import trio

from journalfs.api import QueuePath
from journalfs.broker.publish.framing import Framer, Framing
from journalfs.errors import ReadOnlyStore
from journalfs.python.backend import Place, Taken
from journalfs.python.letters import SentBack
from journalfs.python.own import OwnBackend
from journalfs.store.store import JournalStore
from journalfs.through import broker as brokers
from journalfs.through.broker import Broker, Send, send_to
from journalfs.through.encoding import line_of
from journalfs.views.views import ALL_NAME

if TYPE_CHECKING:
    from journalfs.through.links import Transaction


class ThroughBackend(OwnBackend):
    """Reads by the files, as they were a moment ago; changes through the broker."""

    def __init__(self, source: str, store: JournalStore, broker: Broker) -> None:
        super().__init__(source, store)
        self._broker = broker

    @property
    def writes(self) -> bool:
        return True

    def _cannot(self, what: str) -> Never:
        raise ReadOnlyStore(
            f"{self.source}: cannot {what} through a broker; stop the broker, and open the store with "
            "write=True"
        )

    # -- changing --------------------------------------------------------------------------------------------

    async def publish(self, place: Place, lines: bytes) -> None:
        await self._broker.publish([_send(place, lines)])

    async def take(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> Taken | None:
        await self._refuse_unset(queue, selector)
        found = await self._broker.take(queue, selector, timeout_s)
        return None if found is None else ThroughTaken(found, queue)

    async def remove(self, queue: QueuePath, selector: str | None) -> int:
        return await self._broker.remove(queue, await self._ids(queue, selector))

    async def move(self, queue: QueuePath, selector: str | None, target: QueuePath) -> int:
        self._queue(target)
        return await self._broker.move(queue, await self._ids(queue, selector), target)

    async def _ids(self, queue: QueuePath, selector: str | None) -> Sequence[int]:
        """Of what is there now: what comes meanwhile stays."""
        await self._refuse_unset(queue, selector)
        return (await self.view(queue, selector)).message_ids(ALL_NAME)

    async def create(self, place: Place) -> None:
        address, queue = place
        known = self.store.address(address)
        if known is None:
            await self._broker.create(address, None)
        if queue is not None and (known is None or known.queue(queue) is None):
            await self._broker.create(address, queue)

    async def begin(self) -> ThroughTransaction:
        connection = await self._broker.connection()
        return ThroughTransaction(self, connection, await connection.coordinator.begin())

    async def remove_those(self, queue: QueuePath, ids: Sequence[int]) -> int:
        return await self._broker.remove(queue, ids)

    async def move_those(self, queue: QueuePath, ids: Sequence[int], target: QueuePath) -> int:
        self._queue(target)
        return await self._broker.move(queue, ids, target)

    async def redrive(
        self, queue: QueuePath, selector: str | None, ids: Sequence[int] | None, *, plans: bool
    ) -> SentBack:
        if not plans:
            self._cannot("send messages back")
        return await super().redrive(queue, selector, ids, plans=True)

    async def undo(self, since: str | None, *, plans: bool = False) -> Mapping[str, int]:
        self._cannot("bring messages back")

    async def snapshot(self, name: str) -> None:
        self._cannot("make a snapshot")

    async def drop_snapshot(self, name: str) -> None:
        self._cannot("remove a snapshot")


def _send(place: Place, lines: bytes) -> Send:
    framer = Framer(Framing.ENVELOPES)
    messages = [*framer.feed(lines), *framer.finish()]
    return Send.to(*place, messages)


class ThroughTaken:
    def __init__(self, taken: brokers.Taken, queue: QueuePath) -> None:
        self.taken = taken
        self.line = line_of(taken.encoded, queue)

    async def acknowledge(self) -> None:
        with trio.CancelScope(shield=True):
            await self.taken.acknowledge()

    async def give_back(self) -> None:
        with trio.CancelScope(shield=True):
            await self.taken.give_back(failed=True)


class ThroughTransaction:
    """A transaction of the broker. The wire it began on is the one that it ends on."""

    def __init__(
        self, backend: ThroughBackend, connection: brokers.Connection, transaction: Transaction
    ) -> None:
        self._backend = backend
        self._connection = connection
        self._transaction = transaction
        self._taken: list[brokers.Taken] = []

    async def publish(self, place: Place, lines: bytes) -> None:
        await send_to(self._connection, [_send(place, lines)], self._transaction)

    async def take(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> Taken | None:
        found = await self._backend.take(queue, selector, timeout_s)
        if found is None:
            return None
        assert isinstance(found, ThroughTaken), "it is taken through the broker"
        self._taken.append(found.taken)
        return _Held(found, self._transaction)

    async def remove_those(self, queue: QueuePath, ids: Sequence[int]) -> int:
        raise ReadOnlyStore(
            "a broker's transaction takes messages in their order, and cannot remove chosen ones; take them"
        )

    async def commit(self) -> None:
        with trio.CancelScope(shield=True):
            try:
                await self._transaction.commit()
            finally:
                await self._let_go()

    async def roll_back(self) -> None:
        with trio.CancelScope(shield=True):
            try:
                await self._transaction.roll_back()
            finally:
                await self._let_go()

    async def _let_go(self) -> None:
        for one in self._taken:
            await one.let_go()


class _Held:
    """A message that is gone from its queue once the transaction is committed."""

    def __init__(self, found: ThroughTaken, transaction: Transaction) -> None:
        self._found = found
        self._transaction = transaction
        self.line = found.line

    async def acknowledge(self) -> None:
        await self._found.taken.acknowledge_in(self._transaction)

    async def give_back(self) -> None:
        await self._found.give_back()
