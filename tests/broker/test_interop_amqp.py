"""AMQP messages of real stores, published anew from their lines, as an AMQP client gets them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from journalfs.store.write.store import WritingStore
from tests.broker.amqp_client import browse_by_amqp, take_by_amqp
from tests.broker.client import CoreClient
from tests.broker.sent import FAR_MS
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, lay_store, lines_in, publish, queue_in, write_in
from tests.frozen import PristineStores
from tests.reference.amqp import Sections

CASES = [
    pytest.param("amqp-exotic", "amqp.exotic"),
    pytest.param("large-and-paged", "amqp.large", marks=[pytest.mark.long]),
    pytest.param("large-and-paged", "amqp.backlog", marks=[pytest.mark.long]),
    pytest.param("amqp-mqtt-stomp-openwire", "amqp.in", marks=[pytest.mark.long]),
    pytest.param("killed", "killed.amqp", marks=[pytest.mark.long]),
]
COPIES = "amqp.copies"
TTL_MS = 4_000_000_000
PAGE_LIMITS = re.compile("AMQ224120|AMQ224123")
"""One of the stores goes beyond its limits of pages, which its broker says at each start."""


def shown(encoded: bytes) -> dict[str, Any]:
    """All sections. What is published is durable, whatever it was before."""
    found = vars(Sections(encoded))
    return {**found, "header": {**(found["header"] or {}), "durable": {"t": "boolean", "v": True}}}


@pytest.mark.parametrize(("name", "queue"), CASES)
def test_amqp_messages_are_published_as_they_were(
    artemis_home: Path,
    stores: PristineStores,
    tmp_path: Path,
    name: str,
    queue: str,
) -> None:
    broker = lay_store(stores[name], tmp_path / "broker", None)

    async def work(store: WritingStore) -> tuple[str, int]:
        await store.create_address(COPIES)
        await store.create_queue(COPIES, COPIES)
        source = queue_in(store, queue).open_all()
        lines = bytes(source.read(0, source.size_bytes))
        source.close()
        await publish(store, COPIES, COPIES, "in.jsonl", lines)
        due = [line for line in lines_in(store, COPIES) if "scheduledTime" not in line]
        assert len(lines_in(store, COPIES)) == len(lines.splitlines())
        return queue_in(store, queue).model.address, len(due)

    address, count = write_in(broker.root, work)
    assert count > 5
    with broker, CoreClient(broker.port) as client:
        assert [one for one in complaints(broker.log) if not PAGE_LIMITS.search(one)] == []
        assert client.message_count(COPIES) >= count
        before = browse_by_amqp(broker.port, address, queue, count)
        after = browse_by_amqp(broker.port, COPIES, COPIES, count)
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            assert shown(other) == shown(one), number
        broker.stop()


SIMPLE = {
    "header": {"durable": True, "priority": 7, "firstAcquirer": True},
    "deliveryAnnotations": [["x-opt-delivery", 1]],
    "messageAnnotations": [["x-opt-mine", "noted"], ["x-my-note", {"t": "map", "v": [["k", 5]]}]],
    "properties": {
        "messageId": "m-1",
        "userId": "bWU=",
        "to": "orders",
        "subject": "s",
        "correlationId": {"t": "ulong", "v": 7},
        "contentType": "text/plain",
        "contentEncoding": "none",
        "creationTime": 5,
        "groupId": "g",
        "groupSequence": 3,
    },
    "applicationProperties": [
        ["size", {"t": "ubyte", "v": 42}],
        ["ok", True],
        ["list", {"t": "list", "v": ["a"]}],
    ],
    "footer": [["x-sum", {"t": "binary", "v": "AAE="}]],
    "body": {"section": "value", "value": "hello"},
}


@pytest.mark.long
def test_sections_that_say_few_types(artemis_home: Path, tmp_path: Path) -> None:
    """Each value has the type that it must have, so a broker loads and delivers the message."""
    broker = new_instance(tmp_path / "broker", "NIO")

    expiring = [
        {"amqp": {**sections, "body": {"section": "value", "value": "x"}}}
        for sections in ({"header": {"ttl": TTL_MS}}, {"properties": {"absoluteExpiryTime": FAR_MS}})
    ]

    async def work(store: WritingStore) -> list[int]:
        for name in ("simple", "expiring"):
            await store.create_address(name)
            await store.create_queue(name, name)
        await publish(store, "simple", "simple", "in.jsonl", json.dumps({"amqp": SIMPLE}).encode() + b"\n")
        lines = "".join(json.dumps(line) + "\n" for line in expiring)
        await publish(store, "expiring", "expiring", "in.jsonl", lines.encode())
        return [line["expiration"] for line in lines_in(store, "expiring")]

    times_ms = write_in(broker.root, work)
    assert (times_ms[0] > TTL_MS, times_ms[1]) == (True, FAR_MS)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        listed = json.loads(client.operation("queue.expiring", "listMessagesAsJSON", ""))
        assert [message["expiration"] for message in listed] == times_ms
        assert client.message_count("simple") == 1
        (message,) = take_by_amqp(broker.port, "simple", "simple", 1)
        assert complaints(broker.log) == []
        broker.stop()
    found = vars(Sections(message))
    assert found["properties"]["contentType"] == {"t": "symbol", "v": "text/plain"}
    assert found["properties"]["userId"] == {"t": "binary", "v": "bWU="}


@pytest.mark.long
def test_a_large_message_whose_sender_said_nothing_is_kept_with_the_dead_letters(
    artemis_home: Path, tmp_path: Path
) -> None:
    """A broker makes its copy of what the file says, and keeps none that is not durable."""
    broker = new_instance(tmp_path / "broker", "NIO")
    lines = [
        {"largeMessage": True, "amqp": {**more, "body": {"section": "value", "value": "long " * 30_000}}}
        for more in ({}, {"header": {"priority": 7}})
    ]

    async def work(store: WritingStore) -> None:
        for name in ("sent", "dead"):
            await store.create_address(name)
            await store.create_queue(name, name)
        await store.set_attribute("sent", None, "user.journalfs.dead-letter-address", b"dead")
        await publish(
            store, "sent", "sent", "in.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode()
        )

    write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        assert client.operation("queue.sent", "sendMessagesToDeadLetterAddress", "") == len(lines)
        broker.stop()
    with broker, CoreClient(broker.port) as client:
        assert client.message_count("dead") == len(lines)
        assert len(take_by_amqp(broker.port, "dead", "dead", len(lines))) == len(lines)
        broker.stop()
