"""What a configuration says of how a store is written: every setting of the journals, checked.

Names, units and defaults are those of docs/reference/settings.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec import field

from journalfs.config import core_settings
from journalfs.config.broker_config import BrokerConfig
from journalfs.errors import ConfigError
from journalfs.limits import JOURNAL_BLOCK_BYTES_MAX, JOURNAL_BUFFER_BYTES_MIN

JournalType = Literal["NIO", "ASYNCIO", "MAPPED"]

_SECTOR_BYTES: Final = 512


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings in force. None: not set, and whoever needs it works it out."""

    create_journal_dir: bool = field(name="create-journal-dir")
    create_bindings_dir: bool = field(name="create-bindings-dir")

    journal_type: JournalType = field(name="journal-type")
    journal_datasync: bool = field(name="journal-datasync")
    journal_checksums: bool = field(name="journal-checksums")
    """Each flush ends with a checksum of it, in a record that brokers ignore."""
    journal_sync_transactional: bool = field(name="journal-sync-transactional")
    journal_sync_non_transactional: bool = field(name="journal-sync-non-transactional")
    file_size_bytes: int = field(name="journal-file-size")
    min_files: int = field(name="journal-min-files")
    pool_files: int = field(name="journal-pool-files")
    max_io: int | None = field(name="journal-max-io")
    """Writes under way at once; None: as many as the backend takes."""
    buffer_timeout_ns: int | None = field(name="journal-buffer-timeout")
    """None: the default of the backend that is used in the end."""
    buffer_size_bytes: int = field(name="journal-buffer-size")
    device_block_size_bytes: int | None = field(name="journal-device-block-size")
    """None: the file system's."""
    compact_min_files: int = field(name="journal-compact-min-files")
    compact_percentage: int = field(name="journal-compact-percentage")
    lock_acquisition_timeout_ms: int = field(name="journal-lock-acquisition-timeout")
    """0: not waited; -1: for ever."""
    max_attic_files: int = field(name="journal-max-attic-files")

    retention_directory: str | None = field(name=core_settings.RETENTION_DIRECTORY)
    retention_period_ms: int | None = field(name=core_settings.RETENTION_PERIOD)
    retention_bytes_max: int | None = field(name=core_settings.RETENTION_BYTES_MAX)

    large_message_sync: bool = field(name="large-message-sync")
    min_large_message_size_bytes: int = field(name="min-large-message-size")


_OF_THE_BACKEND: Final = frozenset({"journal-max-io", "journal-buffer-timeout"})
"""Settings whose default depends on which backend is used in the end."""

SETTING_NAMES: Final = tuple(item.encode_name for item in msgspec.structs.fields(JournalSettings))


def journal_settings(config: BrokerConfig | None) -> JournalSettings:
    """The settings that `config` (None: nothing is configured) puts in force. Raises `ConfigError`."""
    core: Mapping[str, core_settings.ConfiguredValue] = config.core if config is not None else {}
    values = {
        name: None
        if name in _OF_THE_BACKEND and name not in core
        else core_settings.value_in_force(core, name)
        for name in SETTING_NAMES
    }
    if values["journal-device-block-size"] == -1:
        values["journal-device-block-size"] = None
    settings = msgspec.convert(values, JournalSettings)
    _check_buffer(settings, core)
    _check_block_size(settings, core)
    _check_retention(settings, core)
    return settings


def setting_warnings(config: BrokerConfig | None) -> tuple[str, ...]:
    """What is allowed, but will hardly have been meant."""
    core: Mapping[str, core_settings.ConfiguredValue] = config.core if config is not None else {}
    return _writes_in_flight(core)


def _writes_in_flight(core: Mapping[str, core_settings.ConfiguredValue]) -> tuple[str, ...]:
    configured = core.get("journal-max-io")
    if configured is None:
        return ()
    asynchronous = core_settings.value_in_force(core, "journal-type") == "ASYNCIO"
    place = f"{configured.file}:{configured.line}: journal-max-io"
    if asynchronous and configured.value == 1:
        return (f"{place}: 1 leaves ASYNCIO nothing to do at the same time; leave it out, or use NIO",)
    if not asynchronous and configured.value != 1:
        return (f"{place}: only ASYNCIO has more than one write under way; it has no effect",)
    return ()


def _check_buffer(settings: JournalSettings, core: Mapping[str, core_settings.ConfiguredValue]) -> None:
    """Refuse a buffer that holds no record of a message, or that no journal file can take as a whole. A
    broker starts with either, and fails at its first message with the former.
    """
    name = "journal-buffer-size"
    if name not in core:
        return  # the default is cut to the size of a file
    size, file_size = settings.buffer_size_bytes, settings.file_size_bytes
    if size < JOURNAL_BUFFER_BYTES_MIN:
        reason = f"{size} bytes do not hold the record of a message; give at least {JOURNAL_BUFFER_BYTES_MIN}"
        raise _mistake(core, name, reason)
    if size > file_size:
        reason = f"{size} is more than a journal file holds (journal-file-size, {file_size}); give less"
        raise _mistake(core, name, reason)


def _check_block_size(settings: JournalSettings, core: Mapping[str, core_settings.ConfiguredValue]) -> None:
    size = settings.device_block_size_bytes
    if size is None or settings.journal_type != "ASYNCIO":
        return
    if size < _SECTOR_BYTES or size & (size - 1):
        reason = f"{size} is no size of a block: {_SECTOR_BYTES} times a power of 2, most often 4096"
        raise _mistake(core, "journal-device-block-size", reason)
    if size > JOURNAL_BLOCK_BYTES_MAX:
        raise _mistake(core, "journal-device-block-size", f"{size} is above {JOURNAL_BLOCK_BYTES_MAX}")


def _check_retention(settings: JournalSettings, core: Mapping[str, core_settings.ConfiguredValue]) -> None:
    limited = settings.retention_period_ms or settings.retention_bytes_max
    if settings.retention_directory and not limited:
        reason = f"needs {core_settings.RETENTION_PERIOD} or {core_settings.RETENTION_BYTES_MAX}"
        raise _mistake(core, core_settings.RETENTION_DIRECTORY, reason)


def _mistake(core: Mapping[str, core_settings.ConfiguredValue], name: str, reason: str) -> ConfigError:
    configured = core[name]
    return ConfigError(configured.file, reason, line=configured.line, setting=name)
