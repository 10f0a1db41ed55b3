"""Stores of real brokers, changed by journalfs in every way on each backend; a broker starts on them.

What is expected is what the same broker says of an untouched copy, changed as the store was.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.sent import FAR_MS, envelopes, large_file, lines, text
from tests.broker.settings import JournalType
from tests.broker.writing import (
    Account,
    account_of,
    complaints,
    delivery_order,
    difference,
    lay_store,
    lines_in,
    publish,
    queue_in,
    take,
    write_in,
)
from tests.frozen import FILE_STORES, PristineStores

pytestmark = pytest.mark.timeout(600)

BACKENDS: tuple[JournalType, ...] = ("NIO", "ASYNCIO", "MAPPED")
QUICK = {("aio", "ASYNCIO"), ("mapped", "MAPPED"), ("transactions", "NIO")}
"""The others are in the long suite."""

NOT_BROWSED = ("overdue",)
"""Browsing would expire its messages."""
CHANGED_QUEUES_MAX = 12
CONFIGURED = ("DLQ", "ExpiryQueue")
MOVED, MOVED_AMQP = "interop.moved", "interop.amqp.moved"
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


@dataclass
class Changing:
    """Changes a store, and keeps `expected` true to it."""

    store: WritingStore
    expected: Account
    counts: dict[str, int] = field(default_factory=dict)
    """Messages that queues gained or lost."""
    ordinary: list[str] = field(init=False)
    """Queues of which messages are taken."""

    def __post_init__(self) -> None:
        found = [
            name
            for name, messages in self.expected.messages.items()
            if len(messages) >= 5 and self.expected.queues[name]["internalQueue"] == "false"
        ]
        self.ordinary = sorted(found)[:CHANGED_QUEUES_MAX]

    def _count(self, queue: str, change: int) -> None:
        self.counts[queue] = self.counts.get(queue, 0) + change

    async def acknowledge_and_move(self) -> None:
        targets: dict[str, list[dict[str, Any]]] = {MOVED: [], MOVED_AMQP: []}
        for target in targets:
            await self.store.create_address(target)
            await self.store.create_queue(target, target)
        for name in self.ordinary:
            messages = self.expected.messages[name]
            path = self.expected.queues[name]["address"], name
            gone, going = messages[1::5], messages[3::5]
            assert await self.store.acknowledge(path, [MessageId(one["id"]) for one in gone]) == len(gone)
            ids = [MessageId(one["id"]) for one in going]
            target = MOVED_AMQP if "amqp" in name else MOVED
            assert await self.store.move(path, ids, (target, target)) == len(ids)
            self.expected.messages[name] = [one for one in messages if one not in gone and one not in going]
            self._count(name, -len(gone) - len(going))
            targets[target] += going
        for target, moved in targets.items():
            self._expect_moved(target, moved)

    def _expect_moved(self, target: str, moved: list[dict[str, Any]]) -> None:
        here = [line["id"] for line in lines_in(self.store, target)]
        assert len(here) == len(moved)
        self._count(target, len(moved))
        if moved:
            changed = [
                self._moved(one, as_it_was=one["id"] == id_now)
                for one, id_now in zip(moved, here, strict=True)
            ]
            self.expected.messages[target] = sorted(changed, key=lambda one: -one["priority"])

    @staticmethod
    def _moved(message: dict[str, Any], *, as_it_was: bool) -> dict[str, Any]:
        """A message in another queue: the same, or a copy of what is in a page or there already."""
        if "amqp" in message:
            return message
        changed = {**message, "deliveryCount": 0, "durable": True}
        if not as_it_was:
            del changed["id"], changed["address"]
        return changed

    async def publish(self) -> None:
        store = self.store
        await store.create_address("fresh")
        for name in ("fresh.a", "fresh.b", "fresh.c"):
            await store.create_queue("fresh", name)
        await store.set_attribute("fresh", "fresh.b", "filter", b"color = 'red'")
        for one in (lines(), envelopes(), large_file()):
            await publish(store, "fresh", None, one.file_name, one.content)
        sent = [*lines().wanted, *envelopes().wanted, *large_file().wanted]
        red = [one for one in sent if one["properties"].get("color") == {"t": "string", "v": "red"}]
        self.expected.messages |= {"fresh.a": sent, "fresh.b": red, "fresh.c": list(sent)}
        for name in ("fresh.a", "fresh.b", "fresh.c"):
            self._count(name, len(self.expected.messages[name]))

    async def publish_in_one_step(self, folder: Path) -> None:
        """Files of several framings as one transaction; and duplicates, which are published once."""
        (folder / "a").write_bytes(b"one\ntwo\n")
        (folder / "b").write_bytes(b'{"x": 1} {"y": 2}')
        line = json.dumps({"body": "once", "duplicateId": "d-1"}).encode() + b"\n"
        (folder / "c").write_bytes(line + line)
        files = [(folder / "a", "a.txt"), (folder / "b", "b.json"), (folder / "c", "c.jsonl")]
        await self.store.publish_files("fresh", "fresh.a", files)
        await publish(self.store, "fresh", "fresh.a", "again.jsonl", line)
        once = text("once", properties={"_AMQ_DUPL_ID": {"t": "string", "v": "d-1"}})
        added = [text("one"), text("two"), text('{"x": 1}'), text('{"y": 2}'), once]
        self.expected.messages["fresh.a"] += added
        self._count("fresh.a", len(added))

    async def schedule(self) -> None:
        await self.store.create_address("later")
        await self.store.create_queue("later", "later")
        by_queue = json.dumps({"body": "by its queue", "scheduledTime": FAR_MS})
        itself = json.dumps({"body": "by itself", "properties": {"_AMQ_SCHED_DELIVERY": FAR_MS + 1}})
        over = json.dumps({"body": "over", "scheduledTime": 1})
        await publish(self.store, "later", "later", "in.jsonl", f"{by_queue}\n{itself}\n{over}\n".encode())
        ids = [line["id"] for line in lines_in(self.store, "later")]
        self.expected.scheduled["later"] = ids[:2]
        self.expected.messages["later"] = [text("over")]
        self._count("later", 3)

    async def administer(self) -> None:
        # A broker gives the queues of its configuration their settings at each start.
        own = [name for name in self.ordinary if name not in CONFIGURED]
        first, last = own[0], own[-1]
        queues = self.expected.queues
        address = queues[first]["address"]
        for name, key, value in (
            ("max-consumers", "maxConsumers", "7"),
            ("consumers-before-dispatch", "consumersBeforeDispatch", "1"),
            ("delay-before-dispatch", "delayBeforeDispatch", "5"),
            ("exclusive", "exclusive", "true"),
            ("group-buckets", "groupBuckets", "3"),
        ):
            await self.store.set_attribute(address, first, name, value.encode())
            queues[first][key] = value
        await self.store.set_attribute(queues[last]["address"], last, "paused", b"true")
        queues[last]["paused"] = queues[last]["persistedPause"] = "true"
        await self.store.set_attribute("fresh", None, "max-delivery-attempts", b"4")
        await self.store.set_attribute("later", None, "paused", b"true")

    async def come_and_go(self) -> None:
        """An address and a queue that do not stay, and one of the broker's that goes."""
        await self.store.create_address("gone")
        await self.store.create_queue("gone", "gone")
        await publish(self.store, "gone", None, "in", b"x\n")
        assert await self.store.acknowledge_part(("gone", "gone"), "_tail.jsonl") == 1
        await self.store.delete_queue("gone", "gone")
        await self.store.delete_address("gone")
        for name, queue in self.expected.queues.items():
            in_use = any(queue[key] != "0" for key in ("messageCount", "deliveringCount", "scheduledCount"))
            address = queue["address"]
            if in_use or queue["internalQueue"] == "true" or address in CONFIGURED:
                continue
            if name.startswith("$sys.") or self.expected.addresses[address]["queueCount"] != "1":
                continue
            await self.store.delete_queue(address, name)
            await self.store.delete_address(address)
            del self.expected.queues[name], self.expected.addresses[address]
            break

    def settle(self) -> None:
        """Counts, and what there is of new queues."""
        for name, change in self.counts.items():
            if name in self.expected.queues:
                queue = self.expected.queues[name]
                queue["messageCount"] = str(int(queue["messageCount"]) + change)
            else:
                self.expected.queues[name] = {"messageCount": str(change)}


