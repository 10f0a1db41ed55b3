"""docs/SETTINGS.md and the table of settings say the same, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journalfs.config.core_settings import CORE_SETTINGS, ConfiguredValue, value_in_force
from journalfs.config.setting_names import ADDRESS_SETTINGS, SettingDefinition

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `([a-z-]+)` \| ([a-z]*) ?\| (.+?) \| (.+) \| (\S+) \|$", re.MULTILINE)
ROWS = {found[0]: found[1:] for found in ROW.findall((ROOT / "docs" / "SETTINGS.md").read_text())}


DESCRIBED = [one for one in ADDRESS_SETTINGS if one.name in ROWS and one not in CORE_SETTINGS]
EVERY = (*CORE_SETTINGS, *DESCRIBED)


def shown(value: object) -> str:
    if value is None:
        return "none"
    if value == "":
        return "empty"
    return str(value).lower() if isinstance(value, bool) else str(value)


def default_of(definition: SettingDefinition) -> str:
    if definition.derived is not None:
        other, factor = definition.derived
        return other if factor == 1 else f"{factor} * {other}"
    if definition not in CORE_SETTINGS:
        return shown(definition.default)
    plain = {"journal-type": ConfiguredValue("NIO", "", None)}
    asynchronous, otherwise = value_in_force({}, definition.name), value_in_force(plain, definition.name)
    if definition.name == "journal-type" or asynchronous == otherwise:
        return shown(asynchronous)
    return f"{shown(asynchronous)} with ASYNCIO, else {shown(otherwise)}"


def test_every_setting_has_its_row() -> None:
    assert set(ROWS) == {definition.name for definition in EVERY}


LIMITS_AND_PAGING = (
    "paging-directory",
    "max-size-bytes",
    "max-size-messages",
    "max-size-bytes-reject-threshold",
    "address-full-policy",
    "page-size-bytes",
    "max-read-page-messages",
    "max-read-page-bytes",
    "prefetch-page-messages",
    "prefetch-page-bytes",
    "page-limit-bytes",
    "page-limit-messages",
    "page-full-policy",
    "global-max-size",
    "global-max-messages",
    "max-disk-usage",
    "min-disk-free",
    "disk-scan-period",
    "page-sync-timeout",
)


@pytest.mark.parametrize("name", LIMITS_AND_PAGING)
def test_settings_of_limits_and_paging_have_a_row(name: str) -> None:
    assert name in ROWS


@pytest.mark.parametrize("definition", EVERY, ids=lambda definition: str(definition.name))
def test_a_row_agrees_with_the_table(definition: SettingDefinition) -> None:
    unit, default, what, test = ROWS[definition.name]
    assert (unit, default) == (definition.unit, default_of(definition))
    assert what
    file, _, name = test.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), test
