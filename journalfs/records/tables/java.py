"""Databases by their JDBC drivers, in a JVM within this process: Derby, and those whose Python driver is not
installed.

There is one JVM in a process, and none survives a fork. Derby's embedded database is of one process alone: it
is shut down when the last engine that uses it is let go, so that others can have it.
"""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.mssql.base import MSDialect
from sqlalchemy.dialects.mysql.base import MySQLDialect
from sqlalchemy.dialects.oracle.base import OracleDialect
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql import quoted_name
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler

from journalfs import door
from journalfs.config.database import DERBY, DatabaseSettings
from journalfs.errors import DependencyMissing

try:
    import jpype
    from jpype import dbapi2
except ImportError as missing:
    raise DependencyMissing(
        "a database by its JDBC driver", package="jpype1", install="pip install 'journalfs[jdbc]'"
    ) from missing

_OPTIONS: Final = (
    "-Xrs",
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    "-Dderby.stream.error.file=/dev/null",
)
"""Signals stay ours; and Derby would write a log into the working directory."""
_ZONE: Final = "-Duser.timezone=UTC"
"""Derby knows no other time than the JVM's local one."""
_ALIVE_S: Final = 5
_INT_MAX: Final = (1 << 31) - 1
_LIMITS: Final = {"READ UNCOMMITTED": 1, "READ COMMITTED": 2, "REPEATABLE READ": 4, "SERIALIZABLE": 8}
"""Isolation levels as `java.sql.Connection` numbers them."""

_KINDS: Final = {
    "22": dbapi2.DataError,
    "23": dbapi2.IntegrityError,
    "42": dbapi2.ProgrammingError,
    "0A": dbapi2.NotSupportedError,
}
"""Class of an SQLSTATE -> what it is; all else may pass."""

_users: Final[defaultdict[str, set[int]]] = defaultdict(set)
"""Embedded database -> engines that have connections to it."""
_starting: Final = threading.Lock()


# ---- the JVM ----


def _jars(settings: DatabaseSettings) -> list[str]:
    """Those of `lib` in the broker's instance, and what CLASSPATH names."""
    found = [*settings.jars]
    folders: list[Path] = []
    for one in filter(None, os.environ.get("CLASSPATH", "").split(os.pathsep)):
        path = Path(one)
        if path.name == "*":
            folders.append(path.parent)
        else:
            found.append(path)
    for folder in folders:
        found += [folder / name for name in sorted(door.names_if_there(folder)) if name.endswith(".jar")]
    return [os.path.abspath(path) for path in found]


def _start(settings: DatabaseSettings) -> None:
    """A JVM that has the driver. Raises `DependencyMissing`."""
    jars = _jars(settings)
    with _starting:
        if not jpype.isJVMStarted():
            try:
                jpype.startJVM(*_OPTIONS, _ZONE, classpath=jars, interrupt=True)
            except (jpype.JVMNotFoundException, OSError) as error:
                raise DependencyMissing(
                    f"a store at {settings.shown}",
                    package="Java",
                    install="install a Java runtime (Debian: default-jre-headless), or set JAVA_HOME",
                ) from error
        else:
            for jar in jars:
                jpype.addClassPath(jar)
        if settings.driver_class is not None:
            _load(settings, settings.driver_class)
        else:
            try:
                jpype.JClass("java.sql.DriverManager").getDriver(settings.jdbc_url)
            except jpype.JException as error:
                raise _no_driver(settings, "driver") from error


def _load(settings: DatabaseSettings, name: str) -> None:
    try:
        jpype.JClass(name).class_.getDeclaredConstructor().newInstance()
    except (TypeError, jpype.JException) as error:  # what is no class is no type of Python
        raise _no_driver(settings, f"driver {name}") from error


