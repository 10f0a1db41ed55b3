"""Dead letters and expired messages: what journalfs makes of a message is what a real broker makes of it."""

from __future__ import annotations

import json
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from journalfs.store.write.store import WritingStore
from tests.broker.amqp_client import browse_by_amqp
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.broker.settings import BrokerSettings
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, lines_in, make_queues, publish, queue_in, take, write_in
from tests.cli.running import journalfs
from tests.reference.amqp import Sections

VALUE = {"section": "value", "value": {"t": "string", "v": "amqp"}}
ANNOTATIONS = {
    "none": [],
    "routing": [[{"t": "symbol", "v": "x-opt-routing-type"}, {"t": "byte", "v": 1}]],
    "jms": [[{"t": "symbol", "v": "x-opt-jms-dest"}, {"t": "byte", "v": 0}]],
}


def messages(expiration_ms: int) -> list[dict[str, Any]]:
    """One of each kind, all over at the same time."""
    routing = {"properties": {"_AMQ_ROUTING_TYPE": 1, "n": 5}, "propertyTypes": {"_AMQ_ROUTING_TYPE": "byte"}}
    earlier = {
        "properties": {"_AMQ_ORIG_ROUTING_TYPE": 1, "_AMQ_ORIG_QUEUE": "first"},
        "propertyTypes": {"_AMQ_ORIG_ROUTING_TYPE": "byte"},
    }
    core: list[dict[str, Any]] = [
        {"body": "plain"},
        {"body": "stated", "priority": 7, "groupId": "g", "duplicateId": "d", **routing},
        {"body": "a copy of before", **earlier},
        {"type": "bytes", "body_base64": "AAEC", "largeMessage": True},
        {"body": 60_000 * "long "},
    ]
    time_is_over = {"t": "timestamp", "v": expiration_ms}
    amqp: list[dict[str, Any]] = [
        {
            "amqp": {
                "header": {"durable": True, "ttl": {"t": "uint", "v": 1000}},
                "messageAnnotations": pairs,
                "properties": {"to": "here", "subject": name, "absoluteExpiryTime": time_is_over},
                "applicationProperties": [[{"t": "string", "v": "color"}, {"t": "string", "v": "red"}]],
                "body": VALUE,
            },
            "largeMessage": large,
        }
        for name, pairs in ANNOTATIONS.items()
        for large in (False, True)
    ]
    amqp.append({"amqp": {"header": {"durable": True}, "body": VALUE}})
    return [{**one, "expiration": expiration_ms} for one in core + amqp]


def sent_on(root: Path, queue: str) -> list[dict[str, Any]]:
    """What lies in a queue, without what differs from one time to the next."""

    async def look(store: WritingStore) -> list[dict[str, Any]]:
        return lines_in(store, queue)

    found = write_in(root, look)
    for line in found:
        assert "damage" not in line
        line.pop("id")
        took = line.get("properties", {}).pop("_AMQ_ACTUAL_EXPIRY", None)
        stated = line.get("extraProperties", {}).pop("_AMQ_ACTUAL_EXPIRY", None)
        line["expiredAt"] = bool(took or stated)
        annotations = line.get("amqp", {}).get("messageAnnotations", [])
        line.get("amqp", {})["messageAnnotations"] = sorted(
            (pair for pair in annotations if pair[0]["v"] != "x-opt-ACTUAL-EXPIRY"), key=json.dumps
        )
        line.get("propertyTypes", {}).pop("_AMQ_ACTUAL_EXPIRY", None)
    return sorted(found, key=origin_of)


def origin_of(line: dict[str, Any]) -> int:
    stated = line.get("extraProperties") or line["properties"]
    origin = stated["_AMQ_ORIG_MESSAGE_ID"]
    return int(origin["v"] if isinstance(origin, dict) else origin)


def _is_empty(client: CoreClient, queue: str) -> bool:
    return client.message_count(queue) == 0