def know_amqp_messages(store: WritingStore, expected: Account) -> None:
    """Which messages those are that were seen by AMQP only. A core client gets an AMQP message without an id
    with another one each time.
    """
    for name, messages in expected.messages.items():
        if not is_in(store, name):
            continue
        lines = {line["id"]: line for line in lines_in(store, name)}
        if "amqp" in name:
            due = [one for one in delivery_order(store, name) if one not in expected.scheduled.get(name, ())]
            for message, message_id in zip(messages, due, strict=True):
                message |= {"id": message_id, "priority": lines[message_id]["priority"]}
        else:
            for message in messages:
                if lines[message["id"]]["protocol"] == "AMQP":
                    del message["userId"]


def is_in(store: WritingStore, name: str) -> bool:
    return any(queue.name == name for address in store.addresses() for queue in address.queues())


async def change(store: WritingStore, expected: Account, folder: Path) -> None:
    know_amqp_messages(store, expected)
    changing = Changing(store, expected)
    await changing.acknowledge_and_move()
    await changing.publish()
    await changing.publish_in_one_step(folder)
    await changing.schedule()
    await changing.administer()
    await changing.come_and_go()
    await store.journals.messages.upkeep.compact()
    # And on in the files that compaction left.
    await publish(store, "fresh", "fresh.c", "last.txt", b"after compaction\n")
    expected.messages["fresh.c"].append(text("after compaction"))
    changing.counts["fresh.c"] += 1
    changing.settle()


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