def _no_driver(settings: DatabaseSettings, what: str) -> DependencyMissing:
    looked = ", ".join(_jars(settings)) or "no jar"
    return DependencyMissing(
        f"a store at {settings.shown}",
        package=f"a JDBC {what} (found: {looked})",
        install="name the driver's jars in CLASSPATH, or put them into lib of the broker's instance",
    )


# ---- the DB-API, with errors that say all ----


def _reasons(error: Any) -> Iterator[str]:
    """Derby's first one says that there is another."""
    while error is not None:
        yield str(error.getMessage()).strip()
        error = error.getNextException()


def _as_ours(error: Any) -> Exception:
    """What Java throws, as an error of the DB-API."""
    if not isinstance(error, jpype.JClass("java.sql.SQLException")):
        return cast("Exception", dbapi2.OperationalError(str(error)))
    kind = _KINDS.get(str(error.getSQLState() or "")[:2], dbapi2.OperationalError)
    return cast("Exception", kind("; ".join(_reasons(error))))


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except jpype.JException as error:
        raise _as_ours(error) from error
    except dbapi2.Error as error:  # jpype's own, of a statement
        cause = error.__cause__
        if not isinstance(cause, jpype.JException):
            raise
        raise _as_ours(cause) from cause


def _telling(method: Callable[..., Any]) -> Any:
    @wraps(method)
    def told(*given: Any, **named: Any) -> Any:
        with _told():
            return method(*given, **named)

    return told


class _Cursor(dbapi2.Cursor):  # type: ignore[misc]
    execute = _telling(dbapi2.Cursor.execute)
    executemany = _telling(dbapi2.Cursor.executemany)
    fetchone = _telling(dbapi2.Cursor.fetchone)
    fetchmany = _telling(dbapi2.Cursor.fetchmany)
    fetchall = _telling(dbapi2.Cursor.fetchall)


class _Connection(dbapi2.Connection):  # type: ignore[misc]
    def cursor(self) -> _Cursor:
        return _Cursor(self)

    @_telling
    def commit(self) -> None:
        self._jcx.commit()

    @_telling
    def rollback(self) -> None:
        self._jcx.rollback()


def _int_of(value: int) -> Any:
    """Functions of PostgreSQL tell the two apart."""
    return jpype.JInt(value) if -_INT_MAX <= value <= _INT_MAX else jpype.JLong(value)


def connect(url: str, login: dict[str, str], driver_class: str | None = None) -> _Connection:
    """Raises errors of `jpype.dbapi2`."""
    with _told():
        properties = jpype.JClass("java.util.Properties")()
        for name, value in login.items():
            properties.setProperty(name, value)
        made = jpype.JClass("java.sql.DriverManager").getConnection(url, properties)
        converters = {
            jpype.JClass("java.lang.String"): str,
            jpype.JArray(jpype.JByte): bytes,
            jpype.JClass("java.math.BigDecimal"): lambda value: int(str(value.toBigInteger())),
        }
        adapters = {int: _int_of, quoted_name: str}
        return _Connection(made, adapters, converters, dbapi2.SETTERS_BY_TYPE, dbapi2.GETTERS_BY_TYPE)


# ---- SQLAlchemy ----


class _OverJava(DefaultDialect):
    driver = "jdbc"
    default_paramstyle = "qmark"
    supports_native_boolean = True
    postfetch_lastrowid = False
    insert_returning = update_returning = delete_returning = False
    use_insertmanyvalues = False
    supports_sane_multi_rowcount = False

    @classmethod
    def import_dbapi(cls) -> Any:
        return dbapi2

    def do_ping(self, dbapi_connection: Any) -> bool:
        return bool(dbapi_connection.connection.isValid(_ALIVE_S))

    def is_disconnect(self, error: Any, connection: Any, cursor: object) -> bool:
        cause = error.__cause__
        state = getattr(cause, "getSQLState", lambda: "")()
        return str(state or "").startswith("08")

    def get_isolation_level_values(self, dbapi_conn: object) -> list[Any]:
        return list(_LIMITS)

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return self.get_isolation_level(dbapi_conn)

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        number = dbapi_connection.connection.getTransactionIsolation()
        return next(name for name, level in _LIMITS.items() if level == number)

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        with _told():
            dbapi_connection.connection.setTransactionIsolation(_LIMITS[level])


