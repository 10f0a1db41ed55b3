"""One database: connecting, and its errors as ours."""

from __future__ import annotations

import errno
import logging
import math
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Final

from journalfs import door
from journalfs.config.database import DERBY, DatabaseSettings
from journalfs.errors import (
    DependencyMissing,
    JournalfsError,
    NotAStore,
    StoreAway,
    StoreOutOfRoom,
    SystemFailure,
)
from journalfs.store_owner import refuse_of_others

try:
    import sqlalchemy
    from sqlalchemy import (
        URL,
        BigInteger,
        Connection,
        Dialect,
        Engine,
        Table,
        cast,
        delete,
        event,
        func,
        insert,
        select,
        update,
    )
    from sqlalchemy.dialects.postgresql import OID
    from sqlalchemy.exc import (
        DBAPIError,
        DisconnectionError,
        InterfaceError,
        InternalError,
        NoSuchModuleError,
        OperationalError,
        ProgrammingError,
        SQLAlchemyError,
    )
    from sqlalchemy.exc import TimeoutError as PoolTimeout
except ImportError as missing:
    raise DependencyMissing(
        "a store in a database", package="sqlalchemy", install="pip install 'journalfs[jdbc]'"
    ) from missing

from journalfs.records.tables.schema import Tables, extension_of, file_table, tables_of
from journalfs.records.tables.sqlite_bounds import bound

log = logging.getLogger(__name__)
# A connection that breaks while it is given back would be told with a traceback; who used it tells.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

LARGE_OBJECT_READ: Final = 0x40000
LARGE_OBJECT_WRITE: Final = 0x20000
"""Modes of PostgreSQL's `lo_open`."""

READS: Final = "journalfs_reads"
"""An option of a connection: what it begins changes nothing."""

IDLE_S_MAX: Final = 1.0
"""A connection that nobody used for longer is tried first."""

SEE_TABLES: Final = "docs/use/database.md says how a broker.xml names tables"

OURS: Final = "journalfs"
"""What sessions of this program call themselves."""

RETRY_S: Final = 0.2
_PASSING: Final = (OperationalError, InterfaceError, InternalError, PoolTimeout)
"""A database that restarts, refuses, is full or a standby, or broke a deadlock may take it the next time."""

_OF_TABLES: Final = re.compile(r"no such table|has no column|unknown column", re.IGNORECASE)
"""What SQLite and MySQL say of them as if it passed."""

_FULL: Final = re.compile(r"is full|disk full|no space left|quota exceeded", re.IGNORECASE)

_ONE_MOMENT: Final = {"oracle": "SERIALIZABLE", DERBY: "SERIALIZABLE"}
_VERSION: Final = {
    "sqlite": "PRAGMA data_version",
    "postgresql": "SELECT CAST(txid_current_snapshot() AS TEXT)",
}

OVER_JAVA: Final = frozenset({"postgresql", "mysql", "mssql", "oracle"})
"""Reached by a JDBC driver as well, where Python has none."""

PIECE_BYTES: Final = 4 << 20
"""Of a file, read or written at once."""


class NoContent(Exception):  # noqa: N818 - named as what there is
    """A row's content is not there, or not for this user."""


