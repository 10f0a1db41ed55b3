"""Duplicate detection: the ids that each address saw lately, kept in the journal as brokers keep them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from journalfs.change.address_rules import AddressRules
from journalfs.change.journals import Journals
from journalfs.engine.state_types import Operation
from journalfs.errors import DecodeError
from journalfs.format import record_bodies
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType
from journalfs.ids import RecordId, TxId
from journalfs.live.core import Core

DEFAULT_CACHE_SIZE = 20_000
"""`id-cache-size` where nothing sets it."""


@dataclass(slots=True)
class StagedIds:
    """Ids of one transaction that is being staged."""

    address: str
    ids: set[bytes] = field(default_factory=set)
    pushed_out: list[tuple[bytes, RecordId]] = field(default_factory=list)


@dataclass(slots=True)
class DuplicateIds:
    """Ids by address, oldest first, each with its record."""

    core: Core
    rules: AddressRules
    _seen: dict[str, OrderedDict[bytes, RecordId]] | None = None

    def has(self, address: str, duplicate_id: bytes) -> bool:
        return duplicate_id in self._of(address)

    def remember(self, remembered: StagedIds, duplicate_id: bytes, record: RecordId) -> list[RecordId]:
        """Take a new id whose record is being written; returns the records of ids that it pushes out."""
        seen = self._of(remembered.address)
        seen[duplicate_id] = record
        remembered.ids.add(duplicate_id)
        pushed_out: list[tuple[bytes, RecordId]] = []
        while len(seen) > self.size(remembered.address):
            pushed_out.append(seen.popitem(last=False))
        remembered.pushed_out += pushed_out
        return [record for _, record in pushed_out]

    def forget(self, remembered: StagedIds) -> None:
        """Forget ids whose messages were not published, so that the ids that they pushed out count again."""
        seen = self._of(remembered.address)
        for duplicate_id in remembered.ids:
            seen.pop(duplicate_id, None)
        for duplicate_id, record in reversed(remembered.pushed_out):
            if duplicate_id not in remembered.ids and seen.setdefault(duplicate_id, record) == record:
                seen.move_to_end(duplicate_id, last=False)

    def went(self, address: str, duplicate_id: bytes) -> None:
        """The transaction that brought it was rolled back by hand."""
        self._of(address).pop(duplicate_id, None)

    def clear(self, address: str) -> list[RecordId]:
        """Forget all ids of an address; returns their records."""
        records = list(self._of(address).values())
        self._of(address).clear()
        return records

    def ids(self, address: str) -> list[bytes]:
        """All ids of an address, the oldest first."""
        return list(self._of(address))

    def addresses(self) -> list[str]:
        """The addresses that remember ids."""
        return [address for address, seen in self._all().items() if seen]

    def _of(self, address: str) -> OrderedDict[bytes, RecordId]:
        return self._all().setdefault(address, OrderedDict())

    def _all(self) -> dict[str, OrderedDict[bytes, RecordId]]:
        if self._seen is None:
            self._seen = self._load()
        return self._seen

    def _load(self) -> dict[str, OrderedDict[bytes, RecordId]]:
        found: dict[str, OrderedDict[bytes, RecordId]] = {}
        for operation in self.core.loader.state.side(MessageType.DUPLICATE_ID):
            try:
                address, duplicate_id = duplicate_of(self.core, operation)
            except DecodeError as error:
                self.core.events.add(
                    "undecodable", f"duplicate id record {operation.record_id}: {error}", level=30
                )
                continue
            found.setdefault(address, OrderedDict())[duplicate_id] = RecordId(operation.record_id)
        return found

    def size(self, address: str) -> int:
        """How many ids it remembers at most (`id-cache-size`)."""
        size = self.rules.number(address, "id-cache-size")
        return DEFAULT_CACHE_SIZE if size < 0 else size


def duplicate_of(core: Core, operation: Operation) -> tuple[str, bytes]:
    """The address and the id that a record is of. Raises `DecodeError`."""
    body = core.loader.files[operation.file_slot].copy(operation.body_offset, operation.body_bytes)
    reader = Reader(body)
    return reader.simple_string(), reader.byte_array()


# Which flushed contents were published, and which drafts committed: a record of each is part of the very
# transaction that does so.
#
# A crash may leave both the note of what was to be done and its messages. The record tells: where it is, the
# note has done its work. It is a duplicate id in a cache of our own, which brokers load, keep and look
# nothing up in; it is deleted when the note is durably gone.

FLUSHED: Final = "journalfs.flushed"
DRAFTS: Final = "journalfs.transactions"


class DoneNotes:
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
        """Return the note id that a duplicate-id record stands for; None if the record is not
        of this product.
        """
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
        """Stage the removal of done notes that are durably gone. Raises ReadOnlyStore; then the next opening
        of the store removes them.
        """
        for note_id in note_ids:
            record = self._records.get(note_id)
            if record is not None:
                self._journals.messages.stage_delete(record)
                del self._records[note_id]
