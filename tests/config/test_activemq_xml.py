"""What an activemq.xml says of an AMQ Message Store, and what is told of it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from journalfs.config.activemq_xml import AmqSettings, amq_settings, is_of_activemq_5
from journalfs.config.files import CONFIG_VARIABLE
from journalfs.config.layout import locate_store
from journalfs.errors import ConfigError
from journalfs.store import open_store
from tests.cli.running import journalfs
from tests.frozen import PristineStores

DOCUMENT = """<?xml version="1.0"?>
<!-- <configuration> is elsewhere -->
<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core" {}><persistenceAdapter>
<amqPersistenceAdapter {}/>
</persistenceAdapter></broker></beans>"""
NOTHING = {
    "directory": "data", "useNIO": "false", "syncOnWrite": "true", "persistentIndex": "false",
    "maxCheckpointMessageAddSize": "8kb", "indexBinSize": "2048", "indexKeySize": "10",
    "indexPageSize": "1kb", "checkpointInterval": "7",
}  # fmt: skip


def read(folder: Path, attributes: str, broker: str = "") -> AmqSettings:
    file = folder / "conf" / "activemq.xml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(DOCUMENT.format(broker, attributes))
    assert is_of_activemq_5(file)
    return amq_settings(folder / "data" / "localhost", {})


@pytest.mark.rule("S-343")
def test_attributes_without_effect(tmp_path: Path) -> None:
    settings = read(tmp_path, " ".join(f'{name}="{value}"' for name, value in NOTHING.items()))
    found = {one.setting: one for one in settings.findings()}
    assert found.keys() == NOTHING.keys()
    assert {one.line for one in found.values()} == {5}
    assert "the hash indexes are not read" in found["indexBinSize"].reason
    assert list(AmqSettings().findings()) == []


@pytest.mark.rule("S-343")
def test_a_broker_that_keeps_nothing(tmp_path: Path) -> None:
    [said] = read(tmp_path, 'maxFileLength="1mb"', 'persistent="false"').findings()
    assert (said.setting, said.kind) == ("persistent", "setting-without-effect")
    assert "this broker keeps nothing in files" in said.reason
    assert list(read(tmp_path, 'maxFileLength="1mb"', 'persistent="true"').findings()) == []


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ('maxFileLength="big"', "activemq.xml:5: maxFileLength: 'big' is no number"),
        ('maxFileLength="0"', "activemq.xml:5: maxFileLength: 0 is below 1"),
        ('cleanupInterval="-1"', "activemq.xml:5: cleanupInterval: -1 is below 0"),
    ],
)
def test_mistakes_have_a_place(tmp_path: Path, attribute: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read(tmp_path, attribute)


def test_a_file_that_could_fill_the_memory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "conf" / "activemq.xml"
    file.parent.mkdir()
    file.write_text('<!DOCTYPE beans [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><beans>&b;</beans>')
    with pytest.raises(ConfigError, match="entity declarations are refused"):
        amq_settings(tmp_path / "data" / "localhost", {})


def test_what_is_none(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    for text in ("<configuration><core/></configuration>", "", "<!-- <beans> -->"):
        file.write_text(text)
        assert not is_of_activemq_5(file)
    assert not is_of_activemq_5(tmp_path / "absent.xml")


@pytest.mark.rule("S-346")
@pytest.mark.parametrize("name", ["aio", "hq-2.4-main"])
def test_by_hand_for_a_store_of_another_kind_it_is_refused(
    name: str, stores: PristineStores, tmp_path: Path
) -> None:
    """Nothing of it would be obeyed."""
    file = tmp_path / "activemq.xml"
    file.write_text(DOCUMENT.format("", ""))
    said = {CONFIG_VARIABLE: str(file)}
    with pytest.raises(
        ConfigError, match=r"activemq\.xml: a configuration of ActiveMQ 5, and .* is no store of"
    ):
        locate_store(stores[name], environment=said)
    with pytest.raises(ConfigError, match=r"jdbc:.* is no store of ActiveMQ 5; leave --config"):
        locate_store("jdbc:postgresql://127.0.0.1:9/x", environment=said)
    if name == "aio":
        done = journalfs("create", tmp_path / "new", "--config", file)
        assert done.returncode == 6, done.stderr
        assert "is no store of ActiveMQ 5; leave --config (JOURNALFS_CONFIG) out" in done.stderr
        assert not (tmp_path / "new").exists()


@pytest.mark.rule("S-346")
def test_by_hand_for_a_store_of_activemq_5_it_is_taken(
    stores: PristineStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it becomes a store of today."""
    file = tmp_path / "activemq.xml"
    file.write_text(DOCUMENT.format("", ""))
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    monkeypatch.setenv("JOURNALFS_DERIVED", str(tmp_path / "derived"))
    for name in ("amq-5.8-killed", "kaha-5.16.7-killed"):
        with closing(open_store(stores[name], index=False)) as store:
            assert store.queues()
    done = journalfs("convert", stores["amq-5.8-killed"], tmp_path / "new", "--config", file)
    assert done.returncode == 0, done.stderr
    assert os.environ[CONFIG_VARIABLE] == str(file)
    monkeypatch.delenv(CONFIG_VARIABLE)
    with closing(open_store(tmp_path / "new")) as store:
        assert store.queues()
