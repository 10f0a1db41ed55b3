"""The derived store of one in a database: made anew each time, since nothing cheap says that rows are what
they were.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lxml import etree

from journalfs import door
from journalfs.config.database import DatabaseSettings
from journalfs.config.xmltree import as_it_stands
from journalfs.errors import SystemFailure
from journalfs.older.derived import DerivedStore
from journalfs.older.reading import DATABASE, deriving, keep, make_derived
from journalfs.tables.database import Database
from journalfs.tables.following import RewrittenError
from journalfs.tables.reading import TablesReading

_INCLUDE: Final = "{http://www.w3.org/2001/XInclude}include"
_DIRECTORIES: Final = {
    "journal-directory": "journal",
    "bindings-directory": "bindings",
    "paging-directory": "paging",
    "large-messages-directory": "large-messages",
    "node-manager-lock-directory": "journal",
    "journal-retention-directory": None,
}


class DerivedTables:
    """What was derived from the tables, at `place`. This process holds it. `close` it."""

    def __init__(self, settings: DatabaseSettings, base: Path | None = None) -> None:
        """Raises `NotAStore`, `SystemFailure`, `DependencyMissing`."""
        self._database = Database(settings)
        self._rewritten: str | None = None
        try:
            with deriving(settings.shown, base) as folder:
                identity = uuid.uuid4().hex
                self.place: Final = folder / identity
                self._reading = derive_into(self._database, self.place, identity)
                keep(self.place)
        finally:
            self._database.close()

    def look(self) -> None:
        """Take over what became of the tables since. Use from one thread at a time. Raises `SystemFailure`,
        and the next look goes on where this one came to.
        """
        if self._rewritten is None:
            try:
                self._reading.look()
            except RewrittenError as error:
                self._rewritten = str(error)
        if self._rewritten is not None:
            shown = self._database.settings.shown
            raise SystemFailure(f"{shown}: {self._rewritten}; mount it again", system_errno=errno.EIO)

    def close(self) -> None:
        self._database.close()


def derive_tables(settings: DatabaseSettings, base: Path | None = None) -> Path:
    """The same where nobody looks again."""
    return DerivedTables(settings, base).place


def derive_into(
    database: Database,
    place: Path,
    identity: str,
    read: Callable[[Database, DerivedStore], TablesReading] = TablesReading,
) -> TablesReading:
    """A derived store at `place`, with the settings that the configuration has for addresses."""
    readings: list[TablesReading] = []

    def fill(out: DerivedStore) -> None:
        readings.append(read(database, out))

    settings = database.settings
    found = f"the tables of a JDBC store ({database.dialect})"
    make_derived(
        place, fill, lambda _: None, kind=DATABASE, found=found, source=settings.shown, identity=identity
    )
    if settings.config is not None:
        door.write(place / "broker.xml", as_file_store(settings.config))
    return readings[0]


def as_file_store(config: Path) -> bytes:
    """A broker.xml as of a store in files that lies beside it. Raises `ConfigError`, `SystemFailure`."""
    root = as_it_stands(config)
    for include in root.iter(_INCLUDE):
        include.set("href", str(config.parent / include.get("href", "")))
    core = next(one for one in root.iter() if one.tag.rpartition("}")[2] == "core")
    for child in list(core):
        if child.tag.rpartition("}")[2] in ("store", *_DIRECTORIES):
            core.remove(child)
    for name, directory in _DIRECTORIES.items():
        if directory is not None:
            etree.SubElement(core, core.tag[: -len("core")] + name).text = directory
    return etree.tostring(root)
