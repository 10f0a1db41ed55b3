"""Queues and addresses that go by themselves: of one store a broker and journalfs leave the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Set
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.broker.settings import BrokerSettings
from tests.broker.test_interop import new_instance
from tests.broker.writing import account_of, complaints, write_in

QUEUES: dict[str, dict[str, object]] = {
    "stays": {"auto-delete": False},
    "empty": {},
    "full": {},
    "few": {"auto-delete-message-count": 2},
    "any": {"auto-delete-message-count": -1},
    "later": {"auto-delete-delay": 3_600_000},
    "unused": {"auto-delete-message-count": 2},
}
HELD = {"stays": 1, "full": 2, "few": 3, "any": 3, "later": 1, "unused": 1}
USED = ("stays", "full", "few", "any", "later")
"""One message of each of these is taken."""
LEFT = {"stays", "full", "later", "unused"}
LEFT_AFTER_A_START = {"stays", "full", "unused"}
"""What is empty when a store is opened goes at once, whatever its delay."""
OTHERS = {"DLQ", "ExpiryQueue", "$sys.mqtt.sessions"}
ADDRESS_BY_NAME = {"mine"}


def settings(scan_ms: int) -> BrokerSettings:
    return BrokerSettings(auto_delete=True, address_queue_scan_period_ms=scan_ms)


def lay_out(client: CoreClient) -> None:
    client.operation("broker", "createAddress", "mine", "MULTICAST")
    for name, own in QUEUES.items():
        made = {"name": name, "address": name, "routing-type": "ANYCAST", "durable": True}
        made |= {"auto-created": True, "auto-create-address": True, "auto-delete": True}
        client.operation("broker", "createQueue", json.dumps(made | own))
        if name in HELD:
            client.send_many(name, HELD[name])


def left_by(client: CoreClient) -> tuple[set[str], set[str]]:
    """Names of queues and of addresses. No message is looked at: a queue may go in between."""
    account = account_of(client, leave_out=(*QUEUES, "paged"))
    return set(account.queues) - OTHERS, set(account.addresses) - OTHERS


def is_left(client: CoreClient, queues: set[str], by_name: Set[str] = ADDRESS_BY_NAME) -> bool:
    return left_by(client) == (queues, queues | by_name)


async def use_and_wait(store: WritingStore) -> tuple[set[str], set[str]]:
    with trio.fail_after(30):
        while "empty" in {queue.name for queue in store.core.bindings.queues.values()}:
            await trio.testing.wait_all_tasks_blocked()
    for name in USED:
        consumer = store.consumer((name, name))
        delivery = await consumer.next()
        assert delivery is not None
        await delivery.acknowledge()
        await consumer.close()
    for _ in range(4):  # two for the queues, then two for their addresses
        await store.auto_deleting.scan()
    state = store.core.bindings
    addresses = {name for name in state.addresses if not name.startswith("activemq.")}
    return {queue.name for queue in state.queues.values()} - OTHERS, addresses - OTHERS


@pytest.mark.long
def test_both_leave_the_same(artemis_home: Path, tmp_path: Path) -> None:
    theirs = new_instance(tmp_path / "theirs", "NIO")
    with Broker(theirs.root, settings=settings(-1)) as broker, CoreClient(broker.port) as client:
        lay_out(client)
        broker.stop()
    ours = Broker(tmp_path / "ours", settings=settings(-1))
    shutil.copytree(theirs.root, ours.root)

    with Broker(theirs.root, settings=settings(100)) as broker, CoreClient(broker.port) as client:
        assert "empty" not in left_by(client)[0]
        for name in USED:
            client.consume(name)
        eventually(partial(is_left, client, LEFT), deadline_s=30, what="what the broker leaves")
        broker.stop()

    assert write_in(ours.root, use_and_wait) == (LEFT, LEFT | ADDRESS_BY_NAME)
    for instance in (theirs, ours):
        with Broker(instance.root, settings=settings(-1)) as broker, CoreClient(broker.port) as client:
            assert is_left(client, LEFT_AFTER_A_START)
            assert complaints(broker.log) == []
            broker.stop()


@pytest.mark.long
def test_pages_go_with_their_address(artemis_home: Path, tmp_path: Path) -> None:
    """A queue pages, and goes with what it holds: nothing of its address stays, nor does its page folder."""

    def paging(scan_ms: int) -> BrokerSettings:
        return BrokerSettings(
            auto_delete=True,
            address_queue_scan_period_ms=scan_ms,
            paging_addresses=("paged",),
            paging_max_size_bytes="20K",
        )

    theirs = new_instance(tmp_path / "theirs", "NIO")
    with Broker(theirs.root, settings=paging(-1)) as broker, CoreClient(broker.port) as client:
        made = {"name": "paged", "address": "paged", "routing-type": "ANYCAST", "durable": True}
        made |= {"auto-created": True, "auto-create-address": True, "auto-delete": True}
        client.operation("broker", "createQueue", json.dumps(made | {"auto-delete-message-count": -1}))
        client.send_many("paged", 60, length=1000)
        assert len(broker.store.page_files()) > 3
        broker.stop()
    ours = Broker(tmp_path / "ours", settings=paging(-1))
    shutil.copytree(theirs.root, ours.root)

    with Broker(theirs.root, settings=paging(100)) as broker, CoreClient(broker.port) as client:
        client.consume("paged")
        gone = partial(is_left, client, set(), set())
        eventually(gone, deadline_s=30, what="the queue and its address are gone")
        broker.stop()

    async def use(store: WritingStore) -> None:
        consumer = store.consumer(("paged", "paged"))
        delivery = await consumer.next()
        assert delivery is not None
        await delivery.acknowledge()
        await consumer.close()
        for _ in range(4):
            await store.auto_deleting.scan()
        assert "paged" not in store.core.bindings.addresses

    write_in(ours.root, use)
    for instance in (theirs, ours):
        assert list(instance.store.paging.iterdir()) == []
        with Broker(instance.root, settings=paging(-1)) as broker, CoreClient(broker.port) as client:
            assert is_left(client, set(), set())
            assert complaints(broker.log) == []
            assert list(broker.store.paging.iterdir()) == []
            broker.stop()
