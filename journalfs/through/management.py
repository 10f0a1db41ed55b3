"""What a broker does when it is asked over its management address, which AMQP itself has no word for."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any, Final

import trio
from proton import Disposition, Message

from journalfs.errors import NoSuchName
from journalfs.through.errors import BrokerRefused
from journalfs.through.links import Receiver, Sender
from journalfs.through.wire import Wire

MANAGEMENT: Final = "activemq.management"
"""Where brokers listen unless `management-address` says another one."""
WINDOW: Final = 256
"""Questions under way at once."""
BROKER: Final = "broker"


def of_queue(name: str) -> str:
    return f"queue.{name}"


class Management:
    """Asks a broker, many questions at once. Use `opened`."""

    def __init__(self, wire: Wire, address: str = MANAGEMENT) -> None:
        self._wire = wire
        self._turn = trio.Lock()
        self._questions = Sender(wire, address)
        self._answers = Receiver(wire)

    async def opened(self) -> Management:
        await self._questions.attached()
        await self._answers.attached()
        return self

    async def attribute(self, resource: str, name: str) -> Any:
        [found] = await self._ask([{"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}], [None])
        return found

    async def call(self, resource: str, operation: str, *arguments: object) -> Any:
        [found] = await self.calls(resource, operation, [arguments])
        return found

    async def calls(self, resource: str, operation: str, each: Sequence[Sequence[object]]) -> list[Any]:
        """What each call returns, in order. Raises `BrokerRefused` for the first that fails, once all of them
        have been answered.
        """
        properties = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
        return await self._ask([properties] * len(each), each)

    async def _ask(self, properties: Sequence[dict[str, str]], bodies: Sequence[Any]) -> list[Any]:
        async with self._turn:
            return await self._asked(properties, bodies)

    async def _asked(self, properties: Sequence[dict[str, str]], bodies: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        failed: BrokerRefused | NoSuchName | None = None
        for begin in range(0, len(properties), WINDOW):
            some = range(begin, min(begin + WINDOW, len(properties)))
            numbers = [uuid.uuid4().hex for _ in some]
            await self._questions.send(
                self._question(number, properties[at], bodies[at])
                for number, at in zip(numbers, some, strict=True)
            )
            answers = await self._answers_to(set(numbers))
            for number in numbers:
                try:
                    found.append(self._value(answers[number], properties[begin]))
                except (BrokerRefused, NoSuchName) as error:
                    failed = failed or error
        if failed is not None:
            raise failed
        return found

    async def _answers_to(self, numbers: set[str]) -> dict[str, Message]:
        """Answers to what others asked, and did not wait for, come as well."""
        found: dict[str, Message] = {}
        while len(found) < len(numbers):
            number, message = await self._answer()
            if number in numbers:
                found[number] = message
        return found

    def _question(self, number: str, properties: dict[str, str], body: Any) -> bytes:
        message = Message(
            id=number,
            correlation_id=number,
            reply_to=self._answers.link.remote_source.address,
            properties=properties,
            body=json.dumps(list(body) if body is not None else []),
        )
        encoded: bytes = message.encode()
        return encoded

    async def _answer(self) -> tuple[str, Message]:
        received = await self._answers.next()
        assert received is not None, "it waits for ever"
        received.settle(Disposition.ACCEPTED)
        message = Message()
        message.decode(received.encoded)
        return str(message.correlation_id), message

    def _value(self, message: Message, asked: dict[str, str]) -> Any:
        body = message.body
        value = json.loads(body)[0] if isinstance(body, str) and body else None
        properties: dict[str, Any] = message.properties or {}
        if properties.get("_AMQ_OperationSucceeded"):
            return value
        if isinstance(value, str) and "Cannot find resource" in value:
            raise NoSuchName(f"{self._wire.url}: the broker has no {asked['_AMQ_ResourceName']}")
        what = asked.get("_AMQ_OperationName") or asked.get("_AMQ_Attribute")
        raise BrokerRefused(
            f"{self._wire.url}: {what} of {asked['_AMQ_ResourceName']}: the broker says: {value}"
        )
