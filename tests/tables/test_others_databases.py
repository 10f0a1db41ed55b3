"""Databases of other programs: nothing is made in them, and nothing changed, unless a store is asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import journalfs
from tests.named.instances import fingerprint
from tests.tables.servers import Server, sql

pytestmark = pytest.mark.rule("S-334")

MESSAGES_OF_ANOTHER = "CREATE TABLE messages (id INTEGER PRIMARY KEY, sender TEXT, body TEXT)"
CONTACTS = "CREATE TABLE contacts (name TEXT)"
ACTIVEMQ_5 = "CREATE TABLE ACTIVEMQ_MSGS (ID INTEGER PRIMARY KEY, CONTAINER TEXT, MSG BLOB)"
TABLES = [CONTACTS, MESSAGES_OF_ANOTHER, ACTIVEMQ_5]


@pytest.fixture
def other(tmp_path: Path) -> Callable[[str], Path]:
    def make(tables: str) -> Path:
        file = tmp_path / "files" / "other.db"
        file.parent.mkdir()
        with sqlite3.connect(file) as connection:
            connection.execute(tables)
            connection.execute("PRAGMA user_version = 7")
        connection.close()
        return file

    return make


@pytest.mark.parametrize("tables", TABLES)
def test_another_programs_file_stays_as_it_is(
    other: Callable[[str], Path], tables: str, tmp_path: Path
) -> None:
    file = other(tables)
    url, before = f"sqlite:///{file}", fingerprint(file.parent)
    (tmp_path / "mnt").mkdir()
    calls: list[list[str | Path]] = [
        ["put", url, "a::a", __file__],
        ["take", url, "a::a"],
        ["ls", url],
        ["check", url],
    ]
    for call in calls:
        done = journalfs(*call)
        assert done.returncode == 3, (call, done.stderr)
        assert fingerprint(file.parent) == before
    said = journalfs("put", url, "a::a", __file__).stderr
    if tables is not MESSAGES_OF_ANOTHER:
        assert f"journalfs create {url}" in said
        assert ("ActiveMQ 5" in said) is (tables is ACTIVEMQ_5)
        assert journalfs("create", url).returncode == 0
        assert journalfs("put", url, "DLQ::DLQ", __file__).returncode == 0
    else:
        assert "another program's" in said
        assert journalfs("create", url).returncode == 3
        assert fingerprint(file.parent) == before


def test_a_server_with_tables_of_others(postgres: Server) -> None:
    url = postgres.make("shop")
    sql(postgres.port, "shop", "CREATE TABLE orders (id INT); INSERT INTO orders VALUES (1)")
    done = journalfs("put", url, "a::a", __file__)
    assert done.returncode == 3
    assert f"journalfs create {url}" in done.stderr
    assert journalfs("create", url).returncode == 0
    assert journalfs("put", url, "DLQ::DLQ", __file__).returncode == 0


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    file = tmp_path / "empty.db"
    file.touch()
    assert journalfs("create", f"sqlite:///{file}").returncode == 0
