"""What a mount does with a store in its life, at random."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from tests.broker.lives import COMES_AND_GOES, MOVED_TO, PLAIN, QUEUES, SENT_TO, Life
from tests.broker.sent import FAR_MS
from tests.broker.shell import QueuePath
from tests.broker.writing import delivery_order, publish, queue_in

STEPS = 40
TTL_MS = 4_000_000_000


async def begin(store: WritingStore) -> None:
    """The queues of a life."""
    settings = {
        "routing-types": b"MULTICAST,ANYCAST",
        "dead-letter-address": b"life.dead",
        "expiry-address": b"life.dead",
        "max-delivery-attempts": b"10",
        "redelivery-delay": b"0",
    }
    for address, queues in QUEUES.items():
        await store.create_address(address)
        for name, value in settings.items():
            await store.set_attribute(address, None, f"user.journalfs.{name}", value)
        for queue, own in queues.items():
            await store.create_queue(address, queue)
            for name, text in own.items():
                await store.set_attribute(address, queue, f"user.journalfs.{name}", text.encode())
    for name, value in (("max-size-bytes", b"40000"), ("page-size-bytes", b"20000")):
        await store.set_attribute("life.paged", None, f"user.journalfs.{name}", value)


class MountsTurn:
    def __init__(self, store: WritingStore, life: Life) -> None:
        self.store, self.life, self.chance = store, life, life.chance

    async def play(self) -> None:
        steps: tuple[Callable[[], Awaitable[str]], ...] = (
            *[self.send] * 8,
            *[self.remove, self.take, self.move] * 2,
            self.remove_part,
            self.move_part,
            self.set_attempts,
            self.come,
            self.go,
            self.count,
            self.schedule,
            self.kill,
            self.expire,
            self.reset_filter,
        )
        for _ in range(STEPS):
            step = self.chance.choice(steps)
            self.life.log.append(f"mount {step.__name__}")
            self.life.log.append(f"   {await step()}")
        await self.store.published()
        await self.store.expire_due()

    def line(self, address: str) -> dict[str, Any]:
        chance = self.chance
        line: dict[str, Any] = {
            "body": f"{self.life.number()} " + "x" * self.life.length(address),
            "properties": self.life.properties(),
            "propertyTypes": {"n": "int"},
            "priority": self.life.priority(address),
        }
        # What is scheduled for a last-value queue or a ring makes others go when a broker starts.
        if address != "life.kinds" and chance.random() < 0.1:
            line["scheduledTime"] = chance.choice((1, FAR_MS))
        if chance.random() < 0.2:
            line |= {"groupId": f"g{chance.randrange(3)}", "expiration": FAR_MS}
        if address in ("life.news", "life.work"):
            if chance.random() < 0.05:
                line["expiration"] = 1
            if chance.random() < 0.2:
                line["protocol"] = "AMQP"
            elif chance.random() < 0.1:
                line["properties"]["_AMQ_SCHED_DELIVERY"] = chance.choice((1, FAR_MS))
                line["propertyTypes"]["_AMQ_SCHED_DELIVERY"] = "long"
            elif chance.random() < 0.1:
                return self._sections(line["body"], address)
        if "protocol" not in line and chance.random() < 0.1:
            line["duplicateId"] = self.life.duplicate_id(address)
        return line

    def _sections(self, text: str, address: str) -> dict[str, Any]:
        """An AMQP message as its sections alone say it."""
        time_ms = self.chance.choice((None, FAR_MS))
        header = {"priority": self.life.priority(address), "ttl": self.chance.choice((None, TTL_MS))}
        properties = [[{"t": "string", "v": "n"}, {"t": "int", "v": self.chance.randrange(9)}]]
        amqp = {
            "header": header,
            "properties": {"absoluteExpiryTime": time_ms},
            "applicationProperties": properties,
            "body": {"section": "value", "value": text},
        }
        return {"amqp": amqp}

    async def send(self) -> str:
        address = self.chance.choice(SENT_TO)
        lines = [self.line(address) for _ in range(self.chance.randrange(1, 12))]
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        queue = self.chance.choice([None, None, *QUEUES[address]])
        await publish(self.store, address, queue, "in.jsonl", content)
        self.life.once(self.store)
        return f"{address} {queue} {len(lines)}"

    def some(self, queues: Sequence[QueuePath], most: int = 8) -> tuple[QueuePath, list[MessageId]]:
        path = self.chance.choice(queues)
        there = sorted(delivery_order(self.store, path[1]))
        count = min(len(there), self.chance.randrange(1, most + 1))
        return path, [MessageId(one) for one in self.chance.sample(there, count)]

    def _envelope(self, path: QueuePath, message_id: MessageId) -> Any:
        message = queue_in(self.store, path[1]).message(message_id)
        assert message is not None
        return message.envelope()

    async def remove(self) -> str:
        path, ids = self.some([*self.life.taken, *MOVED_TO])
        await self.store.acknowledge(path, ids)
        return f"{path} {ids}"

    async def remove_part(self) -> str:
        if self.chance.random() < 0.7:
            return ""
        path = self.chance.choice(self.life.taken)
        await self.store.acknowledge_part(path, ".all.jsonl")
        return f"{path}"

    async def move_part(self) -> str:
        if self.chance.random() < 0.5:
            return ""
        path = self.chance.choice(self.life.taken)
        target = self.chance.choice([one for one in PLAIN if one != path])
        count = await self.store.move_part(path, ".all.jsonl", target)
        return f"{path} {count} {target}"

    async def set_attempts(self) -> str:
        address, value = self.chance.choice(SENT_TO), self.chance.choice((b"2", b"10"))
        await self.store.set_attribute(address, None, "user.journalfs.max-delivery-attempts", value)
        return f"{address} {value!r}"

    async def move(self) -> str:
        path, ids = self.some(self.life.taken)
        target = self.chance.choice([one for one in MOVED_TO if one != path])
        if target[0] == "life.kinds":
            ids = [one for one in ids if "scheduledTime" not in self._envelope(path, one)]
        await self.store.move(path, ids, target)
        return f"{path} {ids} {target}"

    async def take(self) -> str:
        path, done = self.chance.choice(self.life.taken), []
        consumer = self.store.consumer(path)
        for _ in range(self.chance.randrange(1, 5)):
            delivery = consumer.take()
            if delivery is None:
                break
            delivery = await consumer.queue.counted_before(delivery)
            end = self.chance.choice(("acknowledge", "fail", "return"))
            done.append((int(delivery.message_id), end))
            if end == "acknowledge":
                await delivery.acknowledge()
            else:
                await delivery.give_back(failed=end == "fail")
        await consumer.close()
        return f"{path} {done}"

    def _coming(self, path: QueuePath) -> StoreQueue | None:
        address = self.store.address(path[0])
        assert address is not None
        found = address.queue(path[1])
        assert (found is not None) == (path[1] in self.life.come)
        assert found is None or isinstance(found, StoreQueue)
        return found

    async def come(self) -> str:
        path = self.chance.choice(COMES_AND_GOES)
        if self._coming(path) is None:
            self.life.come.add(path[1])
            await self.store.create_queue(*path)
            if self.chance.random() < 0.5:
                await self.store.set_attribute(*path, "user.journalfs.filter", b"n < 5")
        return f"{path}"

    async def go(self) -> str:
        path = self.chance.choice(COMES_AND_GOES)
        queue = self._coming(path)
        if queue is None or self.life.prepared:
            return ""
        if len(queue):
            await self.store.acknowledge_part(path, ".all.jsonl")
        await self.store.delete_queue(*path)
        self.life.come.discard(path[1])
        return f"{path}"

    async def count(self) -> str:
        path, ids = self.some(PLAIN)
        for one in ids:
            value = b"%d" % self.chance.randrange(4)
            await self.store.set_message_attribute(path, one, "user.journalfs.deliveryCount", value)
        return f"{path} {ids}"

    async def schedule(self) -> str:
        """Not of AMQP messages: a broker goes by what they say."""
        path, ids = self.some(PLAIN, 3)
        ids = [one for one in ids if self._envelope(path, one)["protocol"] == "CORE"]
        for one in ids:
            value = b"%d" % self.chance.choice((0, 1, FAR_MS))
            await self.store.set_message_attribute(path, one, "user.journalfs.scheduledTime", value)
        return f"{path} {ids}"

    async def kill(self) -> str:
        path, ids = self.some([one for one in self.life.taken if one[0] != "life.dead"], 4)
        await self.store.send_to_dead_letters(path, ids)
        return f"{path} {ids}"

    async def expire(self) -> str:
        path, ids = self.some([one for one in self.life.taken if one[0] != "life.dead"], 4)
        await self.store.expire(path, ids)
        return f"{path} {ids}"

    async def reset_filter(self) -> str:
        value = self.chance.choice((b"n > 4", b"n > 2", b"color <> 'blue'"))
        await self.store.set_attribute("life.news", "life.news.high", "user.journalfs.filter", value)
        return value.decode()
