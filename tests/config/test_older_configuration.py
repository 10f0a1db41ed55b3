"""hornetq-configuration.xml and activemq-configuration.xml: where such a broker has them, and by --config."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.clock import FakeClock
from journalfs.config.layout import locate_store
from journalfs.errors import ConfigError, NotAStore, OlderStore, StoreNotKept
from journalfs.store import open_store
from journalfs.store.creating import create_store
from journalfs.store.write.opening import open_for_writing
from tests.mounting import journalfs

StoreCopy = Callable[[str], Path]
NAMES = ("hornetq-configuration.xml", "activemq-configuration.xml")
PLACES = ("config/stand-alone/non-clustered", "config/non-clustered", "config", "etc", ".")
DOCUMENT = """<configuration xmlns="urn:hornetq">
<clustered>true</clustered>
<paging-directory>${{data.dir:../data}}/elsewhere</paging-directory>
<bindings-directory>${{data.dir:../data}}/names</bindings-directory>
<journal-directory>${{data.dir:../data}}/messages</journal-directory>
<journal-min-files>7</journal-min-files>
<address-settings><address-setting match="#"><max-delivery-attempts>3</max-delivery-attempts>
</address-setting></address-settings>
<security-settings><security-setting match="#"/></security-settings>
{}
</configuration>"""


@pytest.fixture(autouse=True)
def _derived_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNALFS_DERIVED", str(tmp_path / "derived"))


def home_of(store_copy: StoreCopy, folder: Path, name: str, place: str, more: str = "") -> Path:
    """A HornetQ with its store where its configuration says."""
    home, copied = folder / "home", store_copy("hq-2.4-main")
    data = home / "data"
    (home / "bin").mkdir(parents=True)
    shutil.copytree(copied, data)
    (data / "journal").rename(data / "messages")
    (data / "bindings").rename(data / "names")
    (home / place).mkdir(parents=True, exist_ok=True)
    (home / place / name).write_text(DOCUMENT.format(more))
    return home


def seen(path: Path) -> OlderStore:
    with pytest.raises(OlderStore) as found:
        locate_store(path, environment={})
    return found.value


@pytest.mark.rule("S-346")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_directories_are_found(store_copy: StoreCopy, tmp_path: Path, name: str, place: str) -> None:
    home = home_of(store_copy, tmp_path, name, place)
    for given in (home, home / place / name):
        found = seen(given)
        assert found.kind == "hornetq"
        assert (found.journal_dir, found.bindings_dir) == (home / "data/messages", home / "data/names")
        assert found.layout.paging_dir == home / "data/elsewhere"


@pytest.mark.rule("S-346")
@pytest.mark.parametrize("name", NAMES)
def test_each_is_read(store_copy: StoreCopy, tmp_path: Path, name: str) -> None:
    """Its settings are those of the store that is shown; a typo is told as one of a broker.xml."""
    home = home_of(store_copy, tmp_path, name, PLACES[0], "<journal-min-file>9</journal-min-file>")
    store = open_store(home, index=False)
    try:
        assert store.core.layout.value_in_force("journal-min-files") == 7
        (address, *_) = store.addresses()
        assert "max-delivery-attempts = 3" in address.settings_toml()
        [unknown] = store.core.layout.config.unknown if store.core.layout.config else ()
    finally:
        store.close()
    assert unknown.setting == "journal-min-file"
    assert "did you mean journal-min-files?" in unknown.reason
    checked = journalfs("check", home).stderr
    assert f"unknown-setting: {home}/{PLACES[0]}/{name}:10: journal-min-file" in checked
    with pytest.raises(ConfigError, match="journal-min-file: is not known"):
        create_store(home, {}, FakeClock(), warn=pytest.fail)


@pytest.mark.rule("S-346")
def test_by_hand_and_for_writing(
    store_copy: StoreCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / NAMES[0]
    file.write_text(DOCUMENT.format(""))
    monkeypatch.setenv("JOURNALFS_CONFIG", str(file))
    store = open_for_writing(store_copy("hq-2.4-main"), kind="hornetq")
    try:
        (address, *_) = store.addresses()
        assert "max-delivery-attempts = 3" in address.settings_toml()
        kinds = {one["event"] for one in store.core.events}
    finally:
        store.close()
    assert "no-configuration" not in kinds


@pytest.mark.rule("S-346")
def test_persistence_off(store_copy: StoreCopy, tmp_path: Path) -> None:
    """As of a broker.xml: a mount for writing begins empty, and leaves alone what lies there."""
    off = "<persistence-enabled>false</persistence-enabled>"
    home = home_of(store_copy, tmp_path, NAMES[0], PLACES[0], off)
    before = {file: file.read_bytes() for file in (home / "data").rglob("*.hq")}
    store = open_for_writing(home, kind="hornetq")
    try:
        assert store.status()["persistent"] is False
        assert list(store.addresses()) == []
    finally:
        store.close()
    assert {file: file.read_bytes() for file in (home / "data").rglob("*.hq")} == before
    empty = tmp_path / "empty"
    (empty / "config").mkdir(parents=True)
    (empty / "config" / NAMES[0]).write_text(DOCUMENT.format(off))
    with pytest.raises(StoreNotKept):
        create_store(empty, {}, FakeClock(), warn=pytest.fail)


@pytest.mark.rule("S-346")
def test_nothing_where_it_never_ran(tmp_path: Path) -> None:
    (tmp_path / NAMES[0]).write_text(DOCUMENT.format(""))
    with pytest.raises(NotAStore, match="has the broker ever run"):
        locate_store(tmp_path, environment={})
