"""Settings of addresses, queues and messages, changed and found again."""

from __future__ import annotations

import json

import pytest

from journalfs.errors import SettingRefused
from journalfs.ids import MessageId
from tests.store.writing.conftest import Writable, lines_of, queue_of


async def test_an_attribute_of_a_queue_is_kept(writable: Writable) -> None:
    async with writable.open() as store:
        await store.set_attribute("work", "work.a", "user.journalfs.max-consumers", b"3")
        await store.set_attribute("work", "work.a", "user.journalfs.filter", b"color = 'red'")
        await store.set_attribute("work", "work.b", "user.journalfs.paused", b"true")
        for name, value in ((b"max-consumers", b"many"), (b"filter", b"color ="), (b"nonsense", b"1")):
            with pytest.raises(SettingRefused):
                await store.set_attribute("work", "work.a", f"user.journalfs.{name.decode()}", value)
    async with writable.open() as store:
        model = queue_of(store, "work.a").model
        assert (model.binding.max_consumers, model.binding.filter) == (3, "color = 'red'")
        assert queue_of(store, "work.b").model.paused
        await store.set_attribute("work", "work.b", "user.journalfs.paused", b"false")
        assert not queue_of(store, "work.b").model.paused
    async with writable.open() as store:
        assert not queue_of(store, "work.b").model.paused


async def test_a_filter_decides_what_a_queue_gets(writable: Writable) -> None:
    async with writable.open() as store:
        await store.set_attribute("work", "work.a", "user.journalfs.filter", b"color = 'red'")
        publisher = store.publisher("work", None, "in.jsonl")
        await publisher.write(b'{"type":"text","body":"1","properties":{"color":"red"}}\n')
        await publisher.write(b'{"type":"text","body":"2","properties":{"color":"blue"}}\n')
        await publisher.finish()
        assert [json.loads(line)["body"] for line in lines_of(store, "work.a")] == ["1"]
        assert [json.loads(line)["body"] for line in lines_of(store, "work.b")] == ["1", "2"]


async def test_an_edited_settings_file_changes_what_differs(writable: Writable) -> None:
    async with writable.open() as store:
        queue = queue_of(store, "work.a")
        text = queue.settings_toml()
        await store.write_settings("work", "work.a", text.encode())
        before = store.journals.bindings.position
        edited = text.replace("max-consumers = -1", "max-consumers = 7", 1)
        edited = edited.replace("max-delivery-attempts = 10", "max-delivery-attempts = 4", 1)
        assert edited != text
        await store.write_settings("work", "work.a", edited.encode())
        assert store.journals.bindings.position > before
        assert queue_of(store, "work.a").model.binding.max_consumers == 7
        with pytest.raises(SettingRefused):
            await store.write_settings("work", "work.a", b"max-consumers = ")
        with pytest.raises(SettingRefused):
            await store.write_settings("work", "work.a", b'max-consumers = 1\nno-such = "x"\n')
        assert queue_of(store, "work.a").model.binding.max_consumers == 7
    async with writable.open() as store:
        address = store.address("work")
        assert address is not None
        assert "max-delivery-attempts = 4" in address.settings_toml()


async def test_delivery_count_and_schedule_of_a_message(writable: Writable) -> None:
    later = writable.clock.now_ms() + 60_000
    async with writable.open() as store:
        publisher = store.publisher("work", "work.a", "in")
        await publisher.write(b"x\n")
        await publisher.finish()
        message = MessageId(json.loads(lines_of(store, "work.a")[0])["id"])
        at = ("work", "work.a")
        await store.set_message_attribute(at, message, "user.journalfs.deliveryCount", b"3")
        await store.set_message_attribute(at, message, "user.journalfs.scheduledTime", str(later).encode())
        with pytest.raises(SettingRefused):
            await store.set_message_attribute(at, message, "user.journalfs.priority", b"3")
        with pytest.raises(SettingRefused):
            await store.set_message_attribute(at, message, "user.journalfs.deliveryCount", b"-3")
    async with writable.open() as store:
        (found,) = (json.loads(line) for line in lines_of(store, "work.a"))
        assert (found["deliveryCount"], found["scheduledTime"]) == (3, later)
        assert len(queue_of(store, "work.a").scheduled()) == 1
