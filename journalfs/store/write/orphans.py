"""Body files that no message has: what a crash leaves between a body and its record, or behind a delete.

A broker deletes them when it starts. Here they are set aside, out of its sight: deleting is the owner's
choice.
"""

from __future__ import annotations

import logging

from journalfs.engine.ownership import make_directory
from journalfs.format.large_file import LargeFileKind
from journalfs.ids import MessageId
from journalfs.store.core import Core

ORPHANS = "orphans"


def set_orphans_aside(core: Core) -> list[MessageId]:
    """Move them below the store's own folder, and say so. Raises OSError."""
    files = core.large.files()
    if not files:
        return []
    known = _known_ids(core)
    if known - {file.message_id for file in files}:
        # A broker that died while it copied a message leaves the copy without a body of its own, and the
        # origin's body is its only one.
        return []
    folder = core.root / "journalfs" / ORPHANS
    moved: list[MessageId] = []
    for file in files:
        if file.kind is LargeFileKind.DURABLE and file.message_id in known:
            continue
        make_directory(folder)
        (core.large.path / file.name).rename(folder / file.name)
        moved.append(file.message_id)
        message = f"{file.name}: no message has this body; it is in {folder} now"
        core.events.add("orphan", message, level=logging.INFO)
    return moved


def _known_ids(core: Core) -> set[int]:
    state = core.loader.state
    known = set(state.large_ids())
    for transaction in state.transactions():
        known.update(operation.record_id for operation in transaction.operations)
    for paged in core.pages.values():
        for number in paged.numbers():
            scan = paged.scan(number)
            ids = scan.message_ids()
            known.update(ids[index] for index, _ in scan.large())
    return known
