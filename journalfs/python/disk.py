"""How full the disk of a store is, and which of its directories fill it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from journalfs import door
from journalfs.config.database import DatabaseStore
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.errors import JournalfsError

OWN_FOLDER = "journalfs"


class DiskUse(NamedTuple):
    """Sizes in bytes."""

    total: int
    """Of the disk; 0: it is not known."""
    free: int
    """What users other than root may still have of it."""
    parts: Mapping[str, int]
    """What the files of each part of the store take, the largest first; of those that this user may see."""


def disk_use(layout: StoreLayout) -> DiskUse:
    places: dict[str, Path | None] = {
        "journal": layout.journal_dir,
        "bindings": layout.bindings_dir,
        "pages": layout.paging_dir,
        "large bodies": layout.large_dir,
        "history": layout.retention_dir,
        "snapshots, removed and staged": layout.root / OWN_FOLDER,
    }
    parts = {name: _bytes_below(place) for name, place in places.items() if place is not None}
    total = free = 0
    with suppress(OSError):
        found = door.disk_of(layout.root)
        total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    ordered = sorted(((name, size) for name, size in parts.items() if size), key=lambda one: -one[1])
    return DiskUse(total, free, dict(ordered))


def disk_use_at(path: Path) -> DiskUse:
    """Of a store that another process has open. A database has no files of its own here."""
    try:
        return disk_use(locate_store(path, adopting=False))
    except (JournalfsError, DatabaseStore, OSError):
        return DiskUse(0, 0, {})


def _bytes_below(place: Path) -> int:
    size_bytes = 0
    for folder, _, names in door.below(place, lambda error: None):
        for name in names:
            with suppress(OSError):
                size_bytes += door.status(os.path.join(folder, name)).st_size
    return size_bytes