class _DerbyCompiler(SQLCompiler):
    def for_update_clause(self, select: object, **_: object) -> str:
        return " FOR UPDATE WITH RS"  # else the lock goes when the next row is looked at

    def limit_clause(self, select: Any, **more: Any) -> str:
        return f" FETCH FIRST {self.process(select._limit_clause, **more)} ROWS ONLY"


class _DerbyDDL(DDLCompiler):
    def visit_identity_column(self, identity: object, **_: object) -> str:
        return "GENERATED ALWAYS AS IDENTITY (START WITH 1, INCREMENT BY 1)"


class DerbyDialect(_OverJava):
    name = DERBY
    supports_statement_cache = True
    statement_compiler = _DerbyCompiler
    ddl_compiler = _DerbyDDL
    supports_identity_columns = True
    supports_default_values = False
    supports_empty_insert = False
    requires_name_normalize = True

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: object) -> bool:
        java = connection.connection.dbapi_connection.connection
        with _told():
            found = java.getMetaData().getTables(None, java.getSchema(), table_name.upper(), None)
            try:
                return bool(found.next())
            finally:
                found.close()


_BASES: Final[dict[str, type]] = {
    "postgresql": PGDialect,
    "mysql": MySQLDialect,
    "mssql": MSDialect,
    "oracle": OracleDialect,
}


def dialect_class(name: str) -> type:
    """Of SQLAlchemy, over JDBC. Raises `KeyError`."""
    if name == DERBY:
        return DerbyDialect
    return type(f"Java_{name}", (_OverJava, _BASES[name]), {"name": name, "supports_statement_cache": True})


def java_engine(settings: DatabaseSettings, *, makes: bool, **pool: Any) -> Engine:
    """`makes`: an embedded database that is not there is made. Raises `DependencyMissing`."""
    assert settings.jdbc_url is not None
    _start(settings)
    given = {"user": settings.user, "password": settings.password}
    login = {name: value for name, value in given.items() if value is not None}
    url = settings.jdbc_url
    embedded = settings.dialect == DERBY and not re.match(r"jdbc:derby://", url)
    made = f"{url};create=true" if embedded and makes else url
    dialect = dialect_class(settings.dialect)
    registry.impls[f"{settings.dialect}.jdbc"] = lambda: dialect
    engine = create_engine(f"{settings.dialect}+jdbc://", creator=lambda: connect(made, login), **pool)
    if embedded:
        place = url.partition(";")[0]
        event.listen(engine, "connect", lambda *_: _users[place].add(id(engine)))
        event.listen(engine, "engine_disposed", lambda _: _let_go(place, id(engine)))
    return engine


def _let_go(place: str, user: int) -> None:
    """The answer to a shutdown is an error, which says that it is done."""
    used = user in _users[place]
    _users[place].discard(user)
    if used and not _users[place]:
        try:
            jpype.JClass("java.sql.DriverManager").getConnection(f"{place};shutdown=true")
        except jpype.JException as done:
            if str(done.getSQLState()) not in ("08006", "08003", "XJ004"):
                raise


def blob_pieces(connection: Any, statement: str, start: int, piece_bytes: int) -> Iterator[bytes]:
    """The first value that a query finds, from `start` on."""
    java = connection.connection.driver_connection.connection
    with _told():
        asked = java.createStatement()
        try:
            found = asked.executeQuery(statement)
            if not found.next():
                return
            stream = found.getBinaryStream(1)
            if stream is None:
                return
            stream.skipNBytes(start) if hasattr(stream, "skipNBytes") else stream.skip(start)
            while piece := bytes(stream.readNBytes(piece_bytes)):
                yield piece
        finally:
            asked.close()
