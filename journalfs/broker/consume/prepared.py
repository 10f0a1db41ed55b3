"""Prepared transactions that are committed or rolled back by hand, as a broker's management does it: a record
says of each that its transaction manager was not asked.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from journalfs.broker.consume.delivering import Deliveries
from journalfs.broker.limits.admission import Admission
from journalfs.broker.pages.page_cleanup import PageCleanup
from journalfs.change.duplicates import StagedIds, duplicate_of
from journalfs.change.store_parts import StoreParts
from journalfs.engine.state_types import Operation
from journalfs.engine.waiting import offload, unbroken
from journalfs.errors import DecodeError, NoSuchName
from journalfs.format import record_bodies
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.format.xid import read_xid
from journalfs.ids import MessageId, PageNumber, Position, QueueId, RecordId, TxId
from journalfs.live.undecided import adds_pages
from journalfs.views.transactions import (
    Named,
    StoredTransaction,
    by_name,
    names_of,
    prepared_transactions,
)


@dataclass(slots=True)
class PreparedTransactions:
    parts: StoreParts
    deliveries: Deliveries
    paged: PageCleanup
    admission: Admission

    async def decide(self, name: str, *, committed: bool) -> None:
        """Raises `NoSuchName`, JournalfsError with nothing decided."""
        self.parts.store.refuse_failed()
        self.parts.store.refuse_prepared()
        prepared = prepared_transactions(self.parts.core)
        found = by_name([(one, one.names) for one in prepared]).meant.get(name)
        if found is None:
            raise NoSuchName(f"{name}: there is no such prepared transaction")
        await self.parts.journals.make_room()
        queues, pages = self._queues(found), dict(self._pages(found))
        position = self._stage(found, committed=committed)
        await unbroken(lambda: self._decided(found, position, queues, pages, committed=committed))

    def _stage(self, found: StoredTransaction, *, committed: bool) -> Position:
        writer, tx = self.parts.journals.messages, TxId(found.tx_id)
        position = writer.stage_commit(tx) if committed else writer.stage_rollback(tx)
        for operation in found.records:
            if operation.user_type == MessageType.DUPLICATE_ID:
                self._remember(operation, committed=committed)
        if found.xid is None:
            return position
        record = RecordId(self.parts.journals.ids.draw())
        body = record_bodies.heuristic_completion(found.xid, committed=committed)
        return writer.stage_add(record, MessageType.HEURISTIC_COMPLETION, body)

    def _remember(self, operation: Operation, *, committed: bool) -> None:
        try:
            address, duplicate_id = duplicate_of(self.parts.core, operation)
        except DecodeError:
            return  # nobody can look for it
        if not committed:
            self.parts.duplicates.went(address, duplicate_id)
        elif not self.parts.duplicates.has(address, duplicate_id):
            record = RecordId(operation.record_id)
            for oldest in self.parts.duplicates.remember(StagedIds(address), duplicate_id, record):
                self.parts.journals.messages.stage_delete(oldest)

    async def _decided(
        self,
        found: StoredTransaction,
        position: Position,
        queues: set[QueueId],
        pages: Mapping[str, set[PageNumber]],
        *,
        committed: bool,
    ) -> None:
        await self.parts.store.settled(position)
        kind = MessageType.ACKNOWLEDGE_REFERENCE if committed else MessageType.LARGE_MESSAGE
        ids = array("q", (one.record_id for one in found.records if one.user_type == kind))
        if committed:
            self.parts.removing.clear_ids(ids)
        elif ids:
            await offload(lambda: self.parts.bodies.remove([MessageId(one) for one in ids]))
        for address, numbers in pages.items():
            await self.paged.consumed(address, numbers)
        self.parts.kinds.forget(queues)
        for queue_id in queues:
            queue = self.parts.core.bindings.queues.get(queue_id)
            if queue is not None:
                self.admission.moved(queue.address)
            self.deliveries.look_again(queue_id)
        self.admission.look_again()

    @staticmethod
    def _queues(found: StoredTransaction) -> set[QueueId]:
        """Return the queues that the transaction's records name."""
        kinds = (
            MessageType.ADD_REFERENCE,
            MessageType.ACKNOWLEDGE_REFERENCE,
            MessageType.ACKNOWLEDGE_CURSOR,
        )
        return {QueueId(one.a) for one in found.records if one.user_type in kinds}

    def _pages(self, found: StoredTransaction) -> Iterator[tuple[str, set[PageNumber]]]:
        """The pages that it consumed of, or wrote to, by address."""
        tx_ids = {one.a for one in found.records if adds_pages(one)}
        consumed = {
            (QueueId(one.a), PageNumber(one.b))
            for one in found.records
            if one.user_type == MessageType.ACKNOWLEDGE_CURSOR and one.kind == RecordKind.ADD
        }
        for address, paged in self.parts.core.pages.items():
            own = {queue.queue_id for queue in self.parts.core.bindings.queues_of(address)}
            pages = {page for queue, page in consumed if queue in own}
            if tx_ids:
                pages |= {page for page in paged.numbers() if tx_ids & set(paged.summary(page).tx_ids)}
            if pages:
                yield address, pages

    # ---- what was decided ----

    def decided(self, *, committed: bool) -> Mapping[str, int]:
        """By the name of the transaction, the record that says so."""
        return self._decisions(committed=committed).shown

    def decision(self, name: str, *, committed: bool) -> int | None:
        decided = self._decisions(committed=committed)
        return decided.meant.get(name, decided.shown.get(name))

    def _decisions(self, *, committed: bool) -> Named[int]:
        found: list[tuple[int, Sequence[str]]] = []
        for operation in self.parts.core.loader.state.side(MessageType.HEURISTIC_COMPLETION):
            body = self.parts.core.loader.files[operation.file_slot].copy(
                operation.body_offset, operation.body_bytes
            )
            try:
                reader = Reader(body)
                xid, was_committed = read_xid(reader), reader.boolean()
            except DecodeError:
                continue  # the view of the journal shows it
            if was_committed == committed:
                found.append((operation.record_id, names_of(xid)))
        return by_name(found)

    async def forget(self, name: str, *, committed: bool) -> None:
        """Raises `NoSuchName`."""
        self.parts.store.refuse_failed()
        record = self.decision(name, committed=committed)
        if record is None:
            raise NoSuchName(f"{name}: no such decision is noted")
        position = self.parts.journals.messages.stage_delete(RecordId(record))
        await unbroken(lambda: self.parts.store.settled(position))
