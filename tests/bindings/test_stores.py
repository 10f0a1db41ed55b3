"""Bindings journals that real brokers wrote, against what those brokers said they hold."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from journalfs.bindings.model import BindingsState, Queue
from journalfs.config.address_settings import BY_JSON_KEY
from journalfs.config.in_force import SettingsInForce
from journalfs.config.layout import locate_store
from journalfs.config.wildcards import WildcardSyntax, routes
from tests.bindings.replaying import replay_bindings
from tests.frozen import FILE_STORES, ExpectedStores, PristineStores
from tests.reference.journal import read_folder

pytestmark = pytest.mark.parametrize("name", FILE_STORES)

QUEUE_FIELDS = {
    "user": "user",
    "exclusive": "exclusive",
    "lastValue": "last_value",
    "lastValueKey": "last_value_key",
    "nonDestructive": "non_destructive",
    "ringSize": "ring_size",
    "maxConsumers": "max_consumers",
    "purgeOnNoConsumers": "purge_on_no_consumers",
    "consumersBeforeDispatch": "consumers_before_dispatch",
    "delayBeforeDispatch": "delay_before_dispatch_ms",
    "groupRebalance": "group_rebalance",
    "groupBuckets": "group_buckets",
    "groupFirstKey": "group_first_key",
    "internal": "internal",
    "autoCreated": "auto_created",
    "configurationManaged": "configuration_managed",
}
SILENT = {"ringSize": -1, "maxConsumers": -1, "delayBeforeDispatch": -1, "groupBuckets": -1}
"""Values that the account leaves out, where they are neither 0 nor empty."""


@cache
def replayed(directory: Path) -> BindingsState:
    files = read_folder(directory, "bindings")
    return replay_bindings(
        (file.name, [(record, record.body) for record in file.scan.records]) for file in files
    )


def told(queue: Queue) -> dict[str, Any]:
    """A queue as the account tells it."""
    binding = queue.binding
    fields = {key: getattr(binding, field) for key, field in QUEUE_FIELDS.items()}
    said = {key: value for key, value in fields.items() if value and value != SILENT.get(key)}
    said |= {"id": queue.queue_id, "name": queue.name, "address": queue.address, "filter": binding.filter}
    said |= {"routingType": binding.routing_type.name, "durable": True}
    return said | ({"paused": True} if queue.paused else {})


def test_queues(name: str, stores: PristineStores, expected: ExpectedStores) -> None:
    state = replayed(stores[name] / "data" / "bindings")
    keys = {*QUEUE_FIELDS, "id", "name", "address", "filter", "routingType", "durable", "paused"}
    account = {
        queue["id"]: {key: value for key, value in queue.items() if key in keys}
        for queue in expected[name]["queues"]
    }
    assert {queue_id: told(queue) for queue_id, queue in state.queues.items()} == account
    assert not state.anomalies


def test_addresses(name: str, stores: PristineStores, expected: ExpectedStores) -> None:
    state = replayed(stores[name] / "data" / "bindings")
    syntax = WildcardSyntax()
    account = {address["name"]: address for address in expected[name]["addresses"]}
    assert set(state.addresses) == set(account)
    for address in state.addresses.values():
        said = account[address.name]
        assert address.address_id == said["id"]
        assert {routing.name for routing in address.binding.routing_types} == set(said["routingTypes"])
        assert address.binding.auto_created == said.get("autoCreated", False)
        assert address.paused == said.get("paused", False)
        own = {queue.name for queue in state.queues_of(address.name)}
        # The broker also names queues of wildcard addresses, once it has routed to them from this address.
        routed = {
            queue.name for queue in state.queues.values() if routes(queue.address, address.name, syntax)
        }
        assert own <= set(said["queues"]) <= routed


def test_settings_in_force(name: str, stores: PristineStores, expected: ExpectedStores) -> None:
    layout = locate_store(stores[name])
    state = replayed(layout.bindings_dir)
    stored = {match: setting.values for match, setting in state.address_settings.items()}
    settings = SettingsInForce(layout.config, stored)
    for address in expected[name]["addresses"]:
        account: Mapping[str, Any] = expected[name]["defaultSettings"] | address.get("settings", {})
        in_force = {setting.name: setting.value for setting in settings.address(address["name"])}
        assert {key: in_force[BY_JSON_KEY[key].name] for key in account} == account, address["name"]


def test_diverts(name: str, stores: PristineStores, expected: ExpectedStores) -> None:
    state = replayed(stores[name] / "data" / "bindings")
    found = [
        {
            "name": divert.name,
            "address": divert.address,
            "forwardingAddress": divert.forwarding_address,
            "filter": divert.filter,
            "exclusive": divert.exclusive,
            "routingName": divert.routing_name,
            "routingType": divert.routing_type.name,
        }
        for divert in state.diverts.values()
    ]
    assert found == expected[name].get("diverts", [])


def test_ids_never_pass_the_counter(name: str, stores: PristineStores, expected: ExpectedStores) -> None:
    """The last counter record bounds every id in use: what a writer may draw next depends on it."""
    state = replayed(stores[name] / "data" / "bindings")
    assert state.id_counter is not None
    assert state.id_counter >= state.max_id
    highest = max(message["id"] for queue in expected[name]["queues"] for message in queue["messages"])
    assert state.id_counter >= highest
