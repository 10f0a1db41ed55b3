"""Takes a store for writing: its lock, its journals recovered, and what is in it read."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec.structs import replace as with_

from journalfs import door
from journalfs.bodies.flushed import FlushedFolder
from journalfs.bodies.writing import BodyStore
from journalfs.broker.limits.disk_limits import disk_limits
from journalfs.broker.publish.flushed import FLUSHED
from journalfs.change.journals import Journals, open_journals
from journalfs.clock import Clock
from journalfs.config.address_settings import BY_NAME, Value
from journalfs.config.journal_settings import JournalSettings, setting_warnings
from journalfs.config.layout import StoreLayout
from journalfs.damage import name_of
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import DiskBackend
from journalfs.engine.links import move
from journalfs.engine.page_file import PageStore
from journalfs.engine.scan import scan_journal
from journalfs.engine.state import LiveState
from journalfs.errors import NoSpace
from journalfs.format.large_file import parse_large_name
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId, RecordId
from journalfs.live.core import Core
from journalfs.live.events import Events
from journalfs.live.missing import refuse_without_journal, refuse_without_pages
from journalfs.records.capabilities import ALL
from journalfs.records.files.kept_damage import KeptDamage
from journalfs.records.files.loader import JournalLoader
from journalfs.records.files.write_settings import WriteSettings
from journalfs.store.journal_setup import (
    as_found,
    bindings_journal,
    in_use,
    make_backend,
    make_bindings_backend,
    make_directories,
    make_retention,
    message_journal,
)
from journalfs.store.node_lock import NodeLock
from journalfs.store.odd_settings import is_configured, tell_settings
from journalfs.store.opening import Opening
from journalfs.store.orphans import orphaned_bodies
from journalfs.store.write.store import SyncMode, WritingStore
from journalfs.store.write.undo import aside_of, sweep

# A store whose configuration says that nothing is kept: `persistence-enabled` is false.
#
# Its broker would have it in memory. Here it begins empty in a temporary directory, which goes when the store
# is closed; files that lie where the configuration says are neither read nor changed.


def temporary_layout(layout: StoreLayout) -> StoreLayout:
    """Return the same store's layout in a new directory. Raises OSError."""
    return layout.below(Path(os.path.realpath(tempfile.mkdtemp(prefix="journalfs-"))))


def temporary_settings(settings: JournalSettings) -> JournalSettings:
    """There is nothing to make durable, and no history of it."""
    return with_(
        settings,
        journal_type="NIO",
        journal_datasync=False,
        large_message_sync=False,
        create_journal_dir=True,
        create_bindings_dir=True,
        retention_directory=None,
    )


class UnkeptStore(WritingStore):
    """Made by `open_for_writing` in a `temporary_layout`."""

    def status(self) -> Mapping[str, object]:
        return {**super().status(), "persistent": False}

    def close(self) -> None:
        try:
            super().close()
        finally:
            door.remove_tree(self.core.root)


# Messages that no queue has any more and whose records were not deleted: what a crash leaves behind.
#
# They count for nothing, but their records keep journal files from being used again. Brokers delete them when
# they start; so does this, unless something in the journal is damaged: then the references may be what was
# lost. What the view knows may come from an index, so the writer's own account has the last word.

_ADDS = frozenset({RecordKind.ADD, RecordKind.ADD_TX})
_MESSAGES = frozenset({MessageType.MESSAGE, MessageType.LARGE_MESSAGE})


def delete_unreferenced(core: Core, journals: Journals) -> list[MessageId]:
    """Stage the deletes of messages without references. No caller has to wait for them."""
    state, writer = core.loader.state, journals.messages
    counts = state.counts()
    if writer.totals().live_records == counts.messages + counts.side_records:
        return []
    unknown = set(writer.ledger.live_ids()) - _known_ids(state)
    found = sorted(unknown & _message_ids(core)) if unknown else []
    found = [message_id for message_id in found if writer.ledger.references(message_id) <= 0]
    if found and core.damage():
        message = f"{len(found)} messages are in no queue; they are kept, because the journal is damaged"
        core.events.add("unreferenced", message)
        return []
    try:
        for message_id in found:
            writer.stage_delete(RecordId(message_id))
    except NoSpace as error:
        # The next one to open the store does it.
        core.events.add("delete-postponed", str(error))
        return []
    if found:
        message = f"{len(found)} messages in no queue are deleted: their reader ended before it could"
        core.events.add("unreferenced", message, level=logging.INFO)
    return [MessageId(message_id) for message_id in found]


