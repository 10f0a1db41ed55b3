"""What is known of tables, and what became of them since: new rows by sequence, rows that went by counts.

A broker deletes rows, and nothing in a table says which. So what is known is kept in chunks of ids, and a
chunk is looked at again by the count of its rows, which an index answers; only where that is another than
it was, the ids are read. A look counts a bounded number of chunks, the oldest ids first, which go first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import ColumnElement, Connection, Select, Table, func, select

from journalfs import door
from journalfs.format.page_folder import ADDRESS_FILE_NAME
from journalfs.format.record_types import RecordKind
from journalfs.records.older.rewriting import TableRows, copied_rows
from journalfs.records.tables import sqlite_bounds
from journalfs.records.tables.database import Database, NoContent

ROWS_AT_ONCE_MIN: Final = 100
ROWS_AT_ONCE: Final = 2_000
BATCH_BYTES: Final = 1 << 20
"""Of rows at once, as far as can be foreseen: as much stays near the processor."""

BATCHES_AHEAD: Final = 3
ROWS_PER_LOOK: Final = 20_000
CHUNK_IDS: Final = 2_048
CHUNKS_PER_LOOK: Final = 16

_THREAD_BOUND: Final = frozenset({"jdbc"})
"""Drivers whose cursors are of the thread that made them."""

_NUMBER_OIDS: Final = frozenset({20, 21, 23})
_BYTES_OID: Final = 17
_CONTENT_COLUMNS: Final = frozenset({4, 5})
"""Of `FollowedJournal._rows`; types as PostgreSQL numbers them."""

_ENDED: Final = frozenset({int(RecordKind.COMMIT)})
_UNTYPED: Final = frozenset({RecordKind.COMMIT, RecordKind.PREPARE, RecordKind.DELETE_TX})
_USER_TYPE_MAX: Final = 0xFF
_OF_TX: Final = frozenset(
    map(int, (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX, RecordKind.PREPARE))
)
_ASKED_AT_ONCE: Final = 500
LATE_ROWS: Final = 1_000
"""A row may be committed behind so many later ones: threads of a broker number them, and then wait."""
_LATE_FILES: Final = 100
"""A row may be committed behind so many later ones."""
_STEADY_LOOKS: Final = 100
"""A file that did not grow for so many looks is whole, unless its row is the newest."""
_UNKNOWN: Final = -1

ID_MAX: Final = 2**62
"""Behind it there is room for what comes next."""

Row = tuple[int, int, int, int, bytes]
"""As columns of `TableRows`."""


class RewrittenError(Exception):
    """The tables are not those that were read: there is no going on from there."""


class _Chunk:
    __slots__ = ("ids", "rows")

    def __init__(self, ids: array[int], rows: int) -> None:
        self.ids, self.rows = ids, rows

    def count(self, rows: int) -> None:
        if self.rows != _UNKNOWN:
            self.rows += rows


class KnownRows:
    """Ids of which a table has rows, at most some 10 bytes for each."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._firsts: list[int] = []
        self._chunks: list[_Chunk] = []
        self._due = self._next = 0
        """How many chunks are to be counted, and which one is next."""
        self._highest = 0
        self._added: list[array[int]] = []
        """What is not in chunks yet: most who read a table never ask."""

    @property
    def highest(self) -> int:
        self._take_in()
        return self._highest

    def __contains__(self, record_id: int) -> bool:
        self._take_in()
        at = bisect_right(self._firsts, record_id) - 1
        ids = self._chunks[at].ids if at >= 0 else ()
        place = bisect_left(ids, record_id)
        return place < len(ids) and ids[place] == record_id

    def add(self, record_ids: Sequence[int]) -> None:
        """One more row of each id above 0."""
        self._added.append(array("q", record_ids))

    def _take_in(self) -> None:
        added, self._added = self._added, []
        for record_ids in added:
            self._put(Counter(record_ids))

    def _put(self, rows: Counter[int]) -> None:
        later = sorted(one for one in rows if one > self._highest)
        for record_id in rows if len(later) < len(rows) else ():
            if 0 < record_id <= self._highest:
                self._add(record_id, rows[record_id])
        if later:
            self._highest = later[-1]
        while later:
            if not self._chunks or len(self._chunks[-1].ids) >= CHUNK_IDS:
                self._firsts.append(later[0])
                self._chunks.append(_Chunk(array("q"), 0))
            chunk = self._chunks[-1]
            room = CHUNK_IDS - len(chunk.ids)
            chunk.ids.extend(later[:room])
            chunk.count(sum(map(rows.__getitem__, later[:room])))
            later = later[room:]

    def _add(self, record_id: int, rows: int) -> None:
        """So many more of an id that is not above all others."""
        if not self._chunks:
            self._firsts.append(record_id)
            self._chunks.append(_Chunk(array("q", [record_id]), rows))
            return
        at = max(bisect_right(self._firsts, record_id) - 1, 0)
        chunk = self._chunks[at]
        chunk.count(rows)
        place = bisect_left(chunk.ids, record_id)
        if place == len(chunk.ids) or chunk.ids[place] != record_id:
            chunk.ids.insert(place, record_id)
            self._firsts[at] = chunk.ids[0]
            if len(chunk.ids) > 2 * CHUNK_IDS:
                self._split(at)

    def _split(self, at: int) -> None:
        ids = self._chunks[at].ids
        self._chunks[at : at + 1] = [_Chunk(ids[:CHUNK_IDS], _UNKNOWN), _Chunk(ids[CHUNK_IDS:], _UNKNOWN)]
        self._firsts[at : at + 1] = [ids[0], ids[CHUNK_IDS]]

    def changed(self) -> None:
        """Something in the database is otherwise: every chunk may be."""
        self._take_in()
        self._due = len(self._chunks)

    @property
    def is_settled(self) -> bool:
        return not self._due

    def gone(self, connection: Connection) -> Iterator[int]:
        """Ids of which the table has no rows any more. All rows that there are must be known."""
        self._take_in()
        left = CHUNKS_PER_LOOK
        if self._due:  # the oldest ones in each look, as long as they go
            while self._chunks:
                before = len(self._chunks)
                yield from self._gone_of(connection, 0)
                if len(self._chunks) == before:
                    break
        while self._due > 0 and left and self._chunks:
            self._next %= len(self._chunks)
            before = len(self._chunks)
            yield from self._gone_of(connection, self._next)
            self._next += len(self._chunks) == before
            self._due -= 1
            left -= 1
        if not self._chunks:
            self._due = 0

    def _gone_of(self, connection: Connection, at: int) -> list[int]:
        chunk, column = self._chunks[at], self._table.c.id
        inside: ColumnElement[bool] = column.between(chunk.ids[0], chunk.ids[-1])
        count = connection.execute(select(func.count()).select_from(self._table).where(inside)).scalar_one()
        if count == chunk.rows:
            return []
        there = [int(one) for one in connection.execute(select(column).where(inside)).scalars()]
        chunk.rows = len(there)
        left = set(there)
        gone = [one for one in chunk.ids if one not in left]
        if gone:
            chunk.ids = array("q", [one for one in chunk.ids if one in left])
            if chunk.ids:
                self._firsts[at] = chunk.ids[0]
            else:
                del self._firsts[at], self._chunks[at]
        return gone


