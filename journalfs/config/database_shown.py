"""Shows the settings in force of a store in a database, without its password, and what is odd about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from journalfs.config.address_settings import Value
from journalfs.config.database import DatabaseSettings
from journalfs.config.in_force import ORIGIN_DEFAULT, SettingInForce
from journalfs.config.known_names import NO_EFFECT, SettingFinding

_SHOWN: Final = (
    ("jdbc-driver-class-name", "driver_class", ""),
    ("jdbc-connection-url", "shown", ""),
    ("jdbc-user", "user", ""),
    ("bindings-table-name", "bindings_table", ""),
    ("message-table-name", "message_table", ""),
    ("large-message-table-name", "large_message_table", ""),
    ("page-store-table-name", "page_store_table", ""),
    ("node-manager-store-table-name", "node_manager_table", ""),
    ("jdbc-network-timeout", "network_timeout_ms", "ms"),
    ("jdbc-lock-renew-period", "lock_renew_period_ms", "ms"),
    ("jdbc-lock-expiration", "lock_expiration_ms", "ms"),
    ("jdbc-lock-acquisition-timeout", "lock_acquisition_timeout_ms", "ms"),
    ("jdbc-allowed-time-diff", "allowed_time_diff_ms", "ms"),
    ("jdbc-journal-sync-period", "sync_period_ms", "ms"),
    ("jdbc-max-page-size-bytes", "page_bytes_max", "bytes"),
)
"""Name, field of `DatabaseSettings`, unit."""
_ALIAS: Final = {"jdbc-max-page-size-bytes": "jdbc-page-max-size-bytes"}
_SYNC: Final = "jdbc-journal-sync-period"
_POOL_OBEYED: Final = frozenset(
    {"url", "jdbcUrl", "username", "password", "maxTotal", "defaultSchema", "schema", "driverClassName"}
)


def database_shown(settings: DatabaseSettings) -> Iterator[SettingInForce]:
    """Every setting of the database in force, with where it comes from."""
    for name, field, unit in _SHOWN:
        value: Value | None = getattr(settings, field)
        origin = settings.said.get(name) or settings.said.get(_ALIAS.get(name, "")) or ORIGIN_DEFAULT
        if name == "jdbc-connection-url" and origin == ORIGIN_DEFAULT:
            origin = "as it was given"
        yield SettingInForce(name, value, unit, origin)


def database_findings(settings: DatabaseSettings) -> Iterator[SettingFinding]:
    """Settings of the database that have no effect here."""
    default = DatabaseSettings(url="")
    if _SYNC in settings.said and settings.sync_period_ms != default.sync_period_ms:
        reason = "who waits is flushed at once, with all that came meanwhile"
        yield SettingFinding(NO_EFFECT, settings.said[_SYNC], None, _SYNC, f"has no effect here: {reason}")
    place = settings.said.get("data-source-properties") or str(settings.config)
    for key in sorted(settings.pool.keys() - _POOL_OBEYED):
        reason = "has no effect here: of a pool only maxTotal, url, username, password and the schema count"
        yield SettingFinding(NO_EFFECT, place, None, f"data-source-property {key}", reason)
