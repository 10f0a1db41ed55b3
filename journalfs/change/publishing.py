"""Stages messages as records of the message journal.

One message for one queue becomes an ADD and a reference; everything else becomes one transaction, so that it
is published whole or not at all. The body of a large message is durable before the record that names it.
Callers choose the queues (`routing`) and wait for the flush.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from journalfs.bodies.writing import BodyStore, NewBody
from journalfs.change.change import Change
from journalfs.change.duplicates import DoneNotes, DuplicateIds, StagedIds
from journalfs.change.journals import Journals
from journalfs.change.message_settings import at_once_ms
from journalfs.change.queue_kinds import QueueKinds
from journalfs.change.routing import Alike, AnyRoute, Routed
from journalfs.clock import Clock
from journalfs.engine.message_batch import CopyBatch, CopyFields, TextBatch, TextFields
from journalfs.engine.stage import record_bytes
from journalfs.engine.waiting import FairLock, offload
from journalfs.errors import JournalfsError, failing
from journalfs.format import primitives, record_bodies
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId, Position, QueueId, RecordId, TxId
from journalfs.limits import COPY_CHUNK_BYTES, HISTORY_EVENT_BYTES, TEXT_BATCHES_KEPT_MAX
from journalfs.message.outgoing import NO_PROPERTIES, RECORD_SPARE_BYTES, USER_IDS, Outgoing, address_field

Numbered: TypeAlias = Sequence[tuple[MessageId, Routed]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """The values that all messages staged in one call share."""

    address: str
    now_ms: int
    large: Set[MessageId]
    """Ids of the messages whose bodies have files of their own."""

    def record(self, message_id: MessageId, message: Outgoing) -> tuple[int, bytes]:
        encode = message.large_record if message_id in self.large else message.record
        return encode(message_id, message.named(self.address), self.now_ms)


class Publishing:
    """Stages messages in the journal; nothing here waits but the writing of large bodies."""

    def __init__(
        self,
        journals: Journals,
        duplicates: DuplicateIds,
        done_notes: DoneNotes,
        bodies: BodyStore,
        clock: Clock,
        *,
        kinds: QueueKinds,
        min_large_bytes: int,
    ) -> None:
        self._journals = journals
        self.kinds = kinds
        self._duplicates = duplicates
        self.done_notes = done_notes
        self._bodies = bodies
        self._clock = clock
        self.min_large_bytes = min_large_bytes
        self._batches: dict[tuple[str, AnyRoute], TextBatch] = {}
        self._turns: dict[str, FairLock] = {}
        """A lock for each address to which a publication with duplicate ids is under way. Publications
        without such ids do not take it.
        """

    async def numbered_in(self, change: Change, address: str, routed: Sequence[Routed]) -> Numbered:
        """Return the messages to stage, each with its new id, without those whose duplicate id the address
        knows. Their bodies are durable, and their duplicate ids are staged, also for messages that no queue
        accepts.
        """
        fresh = routed
        if any(one.message.duplicate_id is not None for one in routed):
            # One after the other: only what comes of one says what is superfluous.
            remembered = await self._remembering(change, address)
            fresh = self._without_duplicates(address, routed)
            for one in fresh:
                if one.message.duplicate_id is not None and not one.is_copy:
                    self._stage_duplicate_id(change.tx, remembered, one.message.duplicate_id)
        numbered = [(self.new_id(), one) for one in fresh if one.queues]
        await self.write_bodies(change, address, [(one_id, one.message) for one_id, one in numbered])
        return numbered

    async def _remembering(self, change: Change, address: str) -> StagedIds:
        remembered = change.remembered.get(address)
        if remembered is None:
            await change.entered.enter_async_context(self._turns.setdefault(address, FairLock()))
            remembered = change.remembered[address] = StagedIds(address)
            change.undo.append(lambda: self._duplicates.forget(remembered))
        return remembered

    def _without_duplicates(self, address: str, routed: Sequence[Routed]) -> list[Routed]:
        """Messages that a queue takes, or whose duplicate id is new."""
        fresh: list[Routed] = []
        here: set[bytes] = set()
        left_out = False
        for one in routed:
            duplicate_id = one.message.duplicate_id
            if duplicate_id is not None and not one.is_copy:
                left_out = duplicate_id in here or self._duplicates.has(address, duplicate_id)
                here.add(duplicate_id)
            if duplicate_id is None or not left_out:
                fresh.append(one)
        return fresh

    def new_id(self) -> MessageId:
        return MessageId(self._journals.ids.draw())

    def end_note_in(self, change: Change, note_id: str) -> None:
        """Stage that a flush note is done, in the transaction that publishes its content."""
        self.done_notes.stage_in(change.tx, note_id)
        change.undo.append(lambda: self.done_notes.undo(note_id))

    @property
    def position(self) -> Position:
        """Behind everything staged so far."""
        return self._journals.messages.position

    # ---- texts that are all alike ----

    def stage_texts_in(self, tx: TxId, alike: Alike) -> bool:
        """Stage texts as part of a transaction. False, with nothing staged, if they have to be staged one by
        one.
        """
        _, batch = self.begun_texts(alike, tx)
        try:
            return self._journals.messages.stage_messages(batch) is not None
        finally:
            batch.end()

    def stage_texts(self, alike: Alike, *, note_id: str | None) -> Position | None:
        """Stage texts outside of any change: as records of their own if it is one message for one queue, else
        in a transaction. Returns None if the texts must be staged one by one.

        Raises JournalfsError; then nothing staged counts.
        """
        writer = self._journals.messages
        alone = alike.pairs == 1 and note_id is None
        tx = TxId(0) if alone else self._journals.new_tx()
        first_id, batch = self.begun_texts(alike, tx)
        try:
            position = writer.stage_messages(batch)
            if position is not None and not alone:
                if note_id is not None:
                    self.done_notes.stage_in(tx, note_id)
                position = writer.stage_commit(tx)
        except (JournalfsError, MemoryError):
            if note_id is not None:
                self.done_notes.undo(note_id)
            if not alone:
                writer.roll_back(tx)
            elif batch.begun:
                # Without a reference it does not count, but it would stay.
                writer.stage_delete(first_id)
            raise
        finally:
            batch.end()
        return position

    def begun_texts(self, alike: Alike, tx: TxId) -> tuple[RecordId, TextBatch]:
        """Return the id of the first text, and the batch for all, begun for transaction `tx` (0: none). The
        caller must call `keep_batch` before it waits.
        """
        count, now_ms = len(alike.texts), self._clock.now_ms()
        batch = self.batch_of(alike.address, alike.route)
        first_id = RecordId(self._journals.ids.draw_many(count))
        batch.begin(
            alike.texts.stretches,
            turn=alike.turn,
            first_id=first_id,
            tx_id=tx,
            timestamp_ms=now_ms,
            expiration_ms=alike.rule.expiration_ms(0, now_ms),
            user_id_step=USER_IDS.draw_steps(now_ms, count),
        )
        return first_id, batch

    def keep_batch(self, alike: Alike) -> None:
        """Give the batch that was begun last to its caller alone, so that the next caller gets
        another one.
        """
        self._batches.pop((alike.address, alike.route), None)

    def batch_of(self, address: str, route: AnyRoute) -> TextBatch:
        """Return the batch for texts that go one way through an address. It is shared until a caller begins
        it.
        """
        batch = self._batches.get((address, route))
        if batch is None:
            if len(self._batches) >= TEXT_BATCHES_KEPT_MAX:
                self._batches.clear()
            fields = TextFields(
                address=address_field(address),
                properties=NO_PROPERTIES.encoded,
                every=route.every,
                in_turn=route.in_turn,
                user_id_node=USER_IDS.node,
                body_bytes_max=self.min_large_bytes - 1,
                record_bytes_max=self._journals.messages.record_bytes_max - RECORD_SPARE_BYTES,
            )
            batch = self._batches[address, route] = TextBatch(fields)
        return batch

    # ---- copies ----

    def copy_fields(self, tx: TxId, address: str, queue: QueueId, source: str, *, notes: int) -> CopyFields:
        """For copies of messages of the queue `source`, as part of a transaction."""
        return CopyFields(
            address=address_field(address),
            queue_name=primitives.simple_string(source),
            queue=queue,
            tx_id=tx,
            body_bytes_max=self.min_large_bytes - 1,
            message_bytes_max=self._journals.messages.record_bytes_max - RECORD_SPARE_BYTES,
            notes=notes,
        )

    def stage_copied_in(self, batch: CopyBatch, count: int) -> bool:
        """Stage copies of the first so many. False, with nothing staged, if they have to be staged one by
        one. Raises JournalfsError, FileTorn.
        """
        batch.take(count, first_id=self._journals.ids.draw_many(count))
        return self._journals.messages.stage_messages(batch) is not None

    # ---- records ----

    def stage_in(self, change: Change, address: str, numbered: Numbered) -> None:
        """Stage those of some messages that go into the journal."""
        batch = self._batch(change, address)
        for message_id, one in numbered:
            if one.pages_of is not None:
                continue
            if change.tx:
                self._stage_message_in(change.tx, batch, message_id, one)
            else:
                self._stage_one(batch, message_id, one)

    def stage_arriving_in(self, change: Change, address: str, numbered: Numbered) -> None:
        """Stage messages and the removal of the messages that they displace, as the last step before the
        commit: removals of two transactions must not mix.
        """
        batch = self._batch(change, address)

        def stage(tx: TxId) -> None:
            for message_id, one in numbered:
                if one.pages_of is None:
                    self._stage_message_in(tx, batch, message_id, one)
                    if self.kinds.special(one.queues):
                        self.kinds.arrived_in(tx, one.queues, message_id, one.message, batch.now_ms)

        if numbered:
            change.at_once(stage)

    def remember_in(self, change: Change, address: str, routed: Sequence[Routed]) -> None:
        """Stage duplicate ids of messages that the store itself sends. The address remembers them, but takes
        a message whose id it knows already all the same. Call it right before the commit: a publication that
        comes earlier must not be refused for a transaction that may still be given up.
        """
        remembered = StagedIds(address)
        change.undo.append(lambda: self._duplicates.forget(remembered))

        def stage(tx: TxId) -> None:
            for one in routed:
                duplicate_id = one.message.duplicate_id
                if duplicate_id is not None and not self._duplicates.has(address, duplicate_id):
                    self._stage_duplicate_id(tx, remembered, duplicate_id)

        change.at_once(stage)

    def _batch(self, change: Change, address: str) -> _Batch:
        return _Batch(address, self._clock.now_ms(), change.bodies)

    def _stage_one(self, batch: _Batch, message_id: MessageId, one: Routed) -> None:
        writer, record, queue = self._journals.messages, RecordId(message_id), one.queues[0]
        writer.stage_add(record, *batch.record(message_id, one.message))
        try:
            writer.stage_update(record, MessageType.ADD_REFERENCE, record_bodies.reference(queue))
            for kind, update in _extras(one.message, queue, batch.now_ms):
                writer.stage_update(record, kind, update)
        except JournalfsError:
            # Without a reference it does not count, but it would stay.
            writer.stage_delete(record)
            raise

    def _stage_message_in(self, tx: TxId, batch: _Batch, message_id: MessageId, one: Routed) -> None:
        writer, record = self._journals.messages, RecordId(message_id)
        writer.stage_add_in(tx, record, *batch.record(message_id, one.message))
        for queue in one.queues:
            writer.stage_update_in(tx, record, MessageType.ADD_REFERENCE, record_bodies.reference(queue))
            for kind, update in _extras(one.message, queue, batch.now_ms):
                writer.stage_update_in(tx, record, kind, update)

    def _stage_duplicate_id(self, tx: TxId, remembered: StagedIds, duplicate_id: bytes) -> None:
        address = remembered.address
        record = RecordId(self._journals.ids.draw())
        writer = self._journals.messages
        writer.stage_add_in(
            tx, record, MessageType.DUPLICATE_ID, record_bodies.duplicate_id(address, duplicate_id)
        )
        for oldest in self._duplicates.remember(remembered, duplicate_id, record):
            writer.stage_delete_in(tx, oldest)

    # ---- large bodies ----

    def is_large(self, address: str, message: Outgoing) -> bool:
        """Whether its body goes to a file of its own."""
        return message.is_large(
            address,
            min_large_bytes=self.min_large_bytes,
            record_bytes_max=self._journals.messages.record_bytes_max,
        )

    async def write_bodies(
        self, change: Change, address: str, numbered: Iterable[tuple[MessageId, Outgoing]]
    ) -> None:
        """Write the bodies that go to files of their own. Raises `SystemFailure`."""
        bodies = [
            NewBody(message_id, message.large_body(), message.body_file)
            for message_id, message in numbered
            if self.is_large(address, message)
        ]
        if not bodies:
            return
        change.bodies.update(one.message_id for one in bodies)
        with failing("write a large message", self._bodies.directory):
            await offload(lambda: self._bodies.write(bodies))
        for one in bodies if self._journals.messages.retention is not None else ():
            await self._record_body(one.message_id)

    async def _record_body(self, message_id: MessageId) -> None:
        """Put a body into the journal as well, as events: the history has nothing else to replay it from."""
        writer, offset = self._journals.messages, 0
        event_bytes = min(HISTORY_EVENT_BYTES, writer.record_bytes_max - record_bytes(RecordKind.EVENT, 0))
        while piece := await self._piece(message_id, offset):
            position = writer.position
            for at in range(0, len(piece), event_bytes):
                body = piece[at : at + event_bytes]
                position = writer.stage_event(RecordId(message_id), MessageType.LARGE_MESSAGE_BODY, body)
            # No more than this waits in memory.
            await writer.durable(position)
            offset += len(piece)

    async def _piece(self, message_id: MessageId, offset: int) -> bytes:
        with failing("read a large message", self._bodies.path(message_id)):
            return await offload(lambda: self._bodies.read(message_id, offset, COPY_CHUNK_BYTES))


def taken(routed: Iterable[Routed]) -> int:
    """How many messages queues take."""
    return sum(1 for one in routed if one.queues and not one.is_copy)


def _extras(message: Outgoing, queue: QueueId, now_ms: int) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a message in one queue beside its reference: the delivery count and the scheduled
    time.
    """
    if message.scheduled_ms > now_ms:
        yield MessageType.SCHEDULED_TIME, record_bodies.scheduled_time(queue, message.scheduled_ms)
    elif message.own_schedule_ms > 0:
        # Else a broker that loads it goes by what it says itself, and delivers it before all that wait.
        yield MessageType.SCHEDULED_TIME, record_bodies.scheduled_time(queue, at_once_ms(now_ms))
    if message.delivery_count:
        yield MessageType.DELIVERY_COUNT, record_bodies.delivery_count(queue, message.delivery_count)
