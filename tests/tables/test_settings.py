"""What broker.xml says of a database, and how one is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import inspect

from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.database import DatabaseSettings, database_named
from journalfs.errors import ConfigError
from journalfs.records.tables.database import Database
from journalfs.records.tables.schema import tables_of
from journalfs.store.write.opening import open_for_writing
from tests.tables.servers import Server

MASKED = "ENC(-41e444c3ed07d6dd)"
"""`secret`, as a broker masks it."""


def said(folder: Path, inside: str) -> DatabaseSettings:
    file = folder / "broker.xml"
    store = f"<store><database-store>{inside}</database-store></store>"
    file.write_text(f"<configuration><core>{store}</core></configuration>")
    found = read_broker_xml(file, instance=folder).database
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("postgresql://a:b@h:5/db", "postgresql+psycopg://a:b@h:5/db"),
        ("/somewhere/postgresql:/a@h/db", "postgresql+psycopg://a@h/db"),
        ("mariadb://h/db", "mysql+pymysql://h/db"),
        ("postgresql://a@/db?port=5&password=b", "postgresql+psycopg://a@/db?port=5"),
        ("postgresql://a:b@c/d@h/db", "postgresql+psycopg://a:b@c/d@h/db"),
        ("jdbc:postgresql://h:1/db?user=u&password=p%40&ssl=true", "postgresql+psycopg://u:p%40@h:1/db"),
        ("jdbc:mysql://h/db?user=u", "mysql+pymysql://u@h/db"),
        ("jdbc:sqlserver://h:1433;databaseName=x;user=u;password=p", "mssql+pyodbc://u:p@h:1433/x"),
        ("jdbc:oracle:thin:@//h:1521/service", "oracle+oracledb://h:1521/service"),
        ("jdbc:db2://h:50000/db:user=u;password=p;", "ibm_db_sa://u:p@h:50000/db"),
        ("postgresql://a:1,b:2/db", "postgresql+psycopg:///db?host=a%3A1&host=b%3A2"),
        ("postgresql://u:b@a,b:2/db?x=1", "postgresql+psycopg://u:b@/db?x=1&host=a&host=b%3A2"),
        ("jdbc:postgresql://a,b/db?user=u", "postgresql+psycopg://u@/db?host=a&host=b"),
        ("postgresql://u@/db?host=a&host=b", "postgresql+psycopg://u@/db?host=a&host=b"),
        ("PostgreSQL://a@h/db", "postgresql+psycopg://a@h/db"),
        ("JDBC:MySQL://h/db?user=u", "mysql+pymysql://u@h/db"),
        ("jdbc:sqlite:/var/x.db?busy_timeout=3", "sqlite:////var/x.db"),
        ("SQLite:////var/X.db", "sqlite:////var/X.db"),
        ("sqlite:////var/x.db", "sqlite:////var/x.db"),
        ("sqlite:///x.db", f"sqlite:///{os.getcwd()}/x.db"),
    ],
)
def test_databases_are_named_by_urls(given: str, url: str) -> None:
    found = database_named(given)
    assert found is not None
    assert found.url == url
    assert not any(part in found.shown for part in (":b@", "c/d"))
    assert ":p" not in found.shown.partition("//")[2].partition("@")[0]


@pytest.mark.rule("S-305")
def test_the_first_server_that_answers_is_used(postgres: Server) -> None:
    url = postgres.make("answers")
    found = database_named(url.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.1:"))
    assert found is not None
    with Database(found).reading("look") as connection:
        assert connection.exec_driver_sql("SELECT current_database()").scalar() == "answers"


def test_paths_are_no_databases(tmp_path: Path) -> None:
    for path in (tmp_path, "/var/lib/artemis", "relative/data", "host:/nfs", "a:b"):
        assert database_named(path) is None
    # Somebody may have a directory of such a name.
    (tmp_path / "sqlite:").mkdir()
    assert database_named(tmp_path / "sqlite:") is None


def test_what_a_database_store_says(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        "<jdbc-driver-class-name>org.postgresql.Driver</jdbc-driver-class-name>"
        "<jdbc-connection-url>jdbc:postgresql://h/db</jdbc-connection-url>"
        f"<jdbc-user>artemis</jdbc-user><jdbc-password>{MASKED}</jdbc-password>"
        "<jdbc-network-timeout>7000</jdbc-network-timeout>"
        "<jdbc-lock-renew-period>300</jdbc-lock-renew-period>"
        "<jdbc-lock-expiration>3000</jdbc-lock-expiration>"
        "<jdbc-lock-acquisition-timeout>50</jdbc-lock-acquisition-timeout>"
        "<jdbc-allowed-time-diff>10</jdbc-allowed-time-diff>"
        "<jdbc-journal-sync-period>9</jdbc-journal-sync-period>"
        "<jdbc-page-max-size-bytes>100K</jdbc-page-max-size-bytes>",
    )
    assert (found.url, found.user, found.password) == ("postgresql+psycopg://h/db", "artemis", "secret")
    assert (found.network_timeout_ms, found.lock_renew_period_ms) == (7000, 300)
    assert (found.lock_expiration_ms, found.lock_acquisition_timeout_ms) == (3000, 50)
    assert (found.allowed_time_diff_ms, found.sync_period_ms) == (10, 9)
    assert (found.page_bytes_max, found.driver_class) == (102_400, "org.postgresql.Driver")
    assert "secret" not in repr(found)


@pytest.mark.parametrize("text", ["0", "-1"])
def test_nothing_waits_for_ever(tmp_path: Path, text: str) -> None:
    url = "<jdbc-connection-url>jdbc:sqlite:/x</jdbc-connection-url>"
    found = said(tmp_path, f"{url}<jdbc-network-timeout>{text}</jdbc-network-timeout>")
    assert found.network_timeout_ms == 20_000


def test_broker_properties_overrule(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    url = "storeConfiguration.jdbcConnectionUrl=jdbc:mysql://h/d\n"
    (etc / "broker.xml").write_text("<configuration><core/></configuration>")
    text = f"storeConfiguration=DATABASE\n{url}storeConfiguration.jdbcUser=u\n"
    (etc / "broker.properties").write_text(f"{text}storeConfiguration.messageTableName=m\n")
    found = read_broker_xml(etc / "broker.xml", instance=tmp_path).database
    assert found is not None
    assert (found.url, found.user, found.message_table) == ("mysql+pymysql://h/d", "u", "m")


def test_properties_of_a_data_source(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        '<data-source-properties><data-source-property key="url" value="jdbc:mysql://h/db"/>'
        '<data-source-property key="username" value="u"/><data-source-property key="password" value="p"/>'
        '<data-source-property key="maxTotal" value="3"/></data-source-properties>',
    )
    assert (found.url, found.user, found.password) == ("mysql+pymysql://h/db", "u", "p")
    assert Database(found).engine.pool.size() == 3  # type: ignore[attr-defined]


def test_tables_have_the_names_that_are_set(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        f"<jdbc-connection-url>jdbc:sqlite:{tmp_path}/x.db</jdbc-connection-url>"
        "<message-table-name>M1</message-table-name><bindings-table-name>B1</bindings-table-name>"
        "<large-message-table-name>L1</large-message-table-name>"
        "<page-store-table-name>P1</page-store-table-name>"
        "<node-manager-store-table-name>N1</node-manager-store-table-name>",
    )
    assert set(tables_of(found).metadata.tables) == {"m1", "b1", "l1", "p1", "n1", "l1_flushed"}
    open_for_writing(tmp_path).close()
    assert set(inspect(Database(found).engine).get_table_names()) == {
        "m1",
        "b1",
        "l1",
        "p1",
        "n1",
        "l1_flushed",
    }


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ("", "nothing names no database"),
        ("<jdbc-connection-url>jdbc:h2:x</jdbc-connection-url>", "jdbc:h2:x names no database"),
        (
            "<jdbc-connection-url>jdbc:sqlite:/x</jdbc-connection-url>"
            "<message-table-name>a; b</message-table-name>",
            "'a; b' cannot be the name of a table",
        ),
        (
            "<jdbc-connection-url>jdbc:sqlite:/x</jdbc-connection-url>"
            "<jdbc-network-timeout>soon</jdbc-network-timeout>",
            "'soon' is no number",
        ),
        (
            "<jdbc-connection-url>jdbc:sqlite:/x</jdbc-connection-url>"
            "<page-store-table-name>Messages</page-store-table-name>",
            "messages cannot be the table of both message-table-name and page-store-table-name",
        ),
        (
            "<jdbc-connection-url>jdbc:sqlite:/x</jdbc-connection-url>"
            "<page-store-table-name>PAGES_OF_ORDERS</page-store-table-name>",
            "15 characters, and a broker starts with at most 10",
        ),
        (
            "<jdbc-connection-url>jdbc:sqlite:/x</jdbc-connection-url>"
            "<jdbc-lock-expiration>4000</jdbc-lock-expiration>",
            "a lease of 4000 ms that is renewed each 4000 ms would run out",
        ),
        (
            "<jdbc-connection-url>jdbc:sqlite:/x</jdbc-connection-url>"
            "<jdbc-page-max-size-bytes>much</jdbc-page-max-size-bytes>",
            "'much' is no size",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, inside: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        said(tmp_path, inside)


@pytest.mark.rule("S-223")
def test_columns_are_those_of_the_broker(empty_database: Callable[[str], str]) -> None:
    """Types of the dialects that are not run here are at least those that the broker's provider names."""
    from sqlalchemy.dialects import mssql, oracle  # noqa: PLC0415
    from sqlalchemy.schema import CreateTable  # noqa: PLC0415

    messages = tables_of(DatabaseSettings(url="sqlite://")).messages
    assert "record VARBINARY(max)" in str(CreateTable(messages).compile(dialect=mssql.dialect()))  # type: ignore[no-untyped-call]
    text = str(CreateTable(messages).compile(dialect=oracle.dialect()))  # type: ignore[no-untyped-call]
    assert "seq NUMBER(19)" in text.replace("NUMERIC", "NUMBER").replace(", 0", "")
