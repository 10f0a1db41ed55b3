"""What is odd about settings: those without effect here, and those that do nothing alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.config import findings
from journalfs.config.address_settings import NO_EFFECT
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.findings import CORE_NO_EFFECT, alone, one_event, setting_findings, without_effect
from journalfs.config.journalfs_toml import read_journalfs_toml
from tests.config.test_broker_xml import read, settings


def in_toml(folder: Path, text: str) -> BrokerConfig:
    file = folder / "journalfs.toml"
    file.write_text(text)
    return read_journalfs_toml(file)


def of_address(inside: str, match: str = "orders.#") -> str:
    return settings(f'<address-setting match="{match}">\n{inside}\n</address-setting>')


@pytest.mark.rule("S-343")
def test_of_the_whole_store(tmp_path: Path) -> None:
    core = (
        "<persist-id-cache>false</persist-id-cache>\n<page-sync-timeout>7</page-sync-timeout>\n"
        "<journal-file-open-timeout>9</journal-file-open-timeout>\n<journal-max-io>4096</journal-max-io>\n"
        "<management-address>own</management-address>"
    )
    found = {one.setting: one for one in without_effect(read(tmp_path, core))}
    assert found.keys() == CORE_NO_EFFECT.keys() | {"journal-max-io"}
    assert {one.kind for one in found.values()} == {"setting-without-effect"}
    assert (found["page-sync-timeout"].line, found["journal-max-io"].line) == (5, 7)
    assert "never more than 256 writes are under way here" in found["journal-max-io"].reason
    assert "activemq.management are never full, and no other" in found["management-address"].reason
    toml = in_toml(tmp_path, "persist-id-cache = false\n")
    [said] = without_effect(toml)
    assert (said.place, said.setting) == (f"{tmp_path}/journalfs.toml:1", "persist-id-cache")


@pytest.mark.rule("S-343")
def test_more_requests_than_the_system_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = tmp_path / "aio-max-nr"
    allowed.write_text("100\n")
    monkeypatch.setattr(findings, "AIO_MAX_NR", allowed)
    [said] = without_effect(read(tmp_path, "<journal-max-io>200</journal-max-io>"))
    assert f"200 is more than this system allows ({allowed}: 100)" in said.reason
    allowed.unlink()
    assert without_effect(read(tmp_path, "<journal-max-io>200</journal-max-io>")) == []


@pytest.mark.rule("S-343")
def test_of_addresses_wherever_they_stand(tmp_path: Path) -> None:
    xml = read(tmp_path, of_address("<max-read-page-bytes>1M</max-read-page-bytes>"))
    toml = in_toml(tmp_path, '[address-settings."#"]\nmax-read-page-bytes = "1M"\n')
    for config in (xml, toml):
        [said] = without_effect(config)
        assert said.setting == "max-read-page-bytes"
        assert "has no effect here: read in place" in said.reason
    [said] = without_effect(None, {"a": {"maxReadPageBytes": 7, "maxSizeBytes": 7, "noSuchKey": 1}})
    assert (said.setting, said.place) == ("max-read-page-bytes", "bindings record match 'a'")


@pytest.mark.rule("S-343")
def test_a_default_is_nothing_to_tell(tmp_path: Path) -> None:
    """`artemis create` writes many of them."""
    inside = "<auto-create-queues>true</auto-create-queues><redistribution-delay>-1</redistribution-delay>"
    assert without_effect(read(tmp_path, of_address(inside))) == []
    assert {"auto-create-queues", "redistribution-delay"} <= NO_EFFECT


@pytest.mark.rule("S-343")
def test_one_event_names_them_all(tmp_path: Path) -> None:
    core = "<persist-id-cache>false</persist-id-cache>\n<page-sync-timeout>7</page-sync-timeout>"
    text = one_event(without_effect(read(tmp_path, core)))
    assert text.endswith("broker.xml: persist-id-cache (line 4), page-sync-timeout (line 5)")


@pytest.mark.rule("S-344")
@pytest.mark.parametrize(
    ("inside", "setting", "reason"),
    [
        (
            "<page-full-policy>DROP</page-full-policy>",
            "page-full-policy",
            "does nothing without page-limit-bytes or page-limit-messages",
        ),
        (
            "<page-limit-bytes>1G</page-limit-bytes>",
            "page-limit-bytes",
            "does nothing without page-full-policy",
        ),
        (
            "<page-limit-messages>7</page-limit-messages>",
            "page-limit-messages",
            "does nothing without page-full-policy",
        ),
        (
            "<page-full-policy>FAIL</page-full-policy><page-limit-bytes>1M</page-limit-bytes>",
            "page-limit-bytes",
            "1048576 is less than one page (page-size-bytes, 10485760)",
        ),
    ],
)
def test_pairs_of_page_limits(tmp_path: Path, inside: str, setting: str, reason: str) -> None:
    [said] = alone(read(tmp_path, of_address(inside)))
    assert (said.kind, said.setting) == ("setting-alone", setting)
    assert f"for 'orders.#': {reason}" in said.text


@pytest.mark.rule("S-344")
def test_a_pair_may_stand_in_two_matches(tmp_path: Path) -> None:
    """What is in force for an address counts."""
    both = (
        '<address-setting match="#"><page-full-policy>DROP</page-full-policy>'
        "<page-limit-messages>9</page-limit-messages></address-setting>"
        '<address-setting match="orders.*"><page-limit-bytes>1G</page-limit-bytes></address-setting>'
    )
    assert alone(read(tmp_path, settings(both))) == []
    stored = {"a": {"pageLimitBytes": 1_000_000_000}}
    assert [one.setting for one in alone(None, stored)] == ["page-limit-bytes"]
    assert alone(read(tmp_path, settings(both)), stored) == []


@pytest.mark.rule("S-344")
def test_pairs_of_the_whole_store(tmp_path: Path) -> None:
    [said] = alone(in_toml(tmp_path, "journal-retention-period = 86400000\n"))
    assert said.setting == "journal-retention-period"
    assert "does nothing without journal-retention-directory" in said.reason
    both = "<max-disk-usage>50</max-disk-usage><min-disk-free>1G</min-disk-free>"
    [said] = setting_findings(read(tmp_path, both))
    assert (said.setting, said.kind) == ("max-disk-usage", "setting-alone")
    assert alone(read(tmp_path, "<max-disk-usage>50</max-disk-usage>")) == []
