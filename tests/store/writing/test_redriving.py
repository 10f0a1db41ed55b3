"""Messages that go back to the queues that they came from."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from journalfs.broker.consume import redriving
from journalfs.errors import NoOrigin
from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.reference.journal import COMMIT, read_folder
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, ids_of, lines_of, on_disk, queue_of
from tests.store.writing.test_forwarding import AMQP, CORE, A, configure, dead, make_dead, published

DEAD = ("dead", "dead")
ODD = ("it's 'odd'", "o'q")
LARGE = {"body": "large " * 40_000, "properties": {"n": 1}}
CHANGED_BY_A_RETRY = ("id", "expiration", "deliveryCount")


def plain(line: bytes) -> dict[str, Any]:
    """A line without what a broker's retry does not bring back."""
    envelope: dict[str, Any] = json.loads(line)
    for key in CHANGED_BY_A_RETRY:
        envelope.pop(key, None)
    amqp = envelope.get("amqp", {})
    amqp.get("header", {}).pop("ttl", None)
    amqp.get("properties", {}).pop("absoluteExpiryTime", None)
    amqp.get("messageAnnotations", []).sort(key=json.dumps)
    return envelope


async def dead_ids(store: WritingStore) -> list[MessageId]:
    return ids_of(store, "dead", "dead")


def commits(writable: Writable) -> int:
    """COMMIT records in the journal's files."""
    files = read_folder(writable.root / "journal")
    return sum(record.kind == COMMIT for file in files for record in file.scan.records)


@pytest.mark.rule("S-230")
@pytest.mark.parametrize("expired", [False, True], ids=["failed", "expired"])
async def test_messages_are_what_they_were(writable: Writable, expired: bool) -> None:
    configure(writable, '[address-settings."work"]\ndead-letter-address = "dead"\nexpiry-address = "dead"\n')
    async with writable.open() as store:
        await make_dead(store, "dead")
        ids = await published(store, CORE, AMQP, LARGE, {**AMQP, "largeMessage": True})
        before = [plain(line) for line in lines_of(store, "work.a")]
        leave = store.expire if expired else store.send_to_dead_letters
        assert await leave(A, ids) == 4
        assert len(dead(store)) == 4
        done = await store.redrive(DEAD, await dead_ids(store))
        assert (done.sent, done.stayed) == ({A: 4}, {})
        assert dead(store) == []
        after = [json.loads(line) for line in lines_of(store, "work.a")]
        assert not any("expiration" in line or "deliveryCount" in line for line in after)
        assert not set(ids) & {line["id"] for line in after}
        assert [plain(line) for line in lines_of(store, "work.a")] == before
        (event,) = [one for one in store.core.events if one["event"] == "redriven"]
        assert event["sent"] == {"work::work.a": 4}
    assert len(on_disk(writable, "work.a")) == 4
    assert on_disk(writable, "dead") == []


