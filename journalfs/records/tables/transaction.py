"""A flush as one transaction on a connection of its own, by the driver itself: for drivers that wait for each
answer. SQLAlchemy takes as long as the disk for the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Table
from sqlalchemy.exc import SQLAlchemyError

from journalfs.errors import SystemFailure
from journalfs.records.tables.database import Database, refuse_other_file
from journalfs.records.tables.lease import Lease
from journalfs.records.tables.statement import Answer

BEGINS: Final = {"sqlite": "BEGIN IMMEDIATE", "mysql": "BEGIN", "mariadb": "BEGIN"}
"""By dialects whose drivers are used so."""


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
        mark = "?" if database.dialect == "sqlite" else "%s"
        self._lease = lease.asked(mark)
        columns = table.c.keys()
        marks = ", ".join([mark] * len(columns))
        self._insert = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"
        self._delete_id = f"DELETE FROM {table.name} WHERE id = {mark} AND id > 0"
        self._delete_tx = f"DELETE FROM {table.name} WHERE txid = {mark} AND txid > 0"

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
        ask = self._cursor.execute
        try:
            ask(BEGINS[self._database.dialect])
            ask(self._lease, (self._holder,))
            if self._cursor.fetchone() is None:
                ask("ROLLBACK")
                self._answer = Answer.NO_LEASE
                return
            for text, values in (
                (self._insert, [tuple(row.values()) for row in rows]),
                (self._delete_id, [(one,) for one in deleted]),
                (self._delete_tx, [(one,) for one in ended]),
            ):
                if values:
                    self._cursor.executemany(text, values)
            ask("COMMIT")
            self._answer = Answer.COMMITTED
        except self._error:
            self._disconnect()
            self._answer = Answer.UNKNOWN

    def wait(self, _: float) -> Answer:
        self.under_way = False
        return self._answer

    def end_session(self, _: Connection) -> None:
        """The connection is closed, and with it what was not committed gone."""
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._database.close_its_own(self._connection)
        self._connection = self._cursor = None
