"""The derived store of one in a database: made anew each time, since nothing cheap says that rows are what
they were.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from journalfs import door
from journalfs.config.database import DatabaseSettings
from journalfs.errors import ConfigError
from journalfs.older.derived import DerivedStore
from journalfs.older.reading import DATABASE, deriving, keep, make_derived
from journalfs.tables.database import Database
from journalfs.tables.reading import derive_from_tables

_INCLUDE: Final = "{http://www.w3.org/2001/XInclude}include"
_DIRECTORIES: Final = {
    "journal-directory": "journal",
    "bindings-directory": "bindings",
    "paging-directory": "paging",
    "large-messages-directory": "large-messages",
    "node-manager-lock-directory": "journal",
    "journal-retention-directory": None,
}


def derive_tables(settings: DatabaseSettings, base: Path | None = None) -> Path:
    """This process holds it. Raises `NotAStore`, `SystemFailure`, `DependencyMissing`."""
    database = Database(settings)
    try:
        with deriving(settings.shown, base) as folder:
            identity = uuid.uuid4().hex
            place = folder / identity
            derive_into(database, place, identity)
            keep(place)
    finally:
        database.close()
    return place


def derive_into(database: Database, place: Path, identity: str) -> None:
    """A derived store at `place`, with the settings that the configuration has for addresses."""

    def fill(out: DerivedStore) -> None:
        derive_from_tables(database, out)

    settings = database.settings
    found = f"the tables of a JDBC store ({database.dialect})"
    make_derived(
        place, fill, lambda _: None, kind=DATABASE, found=found, source=settings.shown, identity=identity
    )
    if settings.config is not None:
        door.write(place / "broker.xml", as_file_store(settings.config))


def as_file_store(config: Path) -> bytes:
    """A broker.xml as of a store in files that lies beside it. Raises `ConfigError`."""
    try:
        tree = ElementTree.parse(config)
    except ElementTree.ParseError as error:
        raise ConfigError(config, str(error)) from error
    root = tree.getroot()
    for include in root.iter(_INCLUDE):
        include.set("href", str(config.parent / include.get("href", "")))
    core = next(one for one in root.iter() if one.tag.rpartition("}")[2] == "core")
    for child in list(core):
        if child.tag.rpartition("}")[2] in ("store", *_DIRECTORIES):
            core.remove(child)
    for name, directory in _DIRECTORIES.items():
        if directory is not None:
            ElementTree.SubElement(core, core.tag[: -len("core")] + name).text = directory
    return ElementTree.tostring(root)
