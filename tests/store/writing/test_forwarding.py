"""Dead letters: what becomes of messages that the store itself sends on."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.reference.amqp import Sections
from tests.store.conftest import START_MS
from tests.store.publishing import publish_file
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import Writable, configured_by_broker, lines_of, on_disk, queue_of

A = ("work", "work.a")
SETTINGS = '[address-settings."work"]\ndead-letter-address = "dead"\n'
CORE = {
    "type": "text",
    "body": "core",
    "priority": 7,
    "groupId": "g",
    "expiration": START_MS + 1000,
    "properties": {"_AMQ_ROUTING_TYPE": 0, "color": "red"},
    "propertyTypes": {"_AMQ_ROUTING_TYPE": "byte"},
    "deliveryCount": 3,
}
AMQP = {
    "amqp": {
        "header": {"durable": True, "ttl": {"t": "uint", "v": 1000}},
        "messageAnnotations": [
            [{"t": "symbol", "v": "x-opt-routing-type"}, {"t": "byte", "v": 0}],
            [{"t": "symbol", "v": "mine"}, {"t": "int", "v": 5}],
        ],
        "properties": {
            "to": "work",
            "subject": "s",
            "absoluteExpiryTime": {"t": "timestamp", "v": START_MS + 1000},
        },
        "body": {"section": "value", "value": {"t": "string", "v": "amqp"}},
    },
}


def configure(writable: Writable, settings: str = SETTINGS) -> None:
    path = writable.root / "journalfs.toml"
    path.write_text(path.read_text() + settings)


async def make_dead(store: WritingStore, *queues: str) -> None:
    await store.create_address("dead")
    for name in queues:
        await store.create_queue("dead", name)


async def published(store: WritingStore, *lines: dict[str, Any]) -> list[MessageId]:
    """Publish envelopes to `work.a`; their ids."""
    await publish_file(
        store, "work", "work.a", "in.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode()
    )
    return [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")]


def dead(store: WritingStore, queue: str = "dead") -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(store, queue, "dead")]


def events(store: WritingStore, identifier: str) -> list[dict[str, object]]:
    return [event for event in store.core.events if event["event"] == identifier]


@pytest.mark.rule("S-96")
async def test_a_core_message(writable: Writable) -> None:
    configure(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        (origin,) = await published(store, CORE)
        before = json.loads(lines_of(store, "work.a")[0])
        assert await store.send_to_dead_letters(A, [origin]) == 1
        assert not lines_of(store, "work.a")
        (copy,) = dead(store)
        assert copy["id"] != origin
        assert copy["address"] == "dead"
        assert copy["properties"] == {
            "color": "red",
            "_AMQ_GROUP_ID": "g",
            "_AMQ_ORIG_QUEUE": "work.a",
            "_AMQ_ORIG_ADDRESS": "work",
            "_AMQ_ORIG_MESSAGE_ID": origin,
            "_AMQ_ORIG_ROUTING_TYPE": 0,
        }
        assert copy["propertyTypes"] == {"_AMQ_ORIG_MESSAGE_ID": "long", "_AMQ_ORIG_ROUTING_TYPE": "byte"}
        assert "expiration" not in copy
        assert "deliveryCount" not in copy
        kept = ("type", "body", "priority", "timestamp", "groupId", "durable")
        assert [copy[key] for key in kept] == [before[key] for key in kept]
        assert queue_of(store, "work.a").status()["messagesKilled"] == 1
        (event,) = events(store, "dead-letters")
        assert (event["messages"], event["dropped"]) == (1, 0)
    (found,) = on_disk(writable, "dead")
    assert found["body"] == "core"
    assert on_disk(writable, "work.a") == []


@pytest.mark.rule("S-96")
async def test_an_amqp_message(writable: Writable) -> None:
    configure(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        (origin,) = await published(store, AMQP)
        assert await store.send_to_dead_letters(A, [origin]) == 1
        (copy,) = dead(store)
    assert "expiration" not in copy
    assert copy["amqp"]["header"] == {"durable": True}
    assert copy["amqp"]["properties"] == {"to": "dead", "subject": "s"}
    annotations = {key["v"]: value for key, value in copy["amqp"]["messageAnnotations"]}
    assert annotations == {
        "mine": {"t": "int", "v": 5},
        "x-opt-ORIG-QUEUE": {"t": "string", "v": "work.a"},
        "x-opt-ORIG-ADDRESS": {"t": "string", "v": "work"},
        "x-opt-ORIG-MESSAGE-ID": {"t": "long", "v": origin},
        "x-opt-ORIG-ROUTING-TYPE": {"t": "byte", "v": 0},
    }
    assert copy["extraProperties"]["_AMQ_AD"] == {"t": "string", "v": "dead"}
    assert copy["extraProperties"]["_AMQ_ORIG_MESSAGE_ID"] == {"t": "long", "v": origin}


@pytest.mark.parametrize("line", [CORE, AMQP], ids=["core", "amqp"])
async def test_a_large_message_gets_a_body_of_its_own(writable: Writable, line: dict[str, Any]) -> None:
    configure(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        (origin,) = await published(store, {**line, "largeMessage": True})
        directory = writable.root / "large-messages"
        body = (directory / f"{origin}.msg").read_bytes()
        assert await store.send_to_dead_letters(A, [origin]) == 1
        (copy,) = dead(store)
        assert copy["largeMessage"]
        assert "damage" not in copy
    (file,) = directory.iterdir()
    assert file.name == f"{copy['id']}.msg"
    if line is CORE:
        assert file.read_bytes() == body
    else:
        # A broker that makes a core message of it reads nothing else.
        before, after = Sections(body), Sections(file.read_bytes())
        assert before.properties is not None
        assert after.properties == {key: before.properties[key] for key in ("to", "subject")}
        assert after.header == {"durable": {"t": "boolean", "v": True}}
        assert (after.maps.keys(), after.value) == (before.maps.keys(), before.value)


async def test_messages_of_a_page(writable: Writable) -> None:
    configure(writable)
    write_page(writable.little, 1, [small(2000 + n) for n in range(3)])
    async with writable.open() as store:
        await make_dead(store, "dead")
        assert await store.send_to_dead_letters(A, [MessageId(2000), MessageId(2002)]) == 2
        assert [json.loads(line)["id"] for line in lines_of(store, "work.a")] == [2001]
        copies = dead(store)
        assert [copy["body"] for copy in copies] == ["paged 2000", "paged 2002"]
        assert [copy["properties"]["_AMQ_ORIG_MESSAGE_ID"] for copy in copies] == [2000, 2002]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["paged 2001"]
    assert [one["body"] for one in on_disk(writable, "dead")] == ["paged 2000", "paged 2002"]


@pytest.mark.rule("S-96")
async def test_what_was_due_is_due_where_it_goes(writable: Writable) -> None:
    """Whatever it says itself: the time of its queue was set to be over."""
    later_ms = START_MS + 60_000
    configure(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        (one,) = await published(store, {"body": "x", "properties": {"_AMQ_SCHED_DELIVERY": later_ms}})
        assert len(queue_of(store, "work.a").scheduled()) == 1
        await store.set_message_attribute(A, one, "user.journalfs.scheduledTime", b"0")
        assert await store.send_to_dead_letters(A, [one]) == 1
        (copy,) = dead(store)
        assert "scheduledTime" not in copy
        assert copy["properties"]["_AMQ_SCHED_DELIVERY"] == later_ms
    assert [one.get("scheduledTime", 0) for one in on_disk(writable, "dead")] == [0]


async def test_a_copy_of_a_copy_goes_to_queues_of_either_kind(writable: Writable) -> None:
    configure(writable)
    line = {
        "body": "x",
        "properties": {"_AMQ_ORIG_ROUTING_TYPE": 1},
        "propertyTypes": {"_AMQ_ORIG_ROUTING_TYPE": "byte"},
    }
    async with writable.open() as store:
        await make_dead(store, "dead.any", "dead")
        await store.set_attribute("dead", "dead.any", "user.journalfs.routing-type", b"ANYCAST")
        ids = await published(store, line, {"body": "y"})
        assert await store.send_to_dead_letters(A, ids) == 2
        for queue in ("dead", "dead.any"):
            found = dead(store, queue)
            assert [copy["body"] for copy in found] == ["x", "y"]
            assert found[0]["properties"]["_AMQ_ROUTING_TYPE"] == 1, "what its sender wanted, it says again"


@pytest.mark.rule("S-96")
@pytest.mark.parametrize("settings", ["", SETTINGS], ids=["no address", "no queue"])
async def test_nowhere_to_go(writable: Writable, settings: str) -> None:
    configure(writable, settings)
    configured_by_broker(writable)
    async with writable.open() as store:
        ids = await published(store, {"body": "x"}, {"body": "y", "largeMessage": True})
        assert await store.send_to_dead_letters(A, ids) == 2
        assert not lines_of(store, "work.a")
        (event,) = events(store, "dead-letters")
        assert (event["messages"], event["dropped"]) == (2, 2)
        assert queue_of(store, "work.a").status()["messagesKilled"] == 2
    assert not list((writable.root / "large-messages").iterdir())


async def test_a_filter_that_refuses_it_drops_it(writable: Writable) -> None:
    configure(writable)
    configured_by_broker(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        await store.set_attribute("dead", "dead", "user.journalfs.filter", b"color = 'red'")
        ids = await published(store, {"body": "x"}, CORE)
        assert await store.send_to_dead_letters(A, ids) == 2
        assert [copy["body"] for copy in dead(store)] == ["core"]
        (event,) = events(store, "dead-letters")
        assert (event["messages"], event["dropped"]) == (2, 1)


@pytest.mark.parametrize("line", [CORE, AMQP], ids=["core", "amqp"])
@pytest.mark.parametrize(("kind", "prefix"), [("dead-letter", "DLQ."), ("expiry", "EXP.")])
async def test_queues_that_are_made_for_them(
    writable: Writable, line: dict[str, Any], kind: str, prefix: str
) -> None:
    made = f'auto-create-{kind}-resources = true\n{kind}-queue-suffix = ".s"\n'
    configure(writable, f'[address-settings."work"]\n{kind}-address = "dead"\n' + made)
    name = f"{prefix}work.s"
    async with writable.open() as store:
        send = store.expire if kind == "expiry" else store.send_to_dead_letters
        (origin,) = await published(store, line)
        assert await send(A, [origin]) == 1
        (copy,) = dead(store, name)
        assert copy["address"] == "dead"
        queue = queue_of(store, name, "dead").model.binding
        assert (queue.auto_created, queue.auto_delete) == (True, True)
        assert queue.filter == "_AMQ_ORIG_ADDRESS = 'work'"
        assert store.core.bindings.addresses["dead"].binding.auto_created
        (origin,) = await published(store, line)
        assert await send(A, [origin]) == 1
        assert len(dead(store, name)) == 2, "it is there already"


@pytest.mark.rule("S-84", "S-96")
@pytest.mark.parametrize("line", [CORE, AMQP, CORE | {"largeMessage": True}], ids=["core", "amqp", "large"])
@pytest.mark.parametrize("kind", ["dead-letter", "expiry"])
async def test_what_is_moved_back_may_fail_again(writable: Writable, line: dict[str, Any], kind: str) -> None:
    """As dead letters that are retried do: the queue that was made for them takes what was sent there."""
    settings = f'{kind}-address = "dead"\nauto-create-{kind}-resources = true\n'
    configure(writable, f'[address-settings."work"]\n{settings}')
    name = f"{'EXP' if kind == 'expiry' else 'DLQ'}.work"
    async with writable.open() as store:
        send = store.expire if kind == "expiry" else store.send_to_dead_letters
        await published(store, line)
        for _ in range(3):
            ids = [MessageId(json.loads(one)["id"]) for one in lines_of(store, "work.a")]
            assert await send(A, ids) == 1
            (copy,) = dead(store, name)
            assert await store.move(("dead", name), [MessageId(copy["id"])], A) == 1
            (back,) = (json.loads(one) for one in lines_of(store, "work.a"))
            assert (back["address"], back["type"]) == ("work", copy["type"])


async def test_what_no_queue_takes_is_told(writable: Writable) -> None:
    configure(writable)
    configured_by_broker(writable)
    async with writable.open() as store:
        await store.create_address("dead")
        ids = await published(store, {"body": "x"})
        assert await store.send_to_dead_letters(A, ids) == 1
        (event,) = events(store, "dead-letters")
        assert str(event["message"]).endswith("1 dropped, since no queue of dead takes them")
        assert event["dropped"] == 1


async def test_what_cannot_be_read_stays(writable: Writable) -> None:
    configure(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        ids = await published(store, {"body": "x", "largeMessage": True}, {"body": "y"})
        (writable.root / "large-messages" / f"{ids[0]}.msg").unlink()
        for count in (1, 0):
            assert await store.send_to_dead_letters(A, ids) == count
            assert [json.loads(line)["id"] for line in lines_of(store, "work.a")] == [ids[0]]
        assert [copy["body"] for copy in dead(store)] == ["y"]
        (event,) = events(store, "not-forwarded")
        assert str(ids[0]) in str(event["message"])


async def test_duplicate_ids_are_remembered_where_it_goes(writable: Writable) -> None:
    configure(writable)
    line = {"body": "x", "duplicateId": "d"}
    async with writable.open() as store:
        await make_dead(store, "dead")
        ids = await published(store, line)
        assert await store.send_to_dead_letters(A, ids) == 1
        await publish_file(store, "dead", "dead", "in.jsonl", json.dumps(line).encode() + b"\n")
        assert len(dead(store)) == 1, "the id is known there now"
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "in.jsonl", b'{"body": "y", "duplicateId": "e"}\n')
        await publish_file(store, "dead", "dead", "in.jsonl", b'{"body": "z", "duplicateId": "e"}\n')
        ids = [MessageId(json.loads(one)["id"]) for one in lines_of(store, "work.a")]
        assert await store.send_to_dead_letters(A, ids) == 1
        assert [copy["body"] for copy in dead(store)] == ["x", "z", "y"], "it is taken all the same"


async def test_the_settings_of_where_it_goes_say_when_it_expires(writable: Writable) -> None:
    configure(writable, SETTINGS + '[address-settings."dead"]\nexpiry-delay = 5000\n')
    async with writable.open() as store:
        await make_dead(store, "dead")
        ids = await published(store, CORE, AMQP)
        assert await store.send_to_dead_letters(A, ids) == 2
        core, amqp = dead(store)
        assert core["expiration"] == amqp["expiration"] == START_MS + 5000
        assert amqp["amqp"]["properties"]["absoluteExpiryTime"]["v"] == START_MS + 5000


async def test_a_copy_that_fits_no_record_stays_and_holds_up_nobody(writable: Writable) -> None:
    configure(writable)
    async with writable.open() as store:
        room = (store.journals.messages.record_bytes_max - 266) // 2 * "x"
        full = {"body": "f", "largeMessage": True, "properties": {"p": room}, "duplicateId": "d"}
        await make_dead(store, "dead")
        ids = await published(store, {"body": "x", "largeMessage": True}, full, {"body": "y"})
        assert await store.send_to_dead_letters(A, ids) == 2
        assert [json.loads(line)["id"] for line in lines_of(store, "work.a")] == [ids[1]]
        assert [copy["body"] for copy in dead(store)] == ["x", "y"]
        (event,) = events(store, "not-forwarded")
        assert str(ids[1]) in str(event["message"])
        await publish_file(store, "dead", "dead", "in.jsonl", b'{"body": "z", "duplicateId": "d"}\n')
        copies = dead(store)
        assert len(copies) == 3, "its duplicate id is not known here"
    names = {file.name for file in (writable.root / "large-messages").iterdir()}
    assert names == {f"{ids[1]}.msg", f"{copies[0]['id']}.msg"}


async def test_a_message_is_sent_once_however_many_ask(writable: Writable) -> None:
    configure(writable)
    async with writable.open() as store:
        await make_dead(store, "dead")
        ids = await published(store, {"body": "x"})
        counts: list[int] = []

        async def send() -> None:
            counts.append(await store.send_to_dead_letters(A, ids))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send)
        assert sorted(counts) == [0, 0, 1]
        assert len(dead(store)) == 1
