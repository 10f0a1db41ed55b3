"""What goes over a connection: messages to an address, messages of a queue, transactions."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable
from typing import Any, Final

import trio
from proton import Delivery, Described, Disposition, Endpoint, Link, Message, Terminus, symbol, ulong

from journalfs.through.errors import BrokerAway, BrokerForbids, BrokerFull, BrokerRefused, OutcomeUnknown
from journalfs.through.wire import UNAUTHORIZED, Wire

TRANSACTIONAL: Final = 0x34
"""The state of what belongs to a transaction (AMQP 1.0, part 4, section 4.5)."""
SELECTOR_FILTER: Final = "apache.org:selector-filter:string"
FULL: Final = "amqp:resource-limit-exceeded"
_DECLARE: Final = "amqp:declare:list"
_DISCHARGE: Final = "amqp:discharge:list"


class _Opened:
    """A link that the broker has attached. Raises `BrokerRefused` with the broker's own words."""

    def __init__(self, wire: Wire, link: Any, what: str) -> None:
        self.wire = wire
        self.link = link
        self.what = what
        link.open()

    async def attached(self) -> None:
        await self.until(lambda: bool(self.link.state & Endpoint.REMOTE_ACTIVE))

    async def until(self, come: Any) -> None:
        await self.wire.until(lambda: come() or self._ended())
        if self._ended():
            self._refused()

    def _ended(self) -> bool:
        return bool(self.link.state & Endpoint.REMOTE_CLOSED)

    def _refused(self) -> None:
        raise refused(self.wire, self.what, self.link.remote_condition)

    async def close(self) -> None:
        """Tell the broker, and wait until it knows: what this link held is free again."""
        self.link.close()
        await self.wire.until(self._ended)


def refused(wire: Wire, what: str, condition: Any) -> BrokerRefused:
    """The error for what a broker refuses, with its own words."""
    name = "" if condition is None else condition.name
    words = "it gives no reason" if condition is None else condition.description or name
    kind = BrokerForbids if name in UNAUTHORIZED else BrokerFull if name == FULL else BrokerRefused
    return kind(f"{wire.url}: {what}: the broker refuses it: {words}")


class Sender(_Opened):
    """Sends to an address, or to one queue of it (`address::queue`)."""

    def __init__(self, wire: Wire, address: str) -> None:
        link = wire.session.sender(f"journalfs-{uuid.uuid4()}")
        link.target.address = address
        link.source.address = wire.connection.container
        link.snd_settle_mode = Link.SND_UNSETTLED
        super().__init__(wire, link, f"sending to {address}")

    async def send(self, messages: Iterable[bytes], transaction: Transaction | None = None) -> None:
        """Send encoded messages. Returns when the broker has accepted each: they are durable then, or are
        once their transaction is committed. Raises `BrokerRefused` for the first that it does not take.
        """
        with trio.CancelScope() as scope:
            await self._send(messages, transaction, scope)

    async def _send(
        self, messages: Iterable[bytes], transaction: Transaction | None, scope: trio.CancelScope
    ) -> None:
        waiting: list[Delivery] = []
        for message in messages:
            await self.until(lambda: self.link.credit > 0)
            # What is sent outside of a transaction counts, so nobody is told that it was interrupted.
            scope.shield = transaction is None
            delivery = self.link.delivery(self.link.delivery_tag())
            self.link.stream(message)
            self.link.advance()
            if transaction is not None:
                transaction.holds(delivery)
            waiting.append(delivery)
            self.wire.flush()
        for delivery in waiting:
            await self.until(lambda sent=delivery: sent.settled or sent.remote_state != 0)
        failed = [one for one in waiting if _outcome(one) != Disposition.ACCEPTED]
        for delivery in waiting:
            delivery.settle()
        if failed:
            raise refused(self.wire, self.what, failed[0].remote.condition)


def _outcome(delivery: Delivery) -> int:
    """Of a delivery in a transaction it stands within its state."""
    if delivery.remote_state != TRANSACTIONAL:
        return int(delivery.remote_state)
    data = delivery.remote.data
    if isinstance(data, list) and len(data) > 1 and isinstance(data[1], Described):
        return int(data[1].descriptor) if isinstance(data[1].descriptor, int) else int(Disposition.ACCEPTED)
    return int(Disposition.ACCEPTED)


class Received:
    """A message that the broker keeps for us until one of the methods was called."""

    def __init__(self, link: Receiver, delivery: Delivery, encoded: bytes) -> None:
        self._link = link
        self._delivery = delivery
        self.encoded = encoded

    async def accept(self, transaction: Transaction) -> None:
        """Acknowledge it once the transaction is committed."""
        transaction.accepts(self._delivery)
        self._link.wire.flush()

    def settle(self, outcome: int) -> None:
        """Be done with it, without waiting for the broker."""
        self._delivery.update(outcome)
        self._delivery.settle()
        self._link.wire.flush()

    async def give_back(self, *, failed: bool) -> None:
        """Let others have it; `failed` counts an attempt."""
        self._delivery.local.failed = failed
        self.settle(Disposition.MODIFIED if failed else Disposition.RELEASED)