class Database:
    """Use from one thread at a time. `close` it."""

    def __init__(
        self,
        settings: DatabaseSettings,
        *,
        makes: bool = False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`makes`: one in a folder is made where it is missing. Raises `DependencyMissing` and
        `SystemFailure`.
        """
        self._pause = pause
        _refuse_of_others(settings)
        self.settings = settings
        self.tables: Tables = tables_of(settings)
        self.engine: Engine = _engine(settings, makes=makes)
        self._watch: Connection | None = None
        self._held: list[Connection] = []

    @property
    def dialect(self) -> str:
        return self.engine.dialect.name

    def close(self) -> None:
        """It connects anew where it is used again."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        for connection in tuple(self._held):
            self.close_its_own(connection)
        self.engine.dispose()

    def spares(self, connections: int) -> bool:
        """Whether so many may be held for good: `maxTotal` leaves others."""
        most = most_connections(self.settings)
        return most is None or most > connections

    def connection_of_its_own(self) -> Connection:
        """One that nobody else uses until `close_its_own`. Raises SQLAlchemyError."""
        connection = self.engine.connect()
        self._held.append(connection)
        return connection

    def close_its_own(self, connection: Connection) -> None:
        connection.invalidate()
        connection.close()
        self._held.remove(connection)

    def is_filled(self, connection: Connection) -> bool:
        """Whether there is a store."""
        table = self.tables.bindings
        there = self.engine.dialect.has_table(connection, table.name)
        return there and connection.execute(select(table.c.seq).limit(1)).first() is not None

    def refuse_missing(self, connection: Connection) -> None:
        """Raise `NotAStore` where the tables of the journals are not there."""
        for table in self.tables.journals:
            if not self.engine.dialect.has_table(connection, table.name):
                raise NotAStore(self.settings.shown, f"no table {table.name} in this database")

    def refuse_foreign(self, connection: Connection) -> None:
        """Raise `NotAStore` where the database is another program's: nothing is made in it unless somebody
        says so.
        """
        shown, there = self.settings.shown, self.engine.dialect.has_table
        for table in self.tables.journals:
            if there(connection, table.name):
                columns = {
                    one["name"].lower() for one in sqlalchemy.inspect(connection).get_columns(table.name)
                }
                if not columns >= {"seq", "recordtype", "userrecordtype"}:
                    reason = f"its table {table.name} is another program's"
                    raise NotAStore(shown, reason, give=f"another database, or other names; {SEE_TABLES}")
                return
        if self.settings.to_be_made or self.dialect == DERBY:
            return
        others = sorted(sqlalchemy.inspect(connection).get_table_names())
        if others:
            of = (
                " of ActiveMQ 5"
                if any("activemq_" in one.lower() for one in others)
                else " of another program"
            )
            reason = f"no store here, but tables{of} ({', '.join(others[:3])}{', …' * (len(others) > 3)})"
            raise NotAStore(
                shown, reason, give=f"the database of a store, or make one here: journalfs create {shown}"
            )

    def refuse_half(self, connection: Connection) -> None:
        """Raise `NotAStore` where one journal's table has rows and the other is not there: what is made in
        its place would be empty, and nobody would find what is written to it.
        """
        settings = self.settings
        messages, bindings = self.tables.messages, self.tables.bindings
        for table, name, other in (
            (messages, "message-table-name", bindings),
            (bindings, "bindings-table-name", messages),
        ):
            there = self.engine.dialect.has_table
            if there(connection, table.name) or not there(connection, other.name):
                continue
            if connection.execute(select(other.c.seq).limit(1)).first() is not None:
                reason = f"no table {table.name} in this database, and {other.name} has rows"
                raise NotAStore(settings.shown, reason, give=f"the right name as {name}")

    def has_files(self, connection: Connection) -> bool:
        """Whether the tables of files are there."""
        tables = self.tables.large, self.tables.pages
        return all(self.engine.dialect.has_table(connection, table.name) for table in tables)

    @contextmanager
    def begin(self, doing: str) -> Iterator[Connection]:
        """A transaction, committed at the end. Raises `SystemFailure` that says what was being done."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise self.failure(error, doing) from error

    @contextmanager
    def reading(self, doing: str) -> Iterator[Connection]:
        """A transaction that reads all tables as they were at one moment. Raises `SystemFailure`."""
        try:
            with self.engine.connect() as connection:
                options: dict[str, Any] = {READS: True}
                if self.dialect != "sqlite":  # there every transaction is so
                    options["isolation_level"] = _ONE_MOMENT.get(self.dialect, "REPEATABLE READ")
                connection.execution_options(**options)
                with connection.begin():
                    yield connection
        except SQLAlchemyError as error:
            raise self.failure(error, doing) from error

    def deadline_s(self) -> float:
        """Until when a database that is away is waited for."""
        return time.monotonic() + self.settings.network_timeout_ms / 1000

    def insist(
        self, doing: str, work: Callable[[Connection, bool], None], ends_s: float | None = None
    ) -> None:
        """Commit what `work` does. A database that is away is waited for until `ends_s`, or `deadline_s`.
        `work` is told whether it was tried before, and its COMMIT may have been done. Raises `StoreAway`, and
        `SystemFailure` where waiting is no use.
        """
        deadline_s = self.deadline_s() if ends_s is None else ends_s
        if time.monotonic() > deadline_s:
            reason = (
                f"{self.settings.shown}: cannot {doing}: no answer in {self.settings.network_timeout_ms} ms"
            )
            raise StoreAway(self.settings.shown, reason, system_errno=errno.EIO)
        again = False
        while True:
            try:
                with _untried(), self.engine.begin() as connection:
                    work(connection, again)
                return
            except SQLAlchemyError as error:
                failure = self.failure(error, doing)
                if not isinstance(error, _PASSING) or _OF_TABLES.search(str(failure)):
                    raise failure from error
                if time.monotonic() > deadline_s:
                    full = failure.system_errno == errno.ENOSPC
                    kind = StoreOutOfRoom if full else StoreAway
                    system_errno = failure.system_errno or errno.EIO
                    raise kind(self.settings.shown, str(failure), system_errno=system_errno) from error
                log.warning("%s; trying again", failure)
            again = True
            self._pause(RETRY_S)

    def version(self) -> object:
        """Equal to what it was if nothing became of any table since; None where the database does not say.
        Raises `SystemFailure`.
        """
        asked = _VERSION.get(self.dialect)
        if asked is None:
            return None
        try:
            if self._watch is None:  # of SQLite, what a connection says is of that connection
                self._watch = self.engine.connect().execution_options(**{READS: True})
            found = self._watch.exec_driver_sql(asked).scalar()
            self._watch.rollback()
        except SQLAlchemyError as error:
            if self._watch is not None:
                self._watch.invalidate()
                self._watch.close()
                self._watch = None
            raise self.failure(error, "look at the store") from error
        return str(found)

    def failure(self, error: SQLAlchemyError, doing: str) -> SystemFailure:
        said = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()
        reason = said[0] if said else type(error).__name__
        if reason == "interrupted" and self.dialect == "sqlite":
            reason = "a statement took more steps than this file can need: no broker wrote it"
        number = errno.ENOSPC if _FULL.search(reason) else errno.EIO
        return SystemFailure(f"{self.settings.shown}: cannot {doing}: {reason}", system_errno=number)

    def page_table(self, number: str) -> Table:
        """The pages of one address."""
        return file_table(self.tables.metadata, f"{self.settings.page_store_table}{number}")

    # ---- contents of files ----

    @contextmanager
    def content(self, connection: Connection) -> Iterator[None]:
        """What is read within: `NoContent` is raised where PostgreSQL has no such object, or lets others read
        it only; the transaction goes on.
        """
        if self.dialect != "postgresql":
            yield
            return
        try:
            with connection.begin_nested():
                yield
        except ProgrammingError as error:
            raise NoContent(str(error.orig).splitlines()[0]) from error

    def content_bytes(self, connection: Connection, table: Table, row_id: int) -> int | None:
        """How long the content of a row of a file table is; None: there is no such row."""
        column, where = table.c.data, table.c.id == row_id
        if self.dialect != "postgresql":
            length = func.datalength if self.dialect == "mssql" else func.length
            found = connection.execute(select(length(column)).where(where)).first()
            return None if found is None else int(found[0] or 0)
        row = connection.execute(select(column).where(where)).first()
        if row is None or row[0] is None:
            return None if row is None else 0
        oid = row[0]
        opened = connection.execute(select(func.lo_open(oid, LARGE_OBJECT_READ))).scalar_one()
        size_bytes = connection.execute(select(func.lo_lseek64(opened, cast(0, BigInteger), 2))).scalar_one()
        connection.execute(select(func.lo_close(opened)))
        return int(size_bytes)

    def read_file(self, connection: Connection, table: Table, row_id: int, start: int = 0) -> Iterator[bytes]:
        """The content of a row of a file table from `start` on, in pieces."""
        if self.dialect == "sqlite":
            yield from self._read_blob(connection, table, row_id, start)
            return
        if self.dialect == DERBY:
            from journalfs.records.tables.java import blob_pieces  # noqa: PLC0415 - as in `_engine`

            asked = f"SELECT data FROM {table.name} WHERE id = {int(row_id)}"
            yield from blob_pieces(connection, asked, start, PIECE_BYTES)
            return
        at, column = start + 1, table.c.data
        where = table.c.id == row_id
        oid = None
        if self.dialect == "postgresql":
            oid = connection.execute(select(column).where(where)).scalar_one_or_none()
            if oid is None:
                return
        while True:
            if oid is not None:
                found = connection.execute(
                    select(func.lo_get(oid, cast(at - 1, BigInteger), PIECE_BYTES))
                ).scalar_one()
            else:
                found = connection.execute(select(func.substr(column, at, PIECE_BYTES)).where(where)).scalar()
            piece = bytes(found or b"")
            if piece:
                yield piece
            if len(piece) < PIECE_BYTES:
                return
            at += len(piece)

    @staticmethod
    def _blob(connection: Connection, table: Table, row_id: int, *, reads: bool = False) -> Any:
        """Of SQLite, which else has all of a value in memory."""
        driver: Any = connection.connection.driver_connection
        return driver.blobopen(table.name, "data", row_id, readonly=reads)

    def _read_blob(self, connection: Connection, table: Table, row_id: int, start: int) -> Iterator[bytes]:
        if not self.content_bytes(connection, table, row_id):
            return
        with self._blob(connection, table, row_id, reads=True) as blob:
            blob.seek(start)
            while piece := blob.read(PIECE_BYTES):
                yield piece

    def write_file(self, connection: Connection, table: Table, name: str, path: Path) -> None:
        """A new row with the content of a file."""
        values: dict[str, Any] = {"filename": name, "extension": extension_of(name)}
        if self.dialect == "sqlite":
            room = func.zeroblob(door.status(path).st_size)
            key = connection.execute(insert(table).values(**values, data=room)).inserted_primary_key
            assert key is not None
            row_id = int(key[0])
            with self._blob(connection, table, row_id) as blob, open(door.open_file(path), "rb") as file:
                while piece := file.read(PIECE_BYTES):
                    blob.write(piece)
            return
        if self.dialect != "postgresql":
            connection.execute(insert(table).values(**values, data=door.read(path)))
            return
        oid = connection.execute(select(func.lo_create(0))).scalar_one()
        connection.execute(insert(table).values(**values, data=oid))
        with open(door.open_file(path), "rb") as file:
            at = 0
            while piece := file.read(PIECE_BYTES):
                connection.execute(select(func.lo_put(oid, cast(at, BigInteger), piece)))
                at += len(piece)

    def file_bytes(self, connection: Connection, table: Table, name: str) -> int:
        """How long the content of a name is; 0 where there is none."""
        where = table.c.filename == name
        row = connection.execute(select(table.c.id).where(where)).scalar()
        return 0 if row is None else self.content_bytes(connection, table, row) or 0

    def append_to_file(self, connection: Connection, table: Table, name: str, at: int, piece: bytes) -> None:
        """Have the content of a name end with `piece`, which comes behind its first `at` bytes. The row is
        made if there is none.
        """
        here = self.dialect in ("mysql", "mariadb")
        asked = select(table.c.id) if here else select(table.c.id, table.c.data)
        found = connection.execute(asked.where(table.c.filename == name)).first()
        if found is None:
            content: Any = piece
            if self.dialect == "postgresql":
                content = connection.execute(select(func.lo_from_bytea(cast(0, OID), piece))).scalar_one()
            extension = extension_of(name)
            connection.execute(insert(table).values(filename=name, extension=extension, data=content))
        elif here:  # as a broker does, there
            content = func.concat(func.substr(table.c.data, 1, at), piece)
            connection.execute(update(table).where(table.c.id == found.id).values(data=content))
        elif self.dialect != "postgresql":
            kept = bytes(found.data or b"")[:at]
            connection.execute(update(table).where(table.c.id == found.id).values(data=kept + piece))
        elif piece:
            connection.execute(select(func.lo_put(found.data, cast(at, BigInteger), piece)))
        else:
            opened = connection.execute(select(func.lo_open(found.data, LARGE_OBJECT_WRITE))).scalar_one()
            connection.execute(select(func.lo_truncate(opened, at)))
            connection.execute(select(func.lo_close(opened)))

    def remove_files(self, connection: Connection, table: Table, names: Sequence[str]) -> None:
        where = table.c.filename.in_(names)
        if self.dialect == "postgresql":
            # Deleting the row alone leaves the object, which may have gone before.
            there = sqlalchemy.table("pg_largeobject_metadata", sqlalchemy.column("oid")).c.oid
            wanted = there.in_(select(table.c.data).where(where))
            connection.execute(select(func.lo_unlink(there)).where(wanted))
        connection.execute(delete(table).where(where))

    @contextmanager
    def as_disk(self, doing: str) -> Iterator[None]:
        """Failures of the database, and of the lease, as those of a disk."""
        try:
            yield
        except SQLAlchemyError as error:
            raise OSError(errno.EIO, str(self.failure(error, doing)), self.settings.shown) from error
        except JournalfsError as error:
            raise OSError(error.errno or errno.EIO, str(error), self.settings.shown) from error


def _refuse_of_others(settings: DatabaseSettings) -> None:
    """Raise `SystemFailure` where others say what is opened, in whose names, and which code that runs: SQLite
    and Derby reach their files by path, and drivers lie beside a configuration.
    """
    what = dict.fromkeys(settings.files, "it decides what this opens, and runs")
    if settings.config is not None:
        what |= dict.fromkeys((settings.config, *settings.jars), "it says which database this opens")
    for place, reason in what.items():
        try:
            refuse_of_others(door.resolved(place), reason)
        except OSError as error:
            raise SystemFailure.from_os(error, place, doing="open the database") from error


def most_connections(settings: DatabaseSettings) -> int | None:
    """What `maxTotal` of the pool says; None: nothing."""
    most = settings.pool.get("maxTotal", "")
    return int(most) if most.isdecimal() and int(most) > 0 else None


def _engine(settings: DatabaseSettings, *, makes: bool) -> Engine:
    try:
        url = sqlalchemy.make_url(settings.url)
    except (SQLAlchemyError, ValueError) as error:
        reason = "its port is no number" if isinstance(error, ValueError) else error
        raise SystemFailure(
            f"{settings.shown}: no URL of a database: {reason}", system_errno=errno.EINVAL
        ) from error
    if settings.user is not None:
        url = url.set(username=settings.user)
    if settings.password is not None:
        url = url.set(password=settings.password)
    url, arguments = _bounded(settings, url)
    pool: dict[str, Any] = {}
    most = most_connections(settings)
    if most is not None and url.get_backend_name() != "sqlite":
        pool |= {"pool_size": most, "max_overflow": 0, "pool_timeout": _seconds(settings)}
    if settings.dialect == DERBY:
        return _by_java(settings, makes=makes, **pool)
    try:
        engine = sqlalchemy.create_engine(url, connect_args=arguments, **pool)
    except (ImportError, NoSuchModuleError) as error:
        if settings.jdbc_url is not None and settings.dialect in OVER_JAVA:
            return _by_java(settings, makes=makes, **pool)
        raise DependencyMissing(
            f"a store at {settings.shown}",
            package=url.drivername,
            install=f"pip install a driver of SQLAlchemy for {url.get_backend_name()}",
        ) from error
    connect: Callable[..., Any] = engine.dialect.connect
    if engine.dialect.driver == "psycopg":
        from journalfs.records.tables.bounded import bounded  # noqa: PLC0415 - an optional library

        connect = bounded(settings.network_timeout_ms / 1000)
    if engine.dialect.name == "sqlite":
        first: dict[str, tuple[int, int] | None] = {}
        connect = partial(_sqlite_connect, first, connect)
        journals = settings.message_table, settings.bindings_table
        event.listen(engine, "connect", partial(_sqlite_connected, first, journals))
        bound(engine, settings.shown, _table_names(settings))
        event.listen(engine, "begin", _sqlite_begin)
    if engine.dialect.name in ("mysql", "mariadb"):
        event.listen(engine, "connect", _mysql_connected)
    # One listener: of several, the first connects.
    event.listen(engine, "do_connect", partial(_connected, connect))
    _tried_when_idle(engine)
    return engine


def _table_names(settings: DatabaseSettings) -> tuple[str, ...]:
    """How the names of all tables of a store begin: those of pages have numbers behind."""
    journals = (settings.message_table, settings.bindings_table)
    return (*journals, settings.large_message_table, settings.page_store_table, settings.node_manager_table)


def _seconds(settings: DatabaseSettings) -> int:
    return max(1, settings.network_timeout_ms // 1000)


def _bounded(settings: DatabaseSettings, url: URL) -> tuple[URL, dict[str, Any]]:
    """What a driver is told besides, so that nothing waits for ever: the server, too, lets go of what a
    client began that it does not hear of any more, which has the lease.
    """
    milliseconds, seconds = settings.network_timeout_ms, _seconds(settings)
    if url.get_backend_name() in ("mysql", "mariadb"):
        if not url.database:
            reason = "it names no database; give mysql://user@host/DATABASE"
            raise SystemFailure(f"{settings.shown}: {reason}", system_errno=errno.EINVAL)
        waits = f"SET SESSION wait_timeout = {seconds}, SESSION innodb_lock_wait_timeout = {seconds}"
        limits = dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), seconds)
        arguments = {**limits, "init_command": waits, **_tls(settings, url)}
        return url.difference_update_query(["sslmode", "sslrootcert", "sslcert", "sslkey"]), arguments
    if url.get_backend_name() == "postgresql":
        waits = f"-c idle_in_transaction_session_timeout={milliseconds} -c lock_timeout={milliseconds}"
        options = " ".join((*url.normalized_query.get("options", ()), waits))
        limits = {"connect_timeout": seconds, "tcp_user_timeout": milliseconds}
        return url, {**limits, "options": options, "application_name": OURS}
    if url.get_backend_name() == "sqlite":
        return url, {"timeout": seconds, "check_same_thread": False}
    return url, {}


def _tls(settings: DatabaseSettings, url: URL) -> dict[str, Any]:
    """What PyMySQL is told of encryption: else it has none. `sslmode` is as PostgreSQL has it."""
    mode = str(url.query.get("sslmode", "disable"))
    if mode in ("disable", "allow", "prefer"):
        return {}
    if mode not in ("require", "verify-ca", "verify-full"):
        raise SystemFailure(f"{settings.shown}: sslmode: there is no {mode!r}", system_errno=errno.EINVAL)
    files = {name: str(url.query[name]) for name in ("sslrootcert", "sslcert", "sslkey") if name in url.query}
    try:
        context = ssl.create_default_context(cafile=files.get("sslrootcert"))
        if "sslcert" in files:
            context.load_cert_chain(files["sslcert"], files.get("sslkey"))
    except OSError as error:  # also what is wrong in them
        reason = f"{', '.join(files)}: {error}"
        raise SystemFailure(f"{settings.shown}: {reason}", system_errno=errno.EINVAL) from error
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_NONE if mode == "require" else ssl.CERT_REQUIRED
    return {"ssl": context}


def _connected(connect: Callable[..., Any], dialect: Dialect, _: Any, places: Any, named: Any) -> Any:
    """A connection. What a driver makes of values that it cannot use is an error of a database, too."""
    driver: Any = dialect.loaded_dbapi
    try:
        return connect(*places, **named)
    except (driver.Error, driver.Warning):
        raise
    except OSError as error:
        raise driver.OperationalError(str(error)) from error
    except (TypeError, ValueError, LookupError, AttributeError, AssertionError) as error:
        said = str(error).removeprefix("Connection.__init__() ")
        raise driver.ProgrammingError(f"a parameter of the URL cannot be used: {said}") from error


def _by_java(settings: DatabaseSettings, *, makes: bool, **pool: Any) -> Engine:
    from journalfs.records.tables.java import java_engine  # noqa: PLC0415 - an optional library, which starts a JVM

    return java_engine(settings, makes=makes, pool_pre_ping=True, **pool)


_TRIES: Final = ContextVar("tries", default=True)


@contextmanager
def _untried() -> Iterator[None]:
    """For who notices it himself."""
    token = _TRIES.set(False)
    try:
        yield
    finally:
        _TRIES.reset(token)


def _tried_when_idle(engine: Engine) -> None:
    """Most of the time a connection was used a moment ago, and trying it would take as long as using it."""

    def returned(_: Any, record: Any) -> None:
        record.info["returned_s"] = time.monotonic()

    def taken(connection: Any, record: Any, _: Any) -> None:
        if _TRIES.get() and time.monotonic() - record.info.get("returned_s", math.inf) > IDLE_S_MAX:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise DisconnectionError from error

    event.listen(engine, "checkin", returned)
    event.listen(engine, "checkout", taken)


def _sqlite_connect(
    first: dict[str, tuple[int, int] | None], connect: Callable[..., Any], *places: Any, **named: Any
) -> Any:
    """SQLite would make a file that is gone anew, and what is written there would be in the way of the one
    that comes back. Raises as `refuse_other_file`.
    """
    for path, file_id in first.items():
        _refuse_another(path, file_id)
    return connect(*places, **named)


def _sqlite_connected(
    first: dict[str, tuple[int, int] | None], journals: Sequence[str], connection: Any, record: Any
) -> None:
    """What a COMMIT of SQLite wrote is on the disk. `first`: which file the first connection found."""
    connection.isolation_level = None  # transactions begin where `_sqlite_begin` says, and not behind reads
    cursor = connection.cursor()
    # This mode stays in the file: it is no business of ours in another program's.
    is_empty = cursor.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    asked = "SELECT 1 FROM pragma_table_info(?) WHERE lower(name) = 'recordtype'"
    if is_empty or any(cursor.execute(asked, (one,)).fetchone() for one in journals):
        cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    path = cursor.execute("PRAGMA database_list").fetchone()[2]
    cursor.close()
    record.info["file"] = path, first.setdefault(path, _file_id(path))


def _mysql_connected(connection: Any, _: Any) -> None:
    """Let others see whose session this is: the list of processes has no name of a program."""
    with connection.cursor() as cursor, suppress(connection.Error):  # a cluster may know no such locks
        cursor.execute(f"SELECT GET_LOCK(CONCAT('{OURS}.', CONNECTION_ID()), 0)")


def _sqlite_begin(connection: Connection) -> None:
    """What looks at the lease and then writes is alone from the look on. Raises as `refuse_other_file`."""
    reads = connection.get_execution_options().get(READS)
    if not reads:
        refuse_other_file(connection)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def refuse_other_file(connection: Connection) -> None:
    """Raise `SystemFailure` where nobody would find what is written to SQLite."""
    path, file_id = connection.info.get("file", (None, None))
    if path is not None:
        _refuse_another(path, file_id)


def _refuse_another(path: str, file_id: tuple[int, int] | None) -> None:
    if _file_id(path) != file_id:
        reason = "this file was removed, or another is in its place"
        raise SystemFailure(f"{path}: {reason}", system_errno=errno.EIO)


def _file_id(path: str) -> tuple[int, int] | None:
    try:
        found = door.status(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
