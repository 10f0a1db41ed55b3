"""Time: what expires when, where it goes, and what the settings of an address make of an expiration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from journalfs.broker.consume import expiring as expiring_module
from journalfs.broker.consume.forwarding import Forwarding
from journalfs.change.address_rules import ExpiryRule
from journalfs.ids import MessageId
from journalfs.live.content import Why
from journalfs.live.runs import Run
from journalfs.store import open_store
from journalfs.store.write.opening import open_for_writing
from journalfs.views.queues import StoreQueue
from tests.differential.encode_messages import Typed, page_record, text_message
from tests.store.conftest import QUEUE_A, QUEUE_B, START_MS
from tests.store.publishing import publish_file
from tests.store.test_pages import write_page
from tests.store.writing.conftest import Writable, bodies_of, configured_by_broker, lines_of, on_disk
from tests.store.writing.test_forwarding import (
    AMQP,
    CORE,
    configure,
    dead,
    events,
    make_dead,
    published,
)

A = ("work", "work.a")
SETTINGS = '[address-settings."work"]\nexpiry-address = "dead"\n'
LATER_MS = 60_000


def expiring(body: str, in_ms: int, **more: Any) -> dict[str, Any]:
    return {"body": body, "expiration": START_MS + in_ms, **more}


async def test_what_is_over_goes_to_the_expiry_address(writable: Writable) -> None:
    configure(writable, SETTINGS)
    async with writable.open() as store:
        await make_dead(store, "dead")
        lines = [
            expiring("b", 1000),
            {"body": "stays"},
            expiring("later", 5000),
            expiring("a", 1000, priority=9),
        ]
        ids = await published(store, *lines)
        writable.clock.advance(by_ms=999)
        assert await store.expire_due() == 0
        writable.clock.advance(by_ms=1)
        assert await store.expire_due() == 2
        assert bodies_of(store, "work.a") == ["stays", "later"]
        copies = dead(store)
        assert [copy["body"] for copy in copies] == ["a", "b"], "in the order of delivery"
        assert [copy["properties"] for copy in copies] == [
            {
                "_AMQ_ORIG_QUEUE": "work.a",
                "_AMQ_ORIG_ADDRESS": "work",
                "_AMQ_ORIG_MESSAGE_ID": origin,
                "_AMQ_ACTUAL_EXPIRY": START_MS + 1000,
            }
            for origin in (ids[3], ids[0])
        ]
        assert all("expiration" not in copy for copy in copies)
        (event,) = events(store, "expired")
        assert (event["messages"], event["dropped"]) == (2, 0)
    assert [one["body"] for one in on_disk(writable, "dead")] == ["a", "b"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["stays", "later"]


@pytest.mark.rule("S-97")
@pytest.mark.parametrize("index", [False, True])
async def test_what_was_there_before_expires_too(writable: Writable, index: bool) -> None:
    configured_by_broker(writable)
    async with writable.open(index=index) as store:
        amqp = {**AMQP, "expiration": START_MS + 1000}
        await published(store, CORE, amqp, {"body": "stays"}, {**CORE, "largeMessage": True})
    writable.clock.advance(by_ms=1000)
    async with writable.open(index=index) as store:
        assert store.rebuilds == 0
        assert await store.expire_due() == 3
        assert bodies_of(store, "work.a") == ["stays"]
    assert not list((writable.root / "large-messages").iterdir())


@pytest.mark.rule("S-97")
async def test_it_happens_by_itself_once_a_period(writable: Writable) -> None:
    configure(writable, SETTINGS)
    path = writable.root / "journalfs.toml"
    path.write_text("message-expiry-scan-period = 4000\n" + path.read_text())
    async with writable.open() as store:
        await make_dead(store, "dead")
        await published(store, expiring("x", 1000))
        for by_ms in (1500, 2499):
            writable.clock.advance(by_ms=by_ms)
            await trio.testing.wait_all_tasks_blocked()
            assert bodies_of(store, "work.a") == ["x"]
        writable.clock.advance(by_ms=1)
        with trio.fail_after(30):
            while not dead(store):
                await trio.testing.wait_all_tasks_blocked()
        assert dead(store)[0]["properties"]["_AMQ_ACTUAL_EXPIRY"] == START_MS + 4000
        assert not bodies_of(store, "work.a")


@pytest.mark.rule("S-88")
@pytest.mark.parametrize("expire", [False, True])
async def test_a_store_whose_messages_stay_when_their_time_is_over(writable: Writable, expire: bool) -> None:
    configured_by_broker(writable)
    path = writable.root / "journalfs.toml"
    path.write_text("message-expiry-scan-period = 1000\n" + path.read_text())
    async with writable.open() as store:
        await published(store, expiring("x", 1500), {"body": "stays"})
    store = open_for_writing(writable.root, clock=writable.clock, index=False, expire=expire)
    with closing(store):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            await trio.testing.wait_all_tasks_blocked()
            writable.clock.advance(by_ms=2000)
            with trio.fail_after(30):
                if not expire:
                    await store.expiring.run()  # there is nothing to do for it
                while expire and len(bodies_of(store, "work.a")) > 1:
                    await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        shown = [] if expire else ["x"]
        assert bodies_of(store, "work.a") == [*shown, "stays"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == [*shown, "stays"], "as to be read only"


@pytest.mark.rule("S-97")
@pytest.mark.parametrize("period", ["0", "-1"])
async def test_no_period_no_expiry(writable: Writable, period: str) -> None:
    """What is done once a period is done never then: `test_periods_may_change`."""
    configure(writable, f"message-expiry-scan-period = {period}\n")
    async with writable.open() as store:
        assert store.expiring.period_ms == int(period)


@pytest.mark.rule("S-28", "S-97")
async def test_a_store_that_is_read_keeps_showing_it(writable: Writable) -> None:
    async with writable.open() as store:
        await published(store, expiring("x", 1))
    writable.clock.advance(by_ms=100_000)
    reader = open_store(writable.root, clock=writable.clock, index=False)
    try:
        await reader.look()
        address = reader.address("work")
        assert address is not None
        queue = address.queue("work.a")
        assert isinstance(queue, StoreQueue)
        assert len(queue) == 1
    finally:
        reader.close()


@pytest.mark.rule("S-97")
async def test_what_is_not_due_does_not_expire(writable: Writable) -> None:
    configured_by_broker(writable)
    async with writable.open() as store:
        due_ms = START_MS + 5000
        await published(store, expiring("x", 1000, properties={"_AMQ_SCHED_DELIVERY": due_ms}))
        writable.clock.advance(by_ms=4999)
        assert await store.expire_due() == 0
        assert bodies_of(store, "work.a") == ["x"]
        writable.clock.advance(by_ms=1)
        assert await store.expire_due() == 1


@pytest.mark.rule("S-97")
async def test_nothing_expires_where_what_expired_goes(writable: Writable) -> None:
    configure(writable, '[address-settings."#"]\nexpiry-address = "work"\n')
    write_page(writable.little, 1, [paged(2000, 1000)])
    async with writable.open() as store:
        await published(store, expiring("x", 1000))
        writable.clock.advance(by_ms=LATER_MS)
        assert await store.expire_due() == 0
        assert len(lines_of(store, "work.a")) == 2


async def test_the_address_that_a_message_was_moved_to_counts(writable: Writable) -> None:
    """As if it had been sent there."""
    configure(writable, '[address-settings."other"]\nexpiry-address = "dead"\n')
    async with writable.open() as store:
        await make_dead(store, "dead")
        await store.create_address("other")
        await store.create_queue("other", "other")
        ids = await published(store, expiring("x", 1000))
        assert await store.move(A, ids, ("other", "other")) == 1
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 1
        (copy,) = dead(store)
        assert copy["properties"]["_AMQ_ORIG_QUEUE"] == "other"
        assert copy["properties"]["_AMQ_ORIG_ADDRESS"] == "other"


async def test_many_leave_in_several_transactions(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journalfs.broker.consume.expiring.EXPIRED_MESSAGES_MAX", 7)
    monkeypatch.setattr("journalfs.broker.consume.expiring.EXPIRED_BYTES_MAX", 400)
    configure(writable, SETTINGS)
    async with writable.open() as store:
        await make_dead(store, "dead")
        await published(store, *[expiring(f"{number}", 1000) for number in range(40)])
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 40
        assert [copy["body"] for copy in dead(store)] == [str(number) for number in range(40)]
        assert len(events(store, "expired")) > 40 / 7


# ---- pages ----


def paged(
    message_id: int, in_ms: int, *, queues: tuple[int, ...] = (QUEUE_A,), due_ms: int | None = None
) -> bytes:
    properties: dict[str, Typed] = {} if due_ms is None else {"_AMQ_SCHED_DELIVERY": ("long", due_ms)}
    text = text_message(
        message_id,
        f"paged {message_id}",
        address="work",
        expiration=START_MS + in_ms,
        properties=properties,
    )
    return page_record(-1, 0, text, queues)


@pytest.mark.rule("S-97")
async def test_messages_of_pages_expire(writable: Writable) -> None:
    configure(writable, SETTINGS)
    both = (QUEUE_A, QUEUE_B)
    write_page(
        writable.little,
        1,
        [paged(2000, 1000), paged(2001, 9000, queues=both), paged(2002, 1000, queues=both)],
    )
    write_page(writable.little, 2, [paged(3000, 2000), paged(3001, 1000, due_ms=START_MS + 4000)])
    async with writable.open() as store:
        await make_dead(store, "dead")
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 3
        assert [copy["properties"]["_AMQ_ORIG_MESSAGE_ID"] for copy in dead(store)] == [2000, 2002, 2002]
        assert bodies_of(store, "work.a") == ["paged 2001", "paged 3000", "paged 3001"]
        assert bodies_of(store, "work.b") == ["paged 2001"]
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 1
        writable.clock.advance(by_ms=2000)
        assert await store.expire_due() == 1, "it was due only now"
        assert bodies_of(store, "work.a") == ["paged 2001"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["paged 2001"]
    assert len(on_disk(writable, "dead")) == 5


@pytest.mark.rule("S-97")
async def test_pages_that_go_while_messages_of_others_expire(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever consumes the rest of the pages meanwhile takes them away."""
    configured_by_broker(writable)
    for number in range(1, 5):
        write_page(writable.little, number, [paged(1000 * number, 1000), paged(1000 * number + 1, 9000)])
    async with writable.open() as store:
        forward, pages = Forwarding.forward, store.core.pages["work"]

        async def consuming(one: Forwarding, queue: StoreQueue, runs: Sequence[Run], why: Why) -> int:
            left = await forward(one, queue, runs, why)
            await store.acknowledge(A, [MessageId(1000 * n + i) for n in (1, 2, 3) for i in (0, 1)])
            while pages.numbers() != [4]:
                await trio.testing.wait_all_tasks_blocked()
            return left

        monkeypatch.setattr(Forwarding, "forward", consuming)
        writable.clock.advance(by_ms=1000)
        assert await store.expire_due() == 2
        assert bodies_of(store, "work.a") == ["paged 4001"]


