"""A database's store, taken for writing: the lease, and the derived store that is worked on."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table, select

from journalfs import door
from journalfs.bodies.aside import Aside
from journalfs.bodies.flushed import FlushedFolder, FlushNote, FoundNotes
from journalfs.bodies.writing import BodyStore, NewBody
from journalfs.config.database import DatabaseSettings
from journalfs.config.files import FORCE_VARIABLE
from journalfs.engine.logged import Failing, LoggedBackend
from journalfs.engine.page_file import PageFile, PageStore
from journalfs.ids import MessageId
from journalfs.records.capabilities import Capabilities
from journalfs.records.older.deriving import deriving, keep, remove_derived
from journalfs.records.tables.beside import Beside
from journalfs.records.tables.database import Database
from journalfs.records.tables.deriving import derive_into
from journalfs.records.tables.following import encoded_text
from journalfs.records.tables.lease import Lease
from journalfs.records.tables.log import TableLog
from journalfs.records.tables.reading import DIRECTORY, TablesReading, numbers_in

log = logging.getLogger(__name__)


class OwnedTables:
    """`release` it, whatever happens."""

    capabilities = Capabilities(drafts_outlive=False)

    def __init__(self, settings: DatabaseSettings) -> None:
        """Take the lease and derive what is there; missing tables are made. Raises `StoreBusy`,
        `SystemFailure` and `DependencyMissing`.
        """
        settings.refuse_outside()
        self.shown = settings.shown
        self.failing = Failing()
        self.directories: tuple[Path, ...] = ()
        self.journal_file_bytes: int | None = None
        with ExitStack() as undo:
            self.database = Database(settings, makes=True)
            undo.callback(self.database.close)
            self.beside: Final = Beside(self.database, self.failing)
            if not (settings.is_shared or os.environ.get(FORCE_VARIABLE)):
                self.beside.refuse()
            with self.database.reading("look at the tables") as connection:
                self.database.refuse_foreign(connection)
            self.lease: Final = Lease(self.database, lost=self.failing)
            self.lease.acquire()
            undo.callback(self.lease.release)
            with self.database.begin("make the tables") as connection:
                self.database.refuse_half(connection)
                self.is_new: Final = not self.database.is_filled(connection)
                """Nothing was in it."""
                self.database.tables.metadata.create_all(connection)
            # Before anything is derived: what a killed writer left unfinished is no part of the store.
            messages, bindings = (self._log(table) for table in self.database.tables.journals)
            self.logs: Final = messages, bindings
            with deriving(settings.shown, None) as folder:
                identity = uuid.uuid4().hex
                self.place = folder / identity
                undo.callback(remove_derived, self.place)
                heard = {one.table: one.read for one in self.logs}
                derive_into(self.database, self.place, identity, partial(TablesReading, heard=heard))
                keep(self.place)
            self.beside.start(self.logs)
            undo.callback(self.beside.stop)
            self._undo = undo.pop_all()

    def _log(self, table: Table) -> TableLog:
        found = TableLog(self.database, table, self.lease)
        found.load()
        return found

    def backends(self, journal_dir: Path, bindings_dir: Path) -> tuple[LoggedBackend, LoggedBackend]:
        """Of the message journal, and of the bindings journal."""
        messages, bindings = self.logs
        return (
            LoggedBackend(journal_dir, messages, self.failing, messages),
            LoggedBackend(bindings_dir, bindings, self.failing, bindings),
        )

    def bodies(self, directory: Path, aside: Aside) -> BodyStore:
        return TableBodies(directory, aside, self)

    def pages(self) -> PageStore:
        return TablePages(self)

    def flushed(self, path: Path) -> FlushedFolder:
        return TableFlushed(path, self)

    def in_database(self, doing: str, work: Callable[[Connection], None]) -> None:
        """One transaction that asks for the lease; `work` is done again where nobody knows whether it was.
        Raises OSError, as is expected of a disk.
        """

        def guarded(connection: Connection, again: bool) -> None:
            self.lease.was_away |= again
            self.lease.guard(connection)
            work(connection)

        with self.database.as_disk(doing):
            self.database.insist(doing, guarded)

    def activated(self) -> None:
        """The store was read."""
        self.lease.activated()

    def status(self) -> Mapping[str, object]:
        return {"database": self.shown, "liveBroker": bool(self.beside.sessions)}

    def release(self) -> None:
        """Let go of the lease and remove what was derived. Raises `SystemFailure`: the lease runs out."""
        self._undo.close()


class TableBodies(BodyStore):
    """Bodies of large messages: rows first, and files for whoever reads."""

    def __init__(self, directory: Path, aside: Aside, owned: OwnedTables) -> None:
        super().__init__(directory, aside, sync=False)
        self._owned, self._database = owned, owned.database
        self._table = owned.database.tables.large

    def write(self, bodies: Iterable[NewBody]) -> None:
        given = list(bodies)
        super().write(given)
        self._owned.in_database(
            "write the body of a large message", lambda connection: self._insert(connection, given)
        )

    def _insert(self, connection: Connection, bodies: Iterable[NewBody]) -> None:
        for body in bodies:
            path = self.path(body.message_id)
            self._database.remove_files(connection, self._table, [path.name])
            self._database.write_file(connection, self._table, path.name, path)

    def remove(self, message_ids: Collection[MessageId]) -> None:
        names = [self.path(message_id).name for message_id in message_ids]
        if names:
            self._owned.in_database(
                "remove the body of a large message",
                lambda connection: self._database.remove_files(connection, self._table, names),
            )
        super().remove(message_ids)


class TablePages(PageStore):
    """Pages: files for whoever reads, and rows. An address has a table; its number is the folder's name."""

    def __init__(self, owned: OwnedTables) -> None:
        super().__init__(datasync=False)
        self._owned, self._database = owned, owned.database
        self.page_bytes_max = owned.database.settings.page_bytes_max
        self._owed: list[Callable[[Connection], None]] = []
        """What failed and is to be taken back: before anything else, when the database is there again."""
        self._owing = threading.Lock()

    def table(self, folder: Path) -> Table:
        return self._database.page_table(folder.name)

    def new_folder(self, parent: Path, new_id: Callable[[], int]) -> Path:
        return parent / str(new_id())

    def make_folder(self, folder: Path, name: str, address: str) -> None:
        def make(connection: Connection) -> None:
            database, directory = self._database, self._database.tables.pages
            self.table(folder).create(connection, checkfirst=True)
            database.append_to_file(connection, self.table(folder), name, 0, encoded_text(address))
            size_bytes = database.file_bytes(connection, directory, DIRECTORY)
            if folder.name not in numbers_in(database, connection):
                text = encoded_text(folder.name)
                database.append_to_file(connection, directory, DIRECTORY, size_bytes, text)

        self._do("make the table of an address's pages", make)
        super().make_folder(folder, name, address)

    def open(self, path: Path) -> PageFile:
        return _TablePage(path, self)

    def put(self, path: Path, at: int, data: bytes) -> None:
        """What a page holds behind `at`. Raises OSError."""
        self._do("write to a page", partial(self._put, path, at, data))

    def cut(self, path: Path, at: int) -> None:
        """When the next thing is done: what failed would fail again."""
        self._owe(partial(self._put, path, at, b""))

    def _owe(self, work: Callable[[Connection], None]) -> None:
        with self._owing:
            self._owed.append(work)

    def _put(self, path: Path, at: int, data: bytes, connection: Connection) -> None:
        self._database.append_to_file(connection, self.table(path.parent), path.name, at, data)

    def take_back(self, path: Path) -> None:
        table = self.table(path.parent)
        self._owe(lambda connection: self._database.remove_files(connection, table, [path.name]))
        super().remove(path)

    def _do(self, doing: str, work: Callable[[Connection], None]) -> None:
        with self._owing:
            owed = tuple(self._owed)

        def all_of_it(connection: Connection) -> None:
            for one in (*owed, work):
                one(connection)

        self._owned.in_database(doing, all_of_it)
        with self._owing:
            self._owed = [one for one in self._owed if one not in owed]

    def remove(self, path: Path, *, instead: Path | None = None) -> None:
        def remove(connection: Connection) -> None:
            self._database.remove_files(connection, self.table(path.parent), [path.name])
            if instead is not None and door.exists(path):
                self._database.write_file(connection, self.table(path.parent), instead.name, path)

        self._do("remove a page", remove)
        super().remove(path, instead=instead)

    def remove_folder(self, folder: Path) -> None:
        """The table stays, empty, as a broker leaves it."""
        names = door.names(folder)
        self._do(
            "remove the pages of an address",
            lambda connection: self._database.remove_files(connection, self.table(folder), names),
        )
        super().remove_folder(folder)


