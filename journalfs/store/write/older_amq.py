"""An AMQ Message Store, taken for writing: its locks, its data logs, and the derived store to work on."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.engine.disk import DiskBackend
from journalfs.engine.logged import LoggedBackend
from journalfs.engine.page_file import PageStore
from journalfs.errors import DecodeError, OlderStore, StoreBusy
from journalfs.format.properties import Property
from journalfs.ids import QueueId
from journalfs.large.aside import Aside
from journalfs.large.flushed import FlushedFolder
from journalfs.large.writing import BodyWriter
from journalfs.older import openwire_out as out
from journalfs.older.activemq5 import Place
from journalfs.older.amq import AmqContent, log_folder, read_content, replayed, write_content
from journalfs.older.amq_append import AmqLog, Held, Known, NoBindings, Target
from journalfs.older.amq_data import mark_unclosed, open_logs
from journalfs.older.amq_difference import difference, forget_unsubscribed
from journalfs.older.amq_log import log_files
from journalfs.older.amq_settings import amq_settings
from journalfs.older.derived import DerivedStore
from journalfs.older.openwire import Destination
from journalfs.older.reading import Source, deriving, keep, make_derived, remove_derived, source_of
from journalfs.store.locks import WHOLE, HeldFile, take
from journalfs.store.node_lock import describe_process

log = logging.getLogger(__name__)


class OwnedAmq:
    """A directory of ActiveMQ 5.0 to 5.8, locked as that broker locks it."""

    def __init__(self, found: OlderStore, derived: Path | None) -> None:
        """Derive what is there, and have whoever starts on it later replay the data logs. Raises
        `StoreBusy`, `ConfigError` and `SystemFailure`.
        """
        self.on_failure: Callable[[str], None] = log.error
        self.shown = str(found.root)
        source = self._source = replace(source_of(found), is_locked=True)
        self.directories: tuple[Path, ...] = (log_folder(source),)
        self._settings = amq_settings(source.root)
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
        if read.closed:
            found = replayed(self._source, read.logs, [])
            forget_unsubscribed(found, read.content, self._data, [])
        self._data.append(difference(found, read.content, self._data))

    def _derive(self, read: AmqContent) -> None:
        known = self._known
        known.in_doubt = bool(read.content.prepared)

        def told(
            message_id: int, destination: Destination, identity: str, place: Place, queues: list[QueueId]
        ) -> None:
            held = Held(destination, out.Identity(identity, 0), self._data.whole(place))
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

    # -- as `Owned` ------------------------------------------------------------------------------------------

    def backends(self, journal_dir: Path, bindings_dir: Path) -> tuple[DiskBackend, DiskBackend]:
        large_dir = self.place / "large-messages"
        appending = AmqLog(self._data, self._known, large_dir, self._settings)
        return (
            LoggedBackend(journal_dir, appending, self._failed),
            LoggedBackend(bindings_dir, NoBindings(), self._failed),
        )

    def bodies(self, directory: Path, aside: Aside) -> BodyWriter:
        return BodyWriter(directory, aside, sync=False)

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

    def _failed(self, reason: str) -> None:
        self.on_failure(reason)


def refused_properties(entries: tuple[Property, ...]) -> str | None:
    """Why a message cannot be kept there."""
    try:
        out.refuse_properties(entries)
    except DecodeError as error:
        return str(error)
    return None


def _locked(source: Source) -> Iterator[HeldFile]:
    """Releases from 5.1 on lock a file of their own, and all the control file of the logs."""
    control = log_folder(source) / "data-control"
    for path in (source.root / "lock", *([control] if door.exists(control) else [])):
        taken = take(path, WHOLE)
        if isinstance(taken, int):
            raise StoreBusy(source.root, describe_process(taken))
        yield taken
