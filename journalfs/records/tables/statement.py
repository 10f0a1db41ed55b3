"""A flush as one statement of PostgreSQL, which is asked for and answered without anybody waiting in between.

It asks for the lease, inserts and deletes, in one way to the server and back: each shape of it is prepared
once, and values go as the server has them in memory.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, product
from struct import pack
from typing import Any, Final

from sqlalchemy import Connection, Table, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from journalfs.errors import SystemFailure
from journalfs.records.tables.database import Database
from journalfs.records.tables.lease import Lease

_TYPES: Final = {
    "id": "int8",
    "recordtype": "int8",
    "txid": "int8",
    "userrecordtype": "int8",
    "record": "bytea",
    "txdata": "bytea",
    "seq": "int8",
}
"""Columns that a row is given; others follow from them."""

_COLUMNS: Final = (
    "id, recordtype, compactcount, txid, userrecordtype, variablesize, record, txdatasize, txdata, "
    "txchecknorecords, seq"
)
_VALUES: Final = (
    "one.id, recordtype, 0, txid, userrecordtype, length(record), record, length(txdata), txdata, 0, seq"
)
_NUMBERS_OID: Final = 20
_BYTES_OID: Final = 17
_BINARY: Final = 1
_TUPLES: Final = 2
"""As libpq numbers them: a format, and what became of a query."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What of a flush there is."""

    rows: bool
    deleted: bool
    ended: bool

    @property
    def name(self) -> str:
        return f"flush_{self.rows:d}{self.deleted:d}{self.ended:d}"

    def types(self) -> list[str]:
        """Of the values in their order, the holder first."""
        arrays = [f"{kind}[]" for kind in _TYPES.values()] if self.rows else []
        return ["text", *arrays, *["int8[]"] * (self.deleted + self.ended)]

    def text(self, table: str, lease: str) -> str:
        parts, numbers = [f"lease AS ({lease})"], iter(range(2, 20))
        if self.rows:
            arrays = ", ".join(f"${next(numbers)}" for _ in _TYPES)
            source = f"lease, unnest({arrays}) AS one({', '.join(_TYPES)})"
            parts.append(f"added AS (INSERT INTO {table} ({_COLUMNS}) SELECT {_VALUES} FROM {source})")
        for given, column in ((self.deleted, "id"), (self.ended, "txid")):
            if given:
                where = f"{column} = ANY(${next(numbers)}) AND {column} > 0 AND EXISTS (SELECT FROM lease)"
                parts.append(f"no_{column} AS (DELETE FROM {table} WHERE {where})")
        types = ", ".join(self.types())
        return f"PREPARE {self.name}({types}) AS WITH {', '.join(parts)} SELECT count(*) FROM lease"


_SESSION: Final = text(
    "SELECT pid, backend_start::text AS began FROM pg_stat_activity WHERE pid = pg_backend_pid()"
)
_END_SESSION: Final = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid = :pid AND backend_start = CAST(:began AS timestamptz)"
)
_A_MOMENT: Final = text("SELECT pg_stat_clear_snapshot(), pg_sleep(0.02)")
_ENDED_LOOKS: Final = 20
_SHAPES: Final = tuple(_Shape(*given) for given in product((False, True), repeat=3) if any(given))


class Answer(Enum):
    """What became of a statement."""

    COMMITTED = 1
    NO_LEASE = 2
    """It did nothing."""
    UNKNOWN = 3
    """It may be committed, or not."""


