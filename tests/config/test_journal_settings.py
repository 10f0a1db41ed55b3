"""Settings of the journals: defaults, what broker.xml says, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.config.broker_xml import read_broker_xml
from journalfs.config.core_settings import CORE_BY_NAME, value_in_force
from journalfs.config.journal_settings import SETTING_NAMES, journal_settings, setting_warnings
from journalfs.errors import ConfigError
from tests.config.test_broker_xml import read
from tests.frozen import FILE_STORES, PristineStores


def test_every_name_is_the_brokers() -> None:
    assert set(SETTING_NAMES) <= set(CORE_BY_NAME)


def test_without_a_configuration() -> None:
    settings = journal_settings(None)
    assert (settings.journal_type, settings.file_size_bytes) == ("ASYNCIO", 10_485_760)
    assert (settings.min_files, settings.pool_files) == (2, -1)
    assert (settings.buffer_size_bytes, settings.buffer_timeout_ns, settings.max_io) == (501_760, None, None)
    assert (settings.compact_min_files, settings.compact_percentage) == (10, 30)
    assert settings.journal_datasync
    assert settings.journal_sync_transactional
    assert settings.journal_sync_non_transactional
    assert settings.lock_acquisition_timeout_ms == 0
    assert settings.device_block_size_bytes is None
    assert settings.retention_directory is None
    assert settings.min_large_message_size_bytes == 102_400


def test_what_broker_xml_says(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "<journal-type>MAPPED</journal-type>"
        "<create-journal-dir>false</create-journal-dir><create-bindings-dir>false</create-bindings-dir>"
        "<journal-datasync>false</journal-datasync><journal-file-size>1M</journal-file-size>"
        "<journal-sync-transactional>false</journal-sync-transactional>"
        "<journal-sync-non-transactional>false</journal-sync-non-transactional>"
        "<journal-min-files>4</journal-min-files><journal-pool-files>6</journal-pool-files>"
        "<journal-buffer-timeout>7</journal-buffer-timeout><journal-buffer-size>8K</journal-buffer-size>"
        "<journal-compact-min-files>9</journal-compact-min-files>"
        "<journal-compact-percentage>11</journal-compact-percentage>"
        "<journal-lock-acquisition-timeout>13</journal-lock-acquisition-timeout>"
        '<journal-retention-directory unit="HOURS" period="2" storage-limit="3M">h'
        "</journal-retention-directory>"
        "<large-message-sync>false</large-message-sync>",
    )
    settings = journal_settings(config)
    assert not settings.create_journal_dir
    assert not settings.create_bindings_dir
    assert not settings.journal_datasync
    assert not settings.journal_sync_transactional
    assert not settings.journal_sync_non_transactional
    assert (settings.journal_type, settings.file_size_bytes) == ("MAPPED", 1_048_576)
    assert (settings.min_files, settings.pool_files) == (4, 6)
    assert (settings.buffer_timeout_ns, settings.buffer_size_bytes) == (7, 8192)
    assert (settings.compact_min_files, settings.compact_percentage) == (9, 11)
    assert settings.lock_acquisition_timeout_ms == 13
    assert (settings.retention_directory, settings.retention_period_ms) == ("h", 7_200_000)
    assert settings.retention_bytes_max == 3_145_728
    assert not settings.large_message_sync


@pytest.mark.parametrize("name", FILE_STORES)
def test_settings_of_real_stores(name: str, stores: PristineStores) -> None:
    config = read_broker_xml(stores[name] / "broker.xml", instance=stores[name], environment={})
    settings = journal_settings(config)
    assert settings.file_size_bytes in {
        path.stat().st_size for path in (stores[name] / "data" / "journal").glob("*.amq")
    }
    assert setting_warnings(config) == ()


@pytest.mark.parametrize(
    ("core", "reason"),
    [
        ("<journal-min-files>1</journal-min-files>", "journal-min-files: 1 is below 2"),
        ("<journal-pool-files>0</journal-pool-files>", "journal-pool-files: 0 would be none at all"),
        ("<journal-pool-files>-2</journal-pool-files>", "journal-pool-files: -2 is below -1"),
        ("<journal-file-size>1023</journal-file-size>", "journal-file-size: 1023 is below 1024"),
        ("<journal-file-size>2G</journal-file-size>", "journal-file-size: 2147483648 is above 2147483647"),
        ("<journal-compact-percentage>101</journal-compact-percentage>", "101 is above 100"),
        ("<journal-type>AIO</journal-type>", "journal-type: 'AIO' is none of NIO, ASYNCIO, MAPPED"),
        ("<journal-device-block-size>131072</journal-device-block-size>", "131072 is above 65536"),
        ("<journal-device-block-size>1000</journal-device-block-size>", "1000 is no size of a block"),
        ("<journal-device-block-size>256</journal-device-block-size>", "256 is no size of a block"),
        ("<journal-retention-directory>h</journal-retention-directory>", "needs period=... or storage"),
        ('<journal-retention-directory unit="YEARS" period="1">h</journal-retention-directory>', "'YEARS'"),
        ('<journal-retention-directory period="long">h</journal-retention-directory>', "'long' is no number"),
    ],
)
def test_mistakes(tmp_path: Path, core: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        journal_settings(read(tmp_path, core))
    assert caught.value.line == 4
    assert "broker.xml:4: journal-" in str(caught.value)
    assert reason in str(caught.value)


def test_block_size_matters_to_direct_writes_only(tmp_path: Path) -> None:
    odd = "<journal-device-block-size>1000</journal-device-block-size>"
    assert journal_settings(read(tmp_path, odd + "<journal-type>NIO</journal-type>"))
    unset = read(tmp_path, "<journal-device-block-size>-1</journal-device-block-size>")
    assert journal_settings(unset).device_block_size_bytes is None


@pytest.mark.parametrize(
    ("journal_type", "writes", "warning"),
    [
        ("ASYNCIO", 1, "1 leaves ASYNCIO nothing to do"),
        ("ASYNCIO", 2, ""),
        ("NIO", 2, "only ASYNCIO has more than one write"),
        ("NIO", 1, ""),
    ],
)
def test_odd_but_allowed(tmp_path: Path, journal_type: str, writes: int, warning: str) -> None:
    core = f"<journal-type>{journal_type}</journal-type><journal-max-io>{writes}</journal-max-io>"
    found = setting_warnings(read(tmp_path, core))
    assert len(found) == bool(warning)
    assert all(f"broker.xml:4: journal-max-io: {warning}" in text for text in found)


def test_an_element_that_no_broker_takes_has_no_effect(tmp_path: Path) -> None:
    config = read(tmp_path, "<journal-max-attic-files>3</journal-max-attic-files>")
    assert journal_settings(config).max_attic_files == 10
    [said] = config.warnings
    assert "broker.xml:4: journal-max-attic-files: is not known as an element of <core>" in said
    assert "it belongs into journalfs.toml" in said


def test_defaults_follow_the_journal_type(tmp_path: Path) -> None:
    core = read(tmp_path, "<journal-type>NIO</journal-type>").core
    assert (value_in_force(core, "journal-max-io"), value_in_force({}, "journal-max-io")) == (1, 4096)
    assert value_in_force(core, "journal-buffer-timeout") == 3_333_333
    assert value_in_force({}, "journal-buffer-timeout") == 500_000


@pytest.mark.rule("S-341")
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("<journal-buffer-size>300</journal-buffer-size>", "300 bytes do not hold the record of a message"),
        ("<journal-buffer-size>1023</journal-buffer-size>", "give at least 1024"),
        (
            "<journal-file-size>1M</journal-file-size>\n<journal-buffer-size>2M</journal-buffer-size>",
            "2097152 is more than a journal file holds (journal-file-size, 1048576)",
        ),
    ],
)
def test_a_buffer_that_no_record_or_no_file_fits(tmp_path: Path, settings: str, reason: str) -> None:
    config = read(tmp_path, settings)
    with pytest.raises(ConfigError) as refused:
        journal_settings(config)
    assert refused.value.setting == "journal-buffer-size"
    assert refused.value.line is not None
    assert reason in str(refused.value)


@pytest.mark.rule("S-341")
def test_the_smallest_buffer_and_one_as_large_as_a_file(tmp_path: Path) -> None:
    settings = "<journal-file-size>1M</journal-file-size><journal-buffer-size>{}</journal-buffer-size>"
    for size in (1024, 1_048_576):
        assert journal_settings(read(tmp_path, settings.format(size))).buffer_size_bytes == size
    small = read(tmp_path, "<journal-file-size>100K</journal-file-size>")
    assert journal_settings(small).buffer_size_bytes == 501_760
