"""A flush as one transaction on a connection of its own, by the driver itself: for drivers that wait for each
answer. SQLAlchemy takes as long as the disk for the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection, Table
from sqlalchemy.exc import SQLAlchemyError

from journalfs.errors import SystemFailure
from journalfs.records.tables.database import Database, refuse_other_file
from journalfs.records.tables.lease import Lease
from journalfs.records.tables.statement import Answer

BEGINS: Final = {"pysqlite": ("BEGIN IMMEDIATE", "?"), "pymysql": ("BEGIN", "%s")}
"""Drivers that are used so, and what stands for a value there."""

BUSY_MS_MAX: Final = 10
"""Longest that SQLite waits here while another connection writes: where it takes longer, a thread does."""

DELETED_AT_ONCE: Final = 500


class OneTransaction:
    """Use it as `OneStatement`; what is begun is done."""

    def __init__(self, database: Database, table: Table, lease: Lease) -> None:
        self._database, self._holder = database, lease.holder
        self._error: Any = database.engine.dialect.loaded_dbapi.Error
        self._connection: Connection | None = None
        self._cursor: Any = None
        self.under_way = False
        self.ends_s = 0.0
        self._answer = Answer.UNKNOWN
        self._begin, mark = BEGINS[database.engine.dialect.driver]
        self._lease = lease.asked(mark)
        columns = table.c.keys()
        marks = ", ".join([mark] * len(columns))
        self._insert = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"
        self._deletes = [
            f"DELETE FROM {table.name} WHERE {column} > 0 AND {column} IN " for column in ("id", "txid")
        ]
        self._mark = mark

    @property
    def is_ready(self) -> bool:
        return self._cursor is not None

    def connect(self, judge: Callable[[Connection], None]) -> None:
        """Have a connection, if there is one. `judge` raises what is wrong with the database that it leads
        to.
        """
        try:
            self._connection = self._database.connection_of_its_own()
            judge(self._connection)
            self._connection.rollback()
            self._cursor = self._connection.connection.cursor()
            if self._database.dialect == "sqlite":
                self._cursor.execute(f"PRAGMA busy_timeout={BUSY_MS_MAX}")
        except SQLAlchemyError:  # who goes the usual way meets the same, and says what it is
            self._disconnect()
        except SystemFailure:
            self._disconnect()
            raise

    def begin(self, rows: Sequence[dict[str, Any]], deleted: Sequence[int], ended: Sequence[int]) -> None:
        """Raises `SystemFailure` where nobody would find it."""
        assert self._connection is not None
        refuse_other_file(self._connection)
        self.under_way, self.ends_s = True, self._database.deadline_s()
        self._answer = Answer.UNKNOWN
        ask = self._cursor.execute
        try:
            ask(self._begin)
            ask(self._lease, (self._holder,))
            if self._cursor.fetchone() is None:
                ask("ROLLBACK")
                self._answer = Answer.NO_LEASE
                return
            if rows:
                self._cursor.executemany(self._insert, [tuple(row.values()) for row in rows])
            for delete, going in zip(self._deletes, (deleted, ended), strict=True):
                for at in range(0, len(going), DELETED_AT_ONCE):
                    some = list(going[at : at + DELETED_AT_ONCE])
                    ask(f"{delete}({', '.join([self._mark] * len(some))})", some)
            ask("COMMIT")
            self._answer = Answer.COMMITTED
        except self._error:
            self._disconnect()
        except BaseException:  # it would lock others out
            self._disconnect()
            raise

    def wait(self, _: float) -> Answer:
        self.under_way = False
        return self._answer

    def end_session(self, _: Connection) -> None:
        """The connection is closed, and with it what was not committed gone."""
        self._disconnect()

    def _disconnect(self) -> None:
        if self._cursor is not None and self._database.dialect == "sqlite":
            with suppress(self._error):  # a statement that somebody still has would keep the transaction open
                self._cursor.close()
        if self._connection is not None:
            self._database.close_its_own(self._connection)
        self._connection = self._cursor = None
