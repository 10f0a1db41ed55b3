"""Addresses, queues and settings that a mount, and then a broker, changed by chance: what a mount shows of
them is what a broker that starts says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from journalfs.config.address_settings import ADDRESS_SETTINGS, BY_JSON_KEY
from journalfs.errors import JournalfsError
from journalfs.live.settings import settings_in_force
from journalfs.store.write.store import WritingStore
from tests.broker.client import ClientError, CoreClient
from tests.broker.test_interop import new_instance
from tests.broker.test_interop_settings import CHANGED, other
from tests.broker.writing import NO_FILTER, QUEUES_MAX, complaints, queue_in, write_in

STEPS, BROKERS_STEPS = 150, 40
ADDRESSES = ("a", "b", "c", "d")
USUAL = {
    "paused": "false",
    "routing-type": "MULTICAST",
    "filter": "",
    "max-consumers": "-1",
    "purge-on-no-consumers": "false",
    "exclusive": "false",
    "last-value-key": "other",
    "non-destructive": "false",
    "consumers-before-dispatch": "0",
    "delay-before-dispatch": "-1",
    "group-rebalance": "false",
    "group-rebalance-pause-dispatch": "false",
    "group-buckets": "-1",
    "group-first-key": "",
    "ring-size": "-1",
    "enabled": "true",
    "auto-delete-delay": "1",
    "auto-delete-message-count": "2",
}
OF_QUEUES = {name: (value, CHANGED.get(name, "true")) for name, value in USUAL.items()}
"""Each setting of a queue, but for `last-value`, which its key implies, with two values."""
TEXTS = ("routing-type", "filter", "last-value-key", "group-first-key")
OF_ADDRESSES = [
    definition
    for definition in ADDRESS_SETTINGS
    if definition.name.startswith(("redelivery", "max-", "min-", "expiry-delay", "default-", "dead-letter-a"))
]
TOLD = 14
"""So many of them a broker lists, at least."""
BOTH_KINDS = ("ANYCAST", "MULTICAST", "ANYCAST,MULTICAST")
PREFIX = "user.journalfs."


def camel(name: str) -> str:
    first, *others = name.split("-")
    return first + "".join(other.capitalize() for other in others)


@dataclass(frozen=True)
class Changing:
    """What is done in a mount."""

    store: WritingStore
    chance: Random

    async def step(self) -> None:
        address = self.chance.choice(ADDRESSES)
        queue = f"{address}.{self.chance.randrange(3)}"
        match self.chance.randrange(12):
            case 0 | 1:
                await self.store.create_address(address)
            case 2 | 3:
                await self.store.create_queue(address, queue)
            case 4:
                await self.store.delete_queue(address, queue)
            case 5:
                await self.store.delete_address(address)
            case 6 | 7 | 8:
                await self._set_queue(address, queue)
            case 9:
                await self._set_kinds(address)
            case _:
                await self._set_address(address)

    async def _set_queue(self, address: str, queue: str) -> None:
        names = self.chance.sample(sorted(OF_QUEUES), 3)
        values = {name: self.chance.choice(OF_QUEUES[name]) for name in names}
        match self.chance.randrange(5):
            case 0:
                await self.store.remove_attribute(address, queue, PREFIX + names[0])
            case 1:
                quoted = {
                    name: json.dumps(value) if name in TEXTS else value for name, value in values.items()
                }
                text = "".join(f"{name} = {value}\n" for name, value in quoted.items())
                await self.store.write_settings(address, queue, text.encode())
            case _:
                for name, value in values.items():
                    await self.store.set_attribute(address, queue, PREFIX + name, value.encode())

    async def _set_kinds(self, address: str) -> None:
        kinds = self.chance.choice(BOTH_KINDS).encode()
        await self.store.set_attribute(address, None, f"{PREFIX}routing-types", kinds)

    async def _set_address(self, address: str) -> None:
        definition = self.chance.choice(OF_ADDRESSES)
        match self.chance.randrange(4):
            case 0:
                await self.store.remove_attribute(address, None, PREFIX + definition.name)
            case 1:
                value = self.chance.choice((b"true", b"false"))
                await self.store.set_attribute(address, None, f"{PREFIX}paused", value)
            case _:
                name, value = PREFIX + definition.name, other(definition).encode()
                await self.store.set_attribute(address, None, name, value)


def let_broker_step(client: CoreClient, chance: Random) -> None:
    address = chance.choice(ADDRESSES)
    queue = f"{address}.{chance.randrange(3)}"
    target = chance.choice((f"queue.{queue}", f"address.{address}"))
    update = {"name": queue, "ring-size": chance.choice((-1, 60)), "max-consumers": chance.choice((-1, 9))}
    match chance.randrange(7):
        case 0 | 1:
            client.operation(target, "pause", True)
        case 2:
            client.operation(target, "resume")
        case 3:
            client.operation("broker", "updateQueue", json.dumps(update))
        case 4:
            client.operation("broker", "updateAddress", address, chance.choice(BOTH_KINDS))
        case 5:
            created = {"name": queue, "address": address, "ring-size": 5, "auto-create-address": True}
            client.operation("broker", "createQueue", json.dumps(created), False)
        case 6:
            client.operation("broker", "destroyQueue", queue, True)


Shown = dict[str, dict[str, Any]]


async def shown(store: WritingStore) -> Shown:
    """By address: its kinds, whether it is paused, the settings in force, and its queues."""
    found: Shown = {}
    for address in store.addresses():
        if address.name not in ADDRESSES:
            continue
        attributes = address.attributes()
        found[address.name] = {
            "kinds": sorted(attributes[f"{PREFIX}routing-types"].decode().split(",")),
            "paused": address.model.paused,
            "settings": {one.name: one.value for one in settings_in_force(store.core).address(address.name)},
            "queues": {
                queue.name: {
                    **{name.removeprefix(PREFIX): text.decode() for name, text in queue.attributes().items()},
                    "paused": str(queue_in(store, queue.name).model.paused).lower(),
                }
                for queue in address.queues()
            },
        }
    return found


def listed(client: CoreClient, operation: str) -> dict[str, dict[str, Any]]:
    told = json.loads(client.operation("broker", operation, NO_FILTER, 1, QUEUES_MAX))["data"]
    return {one["name"]: one for one in told}


def compare(client: CoreClient, ours: Shown) -> None:
    queues, addresses = listed(client, "listQueues"), listed(client, "listAddresses")
    assert ours.keys() == addresses.keys() & set(ADDRESSES)
    names = {name for address in ours.values() for name in address["queues"]}
    assert names == {name for name, queue in queues.items() if queue["address"] in ADDRESSES}
    for name, address in ours.items():
        theirs = addresses[name]
        assert sorted(json.loads(theirs["routingTypes"])) == address["kinds"], name
        assert (theirs["paused"] == "true") == address["paused"], name
        told = json.loads(client.operation("broker", "getAddressSettingsAsJSON", name))
        settings = {BY_JSON_KEY[key].name: value for key, value in told.items() if key in BY_JSON_KEY}
        assert {setting: address["settings"][setting] for setting in settings} == settings, name
        for queue, own in address["queues"].items():
            row, settings_told = queues[queue], OF_QUEUES.keys() - {"paused"}
            told = {name: str(row[camel(name)]) for name in settings_told if camel(name) in row}
            assert len(told) >= TOLD, row
            if own["last-value"] == "true":
                own.setdefault("last-value-key", "_AMQ_LVQ_NAME")
            assert {setting: own.get(setting, "") for setting in told} == told, queue
            assert str(client.attribute(f"queue.{queue}", "paused")).lower() == own["paused"], queue


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_both_have_the_same(artemis_home: Path, tmp_path: Path, seed: int) -> None:
    broker, chance = new_instance(tmp_path / "broker", "NIO"), Random(seed)

    async def work(store: WritingStore) -> Shown:
        changing = Changing(store, chance)
        for _ in range(STEPS):
            # Much of it makes no sense, as it comes.
            with suppress(JournalfsError):
                await changing.step()
        return await shown(store)

    def started_on(ours: Shown, steps: Callable[[CoreClient], None]) -> None:
        with broker, CoreClient(broker.port) as client:
            compare(client, ours)
            steps(client)
            assert complaints(broker.log) == []
            broker.stop()

    def change(client: CoreClient) -> None:
        for _ in range(BROKERS_STEPS):
            with suppress(ClientError):
                let_broker_step(client, chance)

    ours = write_in(broker.root, work)
    assert ours
    assert any(address["queues"] for address in ours.values())
    started_on(ours, change)
    started_on(write_in(broker.root, shown), lambda client: None)
