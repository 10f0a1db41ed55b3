"""Addresses that page, written by journalfs and by a broker in turn: both agree on what there is, and in
which order.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.broker.amqp_client import browse_by_amqp
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.sent import FAR_MS
from tests.broker.settings import BrokerSettings
from tests.broker.test_interop_amqp import PAGE_LIMITS, shown
from tests.broker.writing import (
    body_text,
    complaints,
    delivery_order,
    lay_store,
    lines_in,
    plain_body,
    publish,
    queue_in,
    take,
    write_in,
)
from tests.frozen import PristineStores
from tests.mount.conftest import until

SENT = 100
LARGE_BYTES = 200_000


def in_delivery_order(store: WritingStore, name: str) -> list[str]:
    bodies = {line["id"]: line["body"] for line in lines_in(store, name)}
    return [bodies[message_id] for message_id in delivery_order(store, name)]


def texts(taken: list[dict[str, object]]) -> list[bytes]:
    return [plain_body(one) for one in taken]


def gives(client: CoreClient, bodies: list[str]) -> None:
    """All that is in the queue, in this order."""
    assert client.message_count("paged") == len(bodies)
    assert texts(take(client, "paged", len(bodies))) == [body_text(body) for body in bodies]


def has_none_left(broker: Broker) -> None:
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert client.message_count("paged") == 0
        broker.stop()


@pytest.mark.long
@pytest.mark.parametrize("transaction", [True, False], ids=["page-transaction", "one-by-one"])
def test_going_on_where_a_broker_pages(artemis_home: Path, tmp_path: Path, transaction: bool) -> None:
    """A broker left in the middle of paging, journalfs goes on, and a broker takes it all: in order, once."""
    settings = BrokerSettings(paging_addresses=("paged",), journal_type="ASYNCIO" if transaction else "NIO")
    broker = Broker(tmp_path / "broker", settings=settings)
    with broker, CoreClient(broker.port) as client:
        client.create_queue("paged")
        # Sent in pieces, so that the first are in the journal when paging begins.
        for first in range(0, SENT, 20 if transaction else 1):
            if transaction:
                client.send_many("paged", 20, length=1000, body="message {n}", first=first)
            else:
                client.send("paged", length=1000, body="message {n}", first=first)
        assert client.attribute("address.paged", "paging") is True
        assert len(broker.store.page_files()) > 3
        broker.stop()

    async def work(store: WritingStore) -> list[str]:
        before = in_delivery_order(store, "paged")
        assert [body.split()[1] for body in before] == [str(n) for n in range(SENT)]
        await publish(store, "paged", "paged", "in.txt", b"new 0\nnew 1\nnew 2\n")
        await publish(store, "paged", "paged", "in.txt", b"alone\n")
        ids = [MessageId(one) for one in delivery_order(store, "paged")]
        # From the journal, and from pages: the middle and the end.
        assert await store.acknowledge(("paged", "paged"), [ids[1], *ids[40:50], ids[-2]]) == 12
        return in_delivery_order(store, "paged")

    order = write_in(broker.root, work)
    assert order[-3:] == ["new 0", "new 1", "alone"]
    assert len(order) == SENT + 4 - 12

    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert client.attribute("address.paged", "paging") is True
        gives(client, order)
        broker.stop()
    has_none_left(broker)


@pytest.mark.long
def test_a_page_that_was_set_aside(artemis_home: Path, tmp_path: Path) -> None:
    """What the journal says of a page that is not there any more is no trouble for a broker."""
    settings = BrokerSettings(paging_addresses=("paged",), journal_type="NIO")
    broker = Broker(tmp_path / "broker", settings=settings)
    with broker, CoreClient(broker.port) as client:
        client.create_queue("paged")
        for first in range(SENT):
            client.send("paged", length=1000, body="message {n}", first=first)
        broker.stop()
    page = sorted((broker.root / "data/paging").rglob("*.page"))[1]
    content = page.read_bytes()
    page.write_bytes(content[:20] + b"\x99" * 100 + content[120:])

    async def work(store: WritingStore) -> list[str]:
        ids = [MessageId(one) for one in delivery_order(store, "paged")]
        assert await store.acknowledge(("paged", "paged"), ids[:60]) == 60
        return in_delivery_order(store, "paged")

    order = write_in(broker.root, work)
    assert page.with_name(page.name + ".invalidPage").exists()
    assert len(order) == SENT - 1 - 60
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        gives(client, order)
        broker.stop()
    has_none_left(broker)


@pytest.mark.long
def test_pages_that_were_removed_whole(artemis_home: Path, tmp_path: Path) -> None:
    """One subscription is emptied, another has whole pages removed out of the middle: a broker delivers
    exactly the rest, and journalfs goes on after it.
    """
    settings = BrokerSettings(paging_addresses=("news",), journal_type="NIO", paging_max_size_bytes="20K")
    broker = Broker(tmp_path / "broker", settings=settings)
    with broker, CoreClient(broker.port) as client:
        for name in ("one", "two"):
            client.create_queue(name, address="news", routing="MULTICAST")
        client.send_many("news", SENT, length=1000, body="message {n}")
        assert client.attribute("address.news", "paging") is True
        broker.stop()

    async def remove(store: WritingStore) -> list[str]:
        ids = [MessageId(one) for one in delivery_order(store, "two")]
        assert await store.acknowledge(("news", "two"), ids[30:70]) == 40
        assert await store.acknowledge_part(("news", "one"), ".all.jsonl") == SENT
        complete = store.core.loader.state.side(MessageType.PAGE_COMPLETE)
        pages = Counter(one.a for one in complete)
        assert len(pages) == 2
        assert min(pages.values()) > 1
        await publish(store, "news", None, "in.txt", b"new 0\nnew 1\n")
        assert in_delivery_order(store, "one") == ["new 0", "new 1"]
        return in_delivery_order(store, "two")

    order = write_in(broker.root, remove)
    assert len(order) == SENT - 40 + 2
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert texts(take(client, "one", 2)) == [body_text("new 0"), body_text("new 1")]
        assert client.message_count("one") == 0
        assert client.message_count("two") == len(order)
        assert len(client.consume_many("two", 40)) == 40
        broker.stop()

    async def read_and_remove(store: WritingStore) -> list[str]:
        assert in_delivery_order(store, "one") == []
        left = in_delivery_order(store, "two")
        assert left == order[40:]
        ids = [MessageId(one) for one in delivery_order(store, "two")]
        assert await store.acknowledge(("news", "two"), ids[:12]) == 12
        return left[12:]

    left = write_in(broker.root, read_and_remove)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert client.message_count("one") == 0
        assert texts(take(client, "two", len(left))) == [body_text(body) for body in left]
        broker.stop()


@pytest.mark.long
def test_two_subscriptions_and_large_messages(artemis_home: Path, tmp_path: Path) -> None:
    """Two subscriptions at different places of the same pages, large messages among them, back and forth."""
    settings = BrokerSettings(paging_addresses=("news",), journal_type="NIO", paging_max_size_bytes="20K")
    broker = Broker(tmp_path / "broker", settings=settings)
    with broker, CoreClient(broker.port) as client:
        for name in ("one", "two"):
            client.create_queue(name, address="news", routing="MULTICAST")
        client.send_many("news", 60, length=1000, body="message {n}")
        client.send_many("news", 5, length=LARGE_BYTES, body="large {n}")
        client.send_many("news", 20, length=1000, body="message {n}", first=60)
        assert client.attribute("address.news", "paging") is True
        client.consume_many("one", 30)
        broker.stop()

    def bodies(store: WritingStore, name: str) -> list[bytes]:
        return [body_text(body) for body in in_delivery_order(store, name)]

    async def work(store: WritingStore) -> dict[str, list[bytes]]:
        large = json.dumps({"body": "x" * LARGE_BYTES})
        await publish(
            store, "news", None, "in.txt", b"".join(b"new %d %s\n" % (n, b"y" * 900) for n in range(50))
        )
        await publish(store, "news", None, "in.jsonl", f"{large}\n".encode())
        await publish(store, "news", None, "in.txt", b"last\n")
        ids = [MessageId(one) for one in delivery_order(store, "two")]
        assert await store.acknowledge(("news", "two"), [*ids[50:70], ids[75], ids[-2]]) == 22
        ids = [MessageId(one) for one in delivery_order(store, "one")]
        assert await store.acknowledge(("news", "one"), ids[::7]) == len(ids[::7])
        status = queue_in(store, "two").status()
        assert status["messageCount"] == 60 + 5 + 20 + 52 - 22
        return {name: bodies(store, name) for name in ("one", "two")}

    order = write_in(broker.root, work)
    assert order["two"][-1] == body_text("last")
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        for name in ("one", "two"):
            assert client.message_count(name) == len(order[name])
        half = len(order["one"]) // 2
        assert len(client.consume_many("one", half)) == half
        broker.stop()
    order["one"] = order["one"][half:]

    async def check(store: WritingStore) -> None:
        for name in ("one", "two"):
            assert bodies(store, name) == order[name]
        assert await store.acknowledge(("news", "two"), ids_of(store, "two")) == len(order["two"])

    def ids_of(store: WritingStore, name: str) -> list[MessageId]:
        return [MessageId(one) for one in delivery_order(store, name)]

    write_in(broker.root, check)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert client.message_count("two") == 0
        assert texts(take(client, "one", len(order["one"]))) == order["one"]
        broker.stop()
    assert list(broker.store.large.iterdir()) == []


def test_pages_that_journalfs_begins(artemis_home: Path, tmp_path: Path) -> None:
    """The limit is reached while journalfs writes; a broker goes on, and prepares a transaction in pages."""
    settings = BrokerSettings(paging_addresses=("paged",), journal_type="NIO", paging_max_size_bytes="20K")
    broker = Broker(tmp_path / "broker", settings=settings)
    with broker, CoreClient(broker.port) as client:
        client.create_queue("paged")
        broker.stop()

    async def fill(store: WritingStore) -> list[str]:
        for number in range(8):
            lines = b"".join(b"%d %s\n" % (n, b"z" * 500) for n in range(number * 10, number * 10 + 10))
            await publish(store, "paged", None, "in.txt", lines)
        order = in_delivery_order(store, "paged")
        assert [body.split()[0] for body in order] == [str(n) for n in range(80)]
        status = queue_in(store, "paged").status()
        assert isinstance(status["pagedCount"], int)
        assert 0 < status["pagedCount"] < 80
        return order

    order = write_in(broker.root, fill)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert client.attribute("address.paged", "paging") is True
        assert client.message_count("paged") == 80
        client.do("xa-begin", session="xa", xid="t-1")
        client.do("send", address="paged", session="xa", count=5, length=100, body="prepared {n}")
        client.consume("paged", 70, session="xa")
        client.do("xa-prepare", session="xa", xid="t-1")
        broker.stop()

    async def consume(store: WritingStore) -> None:
        assert in_delivery_order(store, "paged") == order[70:]
        ids = [MessageId(one) for one in delivery_order(store, "paged")]
        assert await store.acknowledge(("paged", "paged"), ids) == 10
        await publish(store, "paged", None, "in.txt", b"after\n")

    write_in(broker.root, consume)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        assert len(client.do("xa-recover", session="recover")["prepared"]) == 1
        client.do("xa-commit", session="recover", xid="t-1")
        client.do("end", session="recover")
        bodies = texts(take(client, "paged", 6))
        # A broker comes back to what is committed late, so what was behind it may be first.
        bodies.remove(body_text("after"))
        assert bodies == [bodies[0].replace(b"0\0", b"%d\0" % n, 1) for n in range(5)]
        broker.stop()


@pytest.mark.long
def test_a_broker_keeps_to_the_schedule_that_a_page_says(artemis_home: Path, tmp_path: Path) -> None:
    """Of core and of AMQP: what is not due, and what was released in the queue that it comes from."""
    settings = BrokerSettings(paging_addresses=("paged",), journal_type="NIO")
    broker = Broker(tmp_path / "broker", settings=settings)
    with broker, CoreClient(broker.port) as client:
        for name in ("paged", "before"):
            client.create_queue(name)
        broker.stop()

    def lines(body: str) -> bytes:
        kinds = [("CORE", False), ("AMQP", False), ("CORE", True), ("AMQP", True)]
        return b"".join(
            json.dumps(
                {"body": body, "protocol": kind, "scheduledTime": FAR_MS, "largeMessage": large}
            ).encode()
            + b"\n"
            for kind, large in kinds
        )

    async def work(store: WritingStore) -> None:
        await store.set_attribute("paged", None, "user.journalfs.max-size-messages", b"0")
        await publish(store, "paged", None, "in.jsonl", lines("later"))
        # Written to the pages of an address first, they say themselves when they are due.
        await store.set_attribute("before", None, "user.journalfs.max-size-messages", b"0")
        await publish(store, "before", None, "in.jsonl", lines("released"))
        await store.create_address("between")
        await store.create_queue("between", "between")
        ids = [MessageId(one["id"]) for one in lines_in(store, "before")]
        assert await store.move(("before", "before"), ids, ("between", "between")) == 4
        assert queue_in(store, "between").status()["pagedCount"] == 0
        ids = [MessageId(one["id"]) for one in lines_in(store, "between")]
        for one in ids:
            await store.set_message_attribute(
                ("between", "between"), one, "user.journalfs.scheduledTime", b"0"
            )
        assert await store.move(("between", "between"), ids, ("paged", "paged")) == 4
        assert queue_in(store, "paged").status()["pagedCount"] == 8
        assert len(queue_in(store, "paged").scheduled()) == 4

    write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        assert [one for one in complaints(broker.log) if not PAGE_LIMITS.search(one)] == []
        assert client.message_count("paged") == 8
        assert len(client.consume_many("paged", 4)) == 4
        until(lambda: client.attribute("queue.paged", "scheduledCount") == 4, "the others are scheduled")
        assert client.message_count("paged") == 4
        broker.stop()
    left = write_in(broker.root, left_in_paged)
    assert [(line["body"], line["scheduledTime"]) for line in left] == [("later", FAR_MS)] * 4


async def left_in_paged(store: WritingStore) -> list[dict[str, object]]:
    return lines_in(store, "paged")


@pytest.mark.long
def test_large_amqp_messages_in_pages(artemis_home: Path, stores: PristineStores, tmp_path: Path) -> None:
    """What a broker reads from pages that journalfs wrote is what it reads from its own."""
    broker = lay_store(stores["large-and-paged"], tmp_path / "broker", None)

    async def work(store: WritingStore) -> int:
        await store.create_address("copies")
        await store.create_queue("copies", "copies")
        await store.set_attribute("copies", None, "max-size-messages", b"0")
        source = queue_in(store, "amqp.large").open_all()
        await publish(store, "copies", "copies", "in.jsonl", bytes(source.read(0, source.size_bytes)))
        source.close()
        status = queue_in(store, "copies").status()
        assert status["pagedCount"] == status["messageCount"] == len(lines_in(store, "amqp.large"))
        return len(lines_in(store, "copies"))

    count = write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        assert [one for one in complaints(broker.log) if not PAGE_LIMITS.search(one)] == []
        assert client.message_count("copies") == count
        before = browse_by_amqp(broker.port, "amqp.large", "amqp.large", count)
        after = browse_by_amqp(broker.port, "copies", "copies", count)
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            assert shown(other) == shown(one), number
        broker.stop()
