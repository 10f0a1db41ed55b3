"""Settings of the whole broker that say something about its store: name, type, unit and default (2.44)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from journalfs.config.address_settings import Kind, SettingDefinition, Value
from journalfs.limits import INFLATE_BYTES_MAX_DEFAULT


@dataclass(frozen=True, slots=True)
class ConfiguredValue:
    """A value from a configuration file, and where it stands."""

    value: Value
    file: str
    line: int | None
    origin: str = "broker.xml"
    """Name of the kind of file."""


_NIO_BUFFER_TIMEOUT_NS: Final = 3_333_333
_AIO_BUFFER_TIMEOUT_NS: Final = 500_000
_BUFFER_TIMEOUT: Final = "journal-buffer-timeout"
_NIO_MAX_IO: Final = 1
_AIO_MAX_IO: Final = 4096


_INT_MAX: Final = 2**31 - 1
"""Where a broker keeps a setting in 32 bits."""


def _setting(
    name: str,
    kind: Kind,
    default: Value | None,
    unit: str = "",
    minimum: int | None = None,
    *,
    maximum: int | None = None,
) -> SettingDefinition:
    return SettingDefinition(name, name, kind, default, unit, minimum, maximum)


def _own(
    name: str, kind: Kind, default: Value | None, unit: str = "", minimum: int | None = None
) -> SettingDefinition:
    """What no broker's file can set in an element of its own."""
    return SettingDefinition(name, name, kind, default, unit, minimum, in_xml=False)


def _limit(name: str, kind: Kind, default: int, unit: str, maximum: int | None = None) -> SettingDefinition:
    """Something above 0, or -1 for no limit."""
    return SettingDefinition(name, name, kind, default, unit, -1, maximum, not_zero=True)


RETENTION_DIRECTORY: Final = "journal-retention-directory"
RETENTION_PERIOD: Final = "journal-retention-period"
RETENTION_BYTES_MAX: Final = "journal-retention-max-bytes"
"""The last two are attributes of the first in broker.xml; these are their names in broker.properties."""

