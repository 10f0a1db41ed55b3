"""What broker.xml says of a database, and how one is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import inspect

from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.database import DatabaseSettings, database_named, kept_text
from journalfs.errors import ConfigError
from journalfs.records.tables.database import Database
from journalfs.records.tables.schema import tables_of
from journalfs.store.write.opening import open_for_writing
from tests.tables.servers import Server, sql

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
        ("postgresql://a:b@c/d@h/db", "postgresql+psycopg://a:b%40c%2Fd@h/db"),
        ("postgresql://a:b@:/%?#&c@h:1/db?x=1", "postgresql+psycopg://a:b%40%3A%2F%25%3F%23%26c@h:1/db?x=1"),
        ("jdbc:postgresql://h/db?user=u&password=p@q", "postgresql+psycopg://u:p%40q@h/db"),
        ("jdbc:postgresql:db", "postgresql+psycopg://localhost/db"),
        ("postgresql:///db?host=/s&user=a", "postgresql+psycopg://a@/db?host=%2Fs"),
        ("postgresql://a@%2Fs:5/db", "postgresql+psycopg://a@/db?host=%2Fs&port=5"),
        ("postgresql://a@[::1]:1,h/db", "postgresql+psycopg://a@/db?host=%3A%3A1%2Ch&port=1%2C"),
        ("jdbc:mysql://h/db?user=u&sslMode=VERIFY_IDENTITY", "mysql+pymysql://u@h/db?sslmode=verify-full"),
        ("jdbc:postgresql://h/db?ssl", "postgresql+psycopg://h/db?sslmode=verify-full"),
        ("jdbc:postgresql://h/db?ssl&user=u", "postgresql+psycopg://u@h/db?sslmode=verify-full"),
        ("jdbc:mysql://h/db?&useSSL=true&user=u", "mysql+pymysql://u@h/db?sslmode=require"),
        ("postgresql://u:1?w@h/db", "postgresql+psycopg://u:1%3Fw@h/db"),
        ("jdbc:mysql://h/db?useSSL=false", "mysql+pymysql://h/db"),
        ("jdbc:mysql://h/db?useSSL=true", "mysql+pymysql://h/db?sslmode=require"),
        ("mysql:///db?unix_socket=/s&user=a", "mysql+pymysql://a@/db?unix_socket=%2Fs"),
        (
            "jdbc:postgresql://h:1/db?user=u&password=p%40&ssl=true",
            "postgresql+psycopg://u:p%40@h:1/db?sslmode=verify-full",
        ),
        ("jdbc:postgresql://h/db?user=u&password=p;w", "postgresql+psycopg://u:p%3Bw@h/db"),
        ("jdbc:mysql://h/db?user=u", "mysql+pymysql://u@h/db"),
        ("jdbc:sqlserver://h:1433;databaseName=x;user=u;password=p", "mssql+pyodbc://u:p@h:1433/x"),
        ("jdbc:oracle:thin:@//h:1521/service", "oracle+oracledb://h:1521/service"),
        ("jdbc:db2://h:50000/db:user=u;password=p;", "ibm_db_sa://u:p@h:50000/db"),
        ("postgresql://a:1,b:2/db", "postgresql+psycopg:///db?host=a%2Cb&port=1%2C2"),
        ("postgresql://u:b@a,b:2/db?x=1", "postgresql+psycopg://u:b@/db?x=1&host=a%2Cb&port=%2C2"),
        ("jdbc:postgresql://a,b/db?user=u", "postgresql+psycopg://u@/db?host=a%2Cb"),
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
    assert not any(part in found.shown for part in (":b", "c/d", "%40c"))
    assert ":p" not in found.shown.partition("//")[2].partition("@")[0]
    # What is given becomes a path, whose slashes fold.
    folded = database_named(Path(kept_text(given))) if given[0] != "/" else found
    assert folded is not None
    assert folded.url == url


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


def jdbc(**said: object) -> str:
    """Elements of a `database-store` by their names, with underscores."""
    url = {"jdbc_connection_url": "jdbc:postgresql://h/db"}
    return "".join(
        f"<{name}>{said}</{name}>"
        for name, said in ((n.replace("_", "-"), v) for n, v in (url | said).items())
    )


def source(**said: object) -> str:
    """The same as properties of a data source."""
    inside = "".join(f'<data-source-property key="{name}" value="{value}"/>' for name, value in said.items())
    return f"<data-source-properties>{inside}</data-source-properties>"


ANY_URL = "jdbc:postgresql://h/db?user=u&amp;password=p%26q&amp;ssl=true"
MYSQL_URL = "jdbc:mysql://localhost:3306/artemis"


@pytest.mark.parametrize(
    ("inside", "name", "value"),
    [
        (jdbc(jdbc_connection_url=ANY_URL), "url", "postgresql+psycopg://u:p%26q@h/db?sslmode=verify-full"),
        (
            jdbc(jdbc_connection_url="jdbc:PostgreSQL://a,b:2/db"),
            "url",
            "postgresql+psycopg:///db?host=a%2Cb&port=%2C2",
        ),
        (jdbc(jdbc_driver_class_name="org.postgresql.Driver"), "driver_class", "org.postgresql.Driver"),
        (jdbc(bindings_table_name="BINDINGS_TABLE"), "bindings_table", "BINDINGS_TABLE"),
        (jdbc(message_table_name="MESSAGE_TABLE"), "message_table", "MESSAGE_TABLE"),
        (
            jdbc(large_message_table_name="LARGE_MESSAGES_TABLE"),
            "large_message_table",
            "LARGE_MESSAGES_TABLE",
        ),
        (jdbc(page_store_table_name="PAGES"), "page_store_table", "PAGES"),
        (
            jdbc(node_manager_store_table_name="NODE_MANAGER_TABLE"),
            "node_manager_table",
            "NODE_MANAGER_TABLE",
        ),
        (jdbc(jdbc_user="artemis"), "user", "artemis"),
        (jdbc(jdbc_user=MASKED), "user", "secret"),
        (jdbc(jdbc_password="p&amp;q"), "password", "p&q"),
        (jdbc(jdbc_password=MASKED), "password", "secret"),
        (jdbc(), "network_timeout_ms", 20_000),
        (jdbc(jdbc_network_timeout=7000), "network_timeout_ms", 7000),
        (jdbc(jdbc_network_timeout=0), "network_timeout_ms", 20_000),  # nothing waits for ever
        (jdbc(jdbc_network_timeout=-1), "network_timeout_ms", 20_000),
        (jdbc(jdbc_lock_renew_period=300), "lock_renew_period_ms", 300),
        (jdbc(), "lock_expiration_ms", 20_000),
        (jdbc(jdbc_lock_expiration=5000), "lock_expiration_ms", 5000),
        (jdbc(), "lock_acquisition_timeout_ms", -1),
        (jdbc(jdbc_lock_acquisition_timeout=50), "lock_acquisition_timeout_ms", 50),
        (jdbc(), "allowed_time_diff_ms", 250),
        (jdbc(jdbc_allowed_time_diff=10), "allowed_time_diff_ms", 10),
        (jdbc(), "sync_period_ms", 5),
        (jdbc(jdbc_journal_sync_period=9), "sync_period_ms", 9),
        (jdbc(), "page_bytes_max", 102_400),
        (jdbc(jdbc_max_page_size_bytes="1M"), "page_bytes_max", 1_048_576),
        (jdbc(jdbc_page_max_size_bytes="100K"), "page_bytes_max", 102_400),
        (
            source(url=MYSQL_URL, driverClassName="com.mysql.jdbc.Driver"),
            "url",
            "mysql+pymysql://localhost:3306/artemis",
        ),
        (source(url=MYSQL_URL, username="artemis"), "user", "artemis"),
        (source(url=MYSQL_URL, password=MASKED), "password", "secret"),
        (
            source(url=MYSQL_URL, poolPreparedStatements="true"),
            "pool",
            {"url": MYSQL_URL, "poolPreparedStatements": "true"},
        ),
    ],
)
def test_what_a_database_store_says(tmp_path: Path, inside: str, name: str, value: object) -> None:
    found = said(tmp_path, inside)
    assert getattr(found, name) == value
    assert "secret" not in repr(found).replace("user='secret'", "")


def test_the_broker_s_own_example_has_a_table_twice(tmp_path: Path) -> None:
    """In its documentation; it does not start with it."""
    names = {"message_table_name": "MESSAGE_TABLE", "page_store_table_name": "MESSAGE_TABLE"}
    with pytest.raises(ConfigError, match="13 characters, and a broker starts with at most 10"):
        said(tmp_path, jdbc(jdbc_connection_url="jdbc:derby:data/derby/database-store;create=true", **names))


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


def test_what_the_pool_is_told_comes_first(tmp_path: Path) -> None:
    """As a broker has it, which then takes nothing else."""
    other = jdbc(jdbc_connection_url="jdbc:mysql://other/x", jdbc_user="other", jdbc_password="other")
    found = said(tmp_path, other + source(url=MYSQL_URL, username="u", password="p"))
    assert (found.url, found.user, found.password) == (said(tmp_path, source(url=MYSQL_URL)).url, "u", "p")


@pytest.mark.rule("S-328")
def test_tables_are_in_the_schema_that_is_named(postgres: Server, tmp_path: Path) -> None:
    url = postgres.make("with_a_schema")
    sql(postgres.port, "with_a_schema", 'CREATE SCHEMA "The Orders"')
    place = f"jdbc:{url.replace('artemis@', '')}?user=artemis"
    path = quote('"The\\ Orders"')
    for found in (
        database_named(f"{place}&currentSchema={quote(chr(34) + 'The Orders' + chr(34))}"),
        database_named(f"{place}&options=-c%20search_path={path}"),
        database_named(f"{url}?options=-csearch_path%3D{path}"),
        said(tmp_path, source(url=place, defaultSchema="&quot;The Orders&quot;")),
    ):
        assert found is not None
        database = Database(found)
        with database.begin("make the tables") as connection:
            database.tables.metadata.create_all(connection)
        database.close()
        sql(postgres.port, "with_a_schema", 'DROP TABLE "The Orders".messages')


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
            "<message-table-name>sales.messages</message-table-name>",
            "'sales.messages' cannot be the name of a table",
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
        (jdbc(jdbc_password="ENC(none)"), "jdbc-password: a masked value must be"),
        (jdbc(jdbc_connection_url="jdbc:h2:x;PASSWORD=secret"), r"jdbc:h2:x;PASSWORD=\*\*\* names no"),
        (jdbc(jdbc_connection_url="jdbc:mysql:loadbalance://a,b/c"), "give one server of MySQL or MariaDB"),
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