async def test_pages_without_expired_messages_are_not_read_again(writable: Writable) -> None:
    configured_by_broker(writable)
    write_page(writable.little, 1, [paged(2000, 9000)])
    write_page(writable.little, 2, [paged(3000, 1000), paged(3001, 9000)])
    open_store(writable.root, clock=writable.clock).close()
    async with writable.open(index=True) as store:
        writable.clock.advance(by_ms=1000)
        pages = store.core.pages["work"]
        assert await store.expire_due() == 1
        pages.forget_scans()
        read_before = pages.bytes_scanned
        assert await store.expire_due() == 0
        assert pages.bytes_scanned == read_before
        writable.clock.advance(by_ms=8000)
        assert await store.expire_due() == 2


# ---- what the settings of an address make of an expiration ----

NEVER = ExpiryRule(False, -1, -1, -1)
NOW = 1_000_000


@pytest.mark.rule("S-98")
@pytest.mark.parametrize(
    ("rule", "stated", "given"),
    [
        (NEVER, 0, 0),
        (NEVER, NOW + 5, NOW + 5),
        (replace(NEVER, never=True), NOW + 5, 0),
        (replace(NEVER, never=True, delay_ms=10), 0, 0),
        (replace(NEVER, delay_ms=10), 0, NOW + 10),
        (replace(NEVER, delay_ms=0), 0, NOW),
        (replace(NEVER, delay_ms=10), NOW + 5, NOW + 5),
        (replace(NEVER, delay_ms=10, max_ms=3), NOW + 5, NOW + 5),
        (replace(NEVER, max_ms=10), 0, NOW + 10),
        (replace(NEVER, min_ms=10), 0, NOW + 10),
        (replace(NEVER, min_ms=10, max_ms=20), 0, NOW + 20),
        (replace(NEVER, min_ms=10, max_ms=20), NOW + 5, NOW + 10),
        (replace(NEVER, min_ms=10, max_ms=20), NOW + 15, NOW + 15),
        (replace(NEVER, min_ms=10, max_ms=20), NOW + 25, NOW + 20),
    ],
)
def test_rules(rule: ExpiryRule, stated: int, given: int) -> None:
    assert rule.expiration_ms(stated, NOW) == given