class Receiver(_Opened):
    """Receives from a queue, one message for each that is asked for, so that others get the rest."""

    def __init__(self, wire: Wire, address: str = "", queue: str = "", selector: str | None = None) -> None:
        """Without a queue: from an address that the broker makes for this link."""
        link = wire.session.receiver(f"journalfs-{uuid.uuid4()}")
        if queue:
            link.source.address = f"{address}::{queue}"
        else:
            link.source.dynamic = True  # the broker makes an address, and removes it with the link
        link.target.address = wire.connection.container
        link.rcv_settle_mode = Link.RCV_FIRST
        if selector is not None:
            wanted = {symbol(SELECTOR_FILTER): Described(symbol(SELECTOR_FILTER), selector)}
            link.source.filter.put_dict(wanted)
        super().__init__(wire, link, f"receiving from {address}::{queue}")

    async def next(self, timeout_s: float = math.inf) -> Received | None:
        """The next message; None after so many seconds. Then the broker has taken back what it was asked for,
        so that no message is on its way to a receiver that nobody asks any more.
        """
        if not self.link.credit:
            self.link.flow(1)
        with trio.move_on_after(timeout_s):
            await self.until(self._has_come)
        if not self._has_come():
            self.link.drain(0)
            await self.until(lambda: self._has_come() or not self.link.draining())
        return await self._whole() if self._has_come() else None

    def _has_come(self) -> bool:
        return self.link.current is not None and self.link.current.readable

    async def _whole(self) -> Received:
        """The message that has begun to come."""
        delivery, pieces = self.link.current, []
        while True:
            if delivery.pending:
                pieces.append(self.link.recv(delivery.pending) or b"")
            if not delivery.partial:
                self.link.advance()
                return Received(self, delivery, b"".join(pieces))
            self.wire.flush()
            await self.until(lambda: delivery.pending > 0 or not delivery.partial)


class Coordinator(_Opened):
    """The broker's side of transactions."""

    def __init__(self, wire: Wire) -> None:
        link = wire.session.sender(f"journalfs-transactions-{uuid.uuid4()}")
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))
        link.snd_settle_mode = Link.SND_UNSETTLED
        super().__init__(wire, link, "a transaction")

    async def begin(self) -> Transaction:
        answer = await self._ask(_DECLARE, [None])
        data = answer.remote.data
        if not data:
            raise refused(self.wire, self.what, answer.remote.condition)
        return Transaction(self, data[0])

    async def discharge(self, number: Any, *, failed: bool) -> None:
        answer = await self._ask(_DISCHARGE, [number, failed])
        if answer.remote_state == Disposition.REJECTED:
            raise refused(self.wire, self.what, answer.remote.condition)

    async def _ask(self, what: str, value: Any) -> Delivery:
        await self.until(lambda: self.link.credit > 0)
        delivery: Delivery = self.link.send(Message(body=Described(symbol(what), value)))
        await self.until(lambda: delivery.remote_state != 0)
        delivery.settle()
        return delivery


class Transaction:
    """All of it or nothing."""

    def __init__(self, coordinator: Coordinator, number: Any) -> None:
        self._coordinator = coordinator
        self._number = number
        self._accepted: list[Delivery] = []

    def holds(self, delivery: Delivery) -> None:
        """A message that was sent belongs to it."""
        delivery.local.data = [self._number]
        delivery.update(TRANSACTIONAL)

    def accepts(self, delivery: Delivery) -> None:
        """So does the acknowledgement of one that was received."""
        state: list[Any] = [self._number, Described(ulong(Disposition.ACCEPTED), [])]
        delivery.local.data = state
        delivery.update(TRANSACTIONAL)
        self._accepted.append(delivery)

    async def commit(self) -> None:
        """Returns when the broker has said that all of it is durable. Raises `BrokerRefused` where nothing of
        it was done, and `OutcomeUnknown` where the connection ended meanwhile.
        """
        try:
            with trio.CancelScope(shield=True):  # it is done, or not: nobody is told that it was interrupted
                await self._coordinator.discharge(self._number, failed=False)
        except BrokerAway as lost:
            raise OutcomeUnknown(f"{lost}; whether the transaction was committed is not known") from None
        for delivery in self._accepted:
            delivery.settle()
        self._coordinator.wire.flush()

    async def roll_back(self) -> None:
        await self._coordinator.discharge(self._number, failed=True)
        for delivery in self._accepted:
            delivery.update(Disposition.RELEASED)
            delivery.settle()
        self._coordinator.wire.flush()
