"""Finds the store at a path or at the URL of a database, for reading: the store itself, or one derived from
it. Writers open through `journalfs.store.write.opening` instead.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from journalfs.config.database import DatabaseStore
from journalfs.config.layout import StoreLayout, locate_derived, locate_store
from journalfs.config.older import forced
from journalfs.errors import JournalfsError, NotAStore, OlderStore
from journalfs.records.kinds import RecordSource, database_kind, older_kinds


def locate_readable(
    path: Path | str, *, kind: str | None = None, derived: Path | None = None, quiet: bool = False
) -> tuple[StoreLayout, RecordSource | None]:
    """Return the store to read at `path`, and the source that keeps it up to date if it is derived from one
    that may change; the caller closes that. `kind` overrides what the store looks like; `derived` is the
    directory for derived stores. Raises what `locate_store` raises but `OlderStore` and `DatabaseStore`, and
    `SystemFailure` where nothing can be derived.
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
        return locate_derived(older_kinds().derive(found, derived, quiet=quiet), found), None
    source = database_kind(found.settings).read(found.settings, derived)
    layout = locate_store(source.place)
    outside = found.settings.outside
    if outside is not None:
        layout = replace(layout, warnings=(*layout.warnings, outside))
    return layout, source


def derived_if_older(path: Path) -> Path:
    """Return the derived store of an older one, and any other path unchanged: the caller's own opening says
    what is wrong with it.
    """
    try:
        locate_store(path)
    except OlderStore as older:
        return older_kinds().derive(older, None, quiet=False)
    except JournalfsError:
        return path
    return path
