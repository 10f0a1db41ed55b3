"""`.journalfs/settings.toml` shows settings as they are in force, of each kind of store."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.config.database import DatabaseSettings
from journalfs.config.database_shown import database_shown
from journalfs.config.in_force import settings_toml
from journalfs.config.journal_settings import journal_settings
from journalfs.engine.disk import DiskBackend
from journalfs.live.virtual import ComputedFile
from journalfs.store import open_store
from journalfs.store.creating import create_store
from journalfs.store.store import JournalStore
from journalfs.store.write.opening import open_for_writing
from tests.mounting import journalfs, mounted, mounted_for_writing

StoreCopy = Callable[[str], Path]


def shown(store: JournalStore) -> dict[str, str]:
    """Each line by the name that it sets."""
    file = store.control().child("settings.toml")
    assert isinstance(file, ComputedFile)
    source = file.open()
    text = bytes(source.read(0, source.size_bytes)).decode()
    return {line.partition(" ")[0]: line for line in text.splitlines() if not line.startswith("#")}


def events(store: JournalStore, kind: str) -> list[str]:
    return [str(one["message"]) for one in store.core.events if one["event"] == kind]


@pytest.fixture(autouse=True)
def _derived_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNALFS_DERIVED", str(tmp_path / "derived"))


@pytest.mark.rule("S-345")
def test_what_the_system_refused_is_not_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(backend: DiskBackend) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    create_store(tmp_path / "store", {}, FakeClock(), warn=pytest.fail)
    store = open_for_writing(tmp_path / "store")
    asynchronous = shown(store)
    store.close()
    monkeypatch.setattr("journalfs.engine.disk._written_block", refuse)
    store = open_for_writing(tmp_path / "store")
    refused = shown(store)
    store.close()
    assert asynchronous["journal-type"] == 'journal-type = "ASYNCIO"  # default'
    assert asynchronous["page-sync-timeout"] == "page-sync-timeout = 3333333  # ns, default"
    assert asynchronous["journal-buffer-timeout"] == "journal-buffer-timeout = 500000  # ns, default"
    used = "journal-max-io = 256  # requests, default: the most that is used here"
    assert asynchronous["journal-max-io"] == used
    assert refused["journal-type"] == 'journal-type = "NIO"  # default: the system refused ASYNCIO'
    timeout = "journal-buffer-timeout = 3333333  # ns, default: the system refused ASYNCIO"
    assert refused["journal-buffer-timeout"] == timeout
    assert refused["journal-max-io"].startswith("journal-max-io = 1  #")


@pytest.mark.rule("S-345")
def test_pages_are_synced_as_often_as_the_journal_by_nio(tmp_path: Path) -> None:
    root = tmp_path / "store"
    create_store(root, {"journal-type": "NIO", "journal-buffer-timeout": 7}, FakeClock(), warn=pytest.fail)
    store = open_for_writing(root)
    found = shown(store)
    store.close()
    assert found["page-sync-timeout"] == "page-sync-timeout = 7  # ns, default"


@pytest.mark.rule("S-345")
def test_files_keep_the_size_that_they_have(tmp_path: Path) -> None:
    root = tmp_path / "store"
    create_store(root, {"journal-file-size": 65_536}, FakeClock(), warn=pytest.fail)
    (root / "journalfs.toml").unlink()
    for store in (open_store(root, index=False), open_for_writing(root)):
        found = shown(store)
        store.close()
        size = "journal-file-size = 65536  # bytes, default: the size of most files"
        assert found["journal-file-size"] == size
    assert journal_settings(None).file_size_bytes == 10_485_760


@pytest.mark.rule("S-345")
def test_of_a_hornetq_store(store_copy: StoreCopy) -> None:
    root = store_copy("hq-2.4-main")
    file = next(root.rglob("*.hq"))
    store = open_store(root, index=False)
    found = shown(store)
    store.close()
    assert found["journal-file-size"].startswith(f"journal-file-size = {file.stat().st_size}  #")


XML = """\
<configuration><core><store><database-store>
<jdbc-connection-url>jdbc:sqlite:{}</jdbc-connection-url>
<jdbc-driver-class-name>org.sqlite.JDBC</jdbc-driver-class-name>
<message-table-name>MINE</message-table-name>
<jdbc-lock-expiration>9000</jdbc-lock-expiration>
<jdbc-journal-sync-period>50</jdbc-journal-sync-period>
<data-source-properties><data-source-property key="poolPreparedStatements" value="true"/>
</data-source-properties>
</database-store></store></core></configuration>
"""


@pytest.mark.rule("S-343")
@pytest.mark.rule("S-345")
def test_of_a_store_in_a_database(tmp_path: Path) -> None:
    instance = tmp_path / "instance"
    etc = instance / "etc"
    etc.mkdir(parents=True)
    database = instance / "store.db"
    (etc / "broker.xml").write_text(XML.format(database))
    assert journalfs("create", instance).returncode == 0
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM MINE").fetchone()
    with mounted_for_writing(instance, tmp_path / "mnt") as mount:
        text = (mount.path / ".journalfs/settings.toml").read_text()
        told = [one["message"] for one in mount.events() if "without effect" in one["message"]]
        kinds = {one["event"] for one in mount.events()}
    lines = {line.partition(" ")[0]: line for line in text.splitlines()}
    assert lines["message-table-name"] == f'message-table-name = "MINE"  # {etc}/broker.xml:4'
    assert lines["bindings-table-name"] == 'bindings-table-name = "BINDINGS"  # default'
    assert lines["jdbc-lock-expiration"] == f"jdbc-lock-expiration = 9000  # ms, {etc}/broker.xml:5"
    assert lines["jdbc-lock-renew-period"] == "jdbc-lock-renew-period = 4000  # ms, default"
    assert str(database) in lines["jdbc-connection-url"]
    assert lines["jdbc-driver-class-name"].startswith('jdbc-driver-class-name = "org.sqlite.JDBC"  #')
    [said] = told
    assert "jdbc-journal-sync-period" in said
    assert "data-source-property poolPreparedStatements" in said
    assert "no-configuration" not in kinds
    checked = journalfs("check", instance).stderr
    assert "setting-without-effect: " in checked
    assert "data-source-property poolPreparedStatements: has no effect here" in checked


@pytest.mark.rule("S-345")
def test_no_password_is_shown() -> None:
    url = "postgresql+psycopg://somebody:not-to-be-seen@host/db"
    settings = DatabaseSettings(url=url, user="me", password="not-to-be-seen")
    text = settings_toml(database_shown(settings))
    assert 'jdbc-user = "me"' in text
    assert "not-to-be-seen" not in text


@pytest.mark.rule("S-345")
def test_of_a_database_that_only_a_url_names(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    assert journalfs("create", url).returncode == 0
    store = open_store(url, index=False)
    found = shown(store)
    store.close()
    assert found["page-store-table-name"] == 'page-store-table-name = "PAGE_STORE"  # default'
    assert found["jdbc-connection-url"].endswith("# as it was given")


@pytest.mark.rule("S-343")
def test_messages_that_are_not_kept(store_copy: StoreCopy) -> None:
    """ActiveMQ puts them beside the data logs; they are left alone, and told."""
    store = store_copy("amq-5.8-killed") / "localhost"
    before = journalfs("ls", store).stdout
    (store / "tmp-storage").mkdir()
    (store / "tmp-storage" / "data-1").write_bytes(bytes(100))
    checked = journalfs("check", store)
    assert f"{store}/tmp-storage: tmp-storage: messages that are not persistent" in checked.stderr
    assert journalfs("ls", store).stdout == before


ACTIVEMQ = """<beans><broker>
<persistenceAdapter>
<amqPersistenceAdapter directory="data" maxFileLength="20kb" useNIO="false" syncOnWrte="true"/>
</persistenceAdapter></broker></beans>"""


@pytest.mark.rule("S-342")
@pytest.mark.rule("S-343")
@pytest.mark.rule("S-345")
@pytest.mark.parametrize("by_hand", [False, True], ids=["found", "by --config"])
def test_of_an_amq_store(store_copy: StoreCopy, tmp_path: Path, by_hand: bool) -> None:
    store = store_copy("amq-5.8-killed") / "localhost"
    file = (tmp_path if by_hand else store.parent) / "conf" / "activemq.xml"
    file.parent.mkdir()
    file.write_text(ACTIVEMQ)
    options = ("--config", str(file)) if by_hand else ()
    with mounted_for_writing(store, tmp_path / "mnt", "--format", "amq", *options) as mount:
        text = (mount.path / ".journalfs/settings.toml").read_text()
        told = [one["message"] for one in mount.events()]
        kinds = {one["event"] for one in mount.events()}
    lines = {line.partition(" ")[0]: line for line in text.splitlines()}
    assert lines["maxFileLength"] == f"maxFileLength = 20480  # bytes, {file}:3"
    assert lines["useNIO"] == f"useNIO = false  # {file}:3"
    assert lines["cleanupInterval"] == "cleanupInterval = 30000  # ms, default"
    unknown = f"{file}:3: syncOnWrte: is not known as an attribute of <amqPersistenceAdapter>"
    assert [one for one in told if one.startswith(unknown) and "did you mean syncOnWrite?" in one]
    [said] = [one for one in told if "without effect here" in one]
    assert f"{file}: directory (line 3), useNIO (line 3)" in said
    assert "no-configuration" not in kinds
    with mounted(store, tmp_path / "mnt", *options) as mount:
        assert "maxFileLength = 20480" in (mount.path / ".journalfs/settings.toml").read_text()
    checked = journalfs("check", store, *options).stderr
    assert f"setting-without-effect: {file}:3: useNIO: has no effect here: the bytes are the same" in checked
