"""A running broker: connected to when it is needed, and again when the connection was lost."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import trio

from journalfs.api import QueuePath
from journalfs.errors import HeldByReaders
from journalfs.message.outgoing import Outgoing
from journalfs.through.broker_url import BrokerUrl
from journalfs.through.encoding import encoded_run
from journalfs.through.errors import BrokerAway, BrokerRefused, OtherBroker
from journalfs.through.links import Coordinator, Received, Receiver, Sender, Transaction
from journalfs.through.management import BROKER, Management, of_queue
from journalfs.through.wire import Wire, connect

RECONNECT_S: Final = 30.0
"""How long a change waits for a broker that was lost: as long as a restart takes."""
ROUTING_TYPE: Final = "ANYCAST"
"""Of what is made here: a queue whose messages are shared out, as `mkdir` makes in a store."""
TRY_AGAIN_S: Final = 0.25
SENDS_MAX: Final = 3
"""How often the same messages are sent. A broker that is lost each time is lost by what it gets."""
DUPLICATE: Final = "Duplicate"
"""What a broker's reason has in it where a transaction sends an id that came before (AMQ229049 and others).
"""


@dataclass(frozen=True, slots=True)
class Connection:
    """What is open to the broker until the connection is lost."""

    wire: Wire
    management: Management
    coordinator: Coordinator


@dataclass(frozen=True, slots=True)
class Send:
    """Encoded messages to an address, or to one queue of it (`address::queue`)."""

    target: str
    messages: Sequence[bytes]

    @classmethod
    def to(cls, address: str, queue: str | None, messages: Sequence[Outgoing]) -> Send:
        return cls(address if queue is None else f"{address}::{queue}", encoded_run(messages))


class Broker:
    """Has the broker change what is in its queues. What returns is durable there.

    It must be the broker that owns the store: `node_id` is what the store's own files say.
    """

    def __init__(
        self, url: BrokerUrl, node_id: uuid.UUID | None, *, reconnect_s: float = RECONNECT_S
    ) -> None:
        self.url = url
        self._node_id = node_id
        self._reconnect_s = reconnect_s
        self._nursery: trio.Nursery | None = None
        self._connection: Connection | None = None
        self._runs = trio.Event()
        self._turn = trio.Lock()

    async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, tell that it is done, and keep what is connected until cancelled. Raises `BrokerAway`,
        `BrokerRefused`, and `OtherBroker` for a broker that does not own the store.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._runs.set()
            try:
                self._connection = await self._connect()
                task_status.started()
                await trio.sleep_forever()
            finally:
                if self._connection is not None:
                    await self._connection.wire.close()

    async def keep(self) -> None:
        """The same, but connect when something is to be changed."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._runs.set()
            try:
                await trio.sleep_forever()
            finally:
                if self._connection is not None:
                    await self._connection.wire.close()

    async def check(self) -> None:
        """Connect once, and see that this broker owns the store."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            connection = await self._connect()
            await connection.wire.close()
            nursery.cancel_scope.cancel()

    async def connection(self) -> Connection:
        """The connection, made anew if it was lost. Raises `BrokerAway` where the broker stays away."""
        await self._runs.wait()
        async with self._turn:
            deadline = trio.current_time() + self._reconnect_s
            while self._connection is None or self._connection.wire.is_lost:
                if self._connection is not None:
                    await self._connection.wire.close()
                try:
                    self._connection = await self._connect()
                except BrokerAway as error:
                    if trio.current_time() >= deadline:
                        raise BrokerAway(
                            f"{error}; it stayed away for {self._reconnect_s:.0f} s; if it was stopped for "
                            "long, unmount, and mount the store without --through"
                        ) from None
                    await trio.sleep(TRY_AGAIN_S)
            return self._connection

    async def _connect(self) -> Connection:
        assert self._nursery is not None, "it runs"
        wire = await connect(self.url, self._nursery)
        try:
            management = await Management(wire).opened()
            coordinator = Coordinator(wire)
            await coordinator.attached()
            found = uuid.UUID(str(await management.attribute(BROKER, "NodeID")))
            if self._node_id != found:
                raise OtherBroker(
                    f"{self.url}: is the broker of another store: it is the node {found}, and this store is "
                    f"of the node {self._node_id or 'none yet'}"
                )
        except BaseException:
            await wire.close()
            raise
        return Connection(wire, management, coordinator)

    # -- sending ---------------------------------------------------------------------------------------------

    async def publish(self, sends: Sequence[Send]) -> None:
        """All of them, or none. Each message has a duplicate id: after a lost connection they are sent again,
        and the broker drops what it has already.
        """
        for attempt in range(1, SENDS_MAX + 1):
            connection = await self.connection()
            try:
                await self._publish(connection, sends)
                return
            except BrokerRefused as refused:
                if attempt > 1 and DUPLICATE in str(refused):
                    return  # the attempt before was committed, and only its answer was lost
                raise
            except BrokerAway:
                if attempt == SENDS_MAX:
                    raise

    async def _publish(self, connection: Connection, sends: Sequence[Send]) -> None:
        if sum(len(one.messages) for one in sends) == 1:
            await send_to(connection, sends)
            return
        transaction = await connection.coordinator.begin()
        try:
            await send_to(connection, sends, transaction)
        except BaseException:
            with trio.CancelScope(shield=True), suppress(BrokerAway, BrokerRefused):
                await transaction.roll_back()
            raise
        await transaction.commit()

    # -- taking ----------------------------------------------------------------------------------------------

    async def take(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> Taken | None:
        """The next message, which no other consumer gets until it is acknowledged or given back."""
        connection = await self.connection()
        receiver = Receiver(connection.wire, *queue, selector)
        try:
            await receiver.attached()
            received = await receiver.next(math.inf if timeout_s is None else timeout_s)
        except BaseException:
            await _closed(receiver)
            raise
        if received is None:
            await _closed(receiver)
            return None
        return Taken(connection, receiver, received)

    # -- by the ids of messages ------------------------------------------------------------------------------

    async def remove(self, queue: QueuePath, ids: Sequence[int]) -> int:
        """Returns how many. What others took meanwhile is gone; what they hold is refused (`HeldByReaders`),
        and the rest is removed all the same.
        """
        return await self._each(queue, ids, "removeMessage", lambda number: (number,))

    async def move(self, queue: QueuePath, ids: Sequence[int], target: QueuePath) -> int:
        return await self._each(queue, ids, "moveMessage", lambda number: (number, target[1]))

    async def retry(self, queue: QueuePath, ids: Sequence[int]) -> int:
        """Send dead letters back to where they came from."""
        return await self._each(queue, ids, "retryMessage", lambda number: (number,))

    async def _each(
        self,
        queue: QueuePath,
        ids: Sequence[int],
        operation: str,
        arguments: Callable[[int], tuple[object, ...]],
    ) -> int:
        if not ids:
            return 0
        for attempt in range(1, SENDS_MAX + 1):
            connection = await self.connection()
            try:
                return await self._each_once(
                    connection.management, queue, ids, operation, arguments, again=attempt > 1
                )
            except BrokerAway:  # of the same message the same is done once: the next time it is not there
                if attempt == SENDS_MAX:
                    raise
        return 0

    async def _each_once(
        self,
        management: Management,
        queue: QueuePath,
        ids: Sequence[int],
        operation: str,
        arguments: Callable[[int], tuple[object, ...]],
        *,
        again: bool,
    ) -> int:
        done = await management.calls(of_queue(queue[1]), operation, [arguments(number) for number in ids])
        left = [number for number, was in zip(ids, done, strict=True) if not was]
        if left:
            held = await self._held(management, queue) & set(left)
            if held:
                raise HeldByReaders(
                    f"{'::'.join(queue)}: {len(held)} of {len(ids)} messages are held by consumers of the "
                    f"broker, and stay; {sum(map(bool, done))} are done"
                )
        return len(ids) if again else sum(map(bool, done))

    async def _held(self, management: Management, queue: QueuePath) -> set[int]:
        said = await management.call(of_queue(queue[1]), "listDeliveringMessagesAsJSON")
        return {int(one["messageID"]) for consumer in json.loads(said) for one in consumer["elements"]}

    # -- addresses and queues --------------------------------------------------------------------------------

    async def create(self, address: str, queue: str | None) -> None:
        management = (await self.connection()).management
        if queue is None:
            await management.call(BROKER, "createAddress", address, ROUTING_TYPE)
            return
        made = {
            "name": queue,
            "address": address,
            "routing-type": ROUTING_TYPE,
            "durable": True,
            "auto-delete": False,
        }
        await management.call(BROKER, "createQueue", json.dumps(made), True)

    async def delete(self, address: str, queue: str | None) -> None:
        management = (await self.connection()).management
        if queue is None:
            await management.call(BROKER, "deleteAddress", address)
        else:
            await management.call(BROKER, "destroyQueue", queue)

    async def pause(self, queue: str, *, paused: bool) -> None:
        """Deliver nothing of a queue to consumers, over restarts of the broker too; or deliver it again."""
        management = (await self.connection()).management
        await (
            management.call(of_queue(queue), "pause", True)
            if paused
            else management.call(of_queue(queue), "resume")
        )


class Taken:
    """A message that the broker keeps for us."""

    def __init__(self, connection: Connection, receiver: Receiver, received: Received) -> None:
        self._connection = connection
        self._receiver = receiver
        self._received = received
        self.encoded = received.encoded

    async def acknowledge(self) -> None:
        """Returns when the broker has said that it is gone for good. Raises `OutcomeUnknown` where the
        connection ends meanwhile: it is gone, or comes again.
        """
        try:
            transaction = await self._connection.coordinator.begin()
            await self._received.accept(transaction)
            await transaction.commit()
        finally:
            await _closed(self._receiver)

    async def acknowledge_in(self, transaction: Transaction) -> None:
        await self._received.accept(transaction)

    async def give_back(self, *, failed: bool) -> None:
        """Let others have it; `failed` counts an attempt."""
        try:
            await self._received.give_back(failed=failed)
        finally:
            await _closed(self._receiver)

    async def let_go(self) -> None:
        """Close what it came by."""
        await _closed(self._receiver)


async def send_to(
    connection: Connection, sends: Sequence[Send], transaction: Transaction | None = None
) -> None:
    """Send all, within a transaction or each by itself."""
    for one in sends:
        sender = Sender(connection.wire, one.target)
        try:
            await sender.attached()
            await sender.send(one.messages, transaction)
        finally:
            await _closed(sender)


async def _closed(link: Sender | Receiver) -> None:
    """Close a link, whatever happened. On a lost connection it is closed already."""
    with trio.CancelScope(shield=True), suppress(BrokerAway, BrokerRefused):
        await link.close()
