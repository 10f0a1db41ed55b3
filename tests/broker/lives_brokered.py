"""What a broker's clients and its management do with a store in its life, at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proton import Message, symbol

from tests.broker.amqp_client import send_by_amqp
from tests.broker.client import CoreClient
from tests.broker.lives import COMES_AND_GOES, MOVED_TO, PLAIN, SENT_TO, Life
from tests.broker.sent import FAR_MS
from tests.broker.shell import QueuePath

STEPS = 40
FAR_IN_MS = 10**11
PREPARED_MAX = 4
SELECTORS = ("n = 1", "n = 7", "color = 'green' AND n > 5")


class BrokersTurn:
    def __init__(self, port: int, client: CoreClient, life: Life) -> None:
        self.port, self.client, self.life, self.chance = port, client, life, life.chance

    def play(self) -> None:
        steps: tuple[Callable[[], str], ...] = (
            *[self.send] * 3,
            *[self.consume] * 2,
            self.send_not,
            self.send_amqp,
            self.fail_to_consume,
            self.prepare,
            self.decide,
            self.come,
            self.go,
            self.move,
            self.kill,
            self.expire,
            self.remove,
        )
        for _ in range(STEPS):
            step = self.chance.choice(steps)
            self.life.log.append(f"broker {step.__name__}")
            self.life.log.append(f"   {step()}")

    def _send(self, address: str, count: int, session: str = "") -> None:
        for _ in range(count):
            more: dict[str, Any] = {}
            if address != "life.kinds" and self.chance.random() < 0.1:
                more["scheduled_in_ms"] = FAR_IN_MS
            if self.chance.random() < 0.1:
                more["expires_at_ms"] = FAR_MS
            # A broker refuses a transaction that has a duplicate.
            if not session and self.chance.random() < 0.1:
                more["duplicate_id"] = self.life.duplicate_id(address)
            self.client.send(
                address,
                session=session,
                body=f"{self.life.number()} ",
                length=self.life.length(address),
                priority=self.life.priority(address),
                properties=self.life.properties(),
                **more,
            )

    def _in_a_transaction(self, work: Callable[[str], object], verb: str) -> None:
        self.client.do("begin", session="s")
        work("s")
        self.client.do(verb, session="s")
        self.client.do("end", session="s")

    def send(self) -> str:
        address, count = self.chance.choice(SENT_TO), self.chance.randrange(1, 8)
        if self.chance.random() < 0.5:
            self._send(address, count)
        else:
            self._in_a_transaction(lambda session: self._send(address, count, session), "commit")
        return f"{address} {count}"

    def send_not(self) -> str:
        address = self.chance.choice(SENT_TO)
        self._in_a_transaction(lambda session: self._send(address, 3, session), "rollback")
        return address

    def send_amqp(self) -> str:
        address, count = self.chance.choice(("life.news", "life.work")), self.chance.randrange(1, 5)
        send_by_amqp(self.port, address, [self._amqp() for _ in range(count)])
        return f"{address} {count}"

    def _amqp(self) -> Message:
        later = self.chance.random() < 0.1
        expires = self.chance.random()
        return Message(
            ttl=FAR_IN_MS / 1e5 if expires < 0.1 else 0,
            expiry_time=FAR_MS / 1000 if 0.1 < expires < 0.2 else 0,
            body=f"{self.life.number()} " + "y" * self.life.length("life.news"),
            durable=True,
            priority=self.life.priority("life.news"),
            properties=self.life.properties(),
            annotations={symbol("x-opt-delivery-time"): FAR_MS} if later else None,
        )

    def _some(self, most: int = 7) -> tuple[str, int]:
        """A queue, and how many messages to take of it."""
        _, name = self.chance.choice(self.life.taken)
        held = sum(
            int(self.client.attribute(f"queue.{name}", one)) for one in ("scheduledCount", "deliveringCount")
        )
        free = self.client.message_count(name) - held
        return name, max(0, min(free, self.chance.randrange(1, most + 1)))

    def consume(self) -> str:
        name, count = self._some()
        if count:
            self.client.consume_many(name, count)
        return f"{name} {count}"

    def fail_to_consume(self) -> str:
        name, count = self._some()
        if count:
            self._in_a_transaction(lambda s: self.client.consume(name, count, session=s), "rollback")
        return f"{name} {count}"

    def prepare(self) -> str:
        if len(self.life.prepared) == PREPARED_MAX:
            return ""
        xid = f"xid-{self.life.number()}"
        name, count = self._some(3)
        self.client.do("xa-begin", session=xid, xid=xid)
        self._send(self.chance.choice(("life.news", "life.work", "life.paged")), 2, session=xid)
        if count:
            self.client.consume(name, count, session=xid)
        self.client.do("xa-prepare", session=xid, xid=xid)
        self.client.do("end", session=xid)
        self.life.prepared.append(xid)
        return f"{xid} {name} {count}"

    def decide(self) -> str:
        if not self.life.prepared:
            return ""
        xid = self.life.prepared.pop(self.chance.randrange(len(self.life.prepared)))
        verb = self.chance.choice(("xa-commit", "xa-rollback"))
        self.client.do("xa-recover", session="recover")
        self.client.do(verb, session="recover", xid=xid)
        self.client.do("end", session="recover")
        return f"{verb} {xid}"

    def decide_all(self) -> None:
        while self.life.prepared:
            self.life.log.append(f"broker {self.decide()}")

    def come(self) -> str:
        address, name = self.chance.choice(COMES_AND_GOES)
        if name not in self.life.come:
            self.life.come.add(name)
            more = {"filter": "n < 5"} if self.chance.random() < 0.5 else {}
            self.client.create_queue(name, address=address, routing="MULTICAST", **more)
        return name

    def go(self) -> str:
        _, name = self.chance.choice(COMES_AND_GOES)
        if name not in self.life.come or self.life.prepared:
            return ""
        self.client.do("delete-queue", queue=name)
        self.life.come.discard(name)
        return name

    def _manage(self, operation: str, queues: Sequence[QueuePath], *arguments: object) -> str:
        _, name = self.chance.choice(queues)
        selector = self.chance.choice(SELECTORS)
        done = self.client.operation(f"queue.{name}", operation, selector, *arguments)
        return f"{name} {selector} {arguments}: {done}"

    def move(self) -> str:
        target = self.chance.choice(MOVED_TO)
        return self._manage("moveMessages", [one for one in PLAIN if one != target], target[1])

    def kill(self) -> str:
        return self._manage("sendMessagesToDeadLetterAddress", PLAIN)

    def expire(self) -> str:
        return self._manage("expireMessages", PLAIN)

    def remove(self) -> str:
        return self._manage("removeMessages", self.life.taken)
