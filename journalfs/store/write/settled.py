"""Which flushed contents were published, and which drafts committed: a record of each is part of the very
transaction that does so.

A crash may leave both the note of what was to be done and its messages. The record tells: where it is, the
note has done its work. It is a duplicate id in a cache of our own, which brokers load, keep and look nothing
up in; it is deleted when the note is durably gone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from journalfs.engine.state_types import Operation
from journalfs.errors import DecodeError
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import RecordId, TxId
from journalfs.store.core import Core
from journalfs.store.write.duplicates import duplicate_of
from journalfs.store.write.journals import Journals

FLUSHED: Final = "journalfs.flushed"
DRAFTS: Final = "journalfs.transactions"


class Settled:
    """The records, by the id of their note."""

    def __init__(self, core: Core, journals: Journals, cache: str = FLUSHED) -> None:
        self._core = core
        self._journals = journals
        self._cache = cache
        self._records: dict[str, RecordId] = {}

    def load(self) -> None:
        """Find what the journal has."""
        for operation in self._core.loader.state.side(MessageType.DUPLICATE_ID):
            note_id = self.note_of(operation)
            if note_id is not None:
                self._records[note_id] = RecordId(operation.record_id)

    def note_of(self, operation: Operation) -> str | None:
        """The id of the note that a record of a duplicate id stands for; None: it is none of ours."""
        try:
            address, duplicate_id = duplicate_of(self._core, operation)
        except DecodeError:
            # Whoever reads the ids of addresses tells of it.
            return None
        return duplicate_id.hex() if address == self._cache else None

    def __contains__(self, note_id: str) -> bool:
        return note_id in self._records

    def ids(self) -> list[str]:
        return list(self._records)

    def stage_in(self, tx: TxId, note_id: str) -> None:
        """As part of the transaction that publishes it. Raises as `JournalWriter.stage_add`."""
        record = RecordId(self._journals.ids.draw())
        body = record_bodies.duplicate_id(self._cache, bytes.fromhex(note_id))
        self._journals.messages.stage_add_in(tx, record, MessageType.DUPLICATE_ID, body)
        self._records[note_id] = record

    def undo(self, note_id: str) -> None:
        """The transaction was rolled back."""
        self._records.pop(note_id, None)

    def forget(self, note_ids: Collection[str]) -> None:
        """Their notes are durably gone. Raises ReadOnlyStore; then opening the store does it."""
        for note_id in note_ids:
            record = self._records.get(note_id)
            if record is not None:
                self._journals.messages.stage_delete(record)
                del self._records[note_id]
