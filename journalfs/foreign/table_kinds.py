"""Registers a broker's tables, in any database that SQLAlchemy reaches. `journalfs.records.kinds` imports
this module when a database is met.
"""

from __future__ import annotations

from pathlib import Path

from journalfs.config.database import DatabaseSettings
from journalfs.records.kinds import DatabaseOwnership, RecordSource, register_database


class Tables:
    """See `journalfs.records.kinds.DatabaseKind`."""

    def read(self, settings: DatabaseSettings, base: Path | None) -> RecordSource:
        from journalfs.records.tables.deriving import DerivedTables  # noqa: PLC0415 - an optional library

        return DerivedTables(settings, base)

    def acquire(self, settings: DatabaseSettings) -> DatabaseOwnership:
        from journalfs.records.tables.owning import OwnedTables  # noqa: PLC0415 - an optional library

        return OwnedTables(settings)


register_database(Tables())
