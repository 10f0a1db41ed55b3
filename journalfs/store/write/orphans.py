"""Bodies without a message are set aside when a store is opened for writing.

A broker deletes them when it starts. Here they are moved out of its sight: deleting is the owner's choice.
"""

from __future__ import annotations

import logging

from journalfs import door
from journalfs.engine.links import move
from journalfs.ids import MessageId
from journalfs.store.core import Core
from journalfs.store.orphans import orphaned_bodies

ORPHANS = "orphans"


def set_orphans_aside(core: Core) -> list[MessageId]:
    """Move them below the store's own folder, and say so. One that cannot be moved stays where it is."""
    folder = core.root / "journalfs" / ORPHANS
    moved: list[MessageId] = []
    for file in orphaned_bodies(core):
        try:
            door.make_folders(folder)
            move(core.large.path / file.name, folder / file.name)
        except OSError as error:
            reason = f"it stays where it is, since it cannot be moved to {folder}: {error.strerror or error}"
            core.events.add("orphan", f"{file.name}: no message has this body; {reason}")
            continue
        moved.append(file.message_id)
        message = f"{file.name}: no message has this body; it is in {folder} now"
        core.events.add("orphan", message, level=logging.INFO)
    return moved
