"""Stores of older brokers, locked for writing: publishing and acknowledging append in their own format.

`journalfs.store.write.elsewhere` works on the derived store and commits here first. A change that the older
format cannot express must be refused before anything is written (`Capabilities`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.bodies.aside import Aside
from journalfs.bodies.flushed import FlushedFolder
from journalfs.bodies.writing import BodyStore
from journalfs.clock import Clock
from journalfs.config.activemq_xml import amq_settings
from journalfs.config.older import AMQ, HORNETQ
from journalfs.engine.disk import DiskBackend
from journalfs.engine.logged import Failing, LoggedBackend
from journalfs.engine.page_file import PageStore
from journalfs.errors import DecodeError, NotAStore, OlderStore, StoreBusy
from journalfs.format.properties import Property
from journalfs.ids import QueueId
from journalfs.records.capabilities import Capabilities
from journalfs.records.files.writer import JournalWriter
from journalfs.records.older import openwire_out as out
from journalfs.records.older.activemq5 import Place
from journalfs.records.older.amq import AmqContent, log_folder, read_content, replayed, write_content
from journalfs.records.older.amq_append import AmqLog, Held, Known, NoBindings, Target
from journalfs.records.older.amq_data import difference, forget_unsubscribed, mark_unclosed, open_logs
from journalfs.records.older.amq_log import log_files
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import (
    Source,
    adapter_for,
    deriving,
    keep,
    make_derived,
    remove_derived,
    source_of,
)
from journalfs.records.older.hornetq_log import (
    HornetqBindings,
    HornetqLog,
    HornetqPages,
    has_files,
    of_first_version,
    open_writer,
)
from journalfs.records.older.openwire import Destination, Identity
from journalfs.store.locks import WHOLE, LockedFile, take
from journalfs.store.node_lock import NodeLock, describe_process

# An AMQ Message Store, taken for writing: its locks, its data logs, and the derived store to work on.

log = logging.getLogger(__name__)


def refused_properties(entries: tuple[Property, ...]) -> str | None:
    """Why a message cannot be kept there."""
    try:
        out.refuse_properties(entries)
    except DecodeError as error:
        return str(error)
    return None


HORNETQ_HAS: Final = Capabilities(
    administers=False, prepares=False, amqp=False, drafts_outlive=False, orphans_move=False
)
AMQ_HAS: Final = replace(HORNETQ_HAS, embeds=False, schedules=False, marks=False, lack_of=refused_properties)


class OwnedAmq:
    """A directory of ActiveMQ 5.0 to 5.8, locked as that broker locks it."""

    capabilities = AMQ_HAS

    def __init__(self, found: OlderStore, derived: Path | None) -> None:
        """Derive what is there, and have whoever starts on it later replay the data logs. Raises
        `StoreBusy`, `ConfigError` and `SystemFailure`.
        """
        self.shown = str(found.root)
        self.failing = Failing()
        source = self._source = replace(source_of(found), is_locked=True)
        self.directories: tuple[Path, ...] = (log_folder(source),)
        self._settings = amq_settings(source.root)
        self.journal_file_bytes: int | None = None
        self._known: Final = Known()
        with ExitStack() as undo:
            with deriving(f"{source.root} for writing", derived) as folder:
                self.place = folder / uuid.uuid4().hex
                undo.callback(remove_derived, self.place)
                for file in _locked(source):
                    undo.callback(file.release)
                read = read_content(source)
                self._data = open_logs(log_folder(source), self._settings.max_file_bytes)
                undo.callback(self._data.close)
                self._append_what_no_log_says(read)
                mark_unclosed(source.root, ())
                self._derive(read)
                keep(self.place)
            self._undo = undo.pop_all()

    def _append_what_no_log_says(self, read: AmqContent) -> None:
        """Whoever starts on the store replays its logs, and is to find what is there now: also what only the
        reference store says, which will not be believed any more.
        """
        found = read.content
        if not read.as_replayed:
            found = replayed(self._source, read.logs, [])
            forget_unsubscribed(found, read.content, self._data, [])
        self._data.append(difference(found, read.content, self._data))

    def _derive(self, read: AmqContent) -> None:
        known = self._known
        known.in_doubt = bool(read.content.prepared)

        def told(
            message_id: int, destination: Destination, identity: str, place: Place, queues: list[QueueId]
        ) -> None:
            held = Held(destination, Identity(identity), self._data.whole(place))
            for queue in queues:
                known.hold(message_id, queue, held)

        def fill(derived: DerivedStore) -> None:
            writing = write_content(self._source, read, derived, told)
            for name in read.content.queues:
                known.targets[derived.queues[name]] = Target(Destination(False, name))
            for one, queue in writing.subscriptions:
                asked = Destination(True, one.asked)
                wild = one.asked != one.topic
                known.targets[queue] = Target(asked, one.client, one.name, one.selector, wild)
                known.subscribed.setdefault(one.topic, []).append(queue)

        make_derived(
            self.place,
            fill,
            lambda _: None,
            kind=self._source.kind,
            found=self._source.found,
            source=self.shown,
            identity=self.place.name,
        )

    # -- as `Ownership` --------------------------------------------------------------------------------------

    def backends(self, journal_dir: Path, bindings_dir: Path) -> tuple[DiskBackend, DiskBackend]:
        large_dir = self.place / "large-messages"
        appending = AmqLog(self._data, self._known, large_dir, self._settings)
        return (
            LoggedBackend(journal_dir, appending, self.failing),
            LoggedBackend(bindings_dir, NoBindings(), self.failing),
        )

    def bodies(self, directory: Path, aside: Aside) -> BodyStore:
        return BodyStore(directory, aside, sync=False)

    def flushed(self, path: Path) -> FlushedFolder:
        return FlushedFolder(path, sync=False, keeps=False)

    def pages(self) -> PageStore:
        return PageStore(datasync=False)

    def activated(self) -> None:
        """Nothing there says that a store is in use but its locks."""

    def status(self) -> Mapping[str, object]:
        return {
            "olderStore": self.shown,
            "olderFormat": self._source.kind,
            "dataLogs": len(log_files(self._data.folder)),
        }

    def release(self) -> None:
        self._undo.close()


def _locked(source: Source) -> Iterator[LockedFile]:
    """Releases from 5.1 on lock a file of their own, and all the control file of the logs."""
    control = log_folder(source) / "data-control"
    for path in (source.root / "lock", *([control] if door.exists(control) else [])):
        taken = take(path, WHOLE)
        if isinstance(taken, int):
            raise StoreBusy(source.root, describe_process(taken))
        yield taken


def own_older(found: OlderStore, derived: Path | None, clock: Clock) -> OwnedAmq | OwnedHornetq:
    """Lock an older store for writing. Raises `OlderStore`, which says why, where such a store is only read,
    `NotAStore` where there is none, and what `open_for_writing` raises.
    """
    if found.kind == AMQ:
        if log_files(found.root):
            raise _only_read(found, "data logs are written where the directory above them is given")
        if not log_files(found.root / "journal"):
            raise NotAStore(found.root, f"no data logs (data-*) in {found.root / 'journal'}")
        return OwnedAmq(found, derived)
    if found.kind != HORNETQ:
        raise _only_read(found, f"stores of kind {found.kind} are read only")
    for directory, extension in ((found.journal_dir, "hq"), (found.bindings_dir, "bindings")):
        if not (door.is_folder(directory) and has_files(directory, extension)):
            raise NotAStore(found.root, f"no journal files (*.{extension}) in {directory}")
    reason = of_first_version(found.journal_dir, "hq")
    if reason is not None:
        raise _only_read(found, reason)
    return OwnedHornetq(found, derived, clock)


def _only_read(found: OlderStore, reason: str) -> OlderStore:
    return OlderStore(
        found.root,
        reason,
        kind=found.kind,
        root=found.root,
        journal=found.journal_dir,
        bindings=found.bindings_dir,
    )


class OwnedHornetq:
    """A data directory of HornetQ 2.2 to 2.4, locked as that broker locks it."""

    capabilities = HORNETQ_HAS

    def __init__(self, found: OlderStore, derived: Path | None, clock: Clock) -> None:
        """Recover the journals and derive what is there. Raises `StoreBusy` and `SystemFailure`."""
        self.shown = str(found.root)
        self.failing = Failing()
        source = self._source = replace(source_of(found), is_locked=True)
        self.directories: tuple[Path, ...] = (
            source.journal_dir,
            source.bindings_dir,
            source.paging_dir,
            source.large_dir,
        )
        with ExitStack() as undo:
            with deriving(f"{source.root} for writing", derived) as folder:
                self.place = folder / uuid.uuid4().hex
                undo.callback(remove_derived, self.place)
                self._lock = NodeLock.acquire_older(source.root, source.journal_dir, clock)
                undo.callback(self._lock.release)
                door.make_folders(source.large_dir)
                door.make_folders(source.paging_dir)
                self._messages = self._writer(undo, source.journal_dir, "hornetq-data", "hq", clock)
                self._bindings = self._writer(
                    undo, source.bindings_dir, "hornetq-bindings", "bindings", clock
                )
                _derive(source, self.place)
                keep(self.place)
            # A record has to fit a file there, so it has to fit one here.
            self.journal_file_bytes: int | None = self._messages.settings.file_size_bytes
            self._undo = undo.pop_all()

    def _writer(
        self, undo: ExitStack, directory: Path, prefix: str, extension: str, clock: Clock
    ) -> JournalWriter:
        writer = open_writer(directory, prefix, extension, clock, root=self._source.root)
        undo.callback(writer.backend.close)
        undo.callback(writer.release)
        writer.drain()
        return writer

    def backends(self, journal_dir: Path, bindings_dir: Path) -> tuple[DiskBackend, DiskBackend]:
        return (
            LoggedBackend(journal_dir, HornetqLog(self._messages), self.failing),
            LoggedBackend(bindings_dir, HornetqBindings(self._bindings), self.failing),
        )

    def bodies(self, directory: Path, aside: Aside) -> BodyStore:
        return BodyStore(self._source.large_dir, aside, sync=True)

    def flushed(self, path: Path) -> FlushedFolder:
        return FlushedFolder(path, sync=False, keeps=False)

    def pages(self) -> PageStore:
        return HornetqPages(self._source.paging_dir)

    def activated(self) -> None:
        self._lock.activated()

    def status(self) -> Mapping[str, object]:
        return {
            "olderStore": self.shown,
            "olderFormat": self._source.kind,
            "nodeId": str(self._lock.node_id),
        }

    def release(self) -> None:
        self._undo.close()


def _derive(source: Source, place: Path) -> None:
    make_derived(
        place,
        partial(adapter_for(source), source),
        lambda _: None,
        kind=source.kind,
        found=source.found,
        source=str(source.root),
        identity=place.name,
    )