@pytest.mark.rule("S-231")
async def test_what_has_no_origin_any_more_stays_and_is_named(writable: Writable) -> None:
    configure(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        publisher = store.publisher("dead", "dead", "in.jsonl")
        lines = [
            {"body": "never elsewhere"},
            {"body": "gone", "properties": {"_AMQ_ORIG_ADDRESS": "work", "_AMQ_ORIG_QUEUE": "no.more"}},
            {"body": "elsewhere", "properties": {"_AMQ_ORIG_ADDRESS": "other", "_AMQ_ORIG_QUEUE": "work.a"}},
            {"body": "here", "properties": {"_AMQ_ORIG_ADDRESS": "dead", "_AMQ_ORIG_QUEUE": "dead"}},
        ]
        await publisher.write("".join(json.dumps(line) + "\n" for line in lines).encode())
        await publisher.finish()
        before = lines_of(store, "dead", "dead")
        ids = await dead_ids(store)
        with pytest.raises(NoOrigin, match="there is no queue"):
            await store.redrive(DEAD, ids)
        assert lines_of(store, "dead", "dead") == before
        (one,) = await published(store, {"body": "goes"})
        await store.send_to_dead_letters(A, [one])
        done = await store.redrive(DEAD, await dead_ids(store))
        assert done.sent == {A: 1}
        assert sorted(len(stay) for stay in done.stayed.values()) == [1, 1, 1, 1]
        assert sorted(int(one) for stay in done.stayed.values() for one in stay) == sorted(ids)
        assert lines_of(store, "dead", "dead") == before


async def test_many_go_in_their_order_and_batches(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redriving, "TOGETHER_MAX", 7)
    configure(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        bodies = [f"{n}" for n in range(40)]
        ids = await published(store, *({"body": body} for body in bodies))
        assert await store.send_to_dead_letters(A, ids) == 40
        before = commits(writable)
        assert (await store.redrive(DEAD, await dead_ids(store))).sent == {A: 40}
        assert commits(writable) == before + 6, "one transaction of at most 7 each"
        assert [json.loads(line)["body"] for line in lines_of(store, "work.a")] == bodies
    assert [one["body"] for one in on_disk(writable, "work.a")] == bodies


async def test_pages_give_and_take(writable: Writable) -> None:
    configure(writable, '[address-settings."work"]\ndead-letter-address = "dead"\n')
    async with writable.open() as store:
        await make_dead(store, "dead")
        ids = await published(store, *({"body": f"{n}"} for n in range(6)))
        assert await store.send_to_dead_letters(A, ids) == 6
        await store.set_attribute("work", None, "user.journalfs.max-size-bytes", b"1000")
        await store.set_attribute("work", None, "user.journalfs.address-full-policy", b"PAGE")
        await publish_file(store, "work", "work.b", "in.txt", b"x" * 2000 + b"\n" + b"y" * 10 + b"\n")
        assert (await store.redrive(DEAD, await dead_ids(store))).sent == {A: 6}
        assert queue_of(store, "work.a").status()["pagedCount"] == 6
        bodies = [json.loads(line) for line in lines_of(store, "work.a")]
        assert [line["body"] for line in bodies] == [f"{n}" for n in range(6)]
        assert not any("properties" in line for line in bodies)


@pytest.mark.rule("S-232")
async def test_origins_and_reasons_are_selections(writable: Writable) -> None:
    configure(
        writable,
        '[address-settings."work"]\ndead-letter-address = "dead"\nexpiry-address = "dead"\n'
        '[address-settings."it\'s \'odd\'"]\ndead-letter-address = "other"\n',
    )
    async with writable.open() as store:
        await make_dead(store, "dead")
        failed, over, moved = await published(store, {"body": "failed"}, AMQP, {"body": "moved"})
        await store.create_address(ODD[0])
        await store.create_queue(*ODD)
        await store.move(A, [moved], ODD)
        await store.move(ODD, ids_of(store, ODD[1], ODD[0]), DEAD)
        await store.send_to_dead_letters(A, [failed])
        await store.expire(A, [over])
        await publish_file(store, "dead", "dead", "in.txt", b"sent\n")
        queue = queue_of(store, "dead", "dead")
        origins = queue.origins()
        await origins.find()
        assert dict(origins.places()) == {A: 2, ODD: 1}
        assert dict(origins.reasons()) == {"expired": 1, "max-deliveries": 1, "moved": 1, "sent": 1}

        def held(selector: str | None) -> list[int]:
            assert selector is not None
            return sorted(queue.where(selector).message_ids(".all.jsonl"))

        found = [held(origins.selector_of_reason(reason)) for reason in origins.reasons()]
        assert sorted(one for ids in found for one in ids) == sorted(await dead_ids(store))
        assert [len(ids) for ids in found] == [1, 1, 1, 1]
        assert [len(held(origins.selector_of_place(place))) for place in origins.places()] == list(
            origins.places().values()
        )
        assert origins.selector_of_reason("no reason") is None
        done = await store.redrive(DEAD, await dead_ids(store))
        assert done.sent == {A: 2, ODD: 1}
        with trio.fail_after(5):
            await origins.find()
        assert dict(origins.reasons()) == {"sent": 1}