def use(client: CoreClient, expected: Account) -> None:
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


def found_again(root: Path, left: Account) -> None:
    """journalfs finds what the broker left."""

    async def look(store: WritingStore) -> None:
        for name, messages in left.messages.items():
            scheduled = left.scheduled.get(name, [])
            shown = [one for one in delivery_order(store, name) if one not in scheduled]
            if "amqp" not in name:
                assert shown == [one["id"] for one in messages], name
        for name, queue in left.queues.items():
            shown_count = len(queue_in(store, name)) + len(queue_in(store, name).delivering())
            assert shown_count == int(queue["messageCount"]), name
        bodies = [line["body"] for line in lines_in(store, "fresh.c")[-2:]]
        assert bodies == ["after compaction", "by the broker"]
        assert not store.core.damage()

    write_in(root, look)


CASES = [
    pytest.param(name, backend, marks=[] if (name, backend) in QUICK else [pytest.mark.long])
    for name in FILE_STORES
    for backend in BACKENDS
]


@pytest.mark.parametrize(("name", "journal_type"), CASES)
def test_a_broker_goes_on_where_journalfs_was(
    untouched: Callable[[str], Account],
    stores: PristineStores,
    tmp_path: Path,
    name: str,
    journal_type: JournalType,
) -> None:
    expected = untouched(name)
    broker = lay_store(stores[name], tmp_path / "broker", journal_type)
    write_in(broker.root, lambda store: change(store, expected, tmp_path))
    with broker, CoreClient(broker.port) as client:
        assert set(complaints(broker.log)) <= set(expected.complaints)
        found = whole_account(broker, client)
        wrong = check(found, expected)
        assert wrong == [], "\n".join(wrong)
        use(client, expected)
        left = whole_account(broker, client)
        others = {one for one in complaints(broker.log) if DUPLICATE not in one}
        assert others <= set(expected.complaints)
        broker.stop()
    found_again(broker.root, left)
