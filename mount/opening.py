"""Opens the store of a mount, for reading or for writing as its options say."""

from __future__ import annotations

from pathlib import Path

from journalfs.store.api import Store
from journalfs_mount.options import MountOptions


def open_for_mount(store: Path, options: MountOptions) -> Store:
    """Raises what opening a store raises, `StoreBusy` among it for a mount that is not read-only."""
    # Imported in the process that serves: what waits for it needs none of this.
    if options.read_only:
        from journalfs.store import open_store  # noqa: PLC0415

        return open_store(store)
    from journalfs.store.write.opening import open_for_writing  # noqa: PLC0415
    from journalfs.store.write.store import SyncMode  # noqa: PLC0415

    takes_away = not options.browse
    return open_for_writing(store, sync=SyncMode(options.sync), auto_delete=takes_away, expire=takes_away)