class _TablePage(PageFile):
    """A page whose rows have what was appended before anybody is told."""

    __slots__ = ("_pages",)

    def __init__(self, path: Path, pages: TablePages) -> None:
        super().__init__(path, datasync=False)
        self._pages = pages

    def begin(self) -> None:
        self._pages.put(self.path, 0, b"")

    def append(self, data: bytes | bytearray) -> None:
        self._pages.put(self.path, self.size_bytes, bytes(data))
        super().append(data)

    def cut(self, size_bytes: int) -> None:
        self._pages.cut(self.path, size_bytes)
        super().cut(size_bytes)


class TableFlushed(FlushedFolder):
    """What was flushed: files for whoever publishes it, and rows."""

    def __init__(self, path: Path, owned: OwnedTables) -> None:
        super().__init__(path, sync=False)
        self._owned, self._database = owned, owned.database
        self._table = owned.database.tables.flushed

    def write(self, note: FlushNote, content: bytes | memoryview) -> None:
        super().write(note, content)
        paths = self.files_of(note.note_id)

        def put(connection: Connection) -> None:
            self._database.remove_files(connection, self._table, [path.name for path in paths])
            for path in filter(door.exists, paths):
                self._database.write_file(connection, self._table, path.name, path)

        self._owned.in_database("keep what was flushed", put)

    def notes(self) -> FoundNotes:
        door.make_folders(self.path)
        with self._database.as_disk("read what was flushed"), self._database.engine.connect() as connection:
            for row_id, name in connection.execute(select(self._table.c.id, self._table.c.filename)).all():
                with open(door.create_instead(self.path / name), "wb") as file:
                    for piece in self._database.read_file(connection, self._table, row_id):
                        file.write(piece)
        return super().notes()

    def remove(self, note_ids: Collection[str]) -> None:
        names = [path.name for note_id in note_ids for path in self.files_of(note_id)]
        if names:
            self._owned.in_database(
                "remove what was flushed",
                lambda connection: self._database.remove_files(connection, self._table, names),
            )
        super().remove(note_ids)

    def set_aside(self, note: FlushNote, path: Path) -> None:
        """The file is durable before the rows go, else each mount would make another one."""
        super().set_aside(note, path)
        for one in (path, path.parent):
            door.sync(one)
        self.remove([note.note_id])
