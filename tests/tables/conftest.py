"""The broker's own JDBC store, loaded into a PostgreSQL of the session, and empty databases."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.frozen import PristineStores
from tests.tables.dump import load
from tests.tables.servers import Server, mariadb, sql

_numbers = itertools.count()


@pytest.fixture(scope="session")
def maria() -> Iterator[Server]:
    with mariadb() as server:
        yield server


@pytest.fixture(autouse=True)
def _derived_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNALFS_DERIVED", str(tmp_path / "derived"))


@pytest.fixture
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """A new database of the named kind; its URL."""

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/store-{next(_numbers)}.db"
        server: Server = request.getfixturevalue({"postgresql": "postgres", "mysql": "maria"}[kind])
        return server.make(f"store{next(_numbers)}")

    return make


@pytest.fixture
def jdbc_config(postgres: Server, stores: PristineStores) -> str:
    """The broker.xml of the real broker's store, which says where a copy of its tables is."""
    name = f"copy{next(_numbers)}"
    url = postgres.make(name)
    with (stores["jdbc"] / "dump.sql").open("rb") as dump:
        sql(postgres.port, name, "", stdin=dump)
    return _config_at(url, stores)


def _config_at(url: str, stores: PristineStores) -> str:
    text = (stores["jdbc"] / "broker.xml").read_text()
    # Java's drivers take the user as a parameter.
    place = re.sub(r"//(\w+)@(.*)", r"//\2?user=\1", url)
    return re.sub(r"jdbc:postgresql:[^<]*", f"jdbc:{place}", text)


@pytest.fixture
def jdbc_store(jdbc_config: str, tmp_path: Path) -> Path:
    """A folder with that broker.xml."""
    folder = tmp_path / "instance"
    folder.mkdir()
    folder.joinpath("broker.xml").write_text(jdbc_config)
    return folder


@pytest.fixture(params=["postgresql", "sqlite", pytest.param("mysql", marks=pytest.mark.long)])
def jdbc_store_anywhere(
    request: pytest.FixtureRequest,
    empty_database: Callable[[str], str],
    stores: PristineStores,
    tmp_path: Path,
) -> Path:
    """The same store in the tables of any database."""
    if request.param == "postgresql":
        found: Path = request.getfixturevalue("jdbc_store")
        return found
    url = empty_database(request.param)
    load(stores["jdbc"] / "dump.sql", url)
    text = re.sub(r"<jdbc-driver.*", "", _config_at(url, stores))
    (tmp_path / "broker.xml").write_text(text)
    return tmp_path
