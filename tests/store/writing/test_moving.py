"""Messages that change queues: what comes along, and what a queue does that has the message already."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from journalfs.broker.consume.copies import TOGETHER_MAX
from journalfs.errors import AddressFull, Damaged
from journalfs.format import record_bodies
from journalfs.format.core_message import CoreHeader, CoreType, encode_message
from journalfs.format.primitives import nullable_simple_string
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, RecordId
from journalfs.store.write.store import WritingStore
from tests.store.conftest import START_MS
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of, on_disk, queue_of

A, B = ("work", "work.a"), ("work", "work.b")
FULL = ("full", "full.a")


def envelopes(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


async def test_what_a_queue_has_already_is_added_to_it_as_a_copy(writable: Writable) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", None, "in", b"one\ntwo\nthree\n")
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


def drop_what_expires(writable: Writable) -> None:
    """Without a word of a configuration it would stay."""
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."#"]\nexpiry-address = ""\n')


@pytest.mark.rule("S-84")
async def test_what_is_moved_expires_when_it_would_have(writable: Writable) -> None:
    drop_what_expires(writable)
    line = {"body": "x", "expiration": START_MS + 1000}
    async with writable.open() as store:
        await publish_file(store, *A, "in.jsonl", json.dumps(line).encode() + b"\n")
        ids = [MessageId(one["id"]) for one in envelopes(lines_of(store, "work.a"))]
        assert await store.move(A, ids, B) == 1
        assert [one["expiration"] for one in envelopes(lines_of(store, "work.b"))] == [START_MS + 1000]
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 1
        assert lines_of(store, "work.b") == []


@pytest.mark.rule("S-84", "S-98")
async def test_the_address_that_it_is_moved_to_says_when_it_expires(writable: Writable) -> None:
    drop_what_expires(writable)
    far_ms = START_MS + 10_000_000
    lines: list[dict[str, Any]] = [
        {"body": "plain"},
        {"body": "stated", "expiration": far_ms},
        {"protocol": "AMQP", "body": "amqp"},
        {"body": "large", "largeMessage": True},
    ]
    async with writable.open() as store:
        for address, name in {"delayed": "expiry-delay", "bounded": "max-expiry-delay"}.items():
            await store.create_address(address)
            await store.create_queue(address, address)
            await store.set_attribute(address, None, f"user.journalfs.{name}", b"5000")
        for address, times in {"delayed": (5000, 10_000_000), "bounded": (5000, 5000)}.items():
            await publish_file(
                store, *A, "in.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode()
            )
            ids = [MessageId(one["id"]) for one in envelopes(lines_of(store, "work.a"))]
            assert await store.move(A, ids, B) == len(lines)
            stated = [one.get("expiration", 0) for one in envelopes(lines_of(store, "work.b"))]
            assert stated == [0, far_ms, 0, 0], "it is their address still"
            assert await store.move(B, ids, (address, address)) == len(lines)
            found = [one["expiration"] - START_MS for one in envelopes(lines_of(store, address, address))]
            given_ms, stated_ms = times
            assert found == [given_ms, stated_ms, given_ms, given_ms]
        writable.clock.advance(by_ms=5000)
        assert await store.expire_due() == 3 + 4


async def test_a_copied_large_message_has_a_body_of_its_own(writable: Writable) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", None, "film.mkv", b"film" * 50_000)
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
        await publish_file(
            store, "work", "work.a", "in.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode()
        )
        ids = [MessageId(line["id"]) for line in envelopes(lines_of(store, "work.a"))]
        assert await store.move(A, ids, B) == 3
        after = envelopes(lines_of(store, "work.b"))
        assert [line.get("scheduledTime") for line in after] == [later_ms, later_ms, None]
    times = [one.get("scheduledTime") for one in on_disk(writable, "work.b")]
    assert sorted(time for time in times if time) == [later_ms, later_ms]


LATER_MS = START_MS + 3_600_000
OWN_SCHEDULES: list[dict[str, Any]] = [
    {"body": "core", "properties": {"_AMQ_SCHED_DELIVERY": LATER_MS}},
    *(
        {
            "amqp": {
                "messageAnnotations": [[{"t": "symbol", "v": key}, {"t": "long", "v": value}]],
                "properties": {"creationTime": {"t": "timestamp", "v": START_MS}},
                "body": {"section": "value", "value": {"t": "string", "v": key}},
            }
        }
        for key, value in (
            ("x-opt-delivery-time", LATER_MS),
            ("x-opt-delivery-delay", LATER_MS - START_MS),
        )
    ),
]
COPIED = {"ring-size": b"10", "max-size-messages": b"0", "enabled": b"true"}
"""What has all be copied that is moved to a queue; but the last one, with which damaged messages are not."""


@pytest.mark.rule("S-84", "S-114")
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("line", OWN_SCHEDULES, ids=["core", "time", "delay"])
@pytest.mark.parametrize("setting", COPIED)
@pytest.mark.parametrize("due_ms", [0, START_MS + 60_000, LATER_MS])
async def test_the_schedule_of_the_queue_counts_and_not_that_of_the_message(
    writable: Writable, setting: str, line: dict[str, Any], due_ms: int, *, large: bool
) -> None:
    async with writable.open() as store:
        await store.create_address("other")
        await store.create_queue("other", "other.a")
        of = None if setting == "max-size-messages" else "other.a"
        await store.set_attribute("other", of, f"user.journalfs.{setting}", COPIED[setting])
        await publish_file(store, *A, "in.jsonl", json.dumps(line | {"largeMessage": large}).encode() + b"\n")
        (before,) = envelopes(lines_of(store, A[1]))
        assert before["scheduledTime"] == LATER_MS
        first = MessageId(before["id"])
        await store.set_message_attribute(A, first, "user.journalfs.scheduledTime", b"%d" % due_ms)
        assert await store.move(A, [first], ("other", "other.a")) == 1
        (after,) = envelopes(lines_of(store, "other.a", "other"))
        assert after.get("scheduledTime", 0) == due_ms
        assert (after["id"] != first, after["address"]) == (True, "other")
        assert after["type"] == before["type"]
        scheduled = queue_of(store, "other.a", "other").scheduled()
        assert len(scheduled) == bool(due_ms)
        assert queue_of(store, "other.a", "other").status()["pagedCount"] == (of is None)
    assert [one.get("scheduledTime", 0) for one in on_disk(writable, "other.a")] == [due_ms]


@pytest.mark.rule("S-84")
@pytest.mark.parametrize("setting", COPIED)
async def test_a_damaged_message_is_moved_as_it_is_or_not_at_all(writable: Writable, setting: str) -> None:
    async with writable.open() as store:
        await store.create_address("other")
        await store.create_queue("other", "other.a")
        of = None if setting == "max-size-messages" else "other.a"
        await store.set_attribute("other", of, f"user.journalfs.{setting}", COPIED[setting])
        writer, damaged = store.journals.messages, store.journals.ids.draw()
        header = CoreHeader(None, CoreType.TEXT, True, 0, START_MS, 4, b"\1\0\0\0\5cut")
        record = encode_message(damaged, nullable_simple_string("work"), b"", header)
        writer.stage_add(RecordId(damaged), MessageType.MESSAGE, record)
        reference = record_bodies.reference(queue_of(store, A[1]).content.queue_id)
        await writer.durable(writer.stage_update(RecordId(damaged), MessageType.ADD_REFERENCE, reference))
        store.look_now()
        await publish_file(store, *A, "in", b"whole\n")
        ids = [one["id"] for one in envelopes(lines_of(store, A[1]))]
        assert ids[0] == damaged
        if setting == "enabled":
            assert await store.move(A, ids_of(store), ("other", "other.a")) == 2
            return
        with pytest.raises(
            Damaged, match=rf"\.amq: damaged at offset \d+: message {damaged} cannot be copied"
        ):
            await store.move(A, ids_of(store), ("other", "other.a"))
        assert [one["id"] for one in envelopes(lines_of(store, A[1]))] == ids
        assert not lines_of(store, "other.a", "other")


async def test_deliveries_from_another_queue_do_not_count(writable: Writable) -> None:
    async with writable.open() as store:
        await publish_file(store, "work", None, "in.jsonl", b'{"body": "tried", "deliveryCount": 3}\n')
        first = MessageId(envelopes(lines_of(store, "work.a"))[0]["id"])
        assert await store.move(A, [first], B) == 1
        after = envelopes(lines_of(store, "work.b"))
        assert [line.get("deliveryCount", 0) for line in after] == [3, 0]


# -- into a full address -------------------------------------------------------------------------------------


async def make_full(store: WritingStore, policy: str, messages: int) -> None:
    """An address with one queue is full once it holds so many messages; another has as many and two more."""
    await store.create_address(FULL[0])
    await store.create_queue(*FULL)
    await store.set_attribute(FULL[0], None, "user.journalfs.max-size-messages", b"%d" % messages)
    await store.set_attribute(FULL[0], None, "user.journalfs.address-full-policy", policy.encode())
    await publish_file(store, *A, "in", b"".join(b"%d\n" % number for number in range(messages + 2)))


def ids_of(store: WritingStore) -> list[MessageId]:
    return [MessageId(one["id"]) for one in envelopes(lines_of(store, A[1]))]


def bodies(store: WritingStore, queue: str) -> list[str]:
    address, _, _ = queue.partition(".")
    return [one["body"] for one in envelopes(lines_of(store, queue, address))]


def acting_limit(store: WritingStore) -> object:
    address = store.address(FULL[0])
    assert address is not None
    return address.status()["limit"]


def paged_count(store: WritingStore, queue: str) -> object:
    return queue_of(store, queue, FULL[0]).status()["pagedCount"]


@pytest.mark.rule("S-106")
@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
async def test_a_full_address_refuses_what_is_moved_to_it(writable: Writable, policy: str) -> None:
    async with writable.open() as store:
        await make_full(store, policy, messages=0)
        with pytest.raises(AddressFull):
            await store.move(A, ids_of(store), FULL)
        assert bodies(store, A[1]) == ["0", "1"]


@pytest.mark.rule("S-106")
async def test_who_moves_does_not_wait_for_room(writable: Writable) -> None:
    async with writable.open() as store:
        await make_full(store, "BLOCK", messages=0)
        assert await store.move(A, ids_of(store), FULL) == 2
        assert bodies(store, FULL[1]) == ["0", "1"]
        assert paged_count(store, FULL[1]) == 0


@pytest.mark.rule("S-110")
@pytest.mark.parametrize("at_once", [1, 2])
async def test_what_is_moved_to_a_full_address_begins_to_page(writable: Writable, at_once: int) -> None:
    texts = ["0", "1", "2", "3", "4", "5"]
    async with writable.open() as store:
        await make_full(store, "PAGE", messages=4)
        ids = ids_of(store)
        for first in range(0, len(ids), at_once):
            some = ids[first : first + at_once]
            assert await store.move(A, some, FULL) == len(some)
        assert bodies(store, FULL[1]) == texts
        assert not bodies(store, A[1])
        assert paged_count(store, FULL[1]) == 2
        events = [event["message"] for event in store.core.events if event["event"] == "limit-reached"]
        assert events == ["full: max-size-messages is reached: it pages"]
        assert acting_limit(store) == "max-size-messages"
    assert [one["body"] for one in on_disk(writable, FULL[1])] == texts
    async with writable.open() as store:
        assert bodies(store, FULL[1]) == texts
        assert not bodies(store, A[1])


@pytest.mark.rule("S-110")
async def test_what_changes_queues_within_a_full_address_stays_in_the_journal(writable: Writable) -> None:
    async with writable.open() as store:
        await make_full(store, "PAGE", messages=4)
        await store.create_queue(FULL[0], "full.b")
        assert await store.move(A, ids_of(store), FULL) == 6
        ids = [MessageId(one["id"]) for one in envelopes(lines_of(store, FULL[1], FULL[0]))]
        assert await store.move(FULL, ids, (FULL[0], "full.b")) == 6
        assert paged_count(store, "full.b") == 0
        assert bodies(store, "full.b") == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.rule("S-110")
async def test_a_queue_whose_values_are_replaced_does_not_begin_to_page(writable: Writable) -> None:
    async with writable.open() as store:
        await make_full(store, "PAGE", messages=1)
        await store.create_queue(FULL[0], "full.ring")
        await store.set_attribute(FULL[0], "full.ring", "user.journalfs.ring-size", b"2")
        ids = ids_of(store)
        for queue in (FULL[1], "full.ring"):
            for one in ids_of(store):
                assert await store.move(A, [one], (FULL[0], queue)) == 1
            await publish_file(store, *A, "in", b"0\n1\n2\n")
        assert len(ids) == 3
        assert bodies(store, FULL[1]) == ["0", "1", "2"]
        assert bodies(store, "full.ring") == ["1", "2"]
        assert {paged_count(store, queue) for queue in (FULL[1], "full.ring")} == {0}
        assert acting_limit(store) is None
        assert not [event for event in store.core.events if event["event"] == "limit-reached"]


KINDS: list[dict[str, Any]] = [
    {},
    {"priority": 9, "properties": {"n": 1, "_AMQ_ORIG_QUEUE": "elsewhere"}},
    {"protocol": "AMQP"},
    {"durable": False},
    {"scheduledTime": START_MS + 1_000_000},
    {"properties": {"_AMQ_SCHED_DELIVERY": START_MS + 1_000_000}},
    {"type": "bytes", "body_base64": "AAEC"},
    {"body": "large " * 30_000},
]


@pytest.mark.rule("S-84")
async def test_all_kinds_keep_their_order_on_their_way_to_another_address(writable: Writable) -> None:
    """Most are copied many at a time, by the core, and what it leaves to others lies between them."""
    settings = {"ASYNCIO": 'journal-file-size = "512K"', "MAPPED": "journal-buffer-timeout = 0"}
    count = 100 if writable.backend == "MAPPED" else 2 * TOGETHER_MAX
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\n{settings.get(writable.backend, "")}\n'
    )
    draw = random.Random(writable.backend)
    kinds = [draw.choice(KINDS if draw.random() < 0.05 else KINDS[:2]) for _ in range(count)]
    lines = [
        kind if "type" in kind else {**kind, "body": f"{number} {kind.get('body', '')}"}
        for number, kind in enumerate(kinds)
    ]
    async with writable.open() as store:
        await store.create_address("other")
        await store.create_queue("other", "other.a")
        await publish_file(
            store, *A, "in.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        )
        before = envelopes(lines_of(store, "work.a"))
        assert len(before) == len(lines)
        assert await store.move_part(A, ".all.jsonl", ("other", "other.a")) == len(lines)
        assert not lines_of(store, "work.a")
        after = envelopes(lines_of(store, "other.a", "other"))
    assert [one["id"] for one in after] == sorted(one["id"] for one in after)
    for old, new in zip(before, after, strict=True):
        if old["protocol"] == "CORE":
            noted = {
                "_AMQ_ORIG_QUEUE": "work.a",
                "_AMQ_ORIG_ADDRESS": "work",
                "_AMQ_ORIG_MESSAGE_ID": old["id"],
            }
            assert new["properties"] == {**old.get("properties", {}), **noted}
            assert new["address"] == "other"
        kept = ("body", "body_base64", "type", "protocol", "priority", "timestamp", "scheduledTime", "userId")
        assert [new.get(key) for key in kept] == [old.get(key) for key in kept]
    assert sorted(one["id"] for one in on_disk(writable, "other.a")) == [one["id"] for one in after]
