"""What is not due yet in some queues of a message and is in others, as a mount shows it: a broker that starts
schedules the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import COMPACTED, Broker
from tests.broker.sent import FAR_MS
from tests.broker.settings import BrokerSettings
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, lines_in, publish, queue_in, write_in
from tests.reference.journal import read_folder, replay
from tests.reference.store import SCHEDULED

DUE = "user.journalfs.scheduledTime"
OWN = {"properties": {"_AMQ_SCHED_DELIVERY": FAR_MS}}
OVER = {"properties": {"_AMQ_SCHED_DELIVERY": 1}, "propertyTypes": {"_AMQ_SCHED_DELIVERY": "long"}}


async def send(store: WritingStore, address: str, *lines: dict[str, Any]) -> None:
    content = "".join(json.dumps(line) + "\n" for line in lines)
    await publish(store, address, None, "in.jsonl", content.encode())


async def set_due(store: WritingStore, queue: tuple[str, str], numbers: Sequence[int], due_ms: int) -> None:
    lines = lines_in(store, queue[1])
    for number in numbers:
        message_id = MessageId(lines[number]["id"])
        await store.set_message_attribute(queue, message_id, DUE, b"%d" % due_ms)


async def in_three(store: WritingStore, address: str, *lines: dict[str, Any]) -> list[str]:
    """Queues of an address that each get all of it."""
    queues = [f"{address}.{number}" for number in range(3)]
    await store.create_address(address)
    await store.set_attribute(address, None, "user.journalfs.routing-types", b"MULTICAST")
    for queue in queues:
        await store.create_queue(address, queue)
    await send(store, address, *lines)
    return queues


def test_both_schedule_the_same(artemis_home: Path, tmp_path: Path) -> None:
    broker = new_instance(tmp_path / "broker", "NIO")

    async def work(store: WritingStore) -> dict[str, int]:
        plain = await in_three(store, "plain", {"body": "a"}, {"body": "b"})
        for number, queue in enumerate(plain):
            await set_due(store, ("plain", queue), [0] * (number == 0) + [1] * (number == 2), FAR_MS)
        own = await in_three(store, "own", {"body": "a", **OWN}, {"body": "b", **OWN}, {"body": "c", **OWN})
        await set_due(store, ("own", own[0]), [0, 1, 2], 0)
        await set_due(store, ("own", own[1]), [1], 0)
        moved = [MessageId(lines_in(store, own[0])[2]["id"])]
        await store.create_queue("own", "own.moved")
        await store.move(("own", own[0]), moved, ("own", "own.moved"))
        amqp = await in_three(store, "amqp", {"body": "a", "protocol": "AMQP", "scheduledTime": FAR_MS})
        copies = await in_three(store, "copies")
        copied = [MessageId(lines_in(store, own[0])[0]["id"])]
        await store.move(("own", own[0]), copied, ("copies", copies[0]))
        queues = [*plain, *own, "own.moved", *amqp, *copies]
        return {queue: int(str(queue_in(store, queue).status()["scheduledCount"])) for queue in queues}

    wanted = write_in(broker.root, work)
    assert sorted(wanted.values()) == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 3]
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        found = {queue: client.attribute(f"queue.{queue}", "scheduledCount") for queue in wanted}
        broker.stop()
    assert found == wanted


@pytest.mark.long
def test_what_says_that_it_was_due_keeps_its_place(artemis_home: Path, tmp_path: Path) -> None:
    """A broker that starts puts it before all that wait, unless a record says that its time is over."""
    broker = new_instance(tmp_path / "broker", "NIO")
    bodies = [str(number) for number in range(8)]

    async def work(store: WritingStore) -> None:
        for name in ("sent", "moved", "left"):
            await store.create_address(name)
            await store.create_queue(name, name)
        lines = [{"body": body, **(OVER if int(body) % 2 else {})} for body in bodies]
        await send(store, "sent", *lines)
        await send(store, "left", *lines)
        ids = [MessageId(line["id"]) for line in lines_in(store, "left")]
        await store.move(("left", "left"), ids, ("moved", "moved"))

    write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        for queue in ("sent", "moved"):
            assert [message["body"] for message in client.browse(queue)] == bodies
        assert complaints(broker.log) == []
        broker.stop()


@pytest.mark.long
def test_what_a_broker_forgets_when_it_compacts(artemis_home: Path, tmp_path: Path) -> None:
    """Of the records that say when a message is due it keeps one, of whichever queue. In the others it goes
    by what the message says itself.
    """
    broker = Broker(tmp_path / "broker", settings=BrokerSettings())
    queues = [f"own.{number}" for number in range(3)]
    with broker, CoreClient(broker.port) as client:
        for queue in queues:
            client.create_queue(queue, address="own", routing="MULTICAST")
        client.send("own", scheduled_in_ms=10**11)
        client.create_queue("churn")
        while COMPACTED not in broker.log:
            client.send_many("churn", 100, length=1000)
            client.consume_many("churn", 100)
        broker.stop()
    records = replay(file.scan.records for file in read_folder(broker.store.journal)).records
    assert sum(one.user_type == SCHEDULED for one in records) == 1

    async def look(store: WritingStore) -> list[object]:
        return [queue_in(store, queue).status()["scheduledCount"] for queue in queues]

    assert write_in(broker.root, look) == [1, 1, 1]
    with broker, CoreClient(broker.port) as client:
        assert [client.attribute(f"queue.{queue}", "scheduledCount") for queue in queues] == [1, 1, 1]
        broker.stop()
