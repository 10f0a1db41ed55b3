"""Publishing and acknowledging through the store, and what is in the files afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journalfs.errors import BadEnvelope, NoRoute, NoSuchName, NotEmpty
from journalfs.ids import MessageId
from journalfs.store import open_store
from tests.reference.store import load
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of, queue_of


def bodies(lines: list[bytes]) -> list[Any]:
    return [json.loads(line)["body"] for line in lines]


def on_disk(writable: Writable, queue: str) -> list[Any]:
    """Bodies of a queue as the independent reader finds them."""
    found = load(writable.root, writable.clock.now_ms())
    (messages,) = (one["messages"] for one in found["queues"] if one["name"] == queue)
    return [message["body"] for message in messages]


async def test_a_line_is_a_message_in_every_multicast_queue(writable: Writable) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", None, "in.txt")
        await publisher.write(b"one\ntwo\nthr")
        assert bodies(lines_of(store, "work.a")) == ["one", "two"]
        await publisher.write(b"ee\nlast")
        await publisher.finish()
        assert bodies(lines_of(store, "work.a")) == ["one", "two", "three", "last"]
        assert bodies(lines_of(store, "work.b")) == ["one", "two", "three", "last"]
    assert on_disk(writable, "work.b") == ["one", "two", "three", "last"]
    reopened = open_store(writable.root, clock=writable.clock, index=False)
    assert bodies(lines_of(reopened, "work.a")) == ["one", "two", "three", "last"]  # type: ignore[arg-type]


async def test_a_file_in_a_queue_goes_to_that_queue_only(writable: Writable) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", "work.b", "notes", b"only here\n")
        assert not lines_of(store, "work.a")
    assert on_disk(writable, "work.b") == ["only here"]


async def test_acknowledged_messages_do_not_come_back(writable: Writable) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", None, "in", b"".join(b"%d\n" % n for n in range(10)))
        ids = [json.loads(line)["id"] for line in lines_of(store, "work.a")]
        assert await store.acknowledge(("work", "work.a"), [MessageId(ids[3])]) == 1
        assert await store.acknowledge(("work", "work.a"), [MessageId(ids[3])]) == 0
        assert await store.acknowledge(("work", "work.a"), [MessageId(i) for i in ids[5:]]) == 5
        assert bodies(lines_of(store, "work.a")) == ["0", "1", "2", "4"]
        assert len(lines_of(store, "work.b")) == 10
        assert await store.acknowledge_part(("work", "work.b"), "_tail.jsonl") == 10
        assert await store.acknowledge_part(("work", "work.a"), "_tail.jsonl") == 4
        await store.published()
        assert store.journals.messages.totals().live_records == 0
    assert on_disk(writable, "work.a") == []
    async with writable.open() as store:
        assert not lines_of(store, "work.a")


async def test_moving_is_one_step(writable: Writable) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "in", b"x\ny\n")
        first = json.loads(lines_of(store, "work.a")[0])["id"]
        assert await store.move(("work", "work.a"), [MessageId(first)], ("work", "work.b")) == 1
        assert bodies(lines_of(store, "work.a")) == ["y"]
        assert bodies(lines_of(store, "work.b")) == ["x"]
    assert on_disk(writable, "work.b") == ["x"]


async def test_a_large_file_is_one_message_with_a_file_of_its_own(writable: Writable) -> None:
    content = bytes(range(256)) * 3000
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "picture.png")
        for at in range(0, len(content), 100_000):
            await publisher.write(content[at : at + 100_000])
        await publisher.finish()
        listing = queue_of(store, "work.a").listing()
        message_id = listing.message_id(0)
        body = writable.root / "large-messages" / f"{message_id}.msg"
        assert body.read_bytes() == content
        message = queue_of(store, "work.a").message(message_id)
        assert message is not None
        assert bytes(message.open().read(0, len(content))) == content
        await store.flushed.tidy()
        assert not list((writable.root / "journalfs" / "flushed").iterdir())
        assert await store.acknowledge(("work", "work.a"), [message_id]) == 1
        await store.published()
    assert not body.exists()


async def test_addresses_and_queues_come_and_go(writable: Writable) -> None:
    async with writable.open() as store:
        await store.create_address("orders")
        publisher = store.publisher("orders", None, "in")
        with pytest.raises(NoRoute):
            await publisher.write(b"lost?\n")
        await store.create_queue("orders", "billing")
        await publish_file(store, "orders", None, "in", b"kept\n")
        assert bodies(lines_of(store, "billing", "orders")) == ["kept"]
        with pytest.raises(NotEmpty):
            await store.delete_queue("orders", "billing")
        with pytest.raises(NotEmpty):
            await store.delete_address("orders")
        with pytest.raises(NoSuchName):
            await store.delete_queue("orders", "no")
    async with writable.open() as store:
        assert bodies(lines_of(store, "billing", "orders")) == ["kept"]
        assert await store.acknowledge_part(
            ("orders", "billing"), queue_of(store, "billing", "orders").parts()[0].name
        )
        await store.delete_queue("orders", "billing")
        await store.delete_address("orders")
        assert store.address("orders") is None
    async with writable.open() as store:
        assert store.address("orders") is None


async def test_ids_are_never_given_twice(writable: Writable) -> None:
    seen: set[int] = set()
    for _ in range(3):
        async with writable.open() as store:
            await publish_file(store, "work", "work.a", "in", b"x\n" * 3)
            ids = [json.loads(line)["id"] for line in lines_of(store, "work.a")]
            assert not seen & set(ids)
            seen |= set(ids)
            await store.acknowledge(("work", "work.a"), [MessageId(i) for i in ids])


@pytest.mark.parametrize(
    ("name", "unfinished", "rest"),
    [
        ("in.json", b'{"a":1} [2,3', b"]"),
        ("in.json", b"12.", b"5 "),
        ("in.jsonl", b'{"type":"te', b'xt","body":"x"}'),
    ],
)
async def test_a_close_says_what_the_last_close_could_not_publish(
    writable: Writable, name: str, unfinished: bytes, rest: bytes
) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", name)
        await publisher.write(unfinished)
        with pytest.raises(BadEnvelope):
            await publisher.flush()
        await publisher.write(rest)
        await publisher.flush()
        await publisher.finish()
        assert lines_of(store, "work.a")


async def test_an_address_remembers_what_no_queue_took(writable: Writable) -> None:
    """A broker looks for duplicates before it looks for queues."""
    line = {"body": "x", "duplicateId": "d", "properties": {"color": "blue"}}
    async with writable.open() as store:
        for queue in ("work.a", "work.b"):
            await store.set_attribute("work", queue, "user.journalfs.filter", b"color = 'red'")
        for color in ("blue", "red"):
            line["properties"] = {"color": color}
            await publish_file(store, "work", None, "in.jsonl", json.dumps(line).encode() + b"\n")
            assert lines_of(store, "work.a") == []
    async with writable.open() as store:
        assert store.core.duplicate_ids() == {"work": 1}
        await publish_file(store, "work", None, "in.jsonl", json.dumps(line).encode() + b"\n")
        assert lines_of(store, "work.a") == []
