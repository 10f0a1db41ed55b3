"""The tables of the broker's JDBC store, in each dialect's types (docs/format/jdbc.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    CHAR,
    BigInteger,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    String,
    Table,
)
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql
from sqlalchemy.types import UserDefinedType

from journalfs.config.database import DERBY, DatabaseSettings

EXTENSION_CHARS_MAX: Final = 10

STATE_ROW: Final = 0
PRIMARY_ROW: Final = 1
BACKUP_ROW: Final = 2
NODE_ROW: Final = 3
"""Rows of the node manager's table."""

_LONG: Final[Any] = BigInteger().with_variant(Numeric(19), "oracle")
_SHORT: Final[Any] = SmallInteger().with_variant(Numeric(5), "oracle")
_NUMBER: Final[Any] = Integer().with_variant(Numeric(10), "oracle")


class _LongBlob(UserDefinedType[bytes]):
    """Of DB2: a BLOB that nobody says a length of is short."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "BLOB(2G)"


_ANY_LENGTH: Final[Any] = mssql.VARBINARY("max")  # type: ignore[no-untyped-call]


def _bytes(of_postgresql: Any) -> Any:
    return (
        LargeBinary()
        .with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
        .with_variant(of_postgresql, "postgresql")
        .with_variant(_ANY_LENGTH, "mssql")
        .with_variant(oracle.BLOB(), "oracle")
        .with_variant(_LongBlob(), "ibm_db_sa")
    )


_BYTES: Final[Any] = _bytes(postgresql.BYTEA())
_FILE: Final[Any] = _bytes(postgresql.OID())
"""PostgreSQL has files as large objects."""
_SEQUENCE: Final[Any] = BigInteger().with_variant(Numeric(19), "oracle").with_variant(Integer(), "sqlite")
"""In SQLite a key of this type is the row's own number."""
_ON_NULL: Final = (
    "oracle_on_null" if Identity in dict(oracle.dialect.construct_arguments or ()) else "on_null"
)
"""What SQLAlchemy calls it from 2.1 on, and before."""
_KEYLESS: Final = frozenset({"postgresql", "mysql", "mariadb", "oracle"})
"""A broker's journal tables have no key there."""
_COUNTED: Final[Any] = BigInteger().with_variant(Integer(), "sqlite").with_variant(Numeric(19), "oracle")
"""SQLite counts up a column of this type only."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Names are in lower case, which no dialect quotes."""

    metadata: MetaData
    messages: Table
    bindings: Table
    large: Table
    pages: Table
    nodes: Table
    flushed: Table
    """Of ours: what was flushed and is not published yet."""

    @property
    def journals(self) -> tuple[Table, Table]:
        return self.messages, self.bindings


def tables_of(settings: DatabaseSettings) -> Tables:
    metadata = MetaData(info={"dialect": settings.dialect})
    keyed = settings.dialect not in _KEYLESS
    return Tables(
        metadata,
        messages=_journal(metadata, settings.message_table, keyed=keyed),
        bindings=_journal(metadata, settings.bindings_table, keyed=keyed),
        large=file_table(metadata, settings.large_message_table),
        pages=file_table(metadata, settings.page_store_table),
        flushed=file_table(metadata, f"{settings.large_message_table}_flushed"),
        nodes=Table(
            settings.node_manager_table.lower(),
            metadata,
            Column("id", Integer, primary_key=True, autoincrement=False),
            Column("holder_id", String(128)),
            Column("holder_expiration_time", _LONG),
            Column("node_id", CHAR(36)),
            Column("state", CHAR(1)),
            mysql_engine="InnoDB",
        ),
    )


def _journal(metadata: MetaData, name: str, *, keyed: bool) -> Table:
    """Whoever follows asks for sequence numbers: where these are no key, they have an index of ours."""
    name = name.lower()
    ours = () if keyed else (Index(f"{name}_seq_idx", "seq"),)
    return Table(
        name,
        metadata,
        Column("id", _LONG),
        Column("recordtype", _SHORT),
        Column("compactcount", _SHORT),
        Column("txid", _LONG),
        Column("userrecordtype", _SHORT),
        Column("variablesize", _NUMBER),
        Column("record", _BYTES),
        Column("txdatasize", _NUMBER),
        Column("txdata", _BYTES),
        Column("txchecknorecords", _NUMBER),
        Column("seq", _SEQUENCE, primary_key=keyed, autoincrement=False),
        Index(f"{name}_idx", "id"),
        Index(f"{name}_tx_idx", "txid"),
        *ours,
        mysql_engine="InnoDB",
    )


def file_table(metadata: MetaData, name: str) -> Table:
    name = name.lower()
    if name in metadata.tables:
        return metadata.tables[name]
    # Elsewhere a key that is a number counts up by itself.
    counted = (
        (Identity(**{_ON_NULL: True}),) if metadata.info["dialect"] in ("oracle", "ibm_db_sa", DERBY) else ()
    )
    return Table(
        name,
        metadata,
        Column("id", _COUNTED, *counted, primary_key=True),
        Column("filename", String(255)),
        Column("extension", String(EXTENSION_CHARS_MAX)),
        Column("data", _FILE),
        Index(f"{name}_idx", "filename"),
        mysql_engine="InnoDB",
    )


def extension_of(name: str) -> str:
    """What a row says of the name of a file: nobody looks for a longer one by it."""
    return name.rpartition(".")[2][:EXTENSION_CHARS_MAX]
