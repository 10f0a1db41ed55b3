"""Competing consumers of a queue: order, acknowledging, giving back, and what a queue's settings ask."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
import trio
import trio.testing

from journalfs.broker.consume.delivering import Consumer, Delivery
from journalfs.errors import HeldByReaders, TooManyConsumers
from journalfs.ids import MessageId
from journalfs.live.content import QueueContent
from journalfs.store.write.store import WritingStore
from tests.store.publishing import publish_file
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import Writable, configured_by_broker, lines_of, on_disk, queue_of
from tests.store.writing.test_forwarding import configure, dead, make_dead, published

A, B = ("work", "work.a"), ("work", "work.b")


def body(delivery: Delivery | None) -> Any:
    assert delivery is not None
    return json.loads(bytes(delivery.line.read(0, delivery.line.size_bytes))).get("body")


def texts(*bodies: str, **headers: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "body": text, **headers} for text in bodies]


def shown_count(delivery: Delivery) -> int | None:
    line = json.loads(bytes(delivery.line.read(0, delivery.line.size_bytes)))
    count = line.get("deliveryCount")
    assert count is None or isinstance(count, int)
    return count


async def drained(consumer: Consumer) -> list[Any]:
    """Take and acknowledge all that is there."""
    found = []
    while (delivery := consumer.take()) is not None:
        found.append(body(delivery))
        await delivery.acknowledge()
    return found


def status(store: WritingStore) -> dict[str, Any]:
    return dict(queue_of(store, "work.a").status())


def held(store: WritingStore) -> list[str]:
    source = queue_of(store, "work.a").delivering().open_all()
    return [json.loads(line)["body"] for line in bytes(source.read(0, source.size_bytes)).splitlines()]


async def setting(store: WritingStore, name: str, value: str, queue: str | None = "work.a") -> None:
    await store.set_attribute("work", queue, f"user.journalfs.{name}", value.encode())


@pytest.mark.rule("S-118")
async def test_priority_then_arrival_then_pages_and_nothing_before_its_time(writable: Writable) -> None:
    later = writable.clock.now_ms() + 5_000
    async with writable.open() as store:
        await published(
            store,
            *texts("a", "b"),
            *texts("high", priority=9),
            *texts("later", scheduledTime=later),
            *texts("low", priority=0),
        )
    write_page(writable.little, 1, [small(900)])
    async with writable.open() as store:
        consumer = store.consumer(A)
        assert await drained(consumer) == ["high", "a", "b", "low", "paged 900"]
        assert consumer.take() is None
        writable.clock.advance(by_ms=5_000)
        assert await drained(consumer) == ["later"]
        await consumer.close()
        assert lines_of(store, "work.a") == []
    assert on_disk(writable, "work.a") == []


@pytest.mark.rule("S-118")
async def test_what_overtakes_is_delivered_first(writable: Writable) -> None:
    async with writable.open() as store:
        await published(store, *texts("one", "two", "three"))
        consumer = store.consumer(A)
        first = consumer.take()
        await published(store, *texts("four"), *texts("urgent", priority=8))
        assert body(first) == "one"
        assert await drained(consumer) == ["urgent", "two", "three", "four"]
        await first.acknowledge()  # type: ignore[union-attr]
        assert lines_of(store, "work.a") == []


@pytest.mark.rule("S-119")
async def test_what_is_held_is_shown_and_left_alone(writable: Writable) -> None:
    async with writable.open() as store:
        ids = await published(store, *texts("one", "two"))
        consumer, other = store.consumer(A), store.consumer(A)
        delivery = consumer.take()
        assert held(store) == ["one"]
        assert [json.loads(line)["body"] for line in lines_of(store, "work.a")] == ["one", "two"]
        assert status(store)["deliveringCount"] == 1
        assert status(store)["messageCount"] == 2
        assert body(other.take()) == "two"
        assert other.take() is None
        with pytest.raises(HeldByReaders) as refused:
            await store.acknowledge(A, ids[:1])
        assert refused.value.errno == errno.EBUSY
        with pytest.raises(HeldByReaders):
            await store.move(A, ids[:1], B)
        with pytest.raises(HeldByReaders):
            await store.acknowledge_part(A, "_tail.jsonl")
        assert delivery is not None
        await delivery.acknowledge()
        assert held(store) == ["two"]
        assert [json.loads(line)["body"] for line in lines_of(store, "work.a")] == ["two"]


@pytest.mark.rule("S-120")
async def test_what_fails_comes_again_first_and_counted(writable: Writable) -> None:
    async with writable.open() as store:
        await published(store, *texts("one", "two", "three"))
        consumer = store.consumer(A)
        for attempts in range(3):
            delivery = consumer.take()
            assert body(delivery) == "one"
            assert delivery is not None
            assert delivery.count == attempts
            await delivery.give_back(failed=True)
        kept = consumer.take()
        assert kept is not None
        await kept.give_back(failed=False)
        assert held(store) == []
        assert json.loads(lines_of(store, "work.a")[0])["deliveryCount"] == 3
        assert await drained(consumer) == ["one", "two", "three"]
    async with writable.open() as store:
        assert lines_of(store, "work.a") == []


async def test_the_count_is_on_disk(writable: Writable) -> None:
    async with writable.open() as store:
        await published(store, *texts("one"))
        delivery = store.consumer(A).take()
        assert delivery is not None
        await delivery.give_back(failed=True)
        held_at_end = store.consumer(A).take()
        assert held_at_end is not None
    assert [one.get("deliveryCount") for one in on_disk(writable, "work.a")] == [1]


@pytest.mark.rule("S-121")
async def test_too_many_attempts_end_at_the_dead_letter_address(writable: Writable) -> None:
    configure(
        writable, '[address-settings."work"]\ndead-letter-address = "dead"\nmax-delivery-attempts = 2\n'
    )
    async with writable.open() as store:
        await make_dead(store, "dead")
        await published(store, *texts("one", "two"))
        consumer = store.consumer(A)
        for _ in range(2):
            delivery = consumer.take()
            assert body(delivery) == "one"
            assert delivery is not None
            await delivery.give_back(failed=True)
        assert await drained(consumer) == ["two"]
        (letter,) = dead(store)
        assert letter["body"] == "one"
        assert letter["properties"]["_AMQ_ORIG_QUEUE"] == "work.a"
        assert lines_of(store, "work.a") == []


@pytest.mark.rule("S-121")
async def test_a_paged_message_is_counted_in_memory(writable: Writable) -> None:
    configure(writable, '[address-settings."work"]\nmax-delivery-attempts = 2\n')
    configured_by_broker(writable)
    write_page(writable.little, 1, [small(900)])
    async with writable.open() as store:
        consumer = store.consumer(A)
        for attempts in (None, 1):
            delivery = consumer.take()
            assert body(delivery) == "paged 900"
            assert delivery is not None
            assert shown_count(delivery) == attempts
            message = queue_of(store, "work.a").message(MessageId(900))
            assert message is not None
            assert message.envelope().get("deliveryCount") == attempts
            await delivery.give_back(failed=True)
        assert consumer.take() is None
        assert lines_of(store, "work.a") == []


@pytest.mark.rule("S-120")
async def test_the_next_attempt_waits_longer_and_longer(writable: Writable) -> None:
    configure(
        writable,
        '[address-settings."work"]\nredelivery-delay = 1000\nredelivery-delay-multiplier = 3.0\n'
        "max-redelivery-delay = 5000\n",
    )
    async with writable.open() as store:
        await published(store, *texts("one"))
        consumer = store.consumer(A)
        for delay_ms in (1000, 3000, 5000, 5000):
            delivery = consumer.take()
            assert delivery is not None
            await delivery.give_back(failed=True)
            due = json.loads(lines_of(store, "work.a")[0])["scheduledTime"]
            assert due == writable.clock.now_ms() + delay_ms
            writable.clock.advance(by_ms=delay_ms - 1)
            assert consumer.take() is None
            writable.clock.advance(by_ms=1)
        assert await drained(consumer) == ["one"]


@pytest.mark.rule("S-120")
@pytest.mark.parametrize("spread", [0.0, 0.2])
async def test_a_delay_that_is_no_number_any_more_is_the_longest(writable: Writable, spread: float) -> None:
    configure(
        writable,
        '[address-settings."work"]\nredelivery-delay = 1000\nredelivery-delay-multiplier = 2.0\n'
        "max-redelivery-delay = 60000\nmax-delivery-attempts = -1\n"
        f"redelivery-collision-avoidance-factor = {spread}\n",
    )
    async with writable.open() as store:
        (message,) = await published(store, *texts("one"))
        rules = store.deliveries.rules
        for attempts in (100, 1_000, 5_000):
            assert rules.redelivery_delay_ms("work", attempts) == 60_000
        await store.set_message_attribute(A, message, "user.journalfs.deliveryCount", b"5000")
        delivery = store.consumer(A).take()
        assert delivery is not None
        await delivery.give_back(failed=True)
        waits = store.core.in_delivery.delayed(queue_of(store, "work.a").content.queue_id)
        assert list(waits.values()) == [writable.clock.now_ms() + 60_000], "too many attempts to be recorded"


@pytest.mark.rule("S-120")
async def test_a_paged_message_waits_too(writable: Writable) -> None:
    configure(writable, '[address-settings."work"]\nredelivery-delay = 1000\n')
    write_page(writable.little, 1, [small(900)])
    async with writable.open() as store:
        consumer = store.consumer(A)
        delivery = consumer.take()
        assert delivery is not None
        await delivery.give_back(failed=True)
        assert consumer.take() is None
        queue = queue_of(store, "work.a")
        assert status(store)["scheduledCount"] == 1
        assert len(queue.scheduled().listing()) == len(queue.listing()) == 1
        writable.clock.advance(by_ms=1000)
        assert status(store)["scheduledCount"] == 0
        assert len(queue.scheduled().listing()) == 0
        assert await drained(consumer) == ["paged 900"]


async def test_delays_may_be_spread(writable: Writable) -> None:
    configure(
        writable,
        '[address-settings."work"]\nredelivery-delay = 1000\nredelivery-collision-avoidance-factor = 0.5\n'
        "max-delivery-attempts = -1\nmax-redelivery-delay = 1400\n",
    )
    async with writable.open() as store:
        await published(store, *texts("one"))
        consumer, delays = store.consumer(A), set()
        for _ in range(20):
            delivery = consumer.take()
            assert delivery is not None
            await delivery.give_back(failed=True)
            now_ms = writable.clock.now_ms()
            delays.add(consumer.queue.due_ms(consumer) - now_ms if consumer.take() is None else 0)
            writable.clock.advance(by_ms=1_500)
    assert len(delays) > 3
    assert min(delays) >= 500
    assert max(delays) <= 1400


async def test_only_so_many_attempts_are_recorded(writable: Writable) -> None:
    configured_by_broker(writable)
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\nmax-redelivery-records = 1\n'
        '[address-settings."work"]\nmax-delivery-attempts = 3\n'
    )
    async with writable.open() as store:
        ids = await published(store, *texts("one"))
        consumer = store.consumer(A)
        for attempts in range(3):
            delivery = consumer.take()
            assert delivery is not None
            assert delivery.count == attempts
            assert shown_count(delivery) == (attempts or None), "its reader is told"
            await delivery.give_back(failed=True)
            on_lines = [json.loads(line).get("deliveryCount") for line in lines_of(store, "work.a")]
            assert on_lines == ([1] if attempts < 2 else []), "the lines of all show what is on disk"
            for message_id in ids if attempts < 2 else ():
                message = queue_of(store, "work.a").message(message_id)
                assert message is not None
                assert message.attributes()["user.journalfs.deliveryCount"] == b"%d" % (attempts + 1)


async def test_attempts_may_be_counted_before(writable: Writable) -> None:
    (writable.root / "journalfs.toml").write_text(
        f'journal-type = "{writable.backend}"\npersist-delivery-count-before-delivery = true\n'
    )
    async with writable.open() as store:
        await published(store, *texts("one"))
        delivery = await store.consumer(A).next()
        assert body(delivery) == "one"
    assert [one.get("deliveryCount") for one in on_disk(writable, "work.a")] == [1]


@pytest.mark.rule("S-122")
async def test_a_group_stays_with_its_reader(writable: Writable) -> None:
    async with writable.open() as store:
        await published(
            store,
            *texts("a1", groupId="a"),
            *texts("b1", groupId="b"),
            *texts("a2", groupId="a"),
            *texts("none"),
            *texts("b2", groupId="b"),
        )
        one, two = store.consumer(A), store.consumer(A)
        first, second = one.take(), two.take()
        assert (body(first), body(second)) == ("a1", "b1")
        assert await drained(two) == ["none", "b2"]
        assert await drained(one) == ["a2"]
        await published(store, *texts("a3", groupId="a"))
        assert two.take() is None
        await one.close()
        assert await drained(two) == ["a3"]


@pytest.mark.rule("S-122")
async def test_an_exclusive_queue_has_one_reader_at_a_time(writable: Writable) -> None:
    async with writable.open() as store:
        await setting(store, "exclusive", "true")
        await published(store, *texts("one", "two", "three"))
        one, two = store.consumer(A), store.consumer(A)
        first = one.take()
        assert body(first) == "one"
        assert two.take() is None
        assert first is not None
        await first.acknowledge()
        await one.close()
        assert await drained(two) == ["two", "three"]


@pytest.mark.rule("S-122")
async def test_as_many_readers_as_the_queue_allows(writable: Writable) -> None:
    async with writable.open() as store:
        await setting(store, "max-consumers", "1")
        consumer = store.consumer(A)
        with pytest.raises(TooManyConsumers) as refused:
            store.consumer(A)
        assert refused.value.errno == errno.EUSERS
        await consumer.close()
        assert store.consumer(A) is not None


@pytest.mark.rule("S-122")
async def test_the_last_reader_of_a_queue_may_purge_it(writable: Writable) -> None:
    async with writable.open() as store:
        await setting(store, "purge-on-no-consumers", "true")
        one, two = store.consumer(A), store.consumer(A)
        await published(store, *texts("one", "two"))
        await one.close()
        assert len(lines_of(store, "work.a")) == 2
        await two.close()
        assert lines_of(store, "work.a") == []


@pytest.mark.rule("S-122")
@pytest.mark.parametrize(("name", "value"), [("purge-on-no-consumers", "true"), ("enabled", "false")])
@pytest.mark.parametrize("queue", ["work.a", None])
async def test_a_queue_may_get_nothing(writable: Writable, name: str, value: str, queue: str | None) -> None:
    """Not while it is disabled, nor while nobody reads it and that would purge it."""
    async with writable.open() as store:
        await setting(store, name, value)
        await publish_file(store, "work", queue, "in.txt", b"one\n")
        await publish_file(store, "work", queue, "in.jsonl", b'{"type":"text","body":"two"}\n')
        assert lines_of(store, "work.a") == []
        assert len(lines_of(store, "work.b")) == (2 if queue is None else 0)
        assert [event["event"] for event in store.core.events].count("not-taken") == 1
        if name == "enabled":
            await setting(store, name, "true")
        else:
            store.consumer(A)
        await publish_file(store, "work", queue, "in.txt", b"three\n")
        assert [json.loads(line)["body"] for line in lines_of(store, "work.a")] == ["three"]


@pytest.mark.rule("S-122")
async def test_groups_may_be_shared_out_anew(writable: Writable) -> None:
    async with writable.open() as store:
        await setting(store, "group-rebalance", "true")
        await published(store, *texts("a1", "a2", "a3", groupId="a"))
        one = store.consumer(A)
        first = one.take()
        assert body(first) == "a1"
        two = store.consumer(A)
        assert body(two.take()) == "a2", "though a1 is not acknowledged"
        assert one.take() is None


@pytest.mark.rule("S-122")
async def test_and_wait_for_what_others_have(writable: Writable) -> None:
    async with writable.open() as store:
        await setting(store, "group-rebalance", "true")
        await setting(store, "group-rebalance-pause-dispatch", "true")
        await published(store, *texts("a1", "a2", "a3", groupId="a"))
        one = store.consumer(A)
        first = one.take()
        assert first is not None
        two = store.consumer(A)
        assert two.take() is None
        assert one.take() is None
        found: list[Any] = []

        async def read() -> None:
            found.append(body(await two.next()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            await first.acknowledge()
        assert found == ["a2"]
        assert one.take() is None


@pytest.mark.rule("S-122")
async def test_groups_may_share_buckets(writable: Writable) -> None:
    """Of one bucket all groups are one; without a bucket there are none."""
    async with writable.open() as store:
        await setting(store, "group-buckets", "1")
        await published(store, *texts("a1", groupId="a"), *texts("b1", groupId="b"))
        one, two = store.consumer(A), store.consumer(A)
        assert body(one.take()) == "a1"
        assert two.take() is None
        await setting(store, "group-buckets", "0")
        await published(store, *texts("a2", groupId="a"))
        assert body(two.take()) == "b1"


@pytest.mark.rule("S-122")
async def test_a_queue_may_wait_for_readers(writable: Writable) -> None:
    async with writable.open() as store:
        await setting(store, "consumers-before-dispatch", "2")
        await setting(store, "delay-before-dispatch", "1000")
        await published(store, *texts("one", "two"))
        one = store.consumer(A)
        assert one.take() is None
        writable.clock.advance(by_ms=1000)
        assert body(one.take()) == "one"
        await one.close()
        again, other = store.consumer(A), store.consumer(A)
        assert body(again.take()) == "two"
        assert other.take() is None


@pytest.mark.rule("S-122")
async def test_a_queue_that_keeps_what_it_delivers(writable: Writable) -> None:
    async with writable.open() as store:
        await setting(store, "non-destructive", "true")
        await published(store, *texts("one", "two"))
        one, two = store.consumer(A), store.consumer(A)
        assert await drained(one) == ["one", "two"]
        await published(store, *texts("three"))
        assert await drained(one) == ["three"]
        assert await drained(two) == ["one", "two", "three"]
        assert len(lines_of(store, "work.a")) == 3


@pytest.mark.rule("S-122")
async def test_a_paused_queue_delivers_nothing(writable: Writable) -> None:
    async with writable.open() as store:
        await published(store, *texts("one"))
        await setting(store, "paused", "true")
        consumer = store.consumer(A)
        got: list[Any] = []

        async def read() -> None:
            got.append(body(await consumer.next()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert got == []
            await setting(store, "paused", "false")
        assert got == ["one"]


@pytest.mark.rule("S-117")
async def test_a_reader_of_a_selection_takes_what_it_accepts(writable: Writable) -> None:
    async with writable.open() as store:
        await published(store, *texts("a", priority=1), *texts("b", priority=7), *texts("c", priority=8))
        consumer = store.consumer(A, ["JMSPriority > 5", "JMSPriority < 8"])
        assert await drained(consumer) == ["b"]
        assert await drained(store.consumer(A)) == ["c", "a"]


async def test_expired_messages_are_not_delivered(writable: Writable) -> None:
    async with writable.open() as store:
        await published(store, *texts("over", expiration=writable.clock.now_ms() + 10), *texts("lasting"))
        writable.clock.advance(by_ms=10)
        assert await drained(store.consumer(A)) == ["lasting"]


async def test_a_reader_is_woken_by_what_comes(writable: Writable) -> None:
    async with writable.open() as store:
        consumer, follower = store.consumer(A), queue_of(store, "work.a").follow()
        got: list[str] = []

        async def take() -> None:
            got.append("taken " + body(await consumer.next()))

        async def follow() -> None:
            line = await follower.next()
            assert line is not None
            got.append("seen " + json.loads(bytes(line.read(0, line.size_bytes)))["body"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            nursery.start_soon(follow)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await published(store, *texts("one"))
        assert sorted(got) == ["seen one", "taken one"]


@pytest.mark.rule("S-116")
async def test_a_follower_sees_what_comes_once(writable: Writable) -> None:
    async with writable.open() as store:
        await published(store, *texts("before"))
        follower = queue_of(store, "work.a").follow()
        selected = queue_of(store, "work.a").where("JMSPriority = 9").follow()
        seen: list[str] = []
        for number in range(5):
            await published(store, *texts(f"{number}"), *texts(f"high {number}", priority=9))
            if number % 2:
                writable.clock.advance(by_ms=20_000)  # what is in the tail becomes a part
                await store.look()
                await store.look()
            while (line := follower.take()) is not None:
                seen.append(json.loads(bytes(line.read(0, line.size_bytes)))["body"])
        assert seen == [text for number in range(5) for text in (f"{number}", f"high {number}")]
        high = []
        while (line := selected.take()) is not None:
            high.append(json.loads(bytes(line.read(0, line.size_bytes)))["body"])
        assert high == [f"high {number}" for number in range(5)]


async def test_a_queue_that_is_consumed_is_not_deleted(writable: Writable) -> None:
    async with writable.open() as store:
        consumer = store.consumer(A)
        with pytest.raises(HeldByReaders):
            await store.delete_queue(*A)
        await consumer.close()
        follower = queue_of(store, "work.a").follow()
        await store.delete_queue(*A)
        assert follower.ended
        assert await follower.next() is None


async def test_a_great_queue_is_gone_through_seldom(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journalfs.broker.consume.delivering.SUPPLY_MESSAGES_MAX", 100)
    async with writable.open() as store:
        await publish_file(
            store, "work", "work.a", "in", "".join(f"{number}\n" for number in range(1000)).encode()
        )
        consumer = store.consumer(A)
        fills = 0
        due = QueueContent.due

        def counted(content: QueueContent) -> Any:
            nonlocal fills
            fills += 1
            return due(content)

        monkeypatch.setattr(QueueContent, "due", counted)
        assert await drained(consumer) == [str(number) for number in range(1000)]
        assert fills <= 1000 // 100 + 2
