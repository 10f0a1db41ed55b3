"""The kinds of stores that are kept otherwise than in files of today's format, and what each can do.

The rest of the product reaches a kind through the protocols of this module only. The module of a kind
registers an object here when it is imported, and `REGISTERED_BY` names that module: the first call that needs
the kind imports it. A kind can therefore be deleted with its folder and its line of `REGISTERED_BY`. This
module itself must import no kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from journalfs.bodies.aside import Aside
from journalfs.bodies.flushed import FlushedFolder
from journalfs.bodies.writing import BodyStore
from journalfs.clock import Clock
from journalfs.config.database import DatabaseSettings
from journalfs.config.layout import StoreLayout
from journalfs.damage import Damage
from journalfs.engine.disk import DiskBackend
from journalfs.engine.logged import Failing
from journalfs.engine.page_file import PageStore
from journalfs.errors import OlderStore
from journalfs.records.capabilities import Capabilities
from journalfs.records.description import Description

REGISTERED_BY: Final = {
    "older": "journalfs.foreign.older_kinds",
    "database": "journalfs.foreign.table_kinds",
}
"""The module that registers the stores of older brokers, and the one that registers a broker's tables."""


class RecordSource(Protocol):
    """A derived store that is brought in line with its source again and again."""

    @property
    def place(self) -> Path: ...

    @property
    def has_broker(self) -> bool:
        """True while another process is connected to the source as a broker is."""

    def look(self) -> None:
        """Copy what changed in the source. Not thread-safe. Raises `SystemFailure`."""

    def close(self) -> None: ...


class Ownership(Protocol):
    """A foreign store that this process has locked for writing. The caller must call `release` in the end."""

    place: Path
    """The directory of the derived store."""
    shown: str
    """The name of the foreign store in texts for people."""
    directories: tuple[Path, ...]
    """The directories of the foreign store, whose disks may be full; empty for a database."""
    journal_file_bytes: int | None
    """Size of a journal file of the source, where a record has to fit one; None where any record fits."""
    failing: Failing
    capabilities: Capabilities

    def backends(self, journal_dir: Path, bindings_dir: Path) -> tuple[DiskBackend, DiskBackend]:
        """Return the backends of the message journal and of the bindings journal."""

    def bodies(self, directory: Path, aside: Aside) -> BodyStore: ...

    def pages(self) -> PageStore: ...

    def flushed(self, path: Path) -> FlushedFolder:
        """Return the folder that keeps flushed content, or one that says that it keeps nothing."""

    def activated(self) -> None:
        """Note that the store is read: from here on, an end without `release` leaves what a killed broker
        leaves.
        """

    def release(self) -> None:
        """Unlock the foreign store, and remove the derived one."""

    def status(self) -> Mapping[str, object]:
        """Return the foreign store's own keys of `status.json`."""


class DatabaseOwnership(Ownership, Protocol):
    @property
    def is_new(self) -> bool:
        """True if the database held no store before."""


class DatabaseKind(Protocol):
    """Stores of one kind of database."""

    def read(self, settings: DatabaseSettings, base: Path | None) -> RecordSource:
        """Derive a store below the directory `base`. Raises `NotAStore`, `SystemFailure`."""

    def acquire(self, settings: DatabaseSettings) -> DatabaseOwnership:
        """Lock the store for writing; an empty database gets one. Raises `StoreBusy`, `SystemFailure`."""


class SourcePlaces(Protocol):
    """Finds the place in the source of a damaged place in the derived store."""

    def told(self, one: Damage) -> Damage:
        """Return the damage with the source's file and offset, or as it is where these are unknown."""


class OlderKinds(Protocol):
    """Stores of older brokers."""

    def derive(self, found: OlderStore, base: Path | None, *, quiet: bool) -> Path:
        """Return the derived store of an older one, made if there is none or the source changed. This
        process keeps it from being removed. Raises `UnknownVersion`, `SystemFailure`.
        """

    def own(self, found: OlderStore, base: Path | None, clock: Clock) -> Ownership:
        """Lock an older store for writing. Raises `OlderStore` with the reason where such a store is only
        read, `NotAStore` where none is there, `StoreBusy` and `SystemFailure`.
        """

    def places(self, made_of: Description, layout: StoreLayout) -> SourcePlaces:
        """Return the finder of source places for the derived store at `layout`."""


_older: dict[str, OlderKinds] = {}
_databases: dict[str, DatabaseKind] = {}

_ANY: Final = ""
"""The key of the objects that stand for every kind without one of its own."""


def register_older(kinds: OlderKinds) -> None:
    """Make older brokers' stores known. A second call replaces the first one's object."""
    _older[_ANY] = kinds


def register_database(kind: DatabaseKind, dialect: str = _ANY) -> None:
    """Make a kind of database known: the one of URLs that begin with `dialect` (`DRIVERS` must have it too),
    or the one of all URLs that have none of their own.
    """
    _databases[dialect] = kind


def older_kinds() -> OlderKinds:
    if _ANY not in _older:
        import_module(REGISTERED_BY["older"])
    return _older[_ANY]


def database_kind(settings: DatabaseSettings) -> DatabaseKind:
    """Return the kind that reads and writes the store at a database's URL."""
    if settings.dialect in _databases:
        return _databases[settings.dialect]
    if _ANY not in _databases:
        import_module(REGISTERED_BY["database"])
    return _databases[_ANY]
