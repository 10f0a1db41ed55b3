"""The settings in force for an address: what a mount says of each, and what a real broker does."""

from __future__ import annotations

import json
from pathlib import Path

from journalfs.config.setting_names import ADDRESS_SETTINGS, BY_JSON_KEY, SettingDefinition
from journalfs.store.settings import settings_in_force
from journalfs.store.write.store import WritingStore
from tests.broker.client import CoreClient
from tests.broker.instance import Broker
from tests.broker.settings import BrokerSettings, broker_xml
from tests.broker.writing import complaints, with_new_store, write_in
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
