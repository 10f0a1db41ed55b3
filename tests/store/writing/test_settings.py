"""Settings of addresses, queues and messages, changed and found again."""

from __future__ import annotations

import json

import pytest

from journalfs.errors import SettingFixed, SettingRefused
from journalfs.ids import MessageId
from journalfs.live.settings import settings_in_force
from journalfs.store.write.store import WritingStore
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, bodies_of, lines_of, queue_of
from tests.store.writing.test_forwarding import events


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


async def test_in_a_filter_names_of_headers_are_those_of_brokers(writable: Writable) -> None:
    """Clients translate theirs before a broker stores one; so what is stored is not translated."""
    async with writable.open() as store:
        await store.set_attribute("work", "work.a", "user.journalfs.filter", b"AMQPriority > 4")
        assert not events(store, "configuration")
        untranslated = b"JMSPriority > 4 AND JMSDeliveryMode IS NULL"
        await store.set_attribute("work", "work.b", "user.journalfs.filter", untranslated)
        told = [str(event["message"]).split() for event in events(store, "configuration")]
        assert [(words[0], words[-1]) for words in told] == [
            ("work::work.b:", "AMQDurable"),
            ("work::work.b:", "AMQPriority"),
        ]
        publisher = store.publisher("work", None, "in.jsonl")
        await publisher.write(b'{"body":"1","priority":9}\n')
        await publisher.write(b'{"body":"2","priority":1,"properties":{"JMSPriority":9}}\n')
        await publisher.finish()
        assert bodies_of(store, "work.a") == ["1"]
        assert bodies_of(store, "work.b") == ["2"]


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


@pytest.mark.rule("S-87")
@pytest.mark.parametrize(
    ("queue", "text", "reason"),
    [
        (
            "work.a",
            "[adress]\nmax-size-bytes = 1\n",
            "adress: there is no table [adress] here; did you mean [address]?",
        ),
        ("work.a", "[x]\n", "x: there is no table [x] here"),
        ("work.a", "[address.more]\n", "address.more: there is no table [address.more] here"),
        (None, "[address]\n", "address: there is no table [address] here"),
        (None, "max-size-bytes = []\n", "max-size-bytes: is neither text, number nor boolean"),
    ],
)
async def test_a_settings_file_with_a_table_that_there_is_not(
    writable: Writable, queue: str | None, text: str, reason: str
) -> None:
    async with writable.open() as store:
        with pytest.raises(SettingRefused) as caught:
            await store.write_settings("work", queue, text.encode())
        assert str(caught.value) == reason


@pytest.mark.rule("S-87")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max-size-bytes", str(2**63)),
        ("max-size-bytes", "9999999999G"),
        ("redelivery-delay", str(2**63)),
        ("max-delivery-attempts", str(2**31)),
        ("id-cache-size", str(2**31)),
        ("default-max-consumers", "-9"),
        ("default-group-buckets", "-2"),
        ("redelivery-delay-multiplier", "inf"),
        ("redelivery-delay-multiplier", "nan"),
        ("no-expiry", "1"),
    ],
)
async def test_an_address_takes_no_value_that_does_not_fit(writable: Writable, name: str, text: str) -> None:
    async with writable.open() as store:
        address = store.address("work")
        assert address is not None
        before = address.settings_toml()
        with pytest.raises(SettingRefused):
            await store.set_attribute("work", None, f"user.journalfs.{name}", text.encode())
        with pytest.raises(SettingRefused):
            await store.write_settings("work", None, f"{name} = {text}\n".encode())
        assert address.settings_toml() == before


@pytest.mark.rule("S-87")
async def test_an_address_takes_what_just_fits(writable: Writable) -> None:
    async with writable.open() as store:
        text = f"max-size-bytes = {2**63 - 1}\nmax-delivery-attempts = {2**31 - 1}\nno-expiry = true\n"
        await store.write_settings("work", None, text.encode())
        address = store.address("work")
        assert address is not None
        settings = address.settings_toml().splitlines()
        for line in text.splitlines():
            assert any(one.startswith(line) for one in settings), line


