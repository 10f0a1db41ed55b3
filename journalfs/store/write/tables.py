"""A store in a database, open for writing: its journals' flushes and its bodies go to the tables first."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from msgspec.structs import replace as with_

from journalfs.clock import Clock
from journalfs.config.database import DatabaseSettings
from journalfs.config.journal_settings import journal_settings
from journalfs.config.layout import locate_store
from journalfs.engine.disk import DiskBackend
from journalfs.large.writing import BodyWriter
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
        super().__init__(layout, journal_settings(layout.config), sync, clock, index=False)
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

    def bodies(self) -> BodyWriter:
        return self.owned.bodies(self.layout.large_dir)
