"""The settings in force: whose value wins, and where it is said to come from."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from journalfs.config.address_settings import ADDRESS_SETTINGS, BY_NAME, NOT_INHERITED, Value
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.in_force import SettingInForce, SettingsInForce, settings_toml
from tests.config.test_broker_xml import read, settings


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    def match(name: str, setting: str, value: object) -> str:
        return f'<address-setting match="{name}"><{setting}>{value}</{setting}></address-setting>\n'

    return read(
        tmp_path,
        "<id-cache-size>77</id-cache-size><literal-match-markers>()</literal-match-markers>"
        "<uuid-namespace>temporary</uuid-namespace>"
        + settings(
            match("#", "max-delivery-attempts", 1)
            + match("a.#", "max-delivery-attempts", 2)
            + match("a.*", "max-delivery-attempts", 3)
            + match("a.b", "redelivery-delay", 100)
            + match("(a.#)", "max-delivery-attempts", 5)
            + match("temporary.#", "max-delivery-attempts", 6)
            + match("pages", "page-size-bytes", "1K")
        ),
    )


def found(settings: SettingsInForce, address: str, name: str) -> SettingInForce:
    return next(setting for setting in settings.address(address) if setting.name == name)


@pytest.mark.parametrize(
    ("address", "value", "origin"),
    [
        ("other", 1, "broker.xml match '#'"),
        ("a", 2, "broker.xml match 'a.#'"),
        ("a.b.c", 2, "broker.xml match 'a.#'"),
        ("a.b", 3, "broker.xml match 'a.*'"),
        ("a.b::queue", 3, "broker.xml match 'a.*'"),
        ("a.#", 5, "broker.xml match '(a.#)'"),
        ("0e984725-c51c-4bf4-9960-e1c80e27aba0", 6, "broker.xml match 'temporary.#'"),
    ],
)
def test_more_specific_match_wins(config: BrokerConfig, address: str, value: int, origin: str) -> None:
    setting = found(SettingsInForce(config, {}), address, "max-delivery-attempts")
    assert (setting.value, setting.origin, setting.unit) == (value, origin, "attempts")


def test_matches_are_merged_setting_by_setting(config: BrokerConfig) -> None:
    in_force = SettingsInForce(config, {})
    assert in_force.value("a.b", "redelivery-delay") == 100
    assert in_force.value("a.b", "max-delivery-attempts") == 3
    assert in_force.value("a.c", "redelivery-delay") == 0


def test_record_replaces_the_file_for_its_match(config: BrokerConfig) -> None:
    in_force = SettingsInForce(config, {"a.*": {"expiryAddress": "X"}, "new": {"maxDeliveryAttempts": -1}})
    setting = found(in_force, "a.b", "expiry-address")
    assert (setting.value, setting.origin) == ("X", "bindings record match 'a.*'")
    # What the file said for a.* is gone as a whole; the less specific match shows through.
    assert found(in_force, "a.b", "max-delivery-attempts").origin == "broker.xml match 'a.#'"
    assert found(in_force, "new", "max-delivery-attempts").value == -1


def test_records_that_say_nothing_known(config: BrokerConfig) -> None:
    stored: dict[str, dict[str, Value]] = {
        "x": {"DLA": "DLQ", "maxSizeBytes": "much", "noExpiry": 1, "redeliveryMultiplier": 2},
        "#.y": {},
    }
    in_force = SettingsInForce(config, stored)
    assert found(in_force, "x", "max-size-bytes").origin == "default"
    assert found(in_force, "x", "no-expiry").value is False
    assert found(in_force, "x", "redelivery-delay-multiplier").value == 2
    assert len(in_force.warnings) == 4


def test_defaults_that_follow_other_settings(config: BrokerConfig) -> None:
    in_force = SettingsInForce(config, {})
    for name, value in (
        ("max-read-page-bytes", 2048),
        ("prefetch-page-bytes", 2048),
        ("page-size-bytes", 1024),
    ):
        assert in_force.value("pages", name) == value
    assert in_force.value("a.b", "max-redelivery-delay") == 1000
    assert in_force.value("a.b", "id-cache-size") == 77


def test_without_a_configuration() -> None:
    in_force = SettingsInForce(None, {"#": {"maxSizeBytes": 5}})
    values = {setting.name: setting.value for setting in in_force.address("orders")}
    assert len(values) == len(ADDRESS_SETTINGS)
    assert values["max-size-bytes"] == 5
    assert values["page-size-bytes"] == 10_485_760
    assert values["max-read-page-bytes"] == 20_971_520
    assert values["dead-letter-address"] is None
    assert {setting.origin for setting in in_force.core()} == {"default"}


def test_core(config: BrokerConfig) -> None:
    core = {setting.name: setting for setting in SettingsInForce(config, {}).core()}
    assert (core["id-cache-size"].value, core["id-cache-size"].origin) == (77, "broker.xml")
    assert (core["journal-max-io"].value, core["journal-max-io"].origin) == (4096, "default")


def test_toml_reads_back(config: BrokerConfig) -> None:
    in_force = SettingsInForce(config, {'odd\n"match"': {"deadLetterAddress": 'a\n"b" \ud800'}})
    for address in ("a.b", 'odd\n"match"'):
        text = settings_toml(in_force.address(address))
        read_back = tomllib.loads(text)
        set_values = {item.name: item.value for item in in_force.address(address) if item.value is not None}
        assert set(read_back) == set(set_values)
        assert read_back["max-size-bytes"] == -1
    assert read_back["dead-letter-address"] == 'a\n"b" ?'
    assert "# page-full-policy is not set (default)\n" in text
    lines = settings_toml(in_force.address("a.b")).splitlines()
    assert "redelivery-delay = 100  # ms, broker.xml match 'a.b'" in lines
    assert len(lines) == len(ADDRESS_SETTINGS)


@pytest.mark.parametrize("name", sorted(NOT_INHERITED))
def test_what_no_less_specific_match_says(tmp_path: Path, name: str) -> None:
    """A broker has a value of its own for these in each match."""
    default = BY_NAME[name].default
    value = 500 if default == 200 else "MESSAGES_PER_DAY"
    config = read(
        tmp_path,
        settings(
            f'<address-setting match="#"><{name}>{value}</{name}></address-setting>'
            '<address-setting match="a"><redelivery-delay>100</redelivery-delay></address-setting>'
        ),
    )
    in_force = SettingsInForce(config, {"b": {"redeliveryDelay": 5}})
    for address in ("a", "b"):
        assert (found(in_force, address, name).value, found(in_force, address, name).origin) == (
            default,
            "default",
        )
    assert found(in_force, "c", name).value == value
