"""Stores of real brokers, mounted and changed by file operations in every way on each backend; a broker
starts on them, its clients receive what is there, and a mount finds what it left.

What is expected is what the same broker says of an untouched copy, changed as the store was.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from tests.broker.amqp_client import take_by_amqp
from tests.broker.changing import AMQP_SENT, FRAMED, MOVED, SENT_AMQP, change, change_after_compaction
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.broker.settings import JournalType
from tests.broker.shell import compact, in_a_shell
from tests.broker.writing import Account, account_of, complaints, difference, lay_store, take
from tests.frozen import FILE_STORES, PristineStores
from tests.reference.amqp import Sections

pytestmark = [pytest.mark.timeout(600), pytest.mark.mount]

BACKENDS: tuple[JournalType, ...] = ("NIO", "ASYNCIO", "MAPPED")
QUICK = {("orders-basic", "NIO")}
"""The others are in the long suite."""

NOT_BROWSED = ("overdue",)
"""Browsing would expire its messages."""
DUPLICATE = "AMQ222059"
"""The code of the log line for a message that came before."""


def whole_account(broker: Broker, client: CoreClient) -> Account:
    return account_of(client, leave_out=NOT_BROWSED, amqp_port=broker.port)


@pytest.fixture(scope="session")
def untouched(
    artemis_home: Path, stores: PristineStores, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Account]:
    """Name of a store -> what a broker says that is in it."""
    known: dict[str, Account] = {}

    def account(name: str) -> Account:
        if name not in known:
            broker = lay_store(stores[name], tmp_path_factory.mktemp("untouched") / name, None)
            with broker, CoreClient(broker.port) as client:
                known[name] = whole_account(broker, client)
                known[name].complaints = complaints(broker.log)
                broker.stop()
        return deepcopy(known[name])

    return account


def check(found: Account, expected: Account) -> list[str]:
    """How a broker's account differs from what is expected of it."""
    wrong = []
    for name, queue in expected.queues.items():
        seen = found.queues.get(name, {})
        # A queue that a broker makes for itself has another id at each start.
        keys = [key for key in queue if key != "id" or int(queue["messageCount"])]
        wrong += [
            f"{name}: {key} is {seen.get(key)}, not {queue[key]}"
            for key in keys
            if seen.get(key) != queue[key]
        ]
    for name, address in expected.addresses.items():
        seen = {**found.addresses.get(name, {}), "id": ""}
        if seen != {**address, "id": ""}:
            wrong.append(f"{name}: {seen}, not {address}")
    for name, messages in expected.messages.items():
        wanted = [{"amqp": one["amqp"]} if "amqp" in one else one for one in messages]
        wrong += [f"{name}: {one}" for one in difference(found.messages.get(name, []), wanted)]
    wrong += [
        f"{name}: messages where none are expected"
        for name in found.messages.keys() - expected.messages.keys()
    ]
    if found.scheduled != expected.scheduled:
        wrong.append(f"scheduled: {found.scheduled}, not {expected.scheduled}")
    if found.prepared != expected.prepared:
        wrong.append(f"prepared: {found.prepared}, not {expected.prepared}")
    return wrong


def use(broker: Broker, client: CoreClient, expected: Account) -> None:
    """What clients do with what they find."""
    settings = json.loads(client.operation("broker", "getAddressSettingsAsJSON", "fresh"))
    assert settings["maxDeliveryAttempts"] == 4
    assert client.attribute("address.later", "paused") is True
    client.send("fresh", duplicate_id="d-1")
    assert client.message_count("fresh.c") == len(expected.messages["fresh.c"])
    client.send("fresh", body="by the broker", properties={"color": "red"})
    taken = take(client, "fresh.b", len(expected.messages["fresh.b"]) + 1)
    assert difference(taken[-1:], [{"properties": taken[-1]["properties"]}]) == []
    count = len(expected.messages.get(MOVED, ()))
    assert len(take(client, MOVED, count)) == count
    for name in FRAMED:
        wanted = [{**one, "deliveryCount": one["deliveryCount"] + 1} for one in expected.messages[name]]
        assert difference(take(client, name, len(wanted)), wanted) == [], name
    received = take_by_amqp(broker.port, SENT_AMQP, SENT_AMQP, len(AMQP_SENT))
    sections = [vars(Sections(one)) for one in received]
    assert difference(sections, [wanted for _, wanted in AMQP_SENT]) == []
    # The broker hears of what was accepted after the client is done.
    eventually(lambda: client.message_count(SENT_AMQP) == 0, deadline_s=60, what="all are acknowledged")


def found_again(root: Path, mountpoint: Path, left: Account) -> None:
    """A mount finds what the broker left."""
    with in_a_shell(root, mountpoint) as store:
        for name, queue in left.queues.items():
            path = queue["address"], name
            scheduled = left.scheduled.get(name, [])
            ids = store.queue(path).listed_ids()
            shown = [one for one in ids if one not in scheduled]
            wanted = [one["id"] for one in left.messages.get(name, ()) if "id" in one]
            if name not in NOT_BROWSED and "amqp" not in name:
                assert shown == wanted, name
            assert len(ids) + store.held(path) == int(queue["messageCount"]), name
        bodies = [line["body"] for line in store.lines(("fresh", "fresh.c"))[-2:]]
        assert bodies == ["after compaction", "by the broker"]


CASES = [
    pytest.param(name, backend, marks=[] if (name, backend) in QUICK else [pytest.mark.long])
    for name in FILE_STORES
    for backend in BACKENDS
]


@pytest.mark.parametrize(("name", "journal_type"), CASES)
def test_a_broker_goes_on_where_a_mount_was(
    untouched: Callable[[str], Account],
    stores: PristineStores,
    tmp_path: Path,
    name: str,
    journal_type: JournalType,
) -> None:
    expected = untouched(name)
    broker = lay_store(stores[name], tmp_path / "broker", journal_type)
    with in_a_shell(broker.root, tmp_path / "mnt") as store:
        change(store, expected)
    compact(broker.root)
    with in_a_shell(broker.root, tmp_path / "mnt") as store:
        change_after_compaction(store, expected)
    with broker, CoreClient(broker.port) as client:
        assert set(complaints(broker.log)) <= set(expected.complaints)
        found = whole_account(broker, client)
        wrong = check(found, expected)
        assert wrong == [], "\n".join(wrong)
        use(broker, client, expected)
        left = whole_account(broker, client)
        others = {one for one in complaints(broker.log) if DUPLICATE not in one}
        assert others <= set(expected.complaints)
        broker.stop()
    found_again(broker.root, tmp_path / "mnt", left)
    listed = sum(len(messages) for messages in found.messages.values())
    print(f"{name} {journal_type}: {len(found.queues)} queues, {listed} messages compared")
