"""From a path, or the URL of a database, to what can be opened for reading: the store there, or one derived
from it.
"""

from __future__ import annotations

import os
from pathlib import Path

from journalfs.config.database import DatabaseStore
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.config.older import forced
from journalfs.errors import JournalfsError, NotAStore, OlderStore
from journalfs.older import derive


def locate_readable(
    path: Path | str, *, kind: str | None = None, derived: Path | None = None, quiet: bool = False
) -> StoreLayout:
    """What to open for reading where somebody gave `path`. `kind` says what it is, against what it looks
    like; `derived` is the directory for derived stores. Raises what `locate_store` raises but `OlderStore`
    and `DatabaseStore`, and `SystemFailure` where nothing can be derived.
    """
    given = Path(os.path.abspath(path))
    try:
        if kind is None:
            return locate_store(path)
        if not given.is_dir():
            raise NotAStore(given, "there is no such directory")
        found: OlderStore | DatabaseStore = forced(kind, given)
    except (OlderStore, DatabaseStore) as elsewhere:
        found = elsewhere
    return locate_store(_derived(found, derived, quiet=quiet))


def derived_if_older(path: Path) -> Path:
    """The derived store of an older one, and any other path as it is, for somebody else to say what is wrong
    with it.
    """
    try:
        locate_store(path)
    except (OlderStore, DatabaseStore) as elsewhere:
        return _derived(elsewhere)
    except JournalfsError:
        return path
    return path


def _derived(found: OlderStore | DatabaseStore, base: Path | None = None, *, quiet: bool = False) -> Path:
    if isinstance(found, OlderStore):
        return derive(found, base, quiet=quiet)
    from journalfs.tables.deriving import derive_tables  # noqa: PLC0415 - an optional library

    return derive_tables(found.settings, base)
