"""Derives a store from the tables: rows in the order of their sequence become records."""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from journalfs import door
from journalfs.errors import NotAStore
from journalfs.format.page_folder import ADDRESS_FILE_NAME
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.older.derived import DerivedStore
from journalfs.tables.database import Database

ROWS_AT_ONCE: Final = 10_000
DIRECTORY: Final = "directory.txt"
"""Names the tables of pages."""

_LATE: Final = frozenset({MessageType.DELIVERY_COUNT, MessageType.SCHEDULED_TIME})
_UPDATES: Final = _LATE | {MessageType.ADD_REFERENCE, MessageType.ACKNOWLEDGE_REFERENCE}
"""A broker's table calls some of these ADD."""

Row = tuple[int, int, int, int, bytes, bytes]
"""Id, kind, transaction, user type, body, and what a PREPARE says."""


def derive_from_tables(database: Database, out: DerivedStore) -> None:
    """Fill a derived store. Raises `NotAStore` where the tables are not there, and `SystemFailure`."""
    settings = database.settings
    try:
        with database.engine.connect() as connection:
            there = set(inspect(connection).get_table_names())
            missing = [table.name for table in database.tables.journals if table.name not in _lower(there)]
            if missing:
                raise NotAStore(settings.shown, f"no table {missing[0]} in this database")
            connection.rollback()  # the look at the catalogue is over
            if database.dialect != "sqlite":  # there a transaction is one moment of all tables by itself
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                _Deriving(database, connection, out).run(_lower(there))
    except SQLAlchemyError as error:
        raise database.failure(error, "read the store") from error


def _lower(names: set[str]) -> set[str]:
    return {name.lower() for name in names}


class _Deriving:
    def __init__(self, database: Database, connection: Connection, out: DerivedStore) -> None:
        self.database, self.connection, self.out = database, connection, out
        self.id_max = 0

    def run(self, there: set[str]) -> None:
        tables = self.database.tables
        self._bindings()
        self._messages()
        if tables.large.name in there:
            self._files(tables.large, self.out.large_dir)
        if tables.pages.name in there:
            self._pages(there)
        self.out.ids_from(self.id_max + 1)

    # ---- journals ----

    def rows(self, table: Table) -> Iterator[Row]:
        columns = (
            table.c.id,
            table.c.recordtype,
            table.c.txid,
            table.c.userrecordtype,
            table.c.record,
            table.c.txdata,
        )
        wanted = select(*columns).order_by(table.c.seq).execution_options(yield_per=ROWS_AT_ONCE)
        found = self.connection.execute(wanted)
        for batch in found.partitions():
            for record_id, kind, tx, user_type, body, extra in batch:
                self.id_max = max(self.id_max, record_id, tx or 0)
                yield (
                    int(record_id),
                    int(kind),
                    int(tx or 0),
                    int(user_type),
                    bytes(body or b""),
                    bytes(extra or b""),
                )
            self.out.progress(len(batch))

    def _bindings(self) -> None:
        """They are few, so what is committed is worked out here."""
        open_ones: dict[int, list[tuple[int, int, bytes]]] = defaultdict(list)
        for record_id, kind, tx, user_type, body, _ in self.rows(self.database.tables.bindings):
            if kind in (RecordKind.ADD, RecordKind.UPDATE):
                self._binding(record_id, user_type, body)
            elif kind in (RecordKind.ADD_TX, RecordKind.UPDATE_TX):
                open_ones[tx].append((record_id, user_type, body))
            elif kind == RecordKind.COMMIT:
                for one in open_ones.pop(tx, ()):
                    self._binding(*one)

    def _binding(self, record_id: int, user_type: int, body: bytes) -> None:
        if user_type == BindingType.ID_COUNTER and len(body) >= 8:
            # A broker goes on above what its last one promised.
            self.id_max = max(self.id_max, int.from_bytes(body[:8], "big", signed=True))
        self.out.binding(record_id, user_type, body)

    def _messages(self) -> None:
        out, added = self.out, set[int]()
        for record_id, kind, tx, user_type, body, extra in self.rows(self.database.tables.messages):
            if kind in (RecordKind.ADD, RecordKind.ADD_TX) and user_type not in _UPDATES:
                added.add(record_id)
            elif user_type in _LATE and record_id not in added:
                # A broker deletes rows by their message: what it inserts behind that stays.
                continue
            if kind == RecordKind.ADD:
                of_kind = RecordKind.UPDATE if user_type in _UPDATES else RecordKind.ADD
                out.record(of_kind, record_id, user_type, body)
            elif kind == RecordKind.UPDATE:
                out.record(RecordKind.UPDATE, record_id, user_type, body)
            elif kind == RecordKind.ADD_TX:
                out.record(RecordKind.ADD, record_id, user_type, body, tx=tx)
            elif kind == RecordKind.UPDATE_TX:
                out.record(RecordKind.UPDATE, record_id, user_type, body, tx=tx)
            elif kind == RecordKind.DELETE_TX:
                out.record(RecordKind.DELETE, record_id, user_type, body, tx=tx)
            elif kind == RecordKind.PREPARE:
                out.prepare_encoded(tx, extra)
            elif kind == RecordKind.COMMIT:
                out.commit(tx)
            else:
                name = self.database.tables.messages.name
                out.damage(
                    name, record_id, 0, "unknown-record", f"record type {kind} is none of the journal's"
                )

    # ---- files ----

    def _files(self, table: Table, directory: Path) -> None:
        names = self.connection.execute(select(table.c.id, table.c.filename).order_by(table.c.id)).all()
        for row_id, name in names:
            made = self._made(directory, name)
            if made is None:
                self.out.damage(table.name, row_id, 0, "file-name", f"{name!r} cannot be the name of a file")
                continue
            with open(made, "wb") as file:
                for piece in self.database.read_file(self.connection, table, row_id):
                    file.write(piece)

    def _made(self, directory: Path, name: str | None) -> int | None:
        """A new file; a row of the same name that comes later counts. None: no file can be called so."""
        if name is None or "/" in name or "\0" in name or name in (".", "..", ""):
            return None
        try:
            return door.create_instead(directory / name)
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
                return None
            raise
        except UnicodeEncodeError:
            return None

    def _pages(self, there: set[str]) -> None:
        """The directory says which tables there are; what it does not name is no address's."""
        pages = self.database.tables.pages
        found = self.connection.execute(select(pages.c.id).where(pages.c.filename == DIRECTORY)).scalars()
        content = b"".join(
            piece for row_id in found for piece in self.database.read_file(self.connection, pages, row_id)
        )
        for number in filter(str.isdecimal, _texts(content)):
            table = self.database.page_table(number)
            if table.name in there:
                folder = self.out.paging_dir / number
                door.make_folder(folder)
                self._files(table, folder)
                _as_in_files(folder / ADDRESS_FILE_NAME)
            else:
                self.out.damage(
                    pages.name, 0, 0, "missing-table", f"no table {table.name}, which directory.txt names"
                )


def _as_in_files(address_file: Path) -> None:
    """A table has the address as the records have texts, and a file has it as a line."""
    if door.exists(address_file):
        text = "".join(_texts(door.read(address_file)))
        door.remove(address_file)
        door.write(address_file, text.encode("utf-8", "replace"))


def encoded_text(text: str) -> bytes:
    """As `_texts` takes it apart."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    return len(encoded).to_bytes(4, "big") + encoded


def _texts(content: bytes) -> Iterator[str]:
    """Strings of two-byte characters, each behind its length in bytes."""
    at = 0
    while at + 4 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        yield content[at + 4 : at + 4 + length].decode("utf-16-le", "replace")
        at += 4 + length
