"""Last-value queues and rings: what leaves when something comes, in memory, on disk, and after a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journalfs.broker.consume.delivering import Consumer, Delivery
from journalfs.errors import LastValueRefused, NoSuchName
from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.store.conftest import START_MS
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, bodies_of, ids_of, lines_of, on_disk, queue_of
from tests.store.writing.test_forwarding import configure

A, B = ("work", "work.a"), ("work", "work.b")


async def become(store: WritingStore, queue: tuple[str, str], **settings: object) -> None:
    for name, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        await store.set_attribute(*queue, f"user.journalfs.{name.replace('_', '-')}", text.encode())


async def send(store: WritingStore, *lines: dict[str, Any], queue: str | None = "work.a") -> None:
    await publish_file(
        store, "work", queue, "in.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode()
    )


def valued(body: str, value: object, name: str = "_AMQ_LVQ_NAME") -> dict[str, Any]:
    return {"body": body, "properties": {name: value}}


@pytest.mark.rule("S-107")
async def test_a_new_value_takes_the_place_of_the_old(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, last_value=True)
        await send(store, valued("a1", "a"), valued("b1", "b"), {"body": "none"})
        await send(store, valued("a2", "a"))
        assert bodies_of(store) == ["b1", "none", "a2"]
        await send(store, valued("a3", "a"), valued("a4", "a"), valued("b2", "b"))
        assert bodies_of(store) == ["none", "a4", "b2"], "in one transaction, too"
        assert queue_of(store, "work.a").status()["messagesReplaced"] == 4
        await send(store, {"body": "none"})
        writer = store.journals.messages
        assert writer.totals().live_records == 4, "what was replaced has no record any more"
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["none", "a4", "b2", "none"]
    async with writable.open() as store:
        await send(store, valued("a5", "a"))
        assert bodies_of(store) == ["none", "b2", "none", "a5"], "what was there before is known"


@pytest.mark.rule("S-107")
@pytest.mark.parametrize("index", [True, False])
async def test_a_key_of_its_own(writable: Writable, index: bool) -> None:
    async with writable.open(index=index) as store:
        await become(store, A, last_value=True, last_value_key="stock")
        await send(store, valued("1", 7, "stock"), valued("2", "7", "stock"), valued("3", True, "stock"))
        assert bodies_of(store) == ["2", "3"], "as text they are the same"
        await send(store, valued("4", "7"), valued("5", "true", "stock"))
        assert bodies_of(store) == ["4", "5"], "without the key the name counts that every such queue knows"


@pytest.mark.rule("S-107")
async def test_numbers_are_texts_as_java_writes_them(writable: Writable) -> None:
    numbers = [
        ("float", 0.1, "0.1"),
        ("double", 1e8, "1.0E8"),
        ("double", 0.5, "0.5"),
        ("float", 1e-4, "1.0E-4"),
    ]
    async with writable.open() as store:
        await become(store, A, last_value=True)
        for kind, number, text in numbers:
            line = valued(kind, number) | {"propertyTypes": {"_AMQ_LVQ_NAME": kind}}
            await send(store, line, valued(text, text))
        assert bodies_of(store) == [text for _, _, text in numbers]


NO_TEXT = [
    {"protocol": "AMQP", "body": "x", "properties": {"stock": 7}},
    {"protocol": "AMQP", "body": "x", "properties": {"stock": True}},
    {"protocol": "AMQP", "body": "x", "properties": {"_AMQ_LVQ_NAME": 7}},
    {"body": "x", "properties": {"stock": "AAE="}, "propertyTypes": {"stock": "bytes"}},
]


@pytest.mark.rule("S-107")
@pytest.mark.parametrize("line", NO_TEXT)
async def test_what_no_broker_loads_is_refused(writable: Writable, line: dict[str, Any]) -> None:
    """It takes a key for a string there, and fails at the message when it is none."""
    amqp = {"protocol": "AMQP", "body": "text", "properties": {"stock": "7", "_AMQ_LVQ_NAME": 7}}
    async with writable.open() as store:
        await become(store, A, last_value_key="stock")
        await send(store, line, queue="work.b")
        for queue in (None, "work.a"):
            with pytest.raises(LastValueRefused, match=r"work::work\.a: property .* is no text"):
                await send(store, amqp, line, queue=queue)
        with pytest.raises(LastValueRefused):
            await store.move(B, ids_of(store, "work.b"), A)
        assert (bodies_of(store), bodies_of(store, "work.b")) == ([], ["x"])
        await send(store, amqp, {"body": "none"}, valued("7", 7, "stock"))
        assert bodies_of(store) == ["none", "7"]


@pytest.mark.rule("S-107")
async def test_a_key_is_enough(writable: Writable) -> None:
    """A broker would drop all but the last when it starts."""
    async with writable.open() as store:
        await become(store, A, last_value_key="stock")
        await send(store, valued("1", "a", "stock"), valued("2", "a", "stock"))
        await send(store, valued("3", "b", "stock"), valued("4", "a", "stock"))
        assert bodies_of(store) == ["3", "4"]


@pytest.mark.rule("S-107")
async def test_amqp_messages(writable: Writable) -> None:
    def line(text: str) -> dict[str, Any]:
        value = {"section": "value", "value": {"t": "string", "v": text}}
        pairs = [[{"t": "string", "v": "key"}, {"t": "string", "v": "k"}]]
        return {"amqp": {"applicationProperties": pairs, "body": value}}

    async with writable.open() as store:
        await become(store, A, last_value=True, last_value_key="key")
        await send(store, line("one"), valued("core", "k", "key"))
        await send(store, line("two"))
        assert bodies_of(store) == ["two"]


async def test_only_in_the_queue_that_is_of_this_kind(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, last_value=True)
        for number in range(3):
            await send(store, valued(f"{number}", "v"), queue=None)
        assert bodies_of(store) == ["2"]
        assert bodies_of(store, "work.b") == ["0", "1", "2"]
        # Both queues have the last message, so it is copied.
        assert await store.move(B, ids_of(store, "work.b")[:2], A) == 2
        assert bodies_of(store) == ["1"]
        assert await store.acknowledge(A, ids_of(store)) == 1
        await send(store, valued("3", "v"))
        assert bodies_of(store) == ["3"]
        assert bodies_of(store, "work.b") == ["2"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["3"]


@pytest.mark.rule("S-107")
async def test_what_is_not_due_takes_no_place(writable: Writable) -> None:
    later = {"_AMQ_SCHED_DELIVERY": START_MS + 1000, "_AMQ_LVQ_NAME": "v"}
    async with writable.open() as store:
        await become(store, A, last_value=True)
        await send(store, valued("1", "v"))
        await send(store, {"body": "later", "properties": later})
        await send(store, valued("2", "v"))
        assert bodies_of(store) == ["later", "2"]


def taken(consumer: Consumer) -> Delivery:
    delivery = consumer.take()
    assert delivery is not None
    return delivery


@pytest.mark.rule("S-107")
@pytest.mark.parametrize("failed", [True, False])
async def test_what_is_given_back_to_a_full_ring_leaves_it(writable: Writable, failed: bool) -> None:
    async with writable.open() as store:
        await become(store, A, ring_size=3)
        await send(store, *[{"body": f"{number}"} for number in (1, 2, 3)])
        delivery = taken(store.consumer(A))
        await send(store, *[{"body": f"{number}"} for number in (4, 5, 6)])
        assert bodies_of(store) == ["1", "4", "5", "6"], "a reader has it: it cannot go, and does not count"
        await delivery.give_back(failed=failed)
        assert bodies_of(store) == ["4", "5", "6"]
        assert queue_of(store, "work.a").status()["messagesReplaced"] == 3
        await send(store, {"body": "7"})
        assert bodies_of(store) == ["5", "6", "7"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["5", "6", "7"]


@pytest.mark.rule("S-107")
async def test_what_is_given_back_to_a_ring_with_room_takes_its_place_again(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, ring_size=3)
        await send(store, *[{"body": f"{number}"} for number in (1, 2, 3)])
        consumer = store.consumer(A)
        first, second = taken(consumer), taken(consumer)
        await send(store, {"body": "4"}, {"body": "5"}, {"body": "6"})
        assert bodies_of(store) == ["1", "2", "4", "5", "6"], "3 was the first of those nobody has"
        assert await store.acknowledge(A, ids_of(store)[-2:]) == 2
        await first.give_back(failed=True)
        await second.give_back(failed=True)
        assert bodies_of(store) == ["1", "2", "4"]
        await send(store, {"body": "7"})
        assert bodies_of(store) == ["2", "4", "7"], "the first to be delivered leaves first"


@pytest.mark.rule("S-107")
@pytest.mark.parametrize("failed", [True, False])
async def test_what_is_given_back_is_nothing_beside_a_later_value(writable: Writable, failed: bool) -> None:
    async with writable.open() as store:
        await become(store, A, last_value=True)
        await send(store, valued("old", "v"), valued("other", "w"))
        consumer = store.consumer(A)
        old = taken(consumer)
        await send(store, valued("new", "v"))
        assert bodies_of(store) == ["old", "other", "new"]
        await old.give_back(failed=failed)
        assert bodies_of(store) == ["other", "new"]
        other = taken(consumer)
        await other.give_back(failed=failed)
        assert bodies_of(store) == ["other", "new"], "nothing came meanwhile: it is the last one"
        await send(store, valued("newer", "v"), valued("another", "w"))
        assert bodies_of(store) == ["newer", "another"]


@pytest.mark.rule("S-107")
@pytest.mark.parametrize("old_first", [True, False])
async def test_of_values_that_are_given_back_the_last_stays(writable: Writable, old_first: bool) -> None:
    async with writable.open() as store:
        await become(store, A, last_value=True)
        await send(store, valued("old", "v"))
        consumer = store.consumer(A)
        held = [taken(consumer)]
        await send(store, valued("new", "v"))
        held.append(taken(consumer))
        for delivery in held if old_first else held[::-1]:
            await delivery.give_back(failed=True)
        assert bodies_of(store) == ["new"]
        await send(store, valued("newest", "v"))
        assert bodies_of(store) == ["newest"]


async def due(store: WritingStore, writable: Writable) -> None:
    """The time of what is scheduled comes, and the store looks."""
    writable.clock.advance(by_ms=1000)
    await store.follow_due()


@pytest.mark.rule("S-107")
async def test_a_full_ring_has_no_place_for_what_becomes_due(writable: Writable) -> None:
    later = {"body": "later", "scheduledTime": START_MS + 1000}
    async with writable.open() as store:
        await become(store, A, ring_size=2)
        await send(store, {"body": "1"}, later, {"body": "2"})
        assert bodies_of(store) == ["1", "later", "2"]
        await due(store, writable)
        assert bodies_of(store) == ["1", "2"]
        await send(
            store, later | {"scheduledTime": START_MS + 2000}, later | {"scheduledTime": START_MS + 3000}
        )
        assert await store.acknowledge(A, ids_of(store)[:1]) == 1
        await store.set_message_attribute(A, ids_of(store)[1], "user.journalfs.scheduledTime", b"1")
        await store.follow_due()
        assert bodies_of(store) == ["2", "later", "later"], "there is room for one"
    writable.clock.advance(by_ms=1000)
    async with writable.open() as store:
        await store.follow_due()  # as it does when it begins
        await due(store, writable)
        assert bodies_of(store) == ["2", "later"], "over a mount, too"
        await send(store, {"body": "3"})
        assert bodies_of(store) == ["later", "3"]


@pytest.mark.rule("S-107")
async def test_what_becomes_due_takes_the_place_of_its_value(writable: Writable) -> None:
    later = {"_AMQ_SCHED_DELIVERY": START_MS + 1000, "_AMQ_LVQ_NAME": "v"}
    async with writable.open() as store:
        await become(store, A, last_value=True)
        await send(store, {"body": "later", "properties": later}, valued("1", "v"), valued("other", "w"))
        await due(store, writable)
        assert bodies_of(store) == ["later", "other"]
        await send(store, valued("2", "v"))
        assert bodies_of(store) == ["other", "2"]


@pytest.mark.rule("S-107")
async def test_what_waits_for_its_next_attempt_counts_for_nothing(writable: Writable) -> None:
    configure(writable, "[address-settings.work]\nredelivery-delay = 1000\n")
    async with writable.open() as store:
        await become(store, A, ring_size=2)
        await send(store, {"body": "1"})
        await taken(store.consumer(A)).give_back(failed=True)
        await send(store, {"body": "2"}, {"body": "3"})
        assert bodies_of(store) == ["1", "2", "3"]
        await due(store, writable)
        assert bodies_of(store) == ["2", "3"]


@pytest.mark.rule("S-107")
async def test_a_ring_keeps_so_many(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, ring_size=3)
        await send(store, *[{"body": f"{number}"} for number in range(5)])
        assert bodies_of(store) == ["2", "3", "4"]
        await send(store, {"body": "5"})
        assert bodies_of(store) == ["3", "4", "5"]
        assert await store.acknowledge(A, ids_of(store)[:1]) == 1
        await send(store, {"body": "6"})
        assert bodies_of(store) == ["4", "5", "6"], "there was room"
        await publish_file(store, "work", "work.a", "in.txt", b"7\n8\n")
        assert bodies_of(store) == ["6", "7", "8"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["6", "7", "8"]
    async with writable.open() as store:
        await send(store, {"body": "9"}, queue=None)
        assert bodies_of(store) == ["7", "8", "9"]


@pytest.mark.rule("S-107")
async def test_a_ring_lets_go_of_what_would_be_delivered_next(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, ring_size=2)
        await send(store, {"body": "low", "priority": 1}, {"body": "high", "priority": 8})
        await send(store, {"body": "middle"})
        assert bodies_of(store) == ["low", "middle"]
        await send(store, {"body": "highest", "priority": 9})
        assert bodies_of(store) == ["low", "middle"], "and if it is the new one"


@pytest.mark.rule("S-107")
async def test_what_a_new_value_replaced_takes_no_place_in_the_ring(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, last_value=True, ring_size=3)
        await send(store, {"body": "1"}, valued("2", "v"), {"body": "3"})
        high, last = {"body": "4", "priority": 9}, valued("5", "v") | {"priority": 9}
        await send(store, high, last)
        assert bodies_of(store) == ["1", "3", "5"], "of 1 to 4 the highest left, and then 5 replaced 2"


@pytest.mark.rule("S-107")
async def test_a_ring_without_room_keeps_nothing(writable: Writable) -> None:
    async with writable.open() as store:
        await send(store, {"body": "before"})
        await become(store, A, ring_size=0)
        assert bodies_of(store) == ["before"]
        for queue in ("work.a", None):
            await send(store, {"body": "1"}, {"body": "2"}, queue=queue)
            assert bodies_of(store) == []
        assert bodies_of(store, "work.b") == ["1", "2"]
        assert queue_of(store, "work.a").status()["messagesReplaced"] == 5
    assert on_disk(writable, "work.a") == []


async def test_a_ring_that_became_smaller(writable: Writable) -> None:
    async with writable.open() as store:
        await send(store, *[{"body": f"{number}"} for number in range(5)])
        await become(store, A, ring_size=2)
        assert len(bodies_of(store)) == 5
        await send(store, {"body": "5"})
        assert bodies_of(store) == ["4", "5"]
        await become(store, A, ring_size=-1)
        await send(store, {"body": "6"})
        assert bodies_of(store) == ["4", "5", "6"]


@pytest.mark.rule("S-107")
async def test_a_last_value_queue_that_becomes_a_ring_too(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, last_value=True)
        await send(store, valued("1", "a"), valued("2", "b"))
        await become(store, A, ring_size=1)
        await send(store, valued("3", "c"))
        assert bodies_of(store) == ["3"]
        await become(store, A, ring_size=-1)
        await send(store, valued("4", "d"), valued("5", "c"))
        assert bodies_of(store) == ["4", "5"], "it is a last-value queue as before"


@pytest.mark.rule("S-107")
async def test_a_ring_that_becomes_a_last_value_queue_too(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, ring_size=5)
        await send(store, valued("1", "a", "stock"), valued("2", "a", "stock"))
        await become(store, A, last_value_key="stock")
        await send(store, valued("3", "a", "stock"), valued("4", "a", "stock"))
        assert bodies_of(store) == ["4"]


async def test_large_bodies_go_with_their_messages(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, ring_size=1)
        for number in range(3):
            await send(store, {"body": f"{number}", "largeMessage": True})
        (kept,) = ids_of(store)
    assert [file.name for file in (writable.root / "large-messages").iterdir()] == [f"{kept}.msg"]


async def test_a_publication_that_fails_replaces_nothing(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, last_value=True, ring_size=2)
        await send(store, valued("1", "v"), valued("2", "w"))
        room = store.journals.messages.record_bytes_max // 2 * "x"
        too_large = {"body": "f", "largeMessage": True, "properties": {"p": room}}
        with pytest.raises(Exception, match="a journal record of"):
            await send(store, valued("3", "v"), valued("4", "z"), too_large)
        assert bodies_of(store) == ["1", "2"]
        await send(store, valued("5", "v"))
        assert bodies_of(store) == ["2", "5"]
        await send(store, valued("6", "z"))
        assert bodies_of(store) == ["5", "6"]


async def test_queues_that_are_made_of_this_kind(writable: Writable) -> None:
    defaults = "default-last-value-queue = true\ndefault-last-value-key = 'key'\ndefault-ring-size = 7\n"
    more = (
        "default-non-destructive = true\ndefault-exclusive-queue = true\nauto-delete-created-queues = true\n"
    )
    configure(writable, f"[address-settings.'#']\n{defaults}{more}auto-delete-queues-delay = 9\n")
    async with writable.open() as store:
        await store.create_queue("work", "made")
        binding = queue_of(store, "made").model.binding
        assert (binding.last_value, binding.last_value_key, binding.ring_size) == (True, "key", 7)
        assert (binding.non_destructive, binding.exclusive) == (True, True)
        assert (binding.auto_delete, binding.auto_delete_delay_ms, binding.auto_created) == (True, 9, False)
        await send(store, valued("1", "v", "key"), valued("2", "v", "key"), queue="made")
        assert bodies_of(store, "made") == ["2"]


async def test_dead_letters_in_a_ring(writable: Writable) -> None:
    configure(writable)
    async with writable.open() as store:
        await store.create_address("dead")
        await store.create_queue("dead", "dead")
        await become(store, ("dead", "dead"), ring_size=2)
        await send(store, *[{"body": f"{number}"} for number in range(4)])
        assert await store.send_to_dead_letters(A, ids_of(store)) == 4
        assert [json.loads(line)["body"] for line in lines_of(store, "dead", "dead")] == ["2", "3"]


@pytest.mark.rule("S-107")
async def test_what_is_removed_from_a_non_destructive_queue_is_gone(writable: Writable) -> None:
    async with writable.open() as store:
        await become(store, A, non_destructive=True)
        await send(store, {"body": "1"}, {"body": "2"})
        assert await store.acknowledge(A, ids_of(store)[:1]) == 1
        assert bodies_of(store) == ["2"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["2"]


@pytest.mark.rule("S-108")
async def test_nothing_is_made_by_itself(writable: Writable) -> None:
    configure(writable, "[address-settings.'#']\nauto-create-queues = true\nauto-create-addresses = true\n")
    async with writable.open() as store:
        for address, queue in (("none", None), ("work", "none")):
            with pytest.raises(NoSuchName):
                store.publisher(address, queue, "in.txt")


async def paged_and_then(store: WritingStore, **settings: object) -> None:
    """Four messages of which the last three are in pages; then the queue becomes one of this kind."""
    await store.set_attribute("work", None, "user.journalfs.max-size-messages", b"1")
    for number in range(4):
        await send(store, valued(f"{number}", f"v{number}"))
    await become(store, A, **settings)


@pytest.mark.rule("S-110")
@pytest.mark.parametrize("settings", [{"last_value": True}, {"ring_size": 2}], ids=["last-value", "ring"])
async def test_an_address_that_has_pages_goes_on_with_them(
    writable: Writable, settings: dict[str, object]
) -> None:
    """Who reads the store again takes what is in pages for newer than what is in the journal."""
    async with writable.open() as store:
        await paged_and_then(store, **settings)
        await send(store, valued("new", "v2"))
        await send(store, {"body": "plain"}, queue=None)
        paged = store.core.paged("work")
        assert paged is not None
        assert paged.pages_now()
        assert bodies_of(store)[-2:] == ["new", "plain"]
        assert bodies_of(store, "work.b")[-1] == "plain"
        await store.acknowledge(A, ids_of(store))
        await store.acknowledge(B, ids_of(store, "work.b"))
    async with writable.open() as store:
        await send(store, valued("1", "v"), valued("2", "v"))
        await send(store, valued("3", "w"), valued("4", "w"))
        assert bodies_of(store)[-1] == "4"
        assert len(bodies_of(store)) == 2, "nothing is in pages any more, and it begins none"


@pytest.mark.rule("S-110")
async def test_what_is_moved_to_an_address_that_has_pages_follows_them(writable: Writable) -> None:
    async with writable.open() as store:
        await store.create_address("other")
        await store.create_queue("other", "others")
        publisher = store.publisher("other", None, "in.jsonl")
        await publisher.write(json.dumps(valued("moved", "v2")).encode() + b"\n")
        await paged_and_then(store, last_value=True)
        (line,) = lines_of(store, "others", "other")
        assert await store.move(("other", "others"), [MessageId(json.loads(line)["id"])], A) == 1
        assert bodies_of(store) == ["0", "1", "2", "3", "moved"]
        assert lines_of(store, "others", "other") == []
    async with writable.open() as store:
        assert bodies_of(store) == ["0", "1", "2", "3", "moved"]
