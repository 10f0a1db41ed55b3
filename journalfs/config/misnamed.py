"""What a path is that was given for a store, and is none: a place in a mount, a backup, an address.

`config.layout` asks when it found no store, so that the message names what would work. Nothing here opens a
store.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

SEPARATOR = "::"


class Misnamed(NamedTuple):
    """What is wrong, and what to give instead."""

    reason: str
    give: str


def mount_around(path: Path) -> Path | None:
    """Return the root of the mounted store in which a path lies; None: it lies in none."""
    for one in (path, *path.parents):
        if os.path.ismount(one):
            return one if os.path.lexists(one / ".journalfs" / "mount.json") else None
    return None


def misnamed(path: Path, *, is_store: bool) -> Misnamed | None:
    """Return what a path is that is no store; None: nothing that is known. `is_store`: the nearest directory
    above it is one.
    """
    root = mount_around(path)
    if root is not None:
        inside = named(path.relative_to(root).parts)
        also = f"; what lies below it is named behind that: {root} {inside}"
        if not inside:
            return Misnamed("a store is mounted here", "the path of that store, after umount")
        return Misnamed(
            f"lies in a mounted store{also}", f"the mount itself, {root}, or the store, after umount"
        )
    if (path / "backups").is_dir() and (path / "objects").is_dir():
        reason = "a directory of backups, and no store"
        return Misnamed(reason, f"a store, which journalfs restore {path} NEW makes of the newest of them")
    there = next((one for one in path.parents if one.is_dir()), None)
    if there is not None and is_store:
        inside = named(path.relative_to(there).parts)
        reason = "there is no such directory, and addresses and queues of a store are no paths"
        return Misnamed(reason, f"the store, and what of it behind that: {there} {inside}")
    return None


def named(parts: tuple[str, ...]) -> str:
    """Return an address, or a queue, as commands take it."""
    return SEPARATOR.join(one for one in parts[:2] if not one.startswith((".", "_")))