class RowSink(Protocol):
    """Where what a journal's table holds goes."""

    def take(self, rows: TableRows, known: KnownRows) -> None: ...

    def gone(self, record_id: int) -> None: ...

    def rolled_back(self, tx: int) -> None: ...

    def refused(self, seq: int, reason: str) -> None:
        """A row that no broker writes."""


@dataclass(frozen=True, slots=True)
class _Columns:
    rows: TableRows
    seqs: Sequence[int]

    def __len__(self) -> int:
        return len(self.seqs)


def _columns(found: Sequence[Sequence[Any]]) -> _Columns | None:
    """Rows as a broker writes them. None: one of them is to be looked at on its own."""
    ids, kinds, txs, user_types, bodies, extras, seqs = zip(*found, strict=True)
    of_numbers = {*map(type, ids), *map(type, kinds), *map(type, txs), *map(type, user_types)}
    of_contents = {*map(type, bodies), *map(type, extras)}
    if None in (seqs[0], seqs[-1]) or of_numbers != {int} or not of_contents <= {bytes, type(None)}:
        return None
    types = {*zip(kinds, user_types, strict=True)}
    if max(map(abs, (*ids, *txs))) > ID_MAX or any(not _is_typed(*one) for one in types):
        return None
    if RecordKind.PREPARE in kinds:
        pairs = zip(kinds, bodies, extras, strict=True)
        bodies = tuple(extra if kind == RecordKind.PREPARE else body for kind, body, extra in pairs)
    if type(None) in of_contents:
        bodies = tuple(body or b"" for body in bodies)
    return _Columns(TableRows(ids, kinds, txs, user_types, bodies), seqs)


