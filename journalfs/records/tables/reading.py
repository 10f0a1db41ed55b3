"""Derives a store from the tables: rows in the order of their sequence become records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import Connection, Table, inspect, select

from journalfs import door
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.rewriting import TableRows
from journalfs.records.tables.database import Database, NoContent
from journalfs.records.tables.following import (
    ID_MAX,
    FollowedFiles,
    FollowedJournal,
    KnownRows,
    Row,
    texts_in,
)
from journalfs.records.tables.log import INSERTED

DIRECTORY: Final = "directory.txt"
"""Names the tables of pages."""

_LATE: Final = frozenset({MessageType.DELIVERY_COUNT, MessageType.SCHEDULED_TIME})


class TablesReading:
    """What was taken over from the tables into a derived store, which goes on from there. Use from one thread
    at a time.
    """

    def __init__(
        self,
        database: Database,
        out: DerivedStore,
        heard: Mapping[Table, Callable[[TableRows], None]] | None = None,
    ) -> None:
        """Fill a derived store; `heard` is told of the rows of a table. Raises `NotAStore` where the tables
        are not there, and `SystemFailure`.
        """
        self.database, self.out = database, out
        tables = database.tables
        self._bindings, self._messages = (
            _Bindings(out, tables.bindings.name),
            _Messages(out, tables.messages.name),
        )
        heard = heard or {}
        self._journals = (
            FollowedJournal(tables.bindings, self._bindings, heard.get(tables.bindings)),
            FollowedJournal(tables.messages, self._messages, heard.get(tables.messages)),
        )
        self._large = FollowedFiles(database, tables.large, out.large_dir, out)
        self._pages: dict[str, FollowedFiles] = {}
        self._directory_told = False
        """That it cannot be read."""
        self._seen: object = None
        """What `Database.version` was at the last look."""
        self._settled = True
        """Nothing is left to look at of what changed."""
        with database.reading("read the store") as connection:
            database.refuse_missing(connection)
            self._has_files = database.has_files(connection)
            self.begin(connection)
        out.ids_from(max(self._bindings.id_max, self._messages.id_max) + 1)

    def begin(self, connection: Connection) -> None:
        for journal in self._journals:
            journal.take_new(connection)
        if self._has_files:
            self._large.take_new(connection)
            self._take_directory(connection)

    def look(self) -> None:
        """Take over what changed since, as far as a look goes. Raises `SystemFailure`, and `RewrittenError`
        where there is no going on.
        """
        version = self.database.version()
        changed = version is None or version != self._seen
        if not changed and self._settled:
            return
        with self.database.reading("look at the store") as connection:
            files = [self._large, *self._pages.values()] if self._has_files else []
            if changed and files:
                self._take_directory(connection)
                files = [self._large, *self._pages.values()]
                for table in files:
                    table.take_grown(connection)
            looked = [one.look(connection, changed=changed) for one in self._journals]
            self._settled = all(looked)
            if self._settled:  # records of what goes went first
                looked = [table.remove_gone(connection) for table in files]
                self._settled = all(looked)
        self.out.flush()
        self._seen = version

    def _take_directory(self, connection: Connection) -> None:
        """The directory says which tables of pages there are; what it does not name is no address's."""
        pages = self.database.tables.pages
        try:
            with self.database.content(connection):
                numbers = numbers_in(self.database, connection)
        except NoContent as error:
            if not self._directory_told:
                self.out.damage(pages.name, 0, 0, "no-content", f"{DIRECTORY}: {error}")
            self._directory_told = True
            return
        for number in sorted(numbers - self._pages.keys()):
            table = self.database.page_table(number)
            if not inspect(connection).has_table(table.name):
                self.out.damage(
                    pages.name, 0, 0, "missing-table", f"no table {table.name}, which directory.txt names"
                )
                continue
            folder = self.out.paging_dir / number
            door.make_folders(folder)
            self._pages[number] = FollowedFiles(self.database, table, folder, self.out)
            self._pages[number].take_new(connection)
        for number in self._pages.keys() - numbers:
            door.remove_tree(self._pages.pop(number).directory)


def numbers_in(database: Database, connection: Connection) -> set[str]:
    """Of the tables of pages, as the directory has them."""
    pages = database.tables.pages
    found = connection.execute(select(pages.c.id).where(pages.c.filename == DIRECTORY)).scalars().all()
    content = b"".join(piece for row_id in found for piece in database.read_file(connection, pages, row_id))
    return set(filter(str.isdecimal, texts_in(content)))


class _Taking:
    def __init__(self, out: DerivedStore, table: str) -> None:
        self.out, self._table = out, table
        self.id_max = 0

    def note_ids(self, rows: TableRows) -> None:
        self.id_max = max(self.id_max, *rows.ids, *rows.txs)

    def refused(self, seq: int, reason: str) -> None:
        self.out.damage(self._table, seq, 0, "unknown-record", f"row {seq}: {reason}")


class _Bindings(_Taking):
    """They are few, so what is committed is worked out here."""

    def __init__(self, out: DerivedStore, table: str) -> None:
        super().__init__(out, table)
        self._open: defaultdict[int, list[tuple[int, int, bytes]]] = defaultdict(list)

    def take(self, rows: TableRows, known: KnownRows) -> None:
        self.note_ids(rows)
        known.add(rows.ids)
        for row in rows.each():
            self._take(row)

    def _take(self, row: Row) -> None:
        record_id, kind, tx, user_type, body = row
        if kind in (RecordKind.ADD, RecordKind.UPDATE):
            self._put(record_id, user_type, body)
        elif kind in (RecordKind.ADD_TX, RecordKind.UPDATE_TX):
            self._open[tx].append((record_id, user_type, body))
        elif kind == RecordKind.COMMIT:
            for one in self._open.pop(tx, ()):
                self._put(*one)

    def _put(self, record_id: int, user_type: int, body: bytes) -> None:
        if user_type == BindingType.ID_COUNTER and len(body) >= 8:
            # A broker goes on above what its last one promised.
            self.id_max = max(self.id_max, min(int.from_bytes(body[:8], "big", signed=True), ID_MAX))
        self.out.binding(record_id, user_type, body)

    def gone(self, record_id: int) -> None:
        self.out.binding_gone(record_id)

    def rolled_back(self, tx: int) -> None:
        self._open.pop(tx, None)


class _Messages(_Taking):
    def take(self, rows: TableRows, known: KnownRows) -> None:
        self.note_ids(rows)
        if _LATE.isdisjoint(rows.user_types) and INSERTED.issuperset(rows.kinds):
            known.add(rows.ids)
            self.out.rows(rows)
        elif kept := [row for row in rows.each() if self._is_kept(row, known)]:
            self.out.rows(TableRows(*zip(*kept, strict=True)))

    def _is_kept(self, row: Row, known: KnownRows) -> bool:
        record_id, kind, _, user_type, _ = row
        if user_type in _LATE and record_id not in known:
            # A broker deletes rows by their message: what it inserts behind that stays.
            return False
        known.add([record_id])
        if kind not in INSERTED:
            reason = f"record type {kind} is none of the journal's"
            self.out.damage(self._table, record_id, 0, "unknown-record", reason)
        return kind in INSERTED

    def gone(self, record_id: int) -> None:
        self.out.record(RecordKind.DELETE, record_id, 0)

    def rolled_back(self, tx: int) -> None:
        self.out.rollback(tx)