def _known_ids(state: LiveState) -> set[int]:
    known = {operation.record_id for operation in state.side()}
    for queue in state.queues():
        known.update(state.listing(state.refs(queue.slot, "arrival", "all")).ids)
    for transaction in state.transactions():
        known.update(operation.record_id for operation in transaction.operations)
    return known


def _message_ids(core: Core) -> set[int]:
    """Ids of all message records that the journal holds."""
    found: set[int] = set()
    files = core.loader.files
    for read in files.read_files():
        scan = scan_journal(files[read.slot], rid=read.file.rid, version=read.file.version)
        found.update(
            record.record_id for record in scan if record.kind in _ADDS and record.user_type in _MESSAGES
        )
    return found


# Bodies without a message are set aside when a store is opened for writing.
#
# A broker deletes them when it starts. Here they are moved out of its sight: deleting is the owner's choice.

ORPHANS = "orphans"


def set_orphans_aside(core: Core) -> list[MessageId]:
    """Move them below the store's own folder, and say so. One that cannot be moved stays where it is."""
    folder = core.root / "journalfs" / ORPHANS
    moved: list[MessageId] = []
    for file in orphaned_bodies(core):
        try:
            door.make_folders(folder)
            move(core.large.path / file.name, folder / file.name)
        except OSError as error:
            reason = f"it stays where it is, since it cannot be moved to {folder}: {error.strerror or error}"
            core.events.add("orphan", f"{file.name}: no message has this body; {reason}")
            continue
        moved.append(file.message_id)
        message = f"{file.name}: no message has this body; it is in {folder} now"
        core.events.add("orphan", message, level=logging.INFO)
    return moved


_UNCONFIGURED: Final = (
    "so settings have their defaults, and failed or expired messages stay; "
    "name one with --config, or write settings to"
)
_DEAD_LETTERS: Final = BY_NAME["dead-letter-address"].json_key


def _diverts(core: Core) -> Iterator[str]:
    """Yield texts about diverts, which would take publications elsewhere, or there too."""
    stored = core.bindings.diverts.values()
    config = core.layout.config
    found = [*(config.diverts if config is not None else ())]
    found += [f"the bindings: divert {divert.name} of {divert.address}" for divert in stored]
    for one in found:
        yield f"{one}: only a broker diverts; what is published here goes to the queues of its address"


def _tell_recovered(store: WritingStore) -> None:
    for writer in (store.journals.bindings, store.journals.messages):
        for message in writer.recovered:
            store.core.events.add("recovered", message, level=logging.INFO)
        for message in writer.cut_off:
            told = f"{message} are overwritten: a killed writer left them"
            store.core.events.add("recovered", told)


