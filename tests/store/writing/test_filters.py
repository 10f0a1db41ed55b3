"""Filters of queues: they judge a message as it is going to be stored."""

from __future__ import annotations

import json
import uuid

import pytest

from journalfs.store.write.store import WritingStore
from tests.store.conftest import START_MS
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of, queue_of

LARGE_BYTES = 200_000
FILTERS = (
    f"AMQTimestamp >= {START_MS}",
    f"AMQTimestamp < {START_MS}",
    "AMQTimestamp = 5",
    "_AMQ_LARGE_SIZE > 5",
    "AMQSize > 1000",
    "AMQSize BETWEEN 1 AND 1000",
    "AMQDurable = 'DURABLE'",
    "AMQDurable = 'NON_DURABLE'",
    "AMQPriority > 4",
    "AMQUserID IS NOT NULL",
    "color = 'red'",
    "_AMQ_SCHED_DELIVERY > 0",
    '"m.x-opt-delivery-time" > 0',
)


async def publish(store: WritingStore, name: str, content: bytes) -> None:
    await publish_file(store, "filtered", None, name, content)


async def make(store: WritingStore, filters: tuple[str, ...]) -> None:
    """A queue for each filter, beside one that takes all."""
    await store.create_address("filtered")
    await store.set_attribute("filtered", None, "user.journalfs.routing-types", b"MULTICAST")
    await store.create_queue("filtered", "all")
    for number, text in enumerate(filters):
        await store.create_queue("filtered", f"queue-{number}")
        await store.set_attribute("filtered", f"queue-{number}", "user.journalfs.filter", text.encode())


def ids(store: WritingStore, queue: str) -> list[int]:
    return [json.loads(line)["id"] for line in lines_of(store, queue, "filtered")]


@pytest.mark.rule("S-68")
@pytest.mark.parametrize("pages", [False, True])
async def test_a_queue_gets_what_its_filter_selects_of_another(writable: Writable, *, pages: bool) -> None:
    envelopes = (
        {"body": "stated", "timestamp": 5},
        {"body": "not kept", "durable": False, "priority": 9},
        {"body": "red", "properties": {"color": "red"}},
        {"body": "x" * LARGE_BYTES, "properties": {"color": "red"}},
        {"body": "later", "scheduledTime": START_MS + 60_000},
        {"body": "over", "scheduledTime": START_MS - 60_000},
        {"body": "later", "protocol": "AMQP", "scheduledTime": START_MS + 60_000},
        {"body": "x" * 2_000, "protocol": "AMQP"},
        {"body": "x" * LARGE_BYTES, "protocol": "AMQP"},
    )
    async with writable.open() as store:
        await make(store, FILTERS)
        if pages:
            await store.set_attribute("filtered", None, "user.journalfs.max-size-messages", b"0")
        await publish(store, "in.txt", b"one\ntwo\n")
        await publish(store, "in.bin", b"y" * LARGE_BYTES)
        await publish(store, "in.jsonl", b"".join(json.dumps(one).encode() + b"\n" for one in envelopes))
        await store.published()
        everything = queue_of(store, "all", "filtered")
        assert bool(everything.status()["pagedCount"]) == pages
        assert len(ids(store, "all")) == 12
        for number, text in enumerate(FILTERS):
            listing = everything.where(text).listing()
            selected = [listing.message_id(index) for index in range(len(listing))]
            assert sorted(ids(store, f"queue-{number}")) == sorted(selected), text
        assert len(ids(store, "queue-0")) == 8
        assert len(ids(store, "queue-3")) == 2
        assert len(ids(store, f"queue-{FILTERS.index('AMQSize > 1000')}")) == 1
        assert len(ids(store, f"queue-{FILTERS.index('AMQSize BETWEEN 1 AND 1000')}")) == 10
        assert len(ids(store, f"queue-{len(FILTERS) - 2}")) == pages
        assert len(ids(store, f"queue-{len(FILTERS) - 1}")) == 1, "brokers go by what AMQP messages say"


@pytest.mark.rule("S-66")
async def test_user_ids_are_of_the_time_of_publishing(writable: Writable) -> None:
    async with writable.open() as store:
        await make(store, ("color = 'red'",))
        await publish(store, "in.txt", b"one\n")
        (line,) = lines_of(store, "all", "filtered")
        drawn = uuid.UUID(json.loads(line)["userId"].removeprefix("ID:"))
        since_1582_ms = drawn.time // 10_000 - 12_219_292_800_000
        assert since_1582_ms >= START_MS - 1000