CORE_SETTINGS: Final = (
    _setting("persistence-enabled", Kind.BOOLEAN, True),
    _setting("journal-directory", Kind.TEXT, "data/journal"),
    _setting("bindings-directory", Kind.TEXT, "data/bindings"),
    _setting("paging-directory", Kind.TEXT, "data/paging"),
    _setting("large-messages-directory", Kind.TEXT, "data/largemessages"),
    _setting("node-manager-lock-directory", Kind.TEXT, None),
    _setting("create-journal-dir", Kind.BOOLEAN, True),
    _setting("create-bindings-dir", Kind.BOOLEAN, True),
    SettingDefinition(
        "journal-type", "journal-type", Kind.CHOICE, "ASYNCIO", choices=("NIO", "ASYNCIO", "MAPPED")
    ),
    _setting("journal-datasync", Kind.BOOLEAN, True),
    _own("journal-checksums", Kind.BOOLEAN, True),
    _setting("journal-sync-transactional", Kind.BOOLEAN, True),
    _setting("journal-sync-non-transactional", Kind.BOOLEAN, True),
    _setting("journal-file-size", Kind.BYTES, 10 * 1024 * 1024, "bytes", 1024, maximum=_INT_MAX),
    _setting("journal-min-files", Kind.INTEGER, 2, "files", 2, maximum=_INT_MAX),
    _limit("journal-pool-files", Kind.INTEGER, -1, "files", _INT_MAX),
    _setting("journal-max-io", Kind.INTEGER, None, "requests", 1, maximum=_INT_MAX),
    _setting("journal-buffer-timeout", Kind.INTEGER, None, "ns", 0, maximum=_INT_MAX),
    _setting("journal-buffer-size", Kind.BYTES, 501_760, "bytes", 1, maximum=_INT_MAX),
    _setting("journal-device-block-size", Kind.INTEGER, None, "bytes", -1, maximum=_INT_MAX),
    _setting("journal-compact-min-files", Kind.INTEGER, 10, "files", 0, maximum=_INT_MAX),
    _setting("journal-compact-percentage", Kind.INTEGER, 30, "percent", 0, maximum=100),
    _setting("journal-file-open-timeout", Kind.INTEGER, 5, "s", 1, maximum=_INT_MAX),
    _setting("journal-lock-acquisition-timeout", Kind.INTEGER, 0, "ms", -1),
    _own("journal-max-attic-files", Kind.INTEGER, 10, "files", -1),
    _setting(RETENTION_DIRECTORY, Kind.TEXT, None),
    _own(RETENTION_PERIOD, Kind.INTEGER, None, "ms", 1),
    _own(RETENTION_BYTES_MAX, Kind.BYTES, None, "bytes", 1),
    _setting("large-message-sync", Kind.BOOLEAN, True),
    _own("min-large-message-size", Kind.BYTES, 100 * 1024, "bytes", 1),
    _own("inflate-bytes-max", Kind.BYTES, INFLATE_BYTES_MAX_DEFAULT, "bytes", 1),
    _own("user-waiting-max", Kind.INTEGER, 32, "requests", 1),
    _own("user-streams-max", Kind.INTEGER, 128, "streams", 1),
    _own("user-open-max", Kind.INTEGER, 8192, "files", 1),
    _own("user-open-bytes-max", Kind.BYTES, 512 * 1024 * 1024, "bytes", 1),
    _own("user-selections-max", Kind.INTEGER, 64, "requests", 1),
    _own("user-staged-bytes-max", Kind.BYTES, -1, "bytes", -1),
    _own("user-staged-files-max", Kind.INTEGER, -1, "files", -1),
    _setting("page-sync-timeout", Kind.INTEGER, None, "ns", 0),
    _setting("purge-page-folders", Kind.BOOLEAN, False),
    _setting("global-max-size", Kind.BYTES, None, "bytes", -1),
    _setting("global-max-messages", Kind.INTEGER, -1, "messages", -1),
    _setting("max-disk-usage", Kind.INTEGER, 90, "percent", -1, maximum=100),
    _setting("min-disk-free", Kind.BYTES, -1, "bytes", -1),
    _limit("disk-scan-period", Kind.INTEGER, 5000, "ms", 2**63 - 1),
    _setting("max-redelivery-records", Kind.INTEGER, 10, "records", -1),
    _setting("message-expiry-scan-period", Kind.INTEGER, 30_000, "ms", -1),
    _setting("address-queue-scan-period", Kind.INTEGER, 30_000, "ms", -1),
    _setting("id-cache-size", Kind.INTEGER, 20_000, "ids", 0),
    _setting("persist-id-cache", Kind.BOOLEAN, True),
    _setting("management-address", Kind.TEXT, "activemq.management"),
    _setting("persist-delivery-count-before-delivery", Kind.BOOLEAN, False),
    _own("selection-memory-bytes", Kind.BYTES, 64 * 1024 * 1024, "bytes", 0),
    _own("removed-keep-s", Kind.INTEGER, 60, "s", 0),
    _own("removed-keep-bytes", Kind.BYTES, 1024 * 1024 * 1024, "bytes", 0),
)

USER_LIMITS: Final = (
    "user-waiting-max", "user-streams-max", "user-open-max", "user-selections-max", "user-staged-bytes-max",
    "user-open-bytes-max", "user-staged-files-max",
)  # fmt: skip
"""How much one user may hold of what a mount has only so much of."""

CORE_BY_NAME: Final[Mapping[str, SettingDefinition]] = {item.name: item for item in CORE_SETTINGS}


def value_in_force(core: Mapping[str, ConfiguredValue], name: str) -> Value | None:
    """The value of a setting when `core` is what is configured. None: the broker works it out, or there is
    none.
    """
    if name in core:
        return core[name].value
    match name:
        case "journal-max-io":
            return _AIO_MAX_IO if _asynchronous(core) else _NIO_MAX_IO
        case "journal-buffer-timeout":
            return _AIO_BUFFER_TIMEOUT_NS if _asynchronous(core) else _NIO_BUFFER_TIMEOUT_NS
        case "page-sync-timeout":
            # A broker takes what it has for NIO, also where it writes with ASYNCIO.
            return _NIO_BUFFER_TIMEOUT_NS if _asynchronous(core) else value_in_force(core, _BUFFER_TIMEOUT)
        case _:
            return CORE_BY_NAME[name].default


def _asynchronous(core: Mapping[str, ConfiguredValue]) -> bool:
    return value_in_force(core, "journal-type") == "ASYNCIO"