class OneStatement:
    """Of psycopg. Has a connection of its own. Use from one thread at a time."""

    def __init__(self, database: Database, table: Table, lease: Lease) -> None:
        self._database, self._table, self._lease = database, table.name, lease
        self._error: Any = database.engine.dialect.loaded_dbapi.Error
        self._connection: Connection | None = None
        self._server: Any = None
        """The `PGconn`, while there is a connection."""
        self._session: Mapping[str, Any] = {}
        """The server's process that was asked last, and when it began."""
        self._answers: list[Any] = []
        self.under_way = False
        self.is_sent = False
        """All of what is under way; else the server takes it as somebody waits."""
        self.ends_s = 0.0
        """Until when an answer to that is waited for."""

    @property
    def is_ready(self) -> bool:
        return self._server is not None

    def fileno(self) -> int:
        """Readable when there is something to `look` at."""
        return int(self._server.socket)

    def connect(self, judge: Callable[[Connection], None]) -> bool:
        """Whether there is a connection now, with all statements prepared. `judge` raises what is wrong with
        the database that it leads to.
        """
        try:
            self._connection = self._database.connection_of_its_own()
            driver: Any = self._connection.connection.driver_connection
            driver.autocommit = True
            judge(self._connection)
            self._session = dict(self._connection.execute(_SESSION).mappings().one())
            self._connection.rollback()
            asked = self._lease.asked("$1")
            for shape in _SHAPES:
                driver.execute(shape.text(self._table, asked))
        except (SQLAlchemyError, self._error):
            # Whoever goes the usual way meets the same, and says what it is.
            self._disconnect()
            return False
        except SystemFailure:
            self._disconnect()
            raise
        self._server = driver.pgconn
        return True

    def begin(self, rows: Sequence[dict[str, Any]], deleted: Sequence[int], ended: Sequence[int]) -> None:
        """Ask for all of it, as a transaction of its own; none of `rows` may be one that it deletes."""
        shape = _Shape(bool(rows), bool(deleted), bool(ended))
        values = [self._lease.holder.encode()]
        if rows:
            for name, kind in _TYPES.items():
                array = _bytes_array if kind == "bytea" else _numbers_array
                values.append(array([row[name] for row in rows]))
        values += [_numbers_array(ids) for ids in (deleted, ended) if ids]
        self._answers, self.under_way, self.ends_s = [], True, self._database.deadline_s()
        try:
            self._server.send_query_prepared(shape.name.encode(), values, (_BINARY,) * len(values), _BINARY)
            self._send()
        except self._error:
            self._disconnect()

    def look(self) -> Answer | None:
        """What became of it; None: there is no answer yet."""
        if self._server is None:
            return self._ended(Answer.UNKNOWN)
        try:
            self._send()
            self._server.consume_input()
            # The last answer comes once it is committed.
            while not self._server.is_busy():
                answer = self._server.get_result()
                if answer is None:
                    return self._ended(self._judged())
                self._answers.append(answer)
        except self._error:
            self._disconnect()
            return self._ended(Answer.UNKNOWN)
        return None

    def wait(self, ends_s: float) -> Answer:
        """What became of it, waiting until `ends_s` at the longest."""
        while (answer := self.look()) is None:
            waiting = select.poll()
            waiting.register(self.fileno(), select.POLLIN | (0 if self.is_sent else select.POLLOUT))
            if not waiting.poll(max(ends_s - time.monotonic(), 0) * 1000) and time.monotonic() >= ends_s:
                self._disconnect()
        return answer

    def _send(self) -> None:
        self.is_sent = self._server.flush() == 0

    def end_session(self, connection: Connection) -> None:
        """What was asked is done, or never will be, once this returns: the server may have been held up, and
        its answer only be late. Raises `OperationalError` while its process is still there.
        """
        self._disconnect()
        for _ in range(_ENDED_LOOKS):
            if connection.execute(_END_SESSION, self._session).first() is None:
                return
            connection.execute(_A_MOMENT)
        reason = f"process {self._session['pid']} of the server has not ended what it was asked"
        raise OperationalError(str(_END_SESSION), None, TimeoutError(reason))

    def _judged(self) -> Answer:
        if [one.status for one in self._answers] != [_TUPLES]:
            self._disconnect()
            return Answer.UNKNOWN
        return Answer.COMMITTED if any(self._answers[0].get_value(0, 0)) else Answer.NO_LEASE

    def _ended(self, answer: Answer) -> Answer:
        self.under_way = False
        return answer

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._database.close_its_own(self._connection)
        self._connection = self._server = None


def _head(oid: int, count: int) -> bytes:
    """Of an array of one dimension, which counts from 1."""
    return pack(">iiIii", 1, 0, oid, count, 1) if count else pack(">iiI", 0, 0, oid)


def _numbers_array(values: Sequence[int]) -> bytes:
    pairs = chain.from_iterable((8, value) for value in values)
    return _head(_NUMBERS_OID, len(values)) + pack(">" + "iq" * len(values), *pairs)


def _bytes_array(values: Sequence[bytes]) -> bytes:
    def pieces() -> Iterator[bytes]:
        yield _head(_BYTES_OID, len(values))
        for value in values:
            yield pack(">i", len(value))
            yield value

    return b"".join(pieces())
