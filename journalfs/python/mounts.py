"""Which mount a path lies in, or holds a store."""

from __future__ import annotations

from pathlib import Path

from journalfs.exchange.targets import mounted_store
from journalfs_mount.process.mount_table import FILESYSTEM_TYPE, mounts
from journalfs_mount.start.mountpoint import resolved


def mount_of(path: Path) -> Path | None:
    """The root of the journalfs mount that `path` lies in; None: it lies in none."""
    roots, place = mount_roots(), resolved(path)
    return next((root for root in (place, *place.parents) if root in roots), None)


def mount_roots() -> list[Path]:
    """Where journalfs is mounted."""
    return sorted({Path(one.path) for one in mounts() if one.filesystem == FILESYSTEM_TYPE})


def mount_of_store(root: Path) -> Path | None:
    """Where a store is mounted. Mounts of which the mount table says that they are of others are not asked:
    whoever asks one that hangs waits for it.
    """
    ours = [one for one in mounts() if one.filesystem == FILESYSTEM_TYPE]
    for one in ours:
        named = one.source.startswith("/")  # else by `-o fsname`, which may say anything
        if (not named or root.is_relative_to(one.source)) and mounted_store(Path(one.path)) == root:
            return Path(one.path)
    return None
