"""Messages that change queues: what comes along, and what a queue does that has the message already."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journalfs.ids import MessageId
from tests.reference.store import load
from tests.store.conftest import START_MS
from tests.store.writing.conftest import Writable, lines_of

A, B = ("work", "work.a"), ("work", "work.b")


def envelopes(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def on_disk(writable: Writable, queue: str) -> list[dict[str, Any]]:
    """The messages of a queue as the independent reader finds them."""
    found = load(writable.root, writable.clock.now_ms())
    (messages,) = (one["messages"] for one in found["queues"] if one["name"] == queue)
    return list(messages)


async def test_what_a_queue_has_already_is_added_to_it_as_a_copy(writable: Writable) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", None, "in")
        await publisher.write(b"one\ntwo\nthree\n")
        await publisher.finish()
        before = envelopes(lines_of(store, "work.a"))
        ids = [MessageId(line["id"]) for line in before]
        assert await store.acknowledge(B, [ids[1]]) == 1
        assert await store.move(A, ids, B) == 3
        assert not lines_of(store, "work.a")
        after = envelopes(lines_of(store, "work.b"))
        assert [line["body"] for line in after] == ["one", "three", "one", "two", "three"]
        assert [line["id"] for line in after[:2]] == [ids[0], ids[2]]
        assert after[3]["id"] == ids[1], "it was not there, so it is the record that it was"
        assert len({line["id"] for line in after}) == 5
        kept = ("userId", "timestamp", "priority", "address")
        assert [[line[key] for key in kept] for line in after[2:]] == [
            [line[key] for key in kept] for line in before
        ]
    assert [one["body"] for one in on_disk(writable, "work.b")] == ["one", "three", "one", "two", "three"]
    assert on_disk(writable, "work.a") == []


@pytest.mark.rule("S-84")
async def test_what_is_moved_expires_when_it_would_have(writable: Writable) -> None:
    line = {"body": "x", "expiration": START_MS + 1000}
    async with writable.open() as store:
        publisher = store.publisher(*A, "in.jsonl")
        await publisher.write(json.dumps(line).encode() + b"\n")
        await publisher.finish()
        ids = [MessageId(one["id"]) for one in envelopes(lines_of(store, "work.a"))]
        assert await store.move(A, ids, B) == 1
        assert [one["expiration"] for one in envelopes(lines_of(store, "work.b"))] == [START_MS + 1000]
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 1
        assert lines_of(store, "work.b") == []


async def test_a_copied_large_message_has_a_body_of_its_own(writable: Writable) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", None, "film.mkv")
        await publisher.write(b"film" * 50_000)
        await publisher.finish()
        first = MessageId(envelopes(lines_of(store, "work.a"))[0]["id"])
        assert await store.move(A, [first], B) == 1
        assert await store.acknowledge(B, [first]) == 1
        (left,) = envelopes(lines_of(store, "work.b"))
        assert left["id"] != first
    (file,) = (writable.root / "large-messages").iterdir()
    assert file.name == f"{left['id']}.msg"
    assert file.read_bytes() == b"film" * 50_000


async def test_what_is_not_due_stays_so(writable: Writable) -> None:
    later_ms = START_MS + 3_600_000
    lines = [
        {"body": "in its queue", "scheduledTime": later_ms},
        {"body": "by itself", "properties": {"_AMQ_SCHED_DELIVERY": later_ms}},
        {"body": "now"},
    ]
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in.jsonl")
        await publisher.write("".join(json.dumps(line) + "\n" for line in lines).encode())
        await publisher.finish()
        ids = [MessageId(line["id"]) for line in envelopes(lines_of(store, "work.a"))]
        assert await store.move(A, ids, B) == 3
        after = envelopes(lines_of(store, "work.b"))
        assert [line.get("scheduledTime") for line in after] == [later_ms, later_ms, None]
    times = [one.get("scheduledTime") for one in on_disk(writable, "work.b")]
    assert sorted(time for time in times if time) == [later_ms, later_ms]


async def test_deliveries_from_another_queue_do_not_count(writable: Writable) -> None:
    async with writable.open() as store:
        publisher = store.publisher("work", None, "in.jsonl")
        await publisher.write(b'{"body": "tried", "deliveryCount": 3}\n')
        await publisher.finish()
        first = MessageId(envelopes(lines_of(store, "work.a"))[0]["id"])
        assert await store.move(A, [first], B) == 1
        after = envelopes(lines_of(store, "work.b"))
        assert [line.get("deliveryCount", 0) for line in after] == [3, 0]
