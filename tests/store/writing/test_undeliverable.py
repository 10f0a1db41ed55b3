"""What a mount does by itself destroys no message unless a configuration that was read says so."""

from __future__ import annotations

import json

import pytest

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.store.conftest import START_MS
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import (
    Writable,
    bodies_of,
    configured_by_broker,
    ids_of,
    on_disk,
    queue_of,
)
from tests.store.writing.test_expiring import paged
from tests.store.writing.test_forwarding import A, configure, dead, events, make_dead, published

pytestmark = pytest.mark.parametrize("writable", ["NIO"], indirect=True)

TWO = '[address-settings."work"]\nmax-delivery-attempts = 2\n'


def texts(*bodies: str) -> list[dict[str, object]]:
    return [{"body": body} for body in bodies]


async def fail(store: WritingStore, times: int) -> None:
    """Take the next message, and give it back as failed, so many times."""
    consumer = store.consumer(A)
    for _ in range(times):
        delivery = consumer.take()
        assert delivery is not None
        await delivery.give_back(failed=True)
    await consumer.close()


async def taken(store: WritingStore) -> list[object]:
    consumer, found = store.consumer(A), []
    while (delivery := consumer.take()) is not None:
        found.append(json.loads(bytes(delivery.line.read(0, delivery.line.size_bytes)))["body"])
        await delivery.acknowledge()
    await consumer.close()
    return found


def shown(store: WritingStore, state: str) -> list[int]:
    queue = queue_of(store, "work.a")
    view = queue.failed() if state == "failed" else queue.expired()
    listing = view.listing()
    assert len(listing) == len(view) == queue.status()[f"{state}Count"]
    return sorted(listing.message_id(i) for i in range(len(listing)))


@pytest.mark.rule("S-165")
async def test_what_failed_too_often_stays_out_of_the_way(writable: Writable) -> None:
    configure(writable, TWO)
    async with writable.open() as store:
        bad, _ = await published(store, *texts("bad", "good"))
        await fail(store, 2)
        assert shown(store, "failed") == [bad]
        assert await taken(store) == ["good"]
        assert bodies_of(store) == ["bad"]
        (event,) = events(store, "undeliverable")
        assert ".failed" in str(event["message"])
    assert [one["deliveryCount"] for one in on_disk(writable, "work.a")] == [2]
    async with writable.open(index=True) as store:
        assert shown(store, "failed") == [bad]
        assert await taken(store) == []
        await store.set_message_attribute(A, bad, "user.journalfs.deliveryCount", b"0")
        assert await taken(store) == ["bad"], "it was said that it is to be tried again"


@pytest.mark.rule("S-165")
async def test_it_is_recorded_although_attempts_are_not(writable: Writable) -> None:
    path = writable.root / "journalfs.toml"
    path.write_text("max-redelivery-records = 1\n" + path.read_text() + TWO)
    async with writable.open() as store:
        await published(store, *texts("bad"))
        await fail(store, 2)
    async with writable.open() as store:
        assert len(shown(store, "failed")) == 1


@pytest.mark.rule("S-165")
async def test_a_paged_message_stays_too(writable: Writable) -> None:
    configure(writable, TWO)
    write_page(writable.little, 1, [small(900), small(901)])
    async with writable.open() as store:
        await fail(store, 2)
        assert shown(store, "failed") == [900]
        assert await taken(store) == ["paged 901"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["paged 900"]


@pytest.mark.rule("S-165")
async def test_very_many_failed_ones_hold_up_nobody(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journalfs.broker.consume.delivering.SUPPLY_MESSAGES_MAX", 2)
    configure(writable, '[address-settings."work"]\nmax-delivery-attempts = 1\n')
    async with writable.open() as store:
        await published(store, *texts(*"abcde"))
        await fail(store, 4)
        assert await taken(store) == ["e"]
        assert len(shown(store, "failed")) == 4
        assert len(events(store, "undeliverable")) == 1


@pytest.mark.rule("S-165")
@pytest.mark.parametrize("state", ["failed", "expired"])
async def test_they_go_where_it_is_said_later(writable: Writable, state: str) -> None:
    configure(writable, '[address-settings."work"]\nmax-delivery-attempts = 1\n')
    write_page(writable.little, 1, [paged(2000, 1000)])
    async with writable.open() as store:
        *_, bad = await published(store, {"body": "bad", "expiration": START_MS + 1000})
        if state == "failed":
            await fail(store, 2)
        else:
            writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 0
        assert shown(store, state) == [2000, bad]
        await make_dead(store, "dead")
        setting = "dead-letter-address" if state == "failed" else "expiry-address"
        await store.set_attribute("work", None, f"user.journalfs.{setting}", b"dead")
        assert await store.expire_due() == 2
        assert {copy["body"] for copy in dead(store)} == {"bad", "paged 2000"}
        assert shown(store, state) == []


@pytest.mark.rule("S-165")
@pytest.mark.parametrize("settings", ["", 'expiry-address = "dead"\n'], ids=["no address", "no queue"])
async def test_what_is_over_stays(writable: Writable, settings: str) -> None:
    configure(writable, '[address-settings."work"]\n' + settings)
    write_page(writable.little, 1, [paged(2000, 1000), paged(2001, 9000)])
    async with writable.open() as store:
        *_, over, _ = await published(store, {"body": "x", "expiration": START_MS + 1000}, {"body": "stays"})
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 0
        assert shown(store, "expired") == [2000, over]
        assert sorted(map(str, await taken(store))) == ["paged 2001", "stays"]
        assert await store.expire_due() == 0
        (event,) = events(store, "undeliverable")
        assert ".expired" in str(event["message"])
        assert await store.acknowledge(A, [over, MessageId(2000)]) == 2
        assert ids_of(store) == []


@pytest.mark.rule("S-165")
@pytest.mark.parametrize("said", ["broker.xml", "empty"])
async def test_a_configuration_that_was_read_may_say_so(writable: Writable, said: str) -> None:
    if said == "broker.xml":
        configured_by_broker(writable)
        configure(writable, TWO)
    else:
        configure(writable, TWO + 'dead-letter-address = ""\nexpiry-address = ""\n')
    async with writable.open() as store:
        await published(store, *texts("bad"), {"body": "x", "expiration": START_MS + 1000})
        await fail(store, 2)
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 1
        assert bodies_of(store) == []
        assert not events(store, "undeliverable")
