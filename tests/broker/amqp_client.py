"""What an AMQP client gets of a queue: the bytes of each message, as the broker sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proton import Delivery, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container, Copy

DEADLINE_S = 60


class _Receiver(MessagingHandler):
    def __init__(self, port: int, source: str, count: int, *, browses: bool) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self._port = port
        self._source = source
        self._count = count
        self._browses = browses
        self.messages: list[bytes] = []
        self.late = False
        self._pieces = b""

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(f"amqp://127.0.0.1:{self._port}", reconnect=False)
        options = Copy() if self._browses else None
        receiver = event.container.create_receiver(self._connection, self._source, options=options)
        receiver.flow(self._count)
        self._timer = event.container.schedule(DEADLINE_S, self)

    def on_delivery(self, event: Any) -> None:
        delivery, link = event.delivery, event.link
        if not link.is_receiver or not delivery.readable:
            return
        self._pieces += link.recv(delivery.pending) or b""
        if delivery.partial:
            return
        link.advance()
        if not self._browses:
            delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        self.messages.append(self._pieces)
        self._pieces = b""
        if len(self.messages) == self._count:
            self._end()

    def on_timer_task(self, event: Any) -> None:
        self.late = True
        self._end()

    def _end(self) -> None:
        self._timer.cancel()
        self._connection.close()


def browse_by_amqp(port: int, address: str, queue: str, count: int) -> list[bytes]:
    """The first `count` messages of a queue, encoded. Nothing is taken."""
    return _receive(_Receiver(port, f"{address}::{queue}", count, browses=True), queue, count)


def take_by_amqp(port: int, address: str, queue: str, count: int) -> list[bytes]:
    """The same, accepted: the broker has them no more."""
    return _receive(_Receiver(port, f"{address}::{queue}", count, browses=False), queue, count)


def _receive(receiver: _Receiver, queue: str, count: int) -> list[bytes]:
    Container(receiver).run()
    assert not receiver.late, f"{queue}: {len(receiver.messages)} of {count} messages came in time"
    return receiver.messages


class _Sender(MessagingHandler):
    def __init__(self, port: int, address: str, messages: Sequence[Message]) -> None:
        super().__init__()
        self._port = port
        self._address = address
        self._messages = list(messages)
        self._unconfirmed = len(messages)
        self.failure = ""

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(f"amqp://127.0.0.1:{self._port}", reconnect=False)
        event.container.create_sender(self._connection, self._address)
        self._timer = event.container.schedule(DEADLINE_S, self)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self._messages:
            event.sender.send(self._messages.pop(0))

    def on_accepted(self, event: Any) -> None:
        self._unconfirmed -= 1
        if not self._unconfirmed:
            self._end()

    def on_rejected(self, event: Any) -> None:
        self.failure = f"refused: {event.delivery.remote.condition}"
        self._end()

    def on_timer_task(self, event: Any) -> None:
        self.failure = f"{self._unconfirmed} messages were not confirmed in time"
        self._end()

    def _end(self) -> None:
        self._timer.cancel()
        self._connection.close()


def send_by_amqp(port: int, address: str, messages: Sequence[Message]) -> None:
    """Returns when the broker has accepted all of them."""
    sender = _Sender(port, address, messages)
    Container(sender).run()
    assert not sender.failure, f"{address}: {sender.failure}"