def _is_typed(kind: int, user_type: int) -> bool:
    return kind in _UNTYPED or 0 <= user_type <= _USER_TYPE_MAX


def _row(found: Sequence[Any]) -> Row:
    """Raises ValueError that says what no broker writes: databases take more than records can be made of."""
    _number("seq", found[6])
    record_id, kind, user_type = _number("id", found[0]), _number("recordtype", found[1]), found[3]
    tx = _number("txid", found[2] or 0)
    of_user = _number("userrecordtype", -1 if user_type is None else user_type)
    if not _is_typed(kind, of_user):
        raise ValueError(f"userrecordtype {of_user} is of no record")
    body, extra = _content("record", found[4]), _content("txdata", found[5])
    return record_id, kind, tx, of_user, extra if kind == RecordKind.PREPARE else body


def _number(column: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{column} is no number") from None
    if abs(number) > ID_MAX:
        raise ValueError(f"{column} {number} is too large")
    return number


def _content(column: str, value: Any) -> bytes:
    if isinstance(value, str | int | float):
        raise ValueError(f"{column} is no content")
    return bytes(value or b"")


class FollowedJournal:
    """One journal's table."""

    def __init__(self, table: Table, sink: RowSink, heard: Callable[[TableRows], None] | None = None) -> None:
        """`heard` is told of all rows as well."""
        self.table, self.known = table, KnownRows(table)
        self._sink, self._heard = sink, heard
        self._last: int | None = None
        """Sequence of the last row that was taken."""
        self._late: set[tuple[Any, ...]] = set()
        """Sequence, id and type of those that were taken of the last `LATE_ROWS` numbers."""
        self._newest: list[list[Sequence[Any]]] = []
        """Columns of what is to be among them, in the order of the sequence."""
        self._id_max = 0
        """Of all rows that were taken, also of those that the sink does not know."""
        self._open: set[int] = set()
        self._more = False
        """More came than one look takes over."""

    def take_new(
        self, connection: Connection, rows_max: int | None = None, where: ColumnElement[bool] | None = None
    ) -> int:
        """Take over what came since, at most `rows_max` rows, or those that are as `where` says. Returns how
        many there were.
        """
        wanted = self._rows().limit(rows_max)
        if self._last is not None:
            wanted = wanted.where(self.table.c.seq > self._last)
        if where is not None:
            wanted = wanted.where(where)
        count = 0
        with closing(_batches(connection, wanted, all_there_are=rows_max is None)) as batches:
            for batch in batches:
                self._take_batch(batch)
                count += len(batch)
        self._last = self._last or 0
        return count

    def _rows(self) -> Select[Any]:
        c = self.table.c
        if self.table.metadata.info["dialect"] != "sqlite":
            columns: Sequence[Any] = (c.id, c.recordtype, c.txid, c.userrecordtype, c.record, c.txdata, c.seq)
        else:
            numbers = (c.id, c.recordtype, c.txid, c.userrecordtype)
            contents = map(sqlite_bounds.content, (c.record, c.txdata))
            columns = (*map(sqlite_bounds.number, numbers), *contents, sqlite_bounds.number(c.seq))
        return select(*columns).order_by(c.seq)

    def _take_batch(self, batch: _Columns | Sequence[Any]) -> None:
        columns = batch if isinstance(batch, _Columns) else _columns(batch)
        if columns is None:
            assert not isinstance(batch, _Columns)
            self._note(*zip(*[(one[6], one[0], one[3]) for one in batch if one[6] is not None], strict=True))
            self._take(self._looked_at(batch))
        else:
            self._note(columns.seqs, columns.rows.ids, columns.rows.user_types)
            self._take(columns.rows)

    def _note(self, *numbered: Sequence[Any]) -> None:
        """Sequence, id and type of rows that are taken, as columns."""
        if numbered:
            self._last = max(self._last or 0, int(numbered[0][-1]))
            self._newest.append([one[-LATE_ROWS:] for one in numbered])
            while sum(len(one[0]) for one in self._newest[1:]) >= LATE_ROWS:
                del self._newest[0]

    def _note_late(self) -> None:
        self._late.update(chain.from_iterable(zip(*one, strict=True) for one in self._newest))
        self._newest.clear()
        self._late = {one for one in self._late if one[0] > (self._last or 0) - LATE_ROWS}

    def _take(self, rows: TableRows | None) -> None:
        if rows is None:
            return
        self._id_max = max(self._id_max, *rows.ids)
        if self._heard is not None:
            self._heard(rows)
        self._sink.take(rows, self.known)
        self._open.update(compress(rows.txs, map(_OF_TX.__contains__, rows.kinds)))
        self._open.difference_update(compress(rows.txs, map(_ENDED.__contains__, rows.kinds)))

    def _looked_at(self, batch: Sequence[Any]) -> TableRows | None:
        rows: list[Row] = []
        for found in batch:
            try:
                rows.append(_row(found))
            except ValueError as error:
                record_id, tx = (
                    one if isinstance(one, int) and abs(one) < 2**63 else 0 for one in (found[0], found[2])
                )
                self.known.add([record_id])
                if self._heard is not None:  # so that its transaction never ends, which would take it away
                    self._heard(TableRows([record_id], [RecordKind.ADD_TX], [tx], [0], [b""]))
                self._sink.refused(int(found[6] or 0), str(error))
        return TableRows(*zip(*rows, strict=True)) if rows else None

    def look(self, connection: Connection, *, changed: bool) -> bool:
        """Take over what came and what went. False: there is more. Raises `RewrittenError`."""
        if changed or self._more:
            self._look_behind(connection)
            self._more = self.take_new(connection, ROWS_PER_LOOK) == ROWS_PER_LOOK
            self.known.changed()
            if self._more:
                return False
            self._look_at_open(connection)
        for record_id in self.known.gone(connection):
            self._sink.gone(record_id)
        return self.known.is_settled

    def _look_behind(self, connection: Connection) -> None:
        """Take over rows that were committed behind later ones, and those that have the numbers of rows that
        went: a broker that starts again goes on behind the last row that there is.
        """
        self._note_late()
        c, there = self.table.c, self._numbered(connection)
        known_to = (self._last or 0) - LATE_ROWS
        highest = (self._last if there else connection.execute(select(func.max(c.seq))).scalar()) or 0
        if highest < (self._last or 0):
            self._last = known_to = int(highest)
            self._late = there = self._numbered(connection)
        is_new = c.id.between(max(self._id_max, self.known.highest) + 1, ID_MAX)
        numbered_again = select(c.seq).where(is_new, c.seq <= known_to)
        if (again := connection.execute(numbered_again).scalar()) is not None:
            raise RewrittenError(f"row {again} of {self.table.name} is another one by now")
        late = sorted({int(one[0]) for one in there - self._late})
        self._late &= there
        for at in range(0, len(late), _ASKED_AT_ONCE):
            found = connection.execute(self._rows().where(c.seq.in_(late[at : at + _ASKED_AT_ONCE]))).all()
            if batch := [one for one in found if (one[6], one[0], one[3]) not in self._late]:
                self._take_batch(batch)
                self._note_late()

    def _numbered(self, connection: Connection) -> set[tuple[Any, ...]]:
        c, last = self.table.c, self._last or 0
        asked = select(c.seq, c.id, c.userrecordtype).where(c.seq.between(last - LATE_ROWS + 1, last))
        return {tuple(one) for one in connection.execute(asked)}

    def _look_at_open(self, connection: Connection) -> None:
        column, open_ones = self.table.c.txid, sorted(self._open)
        for at in range(0, len(open_ones), _ASKED_AT_ONCE):
            asked = open_ones[at : at + _ASKED_AT_ONCE]
            found = connection.execute(select(column).where(column.in_(asked)).distinct()).scalars()
            for tx in set(asked) - {int(one) for one in found}:
                self._open.discard(tx)
                self._sink.rolled_back(tx)


def _batches(
    connection: Connection, wanted: Select[Any], *, all_there_are: bool
) -> Generator[_Columns | Sequence[Any], None, None]:
    """Rows of so many bytes or more at once. Where they are many, the next ones come while these are looked
    at.
    """
    if not all_there_are:
        yield from _fetched(connection.execute(wanted))
        return
    if connection.dialect.driver == "psycopg" and _can_be_copied(connection, wanted):
        source = _copied(connection, wanted)
    else:
        streamed = wanted.execution_options(stream_results=True, max_row_buffer=ROWS_AT_ONCE_MIN)
        source = _fetched(connection.execute(streamed))
    with closing(source):
        for first in source:
            yield first
            if len(first) >= ROWS_AT_ONCE_MIN and connection.dialect.driver not in _THREAD_BOUND:
                break
        else:
            return
        with ThreadPoolExecutor(1, "rows") as thread:
            coming = deque(thread.submit(next, source, None) for _ in range(BATCHES_AHEAD))
            while (batch := coming.popleft().result()) is not None:
                coming.append(thread.submit(next, source, None))
                yield batch


def _fetched(result: Any) -> Generator[Sequence[Any], None, None]:
    rows = ROWS_AT_ONCE_MIN
    while batch := result.fetchmany(rows):
        yield batch
        if len(batch) < rows:
            return
        body_bytes = sum(len(one[4]) for one in batch if isinstance(one[4], bytes))
        rows = max(ROWS_AT_ONCE_MIN, min(ROWS_AT_ONCE, BATCH_BYTES * len(batch) // (body_bytes + 1)))


def _can_be_copied(connection: Connection, wanted: Select[Any]) -> bool:
    """Whether PostgreSQL's columns have the types that those of a broker's tables have."""
    found: Any = connection.execute(wanted.limit(0)).cursor
    *numbers, record, extra, seq = (one.type_code for one in found.description)
    return _NUMBER_OIDS.issuperset((*numbers, seq)) and {record, extra} == {_BYTES_OID}


def _copied(connection: Connection, wanted: Select[Any]) -> Generator[_Columns | Sequence[Any], None, None]:
    from journalfs.records.tables.bounded import copied  # noqa: PLC0415 - an optional library

    with closing(copied(connection, wanted, BATCH_BYTES)) as blocks:
        for block, count in blocks:
            columns = copied_rows(block, count, ID_MAX)
            yield _fields(block) if columns is None else _Columns(*columns)


def _fields(copied: bytes) -> list[list[Any]]:
    """Each row's, as PostgreSQL copies them in binary: numbers, contents or None."""
    rows: list[list[Any]] = []
    at = 0
    while at < len(copied):
        row: list[Any] = []
        fields, at = int.from_bytes(copied[at : at + 2], "big"), at + 2
        for column in range(fields):
            length, at = int.from_bytes(copied[at : at + 4], "big", signed=True), at + 4
            content = copied[at : at + max(length, 0)]
            is_number = column not in _CONTENT_COLUMNS
            value = int.from_bytes(content, "big", signed=True) if is_number else content
            row.append(None if length < 0 else value)
            at += len(content)
        rows.append(row)
    return rows


class FollowedFiles:
    """A table of files, and the directory that has copies of them."""

    def __init__(self, database: Database, table: Table, directory: Path, damage: Damaging) -> None:
        self.table, self.directory = table, directory
        self._database, self._damage = database, damage
        self._known = KnownRows(table)
        self._names: dict[int, str] = {}
        self._young: dict[int, int] = {}
        """Rows that may grow -> looks at which they did not."""

    def take_new(self, connection: Connection, wanted: Callable[[str], bool] = lambda _: True) -> None:
        """Take over what came since, as far as its name is wanted."""
        c = self.table.c
        after = self._known.highest - _LATE_FILES
        asked = select(c.id, c.filename).where(c.id > after).order_by(c.id)
        for row_id, name in connection.execute(asked).all():
            if row_id in self._known or not wanted(name or ""):
                continue
            self._known.add([int(row_id)])
            if not can_be_a_file(name):
                reason = f"{name!r} cannot be the name of a file"
                self._damage.damage(self.table.name, int(row_id), 0, "file-name", reason)
                continue
            with open(door.create_instead(self.directory / name), "wb"):
                pass  # a row of the same name that comes later counts
            self._names[int(row_id)] = name
            self._young[int(row_id)] = 0
            self._copied(connection, int(row_id))

    def take_grown(self, connection: Connection) -> None:
        """Take over what came, and what was appended."""
        self.take_new(connection)
        for row_id in list(self._young):
            if self._copied(connection, row_id):
                self._young[row_id] = 0
            elif row_id in self._young:
                self._young[row_id] += 1
            if self._young.get(row_id, 0) > _STEADY_LOOKS and row_id != self._known.highest:
                del self._young[row_id]
        self._known.changed()

    def remove_gone(self, connection: Connection) -> bool:
        """Remove what went. False: there is more to look at."""
        for row_id in self._known.gone(connection):
            self._young.pop(row_id, None)
            name = self._names.pop(row_id, None)
            if name is not None and name not in self._names.values():
                door.remove_if_there(self.directory / name)
        return self._known.is_settled

    def _copied(self, connection: Connection, row_id: int) -> bool:
        """As `_copy`; there is no file of what cannot be read."""
        try:
            with self._database.content(connection):
                return self._copy(connection, row_id)
        except NoContent as error:
            del self._young[row_id]
            name = self._names.pop(row_id)
            door.remove_if_there(self.directory / name)
            self._damage.damage(self.table.name, row_id, 0, "no-content", f"{name}: {error}")
            return False

    def _copy(self, connection: Connection, row_id: int) -> bool:
        """Append what a file has behind what was copied. Returns whether there was anything."""
        path = self.directory / self._names[row_id]
        if path.name == ADDRESS_FILE_NAME:
            return self._copy_address(connection, row_id, path)
        size_bytes = self._database.content_bytes(connection, self.table, row_id)
        known_bytes = door.status(path).st_size
        if size_bytes is None or size_bytes == known_bytes:
            return False
        if size_bytes < known_bytes:  # what was taken back
            known_bytes = 0
        with open(door.open_or_create(path), "r+b") as file:
            file.truncate(known_bytes)
            file.seek(known_bytes)
            for piece in self._database.read_file(connection, self.table, row_id, known_bytes):
                file.write(piece)
        return True

    def _copy_address(self, connection: Connection, row_id: int, path: Path) -> bool:
        """A table has the address as the records have texts, and a file has it as a line."""
        content = b"".join(self._database.read_file(connection, self.table, row_id))
        text = "".join(texts_in(content)).encode("utf-8", "replace")
        if text == door.read(path):
            return False
        door.replace(path, text)
        return True


def encoded_text(text: str) -> bytes:
    """As `texts_in` takes it apart."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    return len(encoded).to_bytes(4, "big") + encoded


def texts_in(content: bytes) -> Iterator[str]:
    """Strings of two-byte characters, each behind its length in bytes."""
    at = 0
    while at + 4 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        yield content[at + 4 : at + 4 + length].decode("utf-16-le", "replace")
        at += 4 + length


class Damaging(Protocol):
    def damage(self, file: str, offset: int, length_bytes: int, kind: str, reason: str) -> None: ...


def can_be_a_file(name: str | None) -> bool:
    return (
        name is not None
        and name not in ("", ".", "..")
        and not {"/", "\0"} & set(name)
        and len(name.encode("utf-8", "surrogatepass")) <= 255
        and name.isprintable()
    )
