"""Opens the store of a mount, for reading or for writing as its options say."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

from journalfs.api import Store
from journalfs.config.files import CONFIG_VARIABLE, FORCE_VARIABLE
from journalfs.errors import OlderStore
from journalfs.store_owner import adopt_stores
from journalfs_mount.options import MountOptions

log = logging.getLogger("journalfs.mount")


def open_for_mount(
    store: Path, options: MountOptions, *, kind: str | None = None, derived: Path | None = None
) -> Store:
    """Raises what opening a store raises, `StoreBusy` among it for a mount that is not read-only. An older
    store (`kind`, `derived`: as `open_store` has them, or the options) is read only unless `kind` says what
    it is, and such stores are written.
    """
    kind = kind or (None if options.format == "artemis" else options.format)
    derived = derived or (None if options.derived is None else Path(options.derived))
    if options.config is not None:
        os.environ[CONFIG_VARIABLE] = options.config
    if options.force:
        os.environ[FORCE_VARIABLE] = "1"
    adopt_stores(mounting=True)
    # Imported in the process that serves: what waits for it needs none of this.
    if options.through is not None and not options.read_only:
        from journalfs.through.opening import open_through  # noqa: PLC0415

        return open_through(store, options.through)
    if options.read_only:
        from journalfs.store import open_store  # noqa: PLC0415

        return open_store(store, kind=kind, derived=derived, postpones=True)
    from journalfs.store.write.opening import open_for_writing  # noqa: PLC0415
    from journalfs.store.write.store import SyncMode  # noqa: PLC0415

    takes_away = not options.browse
    try:
        return open_for_writing(
            store,
            sync=SyncMode(options.sync),
            auto_delete=takes_away,
            expire=takes_away,
            postpones=True,
            kind=kind,
            derived=derived,
        )
    except OlderStore as older:
        log.warning("%s: %s; mounted read only", store, older.found)
    return open_for_mount(store, replace(options, read_only=True), kind=kind, derived=derived)
