"""A store's tables in ranges of sequence numbers, each read for itself: for tasks that share a store out.

What a range holds is the messages whose rows begin in it, with all that is said of them anywhere in the
table. Pages, and what journals say of them, are a range of their own.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from journalfs.config.database import DatabaseSettings
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.records.older.derived import DerivedStore
from journalfs.records.tables.database import Database
from journalfs.records.tables.deriving import derive_into
from journalfs.records.tables.reading import TablesReading

# Java's drivers take plain numbers only.
_MESSAGES: Final = tuple(
    map(int, (MessageType.LARGE_MESSAGE, MessageType.LEGACY_MESSAGE, MessageType.MESSAGE))
)
_ENDS: Final = tuple(map(int, (RecordKind.PREPARE, RecordKind.COMMIT)))
_IN_TRANSACTION: Final = tuple(map(int, (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX)))


@dataclass(frozen=True, slots=True)
class Range:
    """Of sequence numbers of the message table, from `first` up to `end`; None: pages."""

    settings: DatabaseSettings
    first: int = 0
    end: int | None = None


def ranges(settings: DatabaseSettings, count: Callable[[int], int]) -> list[Range]:
    """All there is, in as many ranges as `count` says of so many bytes of messages. Raises `NotAStore` and
    `SystemFailure`.
    """
    database = Database(settings)
    try:
        with database.reading("look at the table of messages") as connection:
            database.refuse_missing(connection)
            c = database.tables.messages.c
            asked = select(func.min(c.seq), func.max(c.seq), func.sum(c.variablesize))
            found = connection.execute(asked.where(c.userrecordtype.in_(_MESSAGES))).one()
            pages = database.tables.pages.c
            paged = database.has_files(connection) and connection.execute(select(pages.id)).first()
    finally:
        database.close()
    made = [Range(settings)] if paged else []
    if found[0] is None:
        return made
    first, end = int(found[0]), int(found[1]) + 1
    tasks = min(count(int(found[2] or 0)), end - first)
    cuts = [first + (end - first) * number // tasks for number in range(tasks + 1)]
    return made + [Range(settings, *both) for both in itertools.pairwise(cuts)]


def derive_range(wanted: Range, folder: Path) -> Path:
    """A derived store in `folder` with what is in a range. Raises `NotAStore` and `SystemFailure`."""
    database, identity = Database(wanted.settings), uuid.uuid4().hex
    try:
        derive_into(database, folder / identity, identity, lambda of, out: _RangeReading(of, out, wanted))
    finally:
        database.close()
    return folder / identity


class _RangeReading(TablesReading):
    def __init__(self, database: Database, out: DerivedStore, wanted: Range) -> None:
        self._range = wanted
        super().__init__(database, out)

    def begin(self, connection: Connection) -> None:
        bindings, messages = self._journals
        bindings.take_new(connection)
        messages.take_new(connection, where=self._of_range())
        if not self._has_files:
            return
        if self._range.end is None:
            self._large.take_new(connection)
            self._take_directory(connection)
        else:
            self._large.take_new(connection, wanted=lambda name: _message_of(name) in messages.known)

    def _of_range(self) -> ColumnElement[bool]:
        table = self.database.tables.messages
        all_rows, inside, ended = table.c, table.alias("inside").c, table.alias("ended").c
        mine = select(inside.id).where(inside.userrecordtype.in_(_MESSAGES))
        if self._range.end is None:
            return all_rows.id.not_in(mine)
        mine = mine.where(inside.seq >= self._range.first, inside.seq < self._range.end)
        # A broker's first transaction has the number 0, as what is in none.
        txs = select(ended.txid).where(ended.recordtype.in_(_IN_TRANSACTION), ended.id.in_(mine))
        return or_(all_rows.id.in_(mine), and_(all_rows.recordtype.in_(_ENDS), all_rows.txid.in_(txs)))


def _message_of(name: str) -> int:
    """By whose id a body is called; 0: none."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else 0