def test_copies_are_those_of_a_broker(artemis_home: Path, tmp_path: Path) -> None:
    # Nothing expires by itself.
    ours = new_instance(tmp_path / "ours", "NIO", message_expiry_scan_period_ms=-1)
    lines = messages(int(time.time() * 1000) - 60_000)

    async def prepare(store: WritingStore) -> None:
        for name in ("dies", "expires"):
            await store.create_address(name)
            await store.create_queue(name, name)
            await store.set_attribute(name, name, "user.journalfs.routing-type", b"ANYCAST")
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        await publish(store, "dies", "dies", "in.jsonl", content)
        await publish(store, "expires", "expires", "in.jsonl", content)

    write_in(ours.root, prepare)
    theirs = tmp_path / "theirs"
    shutil.copytree(ours.root, theirs)

    async def work(store: WritingStore) -> None:
        ids = [line["id"] for line in lines_in(store, "dies")]
        assert await store.send_to_dead_letters(("dies", "dies"), ids) == len(lines)
        assert await store.expire_due() == len(lines)

    write_in(ours.root, work)

    # The dead letters first: what is over expires wherever it lies, but for a broker that does not look.
    for period_ms, queue in ((-1, "dies"), (100, "expires")):
        settings = BrokerSettings(journal_file_size="1M", message_expiry_scan_period_ms=period_ms)
        broker = Broker(theirs, settings=settings)
        with broker, CoreClient(broker.port) as client:
            if period_ms < 0:
                client.operation(f"queue.{queue}", "sendMessagesToDeadLetterAddress", "")
            empty = partial(_is_empty, client, queue)
            eventually(empty, deadline_s=30, what=f"{queue} is empty")
            broker.stop()
    for queue in ("DLQ", "ExpiryQueue"):
        by_us, by_them = sent_on(ours.root, queue), sent_on(theirs, queue)
        assert len(by_us) == len(by_them) == len(lines)
        for one, other in zip(by_us, by_them, strict=True):
            assert one == other

    with ours, CoreClient(ours.port) as client:
        assert complaints(ours.log) == []
        for queue in ("DLQ", "ExpiryQueue"):
            assert client.message_count(queue) == len(lines)
            received = [Sections(one) for one in browse_by_amqp(ours.port, queue, queue, len(lines))]
            assert len(received) == len(lines)
            # A core client drops what it is told is over.
            assert len(take(client, queue, len(lines))) == len(lines)
        assert "AMQ222" not in ours.log  # what stopping says is not ours
        ours.stop()


@pytest.mark.long
def test_what_is_moved_back_may_fail_again(artemis_home: Path, tmp_path: Path) -> None:
    """As dead letters that are retried do: the queue that was made for them takes them again."""
    broker = new_instance(tmp_path / "broker", "NIO")
    claims, letters = ("claims", "claims"), ("claims.DLA", "DLQ.claims")
    sent = [{"body": "core"}, {"body": "amqp", "protocol": "AMQP"}, {"body": "large", "largeMessage": True}]

    async def work(store: WritingStore) -> None:
        await store.create_address("claims")
        for name, value in (
            ("dead-letter-address", b"claims.DLA"),
            ("auto-create-dead-letter-resources", b"true"),
            ("max-delivery-attempts", b"1"),
        ):
            await store.set_attribute("claims", None, f"user.journalfs.{name}", value)
        await store.create_queue(*claims)
        await publish(store, *claims, "in.jsonl", "".join(json.dumps(one) + "\n" for one in sent).encode())
        for _ in range(2):
            ids = [line["id"] for line in lines_in(store, claims[1])]
            assert await store.send_to_dead_letters(claims, ids) == len(sent)
            ids = [line["id"] for line in lines_in(store, letters[1])]
            assert await store.move(letters, ids, claims) == len(sent)

    write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        assert client.message_count(claims[1]) == len(sent)
        client.do("begin", session="failing")
        client.consume(claims[1], len(sent), session="failing")
        client.do("rollback", session="failing")
        client.do("end", session="failing")
        back = partial(client.message_count, letters[1])
        eventually(lambda: back() == len(sent), deadline_s=30, what="they are dead letters again")
        assert _is_empty(client, claims[1])
        broker.stop()


NOTED = (
    "_AMQ_ORIG_",
    "x-opt-ORIG-",
    "_AMQ_ACTUAL_EXPIRY",
    "x-opt-ACTUAL-EXPIRY",
    "_AMQ_AD",
    "x-opt-routing-type",
)
"""What a broker leaves on a message, and does not put back on an AMQP one."""


