"""Makes a new, empty store, one that a broker starts on."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from journalfs import door
from journalfs.broker.queues.administering import new_address, new_queue
from journalfs.change.journals import Journals, open_journals
from journalfs.clock import Clock
from journalfs.config.address_settings import Value
from journalfs.config.files import TOML_NAME
from journalfs.config.in_force import SettingsInForce
from journalfs.config.journal_settings import JournalSettings, journal_settings
from journalfs.config.journalfs_toml import settings_text
from journalfs.config.layout import (
    StoreLayout,
    plan_store,
    refuse_database,
    refuse_in_mount,
    refuse_unknown_names,
)
from journalfs.engine.backend import BackendKind
from journalfs.engine.links import write_durably
from journalfs.errors import StoreNotKept, SystemFailure, WrongCall
from journalfs.format.bindings import RoutingType, encode_address_binding, encode_queue_binding
from journalfs.format.record_types import BindingType
from journalfs.ids import RecordId
from journalfs.live.bindings import read_bindings
from journalfs.records.files.writer import JournalWriter
from journalfs.store.journal_setup import (
    bindings_journal,
    make_backend,
    make_bindings_backend,
    make_directories,
    message_journal,
)
from journalfs.store.node_lock import NodeLock


@dataclass(frozen=True, slots=True)
class Created:
    layout: StoreLayout
    settings: JournalSettings
    node_id: uuid.UUID
    kind: BackendKind
    """The kind of backend that the message journal was written with."""


AddressSettings: TypeAlias = Mapping[str, Mapping[str, Value]]
"""By match."""

WHERE_TO: Final[Mapping[str, Value]] = {"dead-letter-address": "DLQ", "expiry-address": "ExpiryQueue"}
"""The settings that `artemis create` makes for all addresses."""


def create_store(
    path: Path | str,
    own: Mapping[str, Value],
    clock: Clock,
    *,
    warn: Callable[[str], None],
    addresses: AddressSettings = MappingProxyType({}),
    bare: bool = True,
) -> Created:
    """Make a store at `path`, which need not exist; inside a broker instance, the one its broker.xml says.

    `own` and `addresses` are settings for its journalfs.toml. Not `bare`, dead letters and expired messages
    have queues, those that settings name, or as `artemis create` has them. Raises `WrongCall` if something is
    there already, `DatabaseStore` where it belongs into one, `ConfigError` and `SystemFailure`; then nothing
    is left of the attempt.
    """
    place = Path(os.path.realpath(path))
    refuse_in_mount(place)
    refuse_unknown_names(path)
    refuse_database(path)
    try:
        with ExitStack() as undo:
            _make_directory(place, undo)
            planned = plan_store(place)
            if not bare and planned.config is None:
                addresses = {**addresses, "#": {**WHERE_TO, **addresses.get("#", {})}}
            if own or addresses:
                _write_settings(planned, settings_text(own, addresses), undo)
                planned = plan_store(place)
            created = _Making(planned, clock, warn, undo, bare=bare).store()
            undo.pop_all()
    except OSError as error:
        raise SystemFailure.from_os(error, error.filename or place, doing="make a store") from error
    return created


def _write_settings(planned: StoreLayout, text: str, undo: ExitStack) -> None:
    if planned.broker_xml is not None:
        raise WrongCall(
            f"{planned.broker_xml}: the store belongs to this configuration; change the settings there"
        )
    file = planned.root / TOML_NAME
    if door.exists(file):
        raise WrongCall(f"{file}: is there already; change the settings there")
    undo.callback(door.remove_if_there, file)
    write_durably(file, text.encode())


class _Making:
    def __init__(
        self,
        layout: StoreLayout,
        clock: Clock,
        warn: Callable[[str], None],
        undo: ExitStack,
        *,
        bare: bool,
    ) -> None:
        self.layout = layout
        self.settings = journal_settings(layout.config)
        self._clock = clock
        self._warn = warn
        self._undo = undo
        self._bare = bare

    def store(self) -> Created:
        layout, settings = self.layout, self.settings
        if layout.not_kept_by is not None:
            raise StoreNotKept(layout.not_kept_by)
        directories = (layout.bindings_dir, layout.journal_dir, layout.large_dir, layout.paging_dir)
        for directory in (layout.root, *directories, layout.node_manager_lock_dir):
            self._undo.callback(_put_back, directory, _contents(directory))
        make_directories(layout, settings)
        lock = NodeLock.acquire(layout, 0, self._clock)
        try:
            kind = self._write_journals()
        finally:
            lock.release()
        for directory in {
            *directories,
            *(one.parent for one in directories),
            layout.node_manager_lock_dir,
            layout.root,
        }:
            door.sync(directory)
        return Created(layout, settings, lock.node_id, kind)

    def _write_journals(self) -> BackendKind:
        layout, settings = self.layout, self.settings
        with ExitStack() as opened:
            messages = make_backend(layout, settings, self._warn)
            opened.callback(messages.close)
            bindings = make_bindings_backend(layout, settings)
            opened.callback(bindings.close)
            journals = open_journals(
                (messages, bindings),
                (message_journal(layout, settings, messages.kind), bindings_journal(layout, settings)),
                self._clock,
                read_bindings=lambda: read_bindings(layout.bindings_dir, relative_to=layout.root)[0],
                other_ids=(),
            )
            opened.callback(journals.abandon)
            _refuse_half(layout.bindings_dir, journals.bindings)
            _refuse_half(layout.journal_dir, journals.messages)
            if not self._bare:
                make_queues(journals, SettingsInForce(layout.config, {}))
            opened.pop_all()
        journals.close()
        return messages.kind


def make_queues(journals: Journals, settings: SettingsInForce) -> None:
    """For what fails or expires: anycast, each named as the address that settings name."""
    bindings, anycast = journals.bindings, RoutingType.ANYCAST
    for name in dict.fromkeys(one for setting in WHERE_TO for one in settings.texts(setting)):
        address = encode_address_binding(new_address(name, anycast))
        queue = encode_queue_binding(new_queue(settings, name, name, anycast))
        tx = journals.new_tx()
        for kind, body in ((BindingType.ADDRESS_BINDING, address), (BindingType.QUEUE_BINDING, queue)):
            bindings.stage_add_in(tx, RecordId(journals.ids.draw()), kind, body)
        bindings.stage_commit(tx)


def _refuse_half(directory: Path, journal: JournalWriter) -> None:
    """A journal with messages opens on a full disk, since consuming them makes room; a new one has none, and
    is not there unless all of its files are. Raises OSError.
    """
    if journal.short_of_space:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)


def _make_directory(place: Path, undo: ExitStack) -> None:
    missing = [folder for folder in (place, *place.parents) if not door.exists(folder)]
    for folder in reversed(missing):
        door.make_folder(folder)
        undo.callback(_put_back, folder, None)
        door.sync(folder.parent)


def _contents(directory: Path) -> frozenset[str] | None:
    """Names in a directory; None when there is none."""
    return frozenset(door.names(directory)) if door.is_folder(directory) else None


def _put_back(directory: Path, before: frozenset[str] | None) -> None:
    """Remove what was not there before. A file that cannot be removed stays, so that the first error is
    reported.
    """
    made = [directory] if before is None else [directory / name for name in {*door.names(directory)} - before]
    for one in made:
        with suppress(OSError):
            door.remove_tree(one)
