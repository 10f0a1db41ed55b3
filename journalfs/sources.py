"""From a path, or the URL of a database, to what can be opened for reading: the store there, or one derived
from it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from journalfs.config.database import DatabaseStore
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.config.older import forced
from journalfs.errors import JournalfsError, NotAStore, OlderStore
from journalfs.older import derive


class KeptUp(Protocol):
    """A derived store that can be brought in line with what it was derived from, again and again."""

    @property
    def place(self) -> Path: ...

    def look(self) -> None:
        """Take over what changed. Use from one thread at a time. Raises `SystemFailure`."""

    def close(self) -> None: ...


def locate_readable(
    path: Path | str, *, kind: str | None = None, derived: Path | None = None, quiet: bool = False
) -> tuple[StoreLayout, KeptUp | None]:
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
        return locate_store(derive(found, derived, quiet=quiet)), None
    kept_up = _tables(found, derived)
    return locate_store(kept_up.place), kept_up


def derived_if_older(path: Path) -> Path:
    """The derived store of an older one, and any other path as it is, for somebody else to say what is wrong
    with it.
    """
    try:
        locate_store(path)
    except OlderStore as older:
        return derive(older)
    except DatabaseStore as database:
        return _tables(database).place
    except JournalfsError:
        return path
    return path


def _tables(found: DatabaseStore, base: Path | None = None) -> KeptUp:
    from journalfs.tables.deriving import DerivedTables  # noqa: PLC0415 - an optional library

    return DerivedTables(found.settings, base)
