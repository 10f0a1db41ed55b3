"""A store in a database, open for writing: its journals' flushes and its bodies go to the tables first."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from journalfs.clock import Clock
from journalfs.config.address_settings import BY_NAME
from journalfs.config.database import DatabaseSettings
from journalfs.config.in_force import SettingsInForce
from journalfs.errors import WrongCall
from journalfs.format.address_settings import StoredAddressSetting
from journalfs.format.bindings import encode_address_setting_json
from journalfs.format.record_types import BindingType
from journalfs.ids import RecordId
from journalfs.records.kinds import database_kind
from journalfs.store.creating import WHERE_TO, AddressSettings, make_queues
from journalfs.store.write.elsewhere import AcquiringElsewhere
from journalfs.store.write.sync_mode import SyncMode


def acquire_tables(database: DatabaseSettings, sync: SyncMode, clock: Clock) -> AcquiringElsewhere:
    """Raises what `open_for_writing` raises."""
    return AcquiringElsewhere(database_kind(database).acquire(database), sync, clock)


def create_tables(
    database: DatabaseSettings, addresses: AddressSettings, clock: Clock, *, bare: bool
) -> None:
    """Make an empty store in a database, with settings of addresses as its records. Not `bare`, dead letters
    and expired messages have queues. Raises `WrongCall` where there is a store already, and what
    `open_for_writing` raises.
    """
    owned = database_kind(database).acquire(replace(database, to_be_made=True))
    is_new = owned.is_new
    store = AcquiringElsewhere(owned, SyncMode.ALWAYS, clock).store()
    try:
        if not is_new:
            raise WrongCall(f"{database.shown}: there is a store already")
        if not bare and database.config is None:
            addresses = {**addresses, "#": {**WHERE_TO, **addresses.get("#", {})}}
        stored = {}
        for match, given in addresses.items():
            values = stored[match] = {BY_NAME[name].json_key: value for name, value in given.items()}
            setting = StoredAddressSetting(match, values, msgspec.json.encode(values).decode())
            body = encode_address_setting_json(setting)
            record_id = RecordId(store.journals.ids.draw())
            store.journals.bindings.stage_add(record_id, BindingType.ADDRESS_SETTING_JSON, body)
        if not bare:
            make_queues(store.journals, SettingsInForce(store.core.layout.config, stored))
    finally:
        store.close()
