"""The settings in force for an address: what a mount says of each, and what a real broker does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from journalfs.broker.queues.administering import QUEUE_SETTINGS
from journalfs.config.address_settings import ADDRESS_SETTINGS, BY_JSON_KEY, SettingDefinition
from journalfs.live.settings import settings_in_force
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings, broker_xml
from tests.broker.test_interop import new_instance
from tests.broker.writing import complaints, publish, queue_in, with_new_store, write_in
from tests.store.writing.test_settings_without_effect import other_value

ADDRESSES = ("x.of.the.file", "x.one.more", "x.changed", "other")
UNLIKE = {
    # Bounds of their own, or of others beside them.
    "page-size-bytes": "20K",
    "redelivery-collision-avoidance-factor": "0.5",
}


def other(definition: SettingDefinition) -> str:
    return UNLIKE.get(definition.name, other_value(definition))


def config() -> str:
    """All of one match are other than the defaults; a more specific one sets one of them."""
    every = "".join(f"<{one.name}>{other(one)}</{one.name}>\n" for one in ADDRESS_SETTINGS if one.in_xml)
    more = (
        f'<address-setting match="x.#">{every}</address-setting>'
        '<address-setting match="x.one.#"><max-delivery-attempts>3</max-delivery-attempts></address-setting>'
    )
    return broker_xml(BrokerSettings(), 61616).replace("</address-settings>", f"{more}</address-settings>")


def test_each_of_them_is_what_a_broker_says(artemis_home: Path, tmp_path: Path) -> None:
    broker = with_new_store(Broker(tmp_path / "broker", config=config()))

    async def work(store: WritingStore) -> dict[str, dict[str, object]]:
        for address in ADDRESSES:
            await store.create_address(address)
        await store.set_attribute("x.changed", None, "user.journalfs.redelivery-delay", b"5")
        in_force = settings_in_force(store.core)
        return {address: {one.name: one.value for one in in_force.address(address)} for address in ADDRESSES}

    ours = write_in(broker.root, work)
    with broker, CoreClient(broker.port) as client:
        assert complaints(broker.log) == []
        for address in ADDRESSES:
            told = json.loads(client.operation("broker", "getAddressSettingsAsJSON", address))
            theirs = {BY_JSON_KEY[key].name: value for key, value in told.items() if key in BY_JSON_KEY}
            assert len(theirs) > (60 if address.startswith("x.") else 10), told
            assert {name: ours[address][name] for name in theirs} == theirs, address
        broker.stop()


CHANGED = {
    "routing-type": "ANYCAST",
    "filter": "a = 1",
    "max-consumers": "7",
    "purge-on-no-consumers": "true",
    "exclusive": "true",
    "last-value": "true",
    "last-value-key": "key",
    "non-destructive": "true",
    "consumers-before-dispatch": "2",
    "delay-before-dispatch": "3",
    "group-rebalance": "true",
    "group-rebalance-pause-dispatch": "true",
    "group-buckets": "4",
    "group-first-key": "first",
    "ring-size": "5",
    "enabled": "false",
    "auto-delete-delay": "6",
    "auto-delete-message-count": "8",
}
"""Settings of a queue, other than any has them by itself."""


@pytest.mark.long
def test_what_a_configuration_lists_a_broker_sets_anew(artemis_home: Path, tmp_path: Path) -> None:
    listed = '<address name="listed"><multicast><queue name="listed"/></multicast></address>'
    text = broker_xml(BrokerSettings(), 61616).replace("</addresses>", f"{listed}</addresses>")
    broker = with_new_store(Broker(tmp_path / "broker", config=text))
    assert CHANGED.keys() | {"auto-delete"} == QUEUE_SETTINGS.keys(), "with that, it would go"
    with broker:
        broker.stop()

    async def look(store: WritingStore) -> dict[str, str]:
        attributes = queue_in(store, "listed").attributes()
        return {name: attributes.get(f"user.journalfs.{name}", b"").decode() for name in CHANGED}

    async def change(store: WritingStore) -> set[str]:
        await store.write_settings("listed", "listed", b"paused = true\nring-size = 5\n")
        for name, value in CHANGED.items():
            await store.set_attribute("listed", "listed", f"user.journalfs.{name}", value.encode())
        messages = [str(event["message"]) for event in store.core.events]
        return {message.split()[1] for message in messages if "lists the queue" in message}

    before = write_in(broker.root, look)
    told = write_in(broker.root, change)
    assert write_in(broker.root, look) == CHANGED
    with broker, CoreClient(broker.port) as client:
        # It has none as long as it runs, and leaves it in its record.
        assert client.attribute("queue.listed", "filter") is None
        assert complaints(broker.log) == []
        broker.stop()
    after = write_in(broker.root, look)
    assert told - {"filter"} == {name for name in CHANGED if after[name] != CHANGED[name]}
    assert all(after[name] == before[name] for name in told - {"filter"})

    async def delete(store: WritingStore) -> list[str]:
        await store.delete_queue("listed", "listed")
        return [str(event["message"]) for event in store.core.events if "deleted" in str(event["message"])]

    assert len(write_in(broker.root, delete)) == 1
    with broker:
        broker.stop()
    assert write_in(broker.root, look)["ring-size"] == before["ring-size"], "it is there"


@pytest.mark.long
def test_addresses_that_a_broker_deletes_are_told_of(artemis_home: Path, tmp_path: Path) -> None:
    force = (
        '<address-setting match="going.#">'
        "<config-delete-addresses>FORCE</config-delete-addresses></address-setting>"
    )
    config = broker_xml(BrokerSettings(), 61616).replace("</address-settings>", f"{force}</address-settings>")
    broker = with_new_store(Broker(tmp_path / "broker", config=config))

    async def work(store: WritingStore) -> list[str]:
        for address in ("going.away", "staying"):
            await store.create_address(address)
            await store.create_queue(address, address)
            await publish(store, address, address, "in.txt", b"one\n")
        return [str(one["message"]) for one in store.core.events if "FORCE" in str(one["message"])]

    (told,) = write_in(broker.root, work)
    assert told.startswith("going.away: config-delete-addresses is FORCE")
    with broker, CoreClient(broker.port) as client:
        assert client.message_count("staying") == 1
        assert "going.away" not in client.attribute("broker", "addressNames")
        broker.stop()


@pytest.mark.long
def test_who_changes_a_paused_queue_leaves_it_paused(artemis_home: Path, tmp_path: Path) -> None:
    """A broker that loads what it wrote itself does not: a mount says so, too."""
    broker = new_instance(tmp_path / "broker", "NIO")
    ours = {
        "after": ("ring-size", "paused"),
        "before": ("paused", "ring-size"),
        "both": ("paused", "max-consumers", "ring-size"),
    }
    values = {"paused": b"true", "ring-size": b"50", "max-consumers": b"7"}

    async def work(store: WritingStore) -> None:
        await store.create_address("a")
        for queue, names in ours.items():
            await store.create_queue("a", queue)
            for name in names:
                await store.set_attribute("a", queue, f"user.journalfs.{name}", values[name])
        await store.create_queue("a", "text")
        for text in (b"paused = true\n", b"ring-size = 50\n"):
            await store.write_settings("a", "text", text)
        await store.create_queue("a", "freed")
        await store.write_settings("a", "freed", b"paused = true\n")
        await store.write_settings("a", "freed", b"paused = false\nring-size = 50\n")

    async def look(store: WritingStore) -> set[str]:
        queues = [queue.name for address in store.addresses() for queue in address.queues()]
        return {name for name in queues if queue_in(store, name).model.paused}

    write_in(broker.root, work)
    held = {*ours, "text"}
    assert write_in(broker.root, look) == held
    with broker, CoreClient(broker.port) as client:
        for queue in (*held, "freed"):
            assert client.attribute(f"queue.{queue}", "paused") == (queue in held), queue
        client.operation("broker", "updateQueue", json.dumps({"name": "text", "ring-size": 60}))
        assert client.attribute("queue.text", "paused")
        broker.stop()
    assert write_in(broker.root, look) == {*ours}
    with broker, CoreClient(broker.port) as client:
        assert not client.attribute("queue.text", "paused")
        assert client.attribute("queue.both", "paused")
        assert complaints(broker.log) == []
        broker.stop()