async def test_delivery_count_and_schedule_of_a_message(writable: Writable) -> None:
    later = writable.clock.now_ms() + 60_000
    async with writable.open() as store:
        await publish_file(store, "work", "work.a", "in", b"x\n")
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


NEW_QUEUES = {
    "default-max-consumers": ("max-consumers", "3"),
    "default-purge-on-no-consumers": ("purge-on-no-consumers", "true"),
    "default-exclusive-queue": ("exclusive", "true"),
    "default-last-value-queue": ("last-value", "true"),
    "default-last-value-key": ("last-value-key", "key"),
    "default-non-destructive": ("non-destructive", "true"),
    "default-ring-size": ("ring-size", "5"),
    "default-consumers-before-dispatch": ("consumers-before-dispatch", "2"),
    "default-delay-before-dispatch": ("delay-before-dispatch", "1000"),
    "default-group-buckets": ("group-buckets", "4"),
    "default-group-rebalance": ("group-rebalance", "true"),
    "default-group-rebalance-pause-dispatch": ("group-rebalance-pause-dispatch", "true"),
    "default-group-first-key": ("group-first-key", "first"),
    "auto-delete-created-queues": ("auto-delete", "true"),
    "auto-delete-queues-delay": ("auto-delete-delay", "60000"),
    "auto-delete-queues-message-count": ("auto-delete-message-count", "7"),
}
"""Setting of an address -> that of a queue, and a value that is not the usual one."""


@pytest.mark.parametrize("given", NEW_QUEUES)
async def test_new_queues_get_it(little_store: LittleStore, given: str) -> None:
    name, value = NEW_QUEUES[given]
    async with Writable(little_store, "NIO").open() as store:
        await store.create_queue("work", "before")
        await store.set_attribute("work", None, f"user.journalfs.{given}", value.encode())
        await store.create_queue("work", "after")

        def shown(queue: str) -> str | None:
            attribute = queue_of(store, queue).attributes().get(f"user.journalfs.{name}")
            return None if attribute is None else attribute.decode()

        assert shown("after") == value
        assert shown("before") != value
        if shown("before") is not None:
            await store.remove_attribute("work", "before", f"user.journalfs.{name}")
            assert shown("before") == value, "what a new one would get"


async def test_a_configuration_may_say_what_nobody_else_may(little_store: LittleStore) -> None:
    (little_store.root / "journalfs.toml").write_text(
        '[address-settings."#"]\ndefault-consumers-before-dispatch = -1\ndefault-last-value-key = ""\n'
    )
    async with Writable(little_store, "NIO").open() as store:
        await store.create_queue("work", "after")
        binding = queue_of(store, "after").model.binding
        assert (binding.consumers_before_dispatch, binding.last_value_key) == (-1, None)


async def test_new_addresses_get_it(little_store: LittleStore) -> None:
    (little_store.root / "journalfs.toml").write_text(
        '[address-settings."any.#"]\ndefault-address-routing-type = "ANYCAST"\n'
    )
    async with Writable(little_store, "NIO").open() as store:
        await store.create_address("any.one")
        await store.create_address("other")

        def shown(name: str) -> bytes:
            address = store.address(name)
            assert address is not None
            return address.attributes()["user.journalfs.routing-types"]

        assert (shown("any.one"), shown("other")) == (b"ANYCAST", b"MULTICAST,ANYCAST"), (
            "until it has a queue"
        )
        await store.create_queue("any.one", "q")
        assert kind_of(store, "q") == b"ANYCAST", "as its address allows"
        with pytest.raises(SettingRefused):
            await store.set_attribute("any.one", None, "user.journalfs.routing-types", b"MULTICAST")
        await store.set_attribute("any.one", "q", "user.journalfs.routing-type", b"MULTICAST")
        assert shown("any.one") == b"MULTICAST,ANYCAST"