@pytest.mark.rule("S-98")
@pytest.mark.parametrize("name", ["in.txt", "in.json", "in.jsonl", "whole.bin"])
async def test_every_framing_gets_the_delay(writable: Writable, name: str) -> None:
    configure(writable, '[address-settings."work"]\nexpiry-delay = 7000\n')
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", name, b'{"body": "x"}\n')
        (line,) = [json.loads(one) for one in lines_of(store, "work.a")]
        assert line["expiration"] == START_MS + 7000


@pytest.mark.rule("S-98")
async def test_an_amqp_message_says_so_itself(writable: Writable) -> None:
    configure(writable, '[address-settings."work"]\nmax-expiry-delay = 500\n')
    async with writable.open() as store:
        bare = {"amqp": {"body": {"section": "value", "value": {"t": "string", "v": "bare"}}}}
        await published(store, AMQP, {**AMQP, "largeMessage": True}, bare)
        lines = [json.loads(one) for one in lines_of(store, "work.a")]
    for line in lines:
        assert line["expiration"] == START_MS + 500
        assert line["amqp"]["properties"]["absoluteExpiryTime"] == {"t": "timestamp", "v": START_MS + 500}
        assert "ttl" not in line["amqp"].get("header", {})


@pytest.mark.rule("S-98")
@pytest.mark.parametrize(
    ("setting", "wanted_ms"),
    [("", 5000), ("max-expiry-delay = 500", 500), ("expiry-delay = 9", 5000), ("no-expiry = true", 0)],
)
async def test_how_long_an_amqp_message_lives_counts_from_its_arrival(
    writable: Writable, setting: str, wanted_ms: int
) -> None:
    configure(writable, f'[address-settings."work"]\n{setting}\n' if setting else "")
    amqp = {"header": {"ttl": 5000}, "body": {"section": "value", "value": "x"}}
    async with writable.open() as store:
        writable.clock.advance(by_ms=100)
        await published(store, {"amqp": amqp}, {"amqp": amqp, "largeMessage": True})
        lines = [json.loads(one) for one in lines_of(store, "work.a")]
    wanted = START_MS + 100 + wanted_ms if wanted_ms else None
    assert [line.get("expiration") for line in lines] == [wanted, wanted]
    assert [line["amqp"]["header"].get("ttl") for line in lines] == [5000 if wanted_ms == 5000 else None] * 2