class Acquiring:
    """Takes a store in files. Its parts are for those that keep something elsewhere."""

    store_type = WritingStore
    postpones = False
    capabilities = ALL
    settings_place = "journalfs.toml"
    """Where settings can be written, for people."""
    directories: tuple[Path, ...] = ()
    """Further directories that publications are written to."""

    def __init__(
        self,
        layout: StoreLayout,
        settings: JournalSettings,
        sync: SyncMode,
        clock: Clock,
        index: bool | Path,
        *,
        name: str | None = None,
    ) -> None:
        """`name`: the name of the store in texts for people, if not its directory."""
        self.layout = layout
        self.settings = settings
        self.sync = sync
        self.clock = clock
        self.index = index
        self.events = Events(clock)
        # Before anything is changed: whoever sees them may want to stop it, and a failure may come of them.
        for warning in (*layout.warnings, *layout.linked):
            self.events.add("configuration", warning)
        self._name = name or str(layout.root)
        self.warnings = list(setting_warnings(layout.config))

    def store(self) -> WritingStore:
        with ExitStack() as undo:
            refuse_without_journal(self.layout)
            make_directories(self.layout, self.settings)
            lock = NodeLock.acquire(self.layout, self.settings.lock_acquisition_timeout_ms, self.clock)
            undo.callback(lock.release)
            opening = self._opening()
            opening.postpones = self.postpones
            opening.was_stopped = lock.was_stopped
            journals = self._journals(undo, opening)
            store = opening.store(
                lambda core, index, make_loader: self._make(core, index, make_loader, journals, lock)
            )
            journals.messages.end_unfinished(in_doubt=store.core.loses_ends())
            journals.messages.drain()
            for warning in (*self.warnings, *_diverts(store.core)):
                store.core.events.add("configuration", warning)
            tell_settings(store.core)
            store.core.in_use = self.in_use(journals)
            _tell_recovered(store)
            store.snapshotting.sweep()
            sweep(self.layout.root, self.layout.journal_dir)
            delete_unreferenced(store.core, journals)
            store.flushed.recover()
            store.recover_drafts()
            self.set_orphans_aside(store.core)
            if store.core.loader.missing:
                # Once anything is written, the journal does not show any more that a file is gone.
                store.save_index()
            lock.activated()
            undo.pop_all()
        return store

    def tell_unconfigured(self, core: Core) -> None:
        """Say where nothing tells what becomes of failed messages, neither a configuration nor a record."""
        stored = core.bindings.address_settings.values()
        if is_configured(core) or any(_DEAD_LETTERS in one.values for one in stored):
            return
        has = "its configuration is not used" if self.layout.warnings else "it has no broker's configuration"
        self.events.add("no-configuration", f"{self._name}: {has}, {_UNCONFIGURED} {self.settings_place}")

    def in_use(self, journals: Journals) -> dict[str, tuple[Value, str]]:
        """Settings as the message journal is written in the end."""
        return in_use(self.layout, journals.messages.settings, journals.messages.backend)

    def _opening(self) -> Opening:
        return Opening(self.layout, self.clock, self.index, ours=True, events=self.events)

    def _make(
        self,
        core: Core,
        index: Path | None,
        make_loader: Callable[[], JournalLoader],
        journals: Journals,
        lock: NodeLock,
    ) -> WritingStore:
        refuse_without_pages(core)
        return self.store_type(
            core,
            index,
            make_loader=make_loader,
            journals=journals,
            lock=lock,
            sync=self.sync,
            bodies=self.bodies(),
            min_large_bytes=self.settings.min_large_message_size_bytes,
            disk=disk_limits(core, self.directories),
            pages=self.pages(),
            flushed=self.flushed(self.layout.root / "journalfs" / FLUSHED),
            capabilities=self.capabilities,
        )

    def flushed(self, path: Path) -> FlushedFolder:
        return FlushedFolder(path, sync=self.sync is not SyncMode.NONE)

    def bodies(self) -> BodyStore:
        return BodyStore(
            self.layout.large_dir, aside_of(self.layout.root), sync=self.settings.large_message_sync
        )

    def pages(self) -> PageStore:
        return PageStore(datasync=self.settings.journal_datasync)

    def message_journal(self, kind: BackendKind) -> WriteSettings:
        """How the message journal is written with a backend of that kind."""
        return as_found(self.layout, message_journal(self.layout, self.settings, kind))

    def set_orphans_aside(self, core: Core) -> None:
        set_orphans_aside(core)

    def backends(self) -> tuple[DiskBackend, DiskBackend]:
        messages = make_backend(self.layout, self.settings, self.warnings.append)
        try:
            return messages, make_bindings_backend(self.layout, self.settings)
        except BaseException:
            messages.close()
            raise

    def _journals(self, undo: ExitStack, opening: Opening) -> Journals:
        layout, settings = self.layout, self.settings
        messages, bindings = self.backends()
        undo.callback(messages.close)
        undo.callback(bindings.close)
        return open_journals(
            (messages, bindings),
            (
                self.message_journal(messages.kind),
                bindings_journal(layout, settings),
            ),
            self.clock,
            read_bindings=lambda: opening.bindings_reader.read()[0],
            other_ids=self._body_ids(),
            retention=make_retention(layout, settings, messages, self.clock),
            some_lost=opening.some_gone,
            kept=(self._kept(layout.journal_dir), self._kept(layout.bindings_dir)),
            left_off=opening.left_off(),
        )

    def _kept(self, journal: Path) -> KeptDamage:
        return KeptDamage(self.layout.root, name_of(journal, self.layout.root))

    def _body_ids(self) -> list[int]:
        """Ids that body files are named after."""
        parsed = map(parse_large_name, door.names(self.layout.large_dir))
        return [one.message_id for one in parsed if one is not None]


class AcquiringUnkept(Acquiring):
    store_type = UnkeptStore

    def flushed(self, path: Path) -> FlushedFolder:
        return FlushedFolder(path, sync=False, keeps=False)

    def store(self) -> WritingStore:
        said = self.layout.not_kept_by
        self.layout = temporary_layout(self.layout)
        self.settings = temporary_settings(self.settings)
        self.index = False
        self.warnings = [
            f"{said}: persistence-enabled is false: what is written is kept until the store is closed, "
            f"in {self.layout.root}"
        ]
        with ExitStack() as undo:
            undo.callback(door.remove_tree, self.layout.root)
            store = super().store()
            undo.pop_all()
        return store