@pytest.mark.rule("S-87")
async def test_what_is_taken_back_is_what_the_configuration_says(little_store: LittleStore) -> None:
    """A record takes the place of what that says of the address, and begins with it."""
    configuration = little_store.root / "journalfs.toml"
    said = '[address-settings."work"]\nmax-delivery-attempts = 2\nredelivery-delay = 50\n'
    configuration.write_text(said)
    attempts, delay, multiplier = (
        f"user.journalfs.{name}"
        for name in ("max-delivery-attempts", "redelivery-delay", "redelivery-delay-multiplier")
    )

    def shown(store: WritingStore) -> tuple[bytes, bytes]:
        address = store.address("work")
        assert address is not None
        return address.attributes()[attempts], address.attributes()[delay]

    async with Writable(little_store, "NIO").open() as store:
        before = settings_in_force(store.core).address("work")
        await store.set_attribute("work", None, attempts, b"5")
        await store.set_attribute("work", None, multiplier, b"2")
        with pytest.raises(SettingFixed, match="the configuration says the same"):
            await store.remove_attribute("work", None, delay)
        await store.remove_attribute("work", None, attempts)
        assert shown(store) == (b"2", b"50")
        await store.remove_attribute("work", None, multiplier)
        assert settings_in_force(store.core).address("work") == before, "as if nothing had been set"
    configuration.write_text(said.replace("2", "3"))
    async with Writable(little_store, "NIO").open() as store:
        assert shown(store) == (b"3", b"50"), "and what is edited there counts"


async def test_what_kinds_of_queues_an_address_allows(little_store: LittleStore) -> None:
    """It stays paused, which is said of its record."""
    kinds, paused = "user.journalfs.routing-types", "user.journalfs.paused"
    async with Writable(little_store, "NIO").open() as store:
        address = store.address("work")
        assert address is not None
        await store.set_attribute("work", None, paused, b"true")
        for refused, why in ((b"BOTH", "is not ANYCAST"), (b"ANYCAST", "queue work.a is of type MULTICAST")):
            with pytest.raises(SettingRefused, match=why):
                await store.set_attribute("work", None, kinds, refused)
        assert address.attributes()[kinds] == b"MULTICAST"
        await store.set_attribute("work", None, kinds, b"anycast, MULTICAST")
        assert address.attributes()[kinds] == b"MULTICAST,ANYCAST"
        await store.set_attribute("work", "work.a", "user.journalfs.routing-type", b"ANYCAST")
        await store.set_attribute("work", "work.b", "user.journalfs.routing-type", b"ANYCAST")
        await store.set_attribute("work", None, kinds, b"ANYCAST")
        with pytest.raises(SettingFixed):
            await store.remove_attribute("work", None, kinds)
    async with Writable(little_store, "NIO").open() as store:
        address = store.address("work")
        assert address is not None
        assert (address.attributes()[kinds], address.model.paused) == (b"ANYCAST", True)
        await store.set_attribute("work", None, paused, b"false")
        assert not store.core.bindings.addresses["work"].paused


async def test_new_queues_where_both_kinds_are_allowed(little_store: LittleStore) -> None:
    async with Writable(little_store, "NIO").open() as store:
        await store.set_attribute("work", "work.a", "user.journalfs.routing-type", b"ANYCAST")
        await store.create_queue("work", "before")
        await store.set_attribute("work", None, "user.journalfs.default-queue-routing-type", b"ANYCAST")
        await store.create_queue("work", "after")
        assert (kind_of(store, "before"), kind_of(store, "after")) == (b"MULTICAST", b"ANYCAST")


def kind_of(store: WritingStore, queue: str) -> bytes:
    address = "any.one" if queue == "q" else "work"
    return queue_of(store, queue, address).attributes()["user.journalfs.routing-type"]


async def test_queues_may_take_turns(little_store: LittleStore) -> None:
    async with Writable(little_store, "NIO").open() as store:
        for queue in ("work.a", "work.b"):
            await store.set_attribute("work", queue, "user.journalfs.routing-type", b"ANYCAST")
        await publish_file(store, "work", None, "in", b"1\n2\n3\n4\n")
        assert [len(lines_of(store, queue)) for queue in ("work.a", "work.b")] == [2, 2]


@pytest.mark.parametrize("name", ["user", "internal", "auto-created", "configuration-managed"])
async def test_what_nobody_sets(little_store: LittleStore, name: str) -> None:
    async with Writable(little_store, "NIO").open() as store:
        with pytest.raises(SettingRefused, match="no setting of a queue that can be changed"):
            await store.set_attribute("work", "work.a", f"user.journalfs.{name}", b"true")