@pytest.mark.rule("S-98")
async def test_settings_that_are_changed_count_from_the_next_message_on(writable: Writable) -> None:
    async with writable.open() as store:
        (first,) = await published(store, {"body": "x"})
        await store.set_attribute("work", None, "user.journalfs.expiry-delay", b"100")
        await published(store, {"body": "y"})
        lines = [json.loads(one) for one in lines_of(store, "work.a")]
        assert [line.get("expiration") for line in lines] == [None, START_MS + 100]
        assert MessageId(lines[0]["id"]) == first


async def test_what_is_taken_while_others_expire_leaves_once(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two steps of a scan somebody removes what the second was to send on. All are of one page
    transaction, which must not count it twice.
    """
    monkeypatch.setattr(expiring_module, "EXPIRED_MESSAGES_MAX", 1)
    configure(writable, SETTINGS + "max-size-messages = 0\n")
    async with writable.open() as store:
        await make_dead(store, "dead")
        lines = [expiring("first", 1000), expiring("second", 1000), {"body": "stays"}]
        _, second, _ = await published(store, *lines)
        writable.clock.advance(by_ms=1000)
        forward = Forwarding.forward

        async def remove_then_forward(
            one: Forwarding, queue: StoreQueue, runs: Sequence[Run], why: Why
        ) -> int:
            left = await forward(one, queue, runs, why)
            await store.acknowledge(A, [second])
            return left

        monkeypatch.setattr(Forwarding, "forward", remove_then_forward)
        expired = await store.expire_due()
        assert bodies_of(store, "work.a") == ["stays"]
        assert expired == 1
        assert [copy["body"] for copy in dead(store)] == ["first"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["stays"]


@pytest.mark.rule("S-97", "S-118")
@pytest.mark.parametrize("protocol", ["CORE", "AMQP"])
async def test_an_expiration_below_zero_is_over(writable: Writable, protocol: str) -> None:
    """As now without it is more than nothing; but near the end of 64 bits that wraps around."""
    configure(writable, SETTINGS)
    lines = [
        {"body": str(time_ms), "protocol": protocol, "expiration": time_ms}
        for time_ms in (-5, -(2**62), -9_223_370_241_209_648_000)
    ]
    async with writable.open() as store:
        await make_dead(store, "dead")
        await published(store, *lines)
        consumer = store.consumer(A)
        delivery = consumer.take()
        assert delivery is not None
        assert json.loads(bytes(delivery.line.read(0, 10_000)))["body"] == lines[2]["body"]
        await delivery.give_back(failed=False)
        await consumer.close()
        assert await store.expire_due() == 2
        assert [copy["body"] for copy in dead(store)] == [lines[0]["body"], lines[1]["body"]]
