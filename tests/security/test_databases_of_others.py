"""Databases where somebody else says what is opened, and which code that runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.config.database import DatabaseSettings, DatabaseStore, database_named
from journalfs.config.layout import locate_store
from journalfs.errors import SystemFailure
from journalfs.records.tables.database import Database
from tests.mounting import journalfs
from tests.security.strangers import OWNER, Victim, put_link

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked")

XML = (
    '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><store><database-store>'
    "<jdbc-connection-url>jdbc:sqlite:{}</jdbc-connection-url>"
    "</database-store></store></core></configuration>"
)
REASONS = (f"is user {OWNER}'s, and it", f"a link that user {OWNER} made", "others can write to it, and it")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("database") / "o.db"
    assert journalfs("create", f"sqlite:///{path}").returncode == 0
    return path


def linked(folder: Path, victim: Victim) -> None:
    put_link(folder / "o.db", victim.folder / "o.db")


def driver_of_others(folder: Path, _: Victim) -> None:
    (folder / "lib").mkdir()
    (folder / "lib/driver.jar").write_bytes(b"")
    os.chown(folder / "lib/driver.jar", OWNER, OWNER)


ATTACKS: dict[str, tuple[int, Callable[[Path, Victim], None]]] = {
    "file": (0, lambda folder, _: os.chown(folder / "o.db", OWNER, OWNER)),
    "folder": (0, lambda folder, _: os.chown(folder, OWNER, OWNER)),
    "open folder": (2, lambda folder, _: folder.chmod(0o777)),
    "link": (1, linked),
    "configuration": (0, lambda folder, _: os.chown(folder / "etc/broker.xml", OWNER, OWNER)),
    "driver": (0, driver_of_others),
}


def refused(settings: DatabaseSettings) -> str:
    with pytest.raises(SystemFailure) as error:
        Database(settings, makes=True)
    return str(error.value)


@pytest.mark.rule("S-292")
@pytest.mark.parametrize("name", ATTACKS)
def test_who_else_says_what_is_opened(name: str, database: Path, victim: Victim, tmp_path: Path) -> None:
    reason, attack = ATTACKS[name]
    shutil.copy(database, victim.folder / "o.db")
    victim.before = victim.state()
    folder = tmp_path / "instance"
    (folder / "etc").mkdir(parents=True)
    shutil.copy(database, folder / "o.db")
    (folder / "etc/broker.xml").write_text(XML.format(folder / "o.db"))
    attack(folder, victim)
    with pytest.raises(DatabaseStore) as configured:
        locate_store(folder)
    assert REASONS[reason] in refused(configured.value.settings)
    if name not in ("configuration", "driver"):
        named = database_named(f"sqlite:///{folder}/o.db")
        assert named is not None
        assert REASONS[reason] in refused(named)
    victim.require_untouched()


@pytest.mark.rule("S-292")
def test_a_command_says_whose_it_is(database: Path) -> None:
    assert journalfs("ls", f"sqlite:///{database}").returncode == 0
    os.chown(database, OWNER, OWNER)
    done = journalfs("ls", f"sqlite:///{database}")
    assert done.returncode == 2
    assert f"{database}: is user {OWNER}'s, and it decides what this opens" in done.stderr
    assert "run this as that user: setpriv" in done.stderr
