"""Fills the tables of a new store with all that a store in files holds, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from journalfs import door
from journalfs.config.database import DatabaseSettings
from journalfs.config.layout import locate_store
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.engine.stage import StagedRecord
from journalfs.errors import WrongCall
from journalfs.format.page_folder import ADDRESS_FILE_NAME
from journalfs.format.record_types import RecordKind
from journalfs.records.files.directory import read_directory
from journalfs.records.tables.database import Database
from journalfs.records.tables.following import encoded_text
from journalfs.records.tables.log import TableLog
from journalfs.records.tables.owning import OwnedTables
from journalfs.records.tables.reading import DIRECTORY

ROWS_AT_ONCE: Final = 2_000

_EVENTS: Final = frozenset({RecordKind.EVENT})


def is_filled(settings: DatabaseSettings) -> bool:
    """Whether there is a store already. Raises `SystemFailure` and `DependencyMissing`."""
    database = Database(settings, makes=True)
    try:
        with database.begin("look at the tables") as connection:
            return database.is_filled(connection)
    finally:
        database.close()


def fill_tables(
    settings: DatabaseSettings, store: Path, node_id: str, advance: Callable[[int], None] = lambda count: None
) -> None:
    """Copy the store at `store`, which nobody has open, into tables that are empty or not there: `node_id` is
    what it is known by. Where that is known already, all was committed before, and stays as it is. Raises
    `WrongCall` where there is another store, `StoreBusy`, `SystemFailure` and `DependencyMissing`.
    """
    owned = OwnedTables(settings)
    try:
        with owned.database.begin("fill the tables") as connection:
            owned.lease.guard(connection)
            if owned.is_new:
                _Filling(owned, connection, store, advance).fill()
                owned.lease.name_node(connection, node_id)
            elif owned.lease.node_id(connection) != node_id:
                raise WrongCall(f"{settings.shown}: there is a store already")
    finally:
        owned.release()


class _Filling:
    def __init__(
        self, owned: OwnedTables, connection: Connection, store: Path, advance: Callable[[int], None]
    ) -> None:
        self.owned, self.database, self.connection = owned, owned.database, connection
        self.layout = locate_store(store)
        self.advance = advance

    def fill(self) -> None:
        for log, directory, extension in self._journals():
            rows: list[StagedRecord] = []
            for record in records_in(directory, extension):
                rows.append(record)
                if len(rows) == ROWS_AT_ONCE:
                    self._put(log, rows)
            self._put(log, rows)
        large = self.layout.large_dir
        for name in door.names_if_there(large):
            self.database.write_file(self.connection, self.database.tables.large, name, large / name)
        self._pages()

    def _journals(self) -> list[tuple[TableLog, Path, str]]:
        messages, bindings = self.owned.logs
        return [
            (bindings, self.layout.bindings_dir, "bindings"),
            (messages, self.layout.journal_dir, "amq"),
        ]

    def _put(self, log: TableLog, rows: list[StagedRecord]) -> None:
        log.put(self.connection, rows)
        self.advance(sum(len(one.body) for one in rows))
        rows.clear()

    def _pages(self) -> None:
        """A table for each address; its number is no id that anything else has."""
        connection, database = self.connection, self.database
        names = b""
        for number, name in enumerate(door.names_if_there(self.layout.paging_dir), 1):
            folder = self.layout.paging_dir / name
            address = folder / ADDRESS_FILE_NAME
            if not door.is_file(address):
                continue
            table = database.page_table(str(number))
            table.create(connection, checkfirst=True)
            names += encoded_text(str(number))
            text = door.read(address).decode().removesuffix("\n")
            database.append_to_file(connection, table, ADDRESS_FILE_NAME, 0, encoded_text(text))
            for page in door.names_if_there(folder):
                if page != ADDRESS_FILE_NAME:
                    database.write_file(connection, table, page, folder / page)
        if names:
            database.append_to_file(connection, database.tables.pages, DIRECTORY, 0, names)


def records_in(directory: Path, extension: str) -> Iterator[StagedRecord]:
    """Every record of a journal that nobody writes, in its order; events are none."""
    for one in read_directory(directory, extension=extension, relative_to=directory).files:
        with MappedFile(one.path) as file:
            for record in scan_journal(file, rid=one.rid, version=one.version):
                if record.kind not in _EVENTS:
                    body = file.copy(record.body_offset, record.body_bytes) if record.body_bytes else b""
                    yield StagedRecord(
                        record.kind, _signed(record.record_id), _signed(record.tx_id), record.user_type, body
                    )


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
