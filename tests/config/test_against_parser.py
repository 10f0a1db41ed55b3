"""What is read of `broker.xml` is what the broker's own parser reads, over files made from its schema."""

from __future__ import annotations

import json
import random
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest

from journalfs.config.address_settings import (
    BY_JSON_KEY,
    BY_NAME,
    NOT_INHERITED,
    Kind,
    SettingDefinition,
)
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.core_settings import CORE_BY_NAME
from journalfs.errors import ConfigError
from tests.broker.conftest import artemis_home
from tests.broker.distribution import class_path, distribution_home

__all__ = ["artemis_home"]

pytestmark = [pytest.mark.long, pytest.mark.broker, pytest.mark.rule("S-380")]

JAVA = Path(__file__).parent / "java"
FILES = 520
NUMBERS = ["0", "1", "2", "-1", "+5", "7", "1_0", "5.0", "12", "", " 3 ", "99999999999", "abc"]
SIZES = [*NUMBERS, "10K", "+10K", "1 M", "20MB", "64kib", "-1", "-1K"]
BY_KIND = {
    Kind.INTEGER: NUMBERS,
    Kind.BYTES: SIZES,
    Kind.BOOLEAN: ["true", "false"],
    Kind.DECIMAL: ["0", "0.5", "1", "2.5", "+2", "1_0", "x"],
    Kind.TEXT: ["a", "DLQ", "x.y"],
}
MATCHES = ["#", "orders", "orders.#", "a.*", ""]
LEFT_OUT = frozenset(
    {
        "journal-type",
        "journal-device-block-size",
        "journal-retention-directory",
        "node-manager-lock-directory",
    }
)
"""Of the core: what the parser of a broker looks at the machine for, or has no bean of its own for."""

OF_THE_JOURNAL = re.compile("journal-min-files: [01] is below 2")
"""What a broker's parser takes, and its journal refuses."""


def schema_names() -> frozenset[str]:
    """Names of all elements of the broker's own schema."""
    (jar,) = (distribution_home() / "lib").glob("artemis-server-[0-9]*.jar")
    with zipfile.ZipFile(jar) as found:
        text = found.read("schema/artemis-configuration.xsd").decode()
    return frozenset(re.findall(r'<xsd:element name="([\w-]+)"', text))


def element(chance: random.Random, definition: SettingDefinition) -> str:
    values = list(definition.choices) or BY_KIND[definition.kind]
    prefix = "a:" if chance.random() < 0.03 else ""
    return f"<{prefix}{definition.name}>{chance.choice(values)}</{prefix}{definition.name}>"


def text_of(chance: random.Random, core: list[SettingDefinition], address: list[SettingDefinition]) -> str:
    """A configuration with few settings: with many, nearly each would be refused for one of them."""
    parts = [element(chance, one) for one in chance.sample(core, chance.randint(0, 2))]
    settings = []
    for match in chance.sample(MATCHES, chance.randint(0, 2)):
        inside = "".join(element(chance, one) for one in chance.sample(address, chance.randint(0, 2)))
        settings.append(f"<address-setting match={quoteattr(match)}>{inside}</address-setting>")
    parts.append(f"<address-settings>{''.join(settings)}</address-settings>")
    chance.shuffle(parts)
    spaces = 'xmlns="urn:activemq:core" xmlns:a="urn:activemq:core"'
    return f'<configuration xmlns="urn:activemq"><core {spaces}>{"".join(parts)}</core></configuration>'


def bean(name: str) -> str:
    return name.replace("-", "")


def parsed(files: list[Path], beans: list[str]) -> dict[str, dict[str, Any]]:
    command = ["java", "-cp", class_path(JAVA), "ParseBroker", ",".join(beans), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, dict[str, Any]] = {}
    at: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "file":
            at = found[rest] = {"core": {}, "addresses": {}, "refused": None}
        elif kind == "core":
            name, _, value = rest.partition(" ")
            at["core"][name] = value
        elif kind == "address":
            match, _, value = rest.partition(" ")
            at["addresses"][match] = json.loads(value)
        elif kind == "refused":
            at["refused"] = rest
    return found


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def differences(name: str, ours: BrokerConfig, theirs: dict[str, Any]) -> list[str]:
    found = []
    for setting, configured in ours.core.items():
        value = theirs["core"].get(bean(setting), "absent")
        if value not in ("absent", shown(configured.value)):
            found.append(f"{name}: {setting}: ours {configured.value!r}, the broker's {value}")
    for one in ours.address_settings:
        there = theirs["addresses"].get(one.match)
        if there is None:
            found.append(f"{name}: {one.match!r} is no match of the broker's")
            continue
        for setting, configured in one.values.items():
            value = there.get(BY_NAME[setting].json_key)
            if value is not None and shown(value) != shown(configured.value):
                found.append(f"{name}: [{one.match}] {setting}: ours {configured.value!r}, its {value!r}")
        unread = {BY_JSON_KEY[key].name for key in there if key in BY_JSON_KEY} - set(one.values)
        unread -= NOT_INHERITED
        found += [f"{name}: [{one.match}] {setting}: not read here" for setting in sorted(unread)]
    return found


def test_files_of_the_schema_are_read_as_the_broker_reads_them(artemis_home: Path, tmp_path: Path) -> None:
    named = schema_names()
    core = [one for one in CORE_BY_NAME.values() if one.in_xml and one.name in named - LEFT_OUT]
    address = [one for one in BY_NAME.values() if one.in_xml and one.name in named]
    assert len(core) > 20
    assert len(address) > 60
    chance = random.Random(47)
    files = []
    for number in range(FILES):
        file = tmp_path / f"{number}.xml"
        file.write_text(text_of(chance, core, address))
        files.append(file)
    theirs = parsed(files, [bean(one.name) for one in core])
    wrong: list[str] = []
    read = 0
    for file in files:
        broker = theirs[str(file)]
        try:
            ours = read_broker_xml(file, instance=tmp_path, environment={})
        except ConfigError as error:
            if broker["refused"] is None and not OF_THE_JOURNAL.search(str(error)):
                wrong.append(f"{file.name}: refused here only: {error}")
            continue
        if broker["refused"] is not None:
            continue  # no broker starts with it, and a store opens all the same: an empty element, say
        read += 1
        wrong += differences(file.name, ours, broker)
    assert read > FILES / 5
    assert wrong == [], "\n".join(wrong)
