"""What a SQLite file that a stranger wrote can make this process do: read its tables, and no more.

A schema is code. A view in place of a table may compute rows without end or of gigabytes, a trigger runs when
a row is written, a generated column when it is read. So a store's tables must be plain tables; each statement
may take as many steps as the file can need; and a value is read once its type and length are known to be a
record's. Called when a connection is made, before anything of the store is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Engine, case, event, func, literal

from journalfs import door
from journalfs.errors import NotAStore

RECORD_BYTES_MAX: Final = 256 * 1024 * 1024
"""A longer value is in no row of a journal: what is longer than `min-large-message-size` is a file."""

STEPS_AT_ONCE: Final = 1_000_000
"""Steps of SQLite's machine between two looks at how many a statement took: some 20 ms."""

STEPS_FREE: Final = 100_000_000
STEPS_PER_BYTE: Final = 100
"""What a statement may take: a row takes 20 bytes of the file or more, and some hundred steps."""

_STRANGE: Final = {
    "view": "is a view",
    "trigger": "has the trigger {}",
    "virtual": "is a virtual table",
    "generated": "has the generated column {}",
    "expression": "has an index of an expression ({})",
}
_BETWEEN: Final = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})


def bound(engine: Engine, shown: str, names: Iterable[str]) -> None:
    """Bound what connections of an engine do. `names`: how the names of a store's tables begin. A connection
    to a file where one of them is no plain table raises `NotAStore`.
    """
    beginnings = tuple(name.lower() for name in names)

    def connected(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA trusted_schema=OFF")
        for table, kind, what in _strange(cursor, beginnings):
            said = _STRANGE[kind].format(what)
            reason = f"the table {table} {said}: a broker's store has plain tables, and nothing in it runs"
            raise NotAStore(shown, reason, give="a database that a broker or journalfs made")
        cursor.close()
        connection.set_authorizer(_authorized)
        record.info["steps"] = steps = _Steps()
        connection.set_progress_handler(steps.more, STEPS_AT_ONCE)

    def begins(connection: Any, cursor: Any, statement: str, *_: object) -> None:
        steps = connection.info.get("steps")
        if steps is not None:
            steps.begin(connection.info.get("file", ("", None))[0])

    event.listen(engine, "connect", connected)
    event.listen(engine, "before_cursor_execute", begins)


class _Steps:
    """How many steps the latest statement of a connection took."""

    def __init__(self) -> None:
        self._left = STEPS_FREE

    def begin(self, path: str) -> None:
        try:
            size_bytes = door.status(path).st_size if path else 0
        except OSError:
            size_bytes = 0
        self._left = STEPS_FREE + STEPS_PER_BYTE * size_bytes

    def more(self) -> bool:
        """True ends the statement, as interrupted."""
        self._left -= STEPS_AT_ONCE
        return self._left < 0


def _authorized(action: int, first: str | None, second: str | None, of: str | None, by: str | None) -> int:
    """Refuse what a view or trigger asks for that came after the connection was made."""
    return sqlite3.SQLITE_DENY if action in _BETWEEN or by is not None else sqlite3.SQLITE_OK


def _strange(cursor: Any, beginnings: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Each table that is no plain one: its name, why, and by what."""
    asked = "SELECT type, name, tbl_name, rootpage FROM sqlite_master WHERE type <> 'index'"
    for kind, name, table, root in cursor.execute(asked).fetchall():
        if not str(table).lower().startswith(beginnings):
            continue
        if kind != "table":
            yield table, kind, name
        elif not root:
            yield table, "virtual", name
        else:
            yield from _computed(cursor, name)


def _computed(cursor: Any, name: str) -> Iterator[tuple[str, str, str]]:
    """Columns and indexes of a table that are computed."""
    asked = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden > 1"
    for (column,) in cursor.execute(asked, (name,)).fetchall():
        yield name, "generated", column
    asked = "SELECT i.name FROM pragma_index_list(?) AS i, pragma_index_xinfo(i.name) AS x WHERE x.cid = -2"
    for (index,) in cursor.execute(asked, (name,)).fetchall():
        yield name, "expression", index


# Columns of rows as they are read: any column of SQLite holds values of any type and length.


def number(column: Column[Any]) -> ColumnElement[Any]:
    """Return a column of numbers: a text or blob is not read, and shows as no number."""
    kind = func.typeof(column)
    return case((kind.in_(("integer", "real", "null")), column), else_=literal(f"not {column.name}"))


def content(column: Column[Any]) -> ColumnElement[Any]:
    """Return a column of bytes: what is none, or longer than a record, is not read and shows as a text."""
    short = (func.typeof(column) == "blob") & (func.length(column) <= RECORD_BYTES_MAX)
    return case((short | column.is_(None), column), else_=literal("longer than a record, or none"))
