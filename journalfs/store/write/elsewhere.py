"""A store that is not in files of today's format, open for writing.

The process works on a derived store; each flush of its journals is committed first by the `Ownership` of the
foreign store.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace as with_

from journalfs import door
from journalfs.bodies.flushed import FlushedFolder
from journalfs.bodies.writing import BodyStore
from journalfs.broker.publish.flushed import UNPUBLISHED
from journalfs.change.journals import Journals
from journalfs.clock import Clock
from journalfs.config.address_settings import Value
from journalfs.config.journal_settings import journal_settings
from journalfs.config.layout import locate_derived, locate_store
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import DiskBackend
from journalfs.engine.page_file import PageStore
from journalfs.errors import OlderStore
from journalfs.live.core import Core
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.kinds import Ownership
from journalfs.store.journal_setup import message_journal
from journalfs.store.write.acquiring import Acquiring
from journalfs.store.write.store import SyncMode, WritingStore
from journalfs.store.write.undo import aside_of


class ElsewhereStore(WritingStore):
    """The store that `open_for_writing` returns for a foreign store. Files that lie beside the journals
    (staged ones) go with it.
    """

    owned: Ownership

    def own_directory(self, name: str) -> Path:
        """Return the folder of that name. The one for unpublished content lies outside of the derived
        store, which ends with this process.
        """
        if name != UNPUBLISHED:
            return super().own_directory(name)
        derived = self.core.root.parent
        path = derived.with_name(f"{derived.name}-{UNPUBLISHED}")
        door.own_folder(path)
        return path

    def status(self) -> Mapping[str, object]:
        return {**super().status(), **self.owned.status()}

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.owned.release()


class AcquiringElsewhere(Acquiring):
    store_type: type[ElsewhereStore] = ElsewhereStore
    settings_place = ".settings of addresses in the mount"

    def __init__(
        self, owned: Ownership, sync: SyncMode, clock: Clock, found: OlderStore | None = None
    ) -> None:
        self.owned, self.directories, self.capabilities = owned, owned.directories, owned.capabilities
        layout = locate_store(owned.place) if found is None else locate_derived(owned.place, found)
        settings = journal_settings(layout.config)
        super().__init__(layout, settings, sync, clock, index=False, name=owned.shown)
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
        if owned.journal_file_bytes is not None:
            self.settings = with_(self.settings, file_size_bytes=owned.journal_file_bytes)

    def message_journal(self, kind: BackendKind) -> WriteSettings:
        if self.owned.journal_file_bytes is None:
            return super().message_journal(kind)
        return message_journal(self.layout, self.settings, kind)

    def set_orphans_aside(self, core: Core) -> None:
        if self.capabilities.orphans_move:
            super().set_orphans_aside(core)

    def store(self) -> WritingStore:
        with ExitStack() as undo:
            undo.callback(self.owned.release)
            store = super().store()
            assert isinstance(store, ElsewhereStore)
            store.owned = self.owned
            self.owned.failing.heard_by(store.journals)
            self.owned.activated()
            undo.pop_all()
        return store

    def in_use(self, journals: Journals) -> dict[str, tuple[Value, str]]:
        """The journal of the derived store is a view: no setting is in force there."""
        return {}

    def backends(self) -> tuple[DiskBackend, DiskBackend]:
        return self.owned.backends(self.layout.journal_dir, self.layout.bindings_dir)

    def pages(self) -> PageStore:
        return self.owned.pages()

    def flushed(self, path: Path) -> FlushedFolder:
        return self.owned.flushed(path)

    def bodies(self) -> BodyStore:
        return self.owned.bodies(self.layout.large_dir, aside_of(self.layout.root))
