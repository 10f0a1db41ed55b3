"""A store whose configuration says that nothing is kept: `persistence-enabled` is false.

Its broker would have it in memory. Here it begins empty in a temporary directory, which goes when the store
is closed; files that lie where the configuration says are neither read nor changed.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace as with_

from journalfs import door
from journalfs.config.journal_settings import JournalSettings
from journalfs.config.layout import StoreLayout
from journalfs.store.write.store import WritingStore


def temporary_layout(layout: StoreLayout) -> StoreLayout:
    """The same store in a new directory, all of it. Raises OSError."""
    root = Path(os.path.realpath(tempfile.mkdtemp(prefix="journalfs-")))
    return dataclasses.replace(
        layout,
        root=root,
        journal_dir=root / "journal",
        bindings_dir=root / "bindings",
        paging_dir=root / "paging",
        large_dir=root / "large-messages",
        node_manager_lock_dir=root / "journal",
        retention_dir=None,
    )


def temporary_settings(settings: JournalSettings) -> JournalSettings:
    """There is nothing to make durable, and no history of it."""
    return with_(
        settings,
        journal_type="NIO",
        journal_datasync=False,
        large_message_sync=False,
        create_journal_dir=True,
        create_bindings_dir=True,
        retention_directory=None,
    )


class UnkeptStore(WritingStore):
    """Made by `open_for_writing` in a `temporary_layout`."""

    def status(self) -> Mapping[str, object]:
        return {**super().status(), "persistent": False}

    def close(self) -> None:
        try:
            super().close()
        finally:
            door.remove_tree(self.core.root)
