"""A name that no broker knows is never passed over: `create` refuses it, a mount and `check` tell of it."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from journalfs.clock import FakeClock
from journalfs.config.known_names import (
    CORE_ELEMENTS,
    DATA_SOURCE,
    DATA_SOURCE_PROPERTIES,
    DATABASE_ELEMENTS,
)
from journalfs.errors import ConfigError
from journalfs.store.creating import create_store
from tests.broker.distribution import distribution_home
from tests.config.test_broker_xml import read, settings

DATABASE = (
    "<store><database-store>\n<jdbc-connection-url>jdbc:sqlite:x.db</jdbc-connection-url>\n"
    "{}\n</database-store></store>"
)
PROPERTY = '<data-source-properties><data-source-property key="{}" value="9"/></data-source-properties>'

UNKNOWN = {
    "journal-fil-size": ("<journal-fil-size>1M</journal-fil-size>", 4, "did you mean journal-file-size?"),
    "inflate-bytes-max": ("<inflate-bytes-max>1</inflate-bytes-max>", 4, "belongs into journalfs.toml"),
    "max-size-bytes": ("<max-size-bytes>1</max-size-bytes>", 4, "belongs into an <address-setting>"),
    "max-size-byte": (
        settings('<address-setting match="a">\n<max-size-byte>1</max-size-byte>\n</address-setting>'),
        6,
        "did you mean max-size-bytes?",
    ),
    "adress-setting": (
        settings('<adress-setting match="a"/>'),
        5,
        "did you mean address-setting?",
    ),
    "delimeter": (
        "<wildcard-addresses>\n<delimeter>.</delimeter></wildcard-addresses>",
        5,
        "did you mean delimiter?",
    ),
    "database-stor": ("<store><database-stor/></store>", 4, "did you mean database-store?"),
    "message-table": (
        DATABASE.format("<message-table>M</message-table>"),
        6,
        "did you mean message-table-name?",
    ),
    "maxTota": (DATABASE.format(PROPERTY.format("maxTota")), 6, "did you mean maxTotal?"),
}


@pytest.mark.rule("S-342")
@pytest.mark.parametrize("name", UNKNOWN)
def test_a_name_that_no_broker_knows(tmp_path: Path, name: str) -> None:
    core, line, meant = UNKNOWN[name]
    config = read(tmp_path, core)
    [found] = config.unknown
    assert (found.setting, found.line, found.kind) == (name, line, "unknown-setting")
    assert f"broker.xml:{line}: {name}: is not known as " in found.text
    assert meant in found.text
    assert found.text in config.warnings
    with pytest.raises(ConfigError, match=f"broker.xml:{line}: {name}: "):
        create_store(tmp_path, {}, FakeClock(), warn=pytest.fail)
    assert not (tmp_path / "data").exists()


@pytest.mark.rule("S-342")
def test_a_pool_of_another_class_has_names_of_its_own(tmp_path: Path) -> None:
    other = "<data-source-class-name>org.example.Pool</data-source-class-name>"
    assert read(tmp_path, DATABASE.format(other + PROPERTY.format("poolSize"))).unknown == ()


def schema_names(kind: str) -> set[str]:
    """Elements of a type, by the schema that the broker checks its configuration with."""
    (jar,) = (distribution_home() / "lib").glob("artemis-server-*.jar")
    with zipfile.ZipFile(jar) as packed:
        root = ElementTree.fromstring(packed.read("schema/artemis-configuration.xsd"))
    space = "{http://www.w3.org/2001/XMLSchema}"
    (found,) = (one for one in root.iter(f"{space}complexType") if one.get("name") == kind)
    names = (one.get("name") or str(one.get("ref")) for one in found.iterfind(f"{space}all/{space}element"))
    return set(names)


def test_the_brokers_schema_has_these_names() -> None:
    of_core, of_database = schema_names("configurationType"), schema_names("databaseStoreType")
    assert len(of_core) > 100
    older = {"broker-balancers", "perf-blast-pages", "run-sync-speed-test"}
    assert of_core | older == CORE_ELEMENTS
    not_in_it = {"jdbc-lock-acquisition-timeout", "jdbc-page-max-size-bytes", "jms-bindings-table-name"}
    assert of_database | not_in_it == DATABASE_ELEMENTS


def test_the_brokers_pool_has_these_properties() -> None:
    command = ["javap", "-public", "-cp", f"{distribution_home()}/lib/*", DATA_SOURCE]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    setters = {line.partition(" set")[2].partition("(")[0] for line in lines if " void set" in line}
    assert {f"{name[0].lower()}{name[1:]}" for name in setters} == DATA_SOURCE_PROPERTIES