def sent_back(root: Path, queue: str) -> list[dict[str, Any]]:
    """What lies in a queue, without ids and the notes that a broker leaves."""

    async def look(store: WritingStore) -> list[dict[str, Any]]:
        return lines_in(store, queue)

    found = write_in(root, look)
    for line in found:
        assert "damage" not in line
        line.pop("id")
        for key in ("properties", "propertyTypes", "extraProperties"):
            kept = {name: value for name, value in line.pop(key, {}).items() if not name.startswith(NOTED)}
            line.update({key: kept} if kept else {})
        if "amqp" in line:
            annotations = line["amqp"].pop("messageAnnotations", [])
            kept_annotations = [pair for pair in annotations if not pair[0]["v"].startswith(NOTED)]
            line["amqp"]["messageAnnotations"] = sorted(kept_annotations, key=json.dumps)
    return sorted(found, key=json.dumps)


@pytest.mark.long
@pytest.mark.rule("S-230")
def test_what_goes_back_is_what_a_broker_sends_back(artemis_home: Path, tmp_path: Path) -> None:
    ours = new_instance(tmp_path / "ours", "NIO", message_expiry_scan_period_ms=-1)
    lines = messages(0)[:-1]
    for line in lines:
        del line["expiration"]
        line.get("amqp", {}).get("properties", {}).pop("absoluteExpiryTime", None)
        line.get("amqp", {}).get("header", {}).pop("ttl", None)

    async def prepare(store: WritingStore) -> None:
        await store.create_address("dies")
        await store.create_queue("dies", "dies")
        await store.set_attribute("dies", "dies", "user.journalfs.routing-type", b"ANYCAST")
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        await publish(store, "dies", "dies", "in.jsonl", content)
        ids = [line["id"] for line in lines_in(store, "dies")]
        assert await store.send_to_dead_letters(("dies", "dies"), ids) == len(lines)

    write_in(ours.root, prepare)
    theirs = tmp_path / "theirs"
    shutil.copytree(ours.root, theirs)

    async def work(store: WritingStore) -> None:
        ids = [line["id"] for line in lines_in(store, "DLQ")]
        assert (await store.redrive(("DLQ", "DLQ"), ids)).sent == {("dies", "dies"): len(lines)}

    write_in(ours.root, work)
    broker = Broker(theirs, settings=BrokerSettings(journal_file_size="1M", message_expiry_scan_period_ms=-1))
    with broker, CoreClient(broker.port) as client:
        assert client.operation("queue.DLQ", "retryMessages") == len(lines)
        broker.stop()
    for one, other in zip(sent_back(ours.root, "dies"), sent_back(theirs, "dies"), strict=True):
        assert one == other
    with ours, CoreClient(ours.port) as client:
        assert complaints(ours.log) == []
        assert client.message_count("dies") == len(lines)
        assert client.message_count("DLQ") == 0
        assert len(take(client, "dies", len(lines))) == len(lines)
        assert "AMQ222" not in ours.log  # what stopping says is not ours
        ours.stop()


@pytest.mark.long
@pytest.mark.rule("S-230")
def test_a_broker_drains_100_000_that_were_sent_back(artemis_home: Path, tmp_path: Path) -> None:
    """By the command, which gives the queue as many as a client then gets, each once and none left."""
    count, batch = 100_000, 10_000
    ours = new_instance(tmp_path / "ours", "NIO", message_expiry_scan_period_ms=-1)

    async def prepare(store: WritingStore) -> None:
        await make_queues(store, "dies")
        content = "".join(f"{number} {'x' * 200}\n" for number in range(count)).encode()
        await publish(store, "dies", "dies", "in.txt", content)
        ids = queue_in(store, "dies").message_ids(".all.jsonl")
        assert await store.send_to_dead_letters(("dies", "dies"), ids) == count

    write_in(ours.root, prepare)
    done = journalfs("dlq", "redrive", ours.root, "DLQ::DLQ")
    assert done.stdout == f"DLQ::DLQ: {count} sent back to dies::dies\n", done.stderr
    with ours, CoreClient(ours.port) as client:
        assert complaints(ours.log) == []
        assert (client.message_count("dies"), client.message_count("DLQ")) == (count, 0)
        taken = [one for _ in range(0, count, batch) for one in client.consume_many("dies", batch)]
        assert len({*taken}) == count
        assert client.message_count("dies") == 0
        ours.stop()
