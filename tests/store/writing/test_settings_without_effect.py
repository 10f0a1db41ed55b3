"""Settings of addresses and queues that are kept for brokers: checked, written, shown, and nothing more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journalfs.broker.queues.administering import QUEUE_NO_EFFECT
from journalfs.config.address_settings import BY_NAME, NO_EFFECT, Kind, SettingDefinition
from journalfs.errors import SettingRefused
from journalfs.store.write.store import WritingStore
from tests.store.conftest import LittleStore
from tests.store.writing.conftest import Writable, lines_of, queue_of


def other_value(definition: SettingDefinition) -> str:
    """One that is not the default."""
    match definition.kind:
        case Kind.BOOLEAN:
            return "false" if definition.default else "true"
        case Kind.CHOICE:
            return next(choice for choice in definition.choices if choice != definition.default)
        case Kind.TEXT:
            return "text"
        case _:
            return "16" if definition.power_of_two else "7"


async def worked(store: WritingStore) -> list[dict[str, Any]]:
    """What becomes of some messages, but for what no two publications share."""
    publisher = store.publisher("work", None, "in.jsonl")
    for group in ("a", "a", "b"):
        await publisher.write(json.dumps({"type": "text", "body": group, "groupId": group}).encode() + b"\n")
    await publisher.finish()
    consumer, found = store.consumer(("work", "work.a")), []
    while (delivery := consumer.take()) is not None:
        found.append(json.loads(bytes(delivery.line.read(0, delivery.line.size_bytes))))
        await delivery.acknowledge()
    await consumer.close()
    found += [json.loads(line) for line in lines_of(store, "work.b")]
    return [{name: one[name] for name in one.keys() - {"id", "timestamp", "userId"}} for one in found]


def settings_text(store: WritingStore) -> str:
    address = store.address("work")
    assert address is not None
    return address.settings_toml()


def told(store: WritingStore, name: str) -> list[object]:
    return [event["message"] for event in store.core.events if f"{name} is kept" in str(event["message"])]


async def usual(little: LittleStore) -> list[dict[str, Any]]:
    (little.root / "journalfs.toml").write_text('journal-type = "NIO"\n')
    async with Writable(little, "NIO").open() as store:
        found = await worked(store)
        ids = [json.loads(line)["id"] for line in lines_of(store, "work.b")]
        assert await store.acknowledge(("work", "work.b"), ids) == len(ids)
    return found


@pytest.mark.rule("S-135")
@pytest.mark.parametrize("name", sorted(NO_EFFECT))
async def test_of_an_address(little_store: LittleStore, name: str) -> None:
    before = await usual(little_store)
    definition = BY_NAME[name]
    value = other_value(definition)
    async with Writable(little_store, "NIO").open() as store:
        await store.set_attribute("work", None, f"user.journalfs.{name}", value.encode())
        assert len(told(store, name)) == 1
        if definition.kind is not Kind.TEXT:
            with pytest.raises(SettingRefused):
                await store.set_attribute("work", None, f"user.journalfs.{name}", b"no such value")
        assert await worked(store) == before
    async with Writable(little_store, "NIO").open() as store:
        assert store.core.bindings.address_settings["work"].values.keys() == {definition.json_key}
        line = next(line for line in settings_text(store).splitlines() if line.startswith(f"{name} ="))
        assert value in line
        assert told(store, name) == []


@pytest.mark.rule("S-135")
async def test_of_a_queue(little_store: LittleStore) -> None:
    before = await usual(little_store)
    assert {"group-first-key"} == QUEUE_NO_EFFECT
    async with Writable(little_store, "NIO").open() as store:
        await store.set_attribute("work", "work.a", "user.journalfs.group-first-key", b"first")
        assert len(told(store, "group-first-key")) == 1
        assert await worked(store) == before
    async with Writable(little_store, "NIO").open() as store:
        assert queue_of(store, "work.a").model.binding.group_first_key == "first"


@pytest.mark.rule("S-135")
async def test_a_divert(little_store: LittleStore) -> None:
    """Whoever is used to one is told of it."""
    before = await usual(little_store)
    config = little_store.root / "etc" / "broker.xml"
    config.parent.mkdir()
    divert = "<divert name='d'><address>work</address><forwarding-address>else</forwarding-address></divert>"
    config.write_text(f"<configuration><core>\n<diverts>\n{divert}\n</diverts>\n</core></configuration>")
    async with Writable(little_store, "NIO").open() as store:
        assert await worked(store) == before
        said = [str(event["message"]) for event in store.core.events]
        assert [one for one in said if one.startswith(f"{config}:3: divert d of work: only a broker diverts")]
