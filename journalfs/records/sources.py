"""From a path, or the URL of a database, to what can be opened for reading: the store there, or one derived
from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from journalfs.bodies.aside import Aside
from journalfs.bodies.flushed import FlushedFolder
from journalfs.bodies.writing import BodyStore
from journalfs.config.database import DatabaseSettings, DatabaseStore
from journalfs.config.layout import StoreLayout, locate_derived, locate_store
from journalfs.config.older import forced
from journalfs.engine.disk import DiskBackend
from journalfs.engine.logged import Failing
from journalfs.engine.page_file import PageStore
from journalfs.errors import JournalfsError, NotAStore, OlderStore
from journalfs.records.capabilities import Capabilities
from journalfs.records.older import derive


class RecordSource(Protocol):
    """A derived store that can be brought in line with what it was derived from, again and again."""

    @property
    def place(self) -> Path: ...

    @property
    def has_broker(self) -> bool:
        """True while somebody is connected to what it was derived from as a broker is."""

    def look(self) -> None:
        """Take over what changed. Use from one thread at a time. Raises `SystemFailure`."""

    def close(self) -> None: ...


class Ownership(Protocol):
    """What is kept elsewhere, taken for writing. `release` it, whatever happens."""

    place: Path
    """The derived store."""
    shown: str
    """What people know it by."""
    directories: tuple[Path, ...]
    """Where it lies, whose disks may be full; none for a database."""
    failing: Failing
    capabilities: Capabilities

    def backends(self, journal_dir: Path, bindings_dir: Path) -> tuple[DiskBackend, DiskBackend]:
        """Of the message journal, and of the bindings journal."""

    def bodies(self, directory: Path, aside: Aside) -> BodyStore: ...

    def pages(self) -> PageStore: ...

    def flushed(self, path: Path) -> FlushedFolder:
        """What keeps what was flushed, or what says that nothing does."""

    def activated(self) -> None:
        """All is read: from here on, ending without `release` is being killed."""

    def release(self) -> None:
        """Let go of it, and remove what was derived."""

    def status(self) -> Mapping[str, object]:
        """What is to be said of it."""


class DatabaseOwnership(Ownership, Protocol):
    @property
    def is_new(self) -> bool:
        """Nothing was in it."""


class DatabaseKind(Protocol):
    """How stores of one kind of database are read, and taken for writing."""

    def read(self, settings: DatabaseSettings, base: Path | None) -> RecordSource:
        """`base`: the directory for derived stores. Raises `NotAStore`, `SystemFailure`."""

    def acquire(self, settings: DatabaseSettings) -> DatabaseOwnership:
        """Made, where nothing is there. Raises `StoreBusy`, `SystemFailure`."""


class Tables:
    """A broker's tables, in whatever SQLAlchemy reaches."""

    def read(self, settings: DatabaseSettings, base: Path | None) -> RecordSource:
        from journalfs.records.tables.deriving import DerivedTables  # noqa: PLC0415 - an optional library

        return DerivedTables(settings, base)

    def acquire(self, settings: DatabaseSettings) -> DatabaseOwnership:
        from journalfs.records.tables.owning import OwnedTables  # noqa: PLC0415 - an optional library

        return OwnedTables(settings)


OTHERS: Final[dict[str, DatabaseKind]] = {}
"""Kinds that keep no such tables, by what their URLs begin with; `DRIVERS` has that, too."""


def kind_of(settings: DatabaseSettings) -> DatabaseKind:
    return OTHERS.get(settings.dialect) or Tables()


def locate_readable(
    path: Path | str, *, kind: str | None = None, derived: Path | None = None, quiet: bool = False
) -> tuple[StoreLayout, RecordSource | None]:
    """What to open for reading where somebody gave `path`, and what keeps it up if it is derived from
    something that may change; close that. `kind` says what it is, against what it looks like; `derived` is
    the directory for derived stores. Raises what `locate_store` raises but `OlderStore` and `DatabaseStore`,
    and `SystemFailure` where nothing can be derived.
    """
    given = Path(os.path.abspath(path))
    try:
        if kind is None:
            return locate_store(path), None
        if not given.is_dir():
            raise NotAStore(given, "there is no such directory")
        found: OlderStore | DatabaseStore = forced(kind, given)
    except (OlderStore, DatabaseStore) as elsewhere:
        found = elsewhere
    if isinstance(found, OlderStore):
        return locate_derived(derive(found, derived, quiet=quiet), found), None
    source = kind_of(found.settings).read(found.settings, derived)
    return locate_store(source.place), source


def derived_if_older(path: Path) -> Path:
    """The derived store of an older one, and any other path as it is, for somebody else to say what is wrong
    with it.
    """
    try:
        locate_store(path)
    except OlderStore as older:
        return derive(older)
    except JournalfsError:
        return path
    return path
