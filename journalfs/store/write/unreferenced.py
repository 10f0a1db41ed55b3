"""Messages that no queue has any more and whose records were not deleted: what a crash leaves behind.

They count for nothing, but their records keep journal files from being used again. Brokers delete them when
they start; so does this, unless something in the journal is damaged: then the references may be what was
lost. What the view knows may come from an index, so the writer's own account has the last word.
"""

from __future__ import annotations

import logging

from journalfs.engine.scan import scan_journal
from journalfs.engine.state import LiveState
from journalfs.errors import NoSpace
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId, RecordId
from journalfs.store.core import Core
from journalfs.store.write.journals import Journals

_ADDS = frozenset({RecordKind.ADD, RecordKind.ADD_TX})
_MESSAGES = frozenset({MessageType.MESSAGE, MessageType.LARGE_MESSAGE})


def delete_unreferenced(core: Core, journals: Journals) -> list[MessageId]:
    """Stage their deletes. Nobody has to wait for them."""
    state, writer = core.loader.state, journals.messages
    counts = state.counts()
    if writer.totals().live_records == counts.messages + counts.side_records:
        return []
    unknown = set(writer.ledger.live_ids()) - _known_ids(state)
    found = sorted(unknown & _message_ids(core)) if unknown else []
    found = [message_id for message_id in found if writer.ledger.references(message_id) <= 0]
    if found and core.damage():
        message = f"{len(found)} messages are in no queue; they are kept, because the journal is damaged"
        core.events.add("unreferenced", message)
        return []
    try:
        for message_id in found:
            writer.stage_delete(RecordId(message_id))
    except NoSpace as error:
        # The next one to open the store does it.
        core.events.add("delete-postponed", str(error))
        return []
    if found:
        message = f"{len(found)} messages in no queue are deleted: their reader ended before it could"
        core.events.add("unreferenced", message, level=logging.INFO)
    return [MessageId(message_id) for message_id in found]


def _known_ids(state: LiveState) -> set[int]:
    known = {operation.record_id for operation in state.side()}
    for queue in state.queues():
        known.update(state.listing(state.refs(queue.slot, "arrival", "all")).ids)
    for transaction in state.transactions():
        known.update(operation.record_id for operation in transaction.operations)
    return known


def _message_ids(core: Core) -> set[int]:
    """Ids of all message records that the journal holds."""
    found: set[int] = set()
    files = core.loader.files
    for read in files.read_files():
        scan = scan_journal(files[read.slot], rid=read.file.rid, version=read.file.version)
        found.update(
            record.record_id for record in scan if record.kind in _ADDS and record.user_type in _MESSAGES
        )
    return found
