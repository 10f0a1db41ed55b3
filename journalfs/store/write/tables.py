"""A store in a database, open for writing: its journals' flushes and its bodies go to the tables first."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import msgspec
from msgspec.structs import replace as with_

from journalfs.clock import Clock
from journalfs.config.database import DatabaseSettings
from journalfs.config.in_force import SettingsInForce
from journalfs.config.journal_settings import journal_settings
from journalfs.config.layout import locate_store
from journalfs.config.setting_names import BY_NAME
from journalfs.engine.disk import DiskBackend
from journalfs.engine.page_file import PageStore
from journalfs.errors import WrongCall
from journalfs.format.address_settings import StoredAddressSetting
from journalfs.format.bindings_encode import encode_address_setting_json
from journalfs.format.record_types import BindingType
from journalfs.ids import RecordId
from journalfs.large.writing import BodyWriter
from journalfs.store.creating import WHERE_TO, AddressSettings, make_queues
from journalfs.store.write.opening import Taking
from journalfs.store.write.store import SyncMode, WritingStore
from journalfs.tables.owning import OwnedTables


class TableStore(WritingStore):
    """Made by `open_for_writing`. What lies beside the journals (staged files, rests) goes with it."""

    kept = False
    owned: OwnedTables

    def status(self) -> Mapping[str, object]:
        return {**super().status(), "database": self.owned.database.settings.shown}

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.owned.release()


class TakingTables(Taking):
    store_type = TableStore

    def __init__(self, database: DatabaseSettings, sync: SyncMode, clock: Clock) -> None:
        self.owned = OwnedTables(database)
        layout = locate_store(self.owned.place)
        settings = journal_settings(layout.config)
        super().__init__(layout, settings, sync, clock, index=False, name=database.shown)
        self.settings = with_(
            self.settings,
            journal_type="NIO",
            journal_datasync=False,
            journal_checksums=False,
            large_message_sync=False,
            create_journal_dir=True,
            create_bindings_dir=True,
            retention_directory=None,
        )

    def store(self) -> WritingStore:
        with ExitStack() as undo:
            undo.callback(self.owned.release)
            store = super().store()
            assert isinstance(store, TableStore)
            store.owned = self.owned
            self.owned.on_failure = lambda reason: store.journals.messages.committer.give_up(
                self.owned.database.settings.shown, OSError(None, reason)
            )
            self.owned.lease.activated()
            undo.pop_all()
        return store

    def backends(self) -> tuple[DiskBackend, DiskBackend]:
        return self.owned.backends(self.layout.journal_dir, self.layout.bindings_dir)

    def pages(self) -> PageStore:
        return self.owned.pages()

    def bodies(self) -> BodyWriter:
        return self.owned.bodies(self.layout.large_dir)


def create_tables(
    database: DatabaseSettings, addresses: AddressSettings, clock: Clock, *, bare: bool
) -> None:
    """Make an empty store in a database, with settings of addresses as its records. Not `bare`, dead letters
    and expired messages have queues. Raises `WrongCall` where there is a store already, and what
    `open_for_writing` raises.
    """
    taking = TakingTables(database, SyncMode.ALWAYS, clock)
    is_new = taking.owned.is_new
    store = taking.store()
    try:
        if not is_new:
            raise WrongCall(f"{database.shown}: there is a store already")
        if not bare:
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
