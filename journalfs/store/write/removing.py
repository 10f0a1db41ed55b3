"""Acknowledging and moving: what is staged when messages leave a queue.

A message's record is deleted, in a flush of its own, once its last acknowledgement is durable. The body file
of a large message goes after that delete is durable, so a crash can leave a body without a record and never
the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from journalfs.errors import HeldByReaders, JournalfsError, RecordRefused
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, PageNumber, QueueId, RecordId, TxId
from journalfs.journal.writer import Position
from journalfs.large.writing import BodyWriter
from journalfs.store.content import QueueContent
from journalfs.store.core import Core
from journalfs.store.runs import JournalRun, PageRun, Run
from journalfs.store.write.journals import Journals

Stager: TypeAlias = Callable[[TxId], None]
"""Stages the records of a transaction."""


@dataclass(frozen=True, slots=True)
class Paged:
    """A message in a page, as an acknowledgement names it."""

    queue: QueueId
    page: int
    index: int
    tx_id: int
    """The page transaction that wrote it; 0 or less: none."""


@dataclass(slots=True)
class Chosen:
    """Messages of one queue that are about to leave it."""

    queue: QueueId
    messages: list[MessageId] = field(default_factory=list)
    paged: list[Paged] = field(default_factory=list)
    places: set[tuple[QueueId, MessageId]] = field(default_factory=set)
    """Where some of `messages` are on their way to."""
    with_readers: int = 0
    """Messages that were not chosen because a reader has them."""

    def __len__(self) -> int:
        return len(self.messages) + len(self.paged)


class Removing:
    """Stages acknowledgements. A message that is claimed is on its way out and is not given to another."""

    def __init__(self, core: Core, journals: Journals, bodies: BodyWriter) -> None:
        self._core = core
        self._journals = journals
        self._body_writer = bodies
        self._claimed: set[tuple[QueueId, MessageId]] = set()
        self._claimed_paged: set[tuple[QueueId, int, int]] = set()
        self._arriving: set[tuple[QueueId, MessageId]] = set()
        self.version = 0
        """Grows whenever messages are chosen to leave a queue."""
        self.failures = 0
        """Grows whenever a transaction came to nothing in which messages were to take the place of others."""
        self._coming: set[tuple[QueueId, MessageId]] = set()
        """Messages that the transaction that is being staged brings to queues where others leave for them."""
        self._replacing: list[tuple[QueueId, MessageId]] = []
        """Messages that leave in the transaction that is being staged, since others come."""
        self._replaced: list[tuple[Position, list[tuple[QueueId, MessageId]]]] = []
        """The same of transactions that were committed, with their positions."""
        self._bodies: list[tuple[Position, MessageId]] = []
        """Large bodies, and when their messages are gone for good."""

    def choose(self, content: QueueContent, runs: Iterable[Run]) -> Chosen:
        """What of `runs` is there and not on its way out yet; it is now."""
        chosen = Chosen(content.queue_id)
        self.version += 1
        for run in runs:
            if isinstance(run, JournalRun):
                self._choose_references(content, run, chosen)
            elif isinstance(run, PageRun):
                self._choose_paged(content, run, chosen)
        return chosen

    def _choose_references(self, content: QueueContent, run: JournalRun, chosen: Chosen) -> None:
        for message_id in run.columns(content).ids:
            claim = (chosen.queue, MessageId(message_id))
            if claim not in self._claimed:
                self._claimed.add(claim)
                chosen.messages.append(claim[1])
            elif self._core.in_delivery.has(*claim):
                chosen.with_readers += 1

    def _choose_paged(self, content: QueueContent, run: PageRun, chosen: Chosen) -> None:
        """A run may be from before others consumed some of it, and be let go of them: a position that is
        acknowledged twice would count twice in its page transaction, and take others with it.
        """
        paged, number = content.paged, run.number
        if paged is None or number not in paged.files:
            return
        tx_ids = content.page_scan(number).tx_ids()
        for index in run.indexes:
            claim = (chosen.queue, int(number), index)
            if claim not in self._claimed_paged and paged.is_live(number, chosen.queue, index):
                self._claimed_paged.add(claim)
                chosen.paged.append(Paged(chosen.queue, int(number), index, tx_ids[index]))
            elif self._core.in_delivery.has(chosen.queue, (number, index)):
                chosen.with_readers += 1

    @staticmethod
    def refuse_held(chosen: Chosen) -> None:
        """Raises `HeldByReaders` where nothing could be chosen because readers have it."""
        if chosen.with_readers and not len(chosen):
            raise HeldByReaders("a reader has it, and neither acknowledged it nor gave it back yet")

    def take_places(self, chosen: Chosen, target: QueueContent) -> frozenset[MessageId]:
        """Which of the chosen messages are put into `target` as they are. A queue has a message once: of one
        that is there, or on its way there from elsewhere, only a copy can be added.
        """
        for message_id in chosen.messages:
            place = (target.queue_id, message_id)
            if place not in self._arriving and target.find(message_id) is None:
                self._arriving.add(place)
                chosen.places.add(place)
        return frozenset(message_id for _, message_id in chosen.places)

    def let_go(self, chosen: Chosen) -> None:
        """They left, or stay after all: either way the store shows what is true."""
        self._arriving -= chosen.places
        self._claimed.difference_update((chosen.queue, message_id) for message_id in chosen.messages)
        self._claimed_paged.difference_update((one.queue, one.page, one.index) for one in chosen.paged)

    # ---- records ----

    def stage(self, chosen: Chosen) -> Position:
        """Stage the acknowledgements: one transaction, unless it is a single message."""
        writer = self._journals.messages
        if not chosen.paged and len(chosen.messages) == 1:
            return writer.stage_update(
                RecordId(chosen.messages[0]),
                MessageType.ACKNOWLEDGE_REFERENCE,
                record_bodies.acknowledgement(chosen.queue),
            )
        return self.in_transaction(lambda tx: self.stage_in(tx, chosen))

    async def staged(self, chosen: Chosen) -> Position:
        """The same, for those who wait for what they stage."""
        return self.stage(chosen)

    def in_transaction(self, stage: Stager) -> Position:
        """Stage a transaction. If that fails, it is rolled back."""
        writer, tx = self._journals.messages, self._journals.new_tx()
        try:
            stage(tx)
            position = writer.stage_commit(tx)
        except JournalfsError:
            self.nothing_replaced()
            if writer.has_open(tx):
                writer.stage_rollback(tx)
            raise
        self.replaced(position)
        return position

    def stage_in(self, tx: TxId, chosen: Chosen) -> None:
        writer = self._journals.messages
        body = record_bodies.acknowledgement(chosen.queue)
        for message_id in chosen.messages:
            writer.stage_update_in(tx, RecordId(message_id), MessageType.ACKNOWLEDGE_REFERENCE, body)
        for one in chosen.paged:
            record = RecordId(self._journals.ids.draw())
            position = record_bodies.cursor_acknowledgement(one.queue, PageNumber(one.page), one.index)
            writer.stage_add_in(tx, record, MessageType.ACKNOWLEDGE_CURSOR, position)
        self._stage_page_transactions(tx, chosen.paged)

    def _stage_page_transactions(self, tx: TxId, paged: Sequence[Paged]) -> None:
        """Count down the page transactions whose messages are consumed."""
        counts: dict[int, int] = {}
        for one in paged:
            if one.tx_id > 0:
                counts[one.tx_id] = counts.get(one.tx_id, 0) + 1
        if not counts:
            return
        for operation in self._core.loader.state.side(MessageType.PAGE_TRANSACTION):
            count = counts.get(operation.a)
            if count:
                self._journals.messages.stage_update_in(
                    tx,
                    RecordId(operation.record_id),
                    MessageType.PAGE_TRANSACTION,
                    record_bodies.page_transaction(operation.a, count),
                )

    def stage_reference_in(self, tx: TxId, message_id: MessageId, queue: QueueId, due_ms: int) -> None:
        """Put a message that is in the journal into another queue, as it is; `due_ms` is 0 for one that is
        due.
        """
        writer, record = self._journals.messages, RecordId(message_id)
        writer.stage_update_in(tx, record, MessageType.ADD_REFERENCE, record_bodies.reference(queue))
        if due_ms:
            schedule = record_bodies.scheduled_time(queue, due_ms)
            writer.stage_update_in(tx, record, MessageType.SCHEDULED_TIME, schedule)

    # ---- what others take the place of ----

    def is_there(self, queue: QueueId, message_id: MessageId) -> bool:
        """Whether a message that was sent to a queue is there, or about to be, and not on its way out."""
        if (queue, message_id) in self._claimed:
            return False
        if (queue, message_id) in self._coming:
            return True
        if not self._journals.messages.is_live(message_id):
            return False
        state = self._core.loader.state
        return state.find(state.register_queue(queue), message_id) >= 0 or not state.message_refs(message_id)

    def replace_in(
        self, tx: TxId, queue: QueueId, coming: MessageId, message_ids: Iterable[MessageId]
    ) -> None:
        """Stage that those of the messages leave a queue that are there, for one that comes."""
        self._coming.add((queue, coming))
        writer, body = self._journals.messages, record_bodies.acknowledgement(queue)
        for message_id in message_ids:
            if self.is_there(queue, message_id):
                writer.stage_update_in(tx, RecordId(message_id), MessageType.ACKNOWLEDGE_REFERENCE, body)
                self._claimed.add((queue, message_id))
                self._replacing.append((queue, message_id))

    def replaced(self, position: Position) -> None:
        """The transaction that was staged is committed, and durable with that position."""
        self._coming.clear()
        if self._replacing:
            self._replaced.append((position, self._replacing))
            self._replacing = []

    def nothing_replaced(self) -> None:
        """It is not."""
        self.failures += bool(self._coming)
        self._coming.clear()
        self._claimed.difference_update(self._replacing)
        self._replacing = []

    @property
    def has_replaced(self) -> bool:
        return bool(self._replaced)

    def settle_replaced(self) -> None:
        """Let go of what left by now, and stage the deletes of what is in no queue any more."""
        reached = self._journals.messages.committer.reached_position
        while self._replaced and self._replaced[0][0] <= reached:
            _, left = self._replaced.pop(0)
            self._claimed.difference_update(left)
            for queue, _ in left:
                self._core.tally[queue, "messagesReplaced"] += 1
            self.delete_unreferenced({message_id for _, message_id in left})

    # ---- what no queue has any more ----

    def clear(self, message_ids: Iterable[MessageId]) -> None:
        """Clear away what is in no queue any more of these messages, and of those that others replaced."""
        try:
            self.settle_replaced()
            self.delete_unreferenced(message_ids)
        except JournalfsError as error:
            # They are acknowledged all the same; opening the store deletes what has no reference.
            self._core.events.add("delete-postponed", str(error))

    def delete_unreferenced(self, message_ids: Iterable[MessageId]) -> None:
        """Stage deletes of those that are in no queue now. Nobody waits for these: a message without
        references counts for nothing, and is deleted when the store is opened the next time at the latest.
        """
        writer, state = self._journals.messages, self._core.loader.state
        for message_id in message_ids:
            if not writer.is_live(message_id) or state.message_refs(message_id):
                continue
            try:
                position = writer.stage_delete(RecordId(message_id))
            except RecordRefused:
                # A prepared transaction may put it into another queue yet.
                continue
            if self._body_writer.path(message_id).exists():
                self._bodies.append((position, message_id))

        if writer.short_of_space:
            writer.bell.ring()

    def remove_bodies(self) -> None:
        """Remove the body files of messages whose deletes are durable."""
        reached = self._journals.messages.committer.reached_position
        while self._bodies and self._bodies[0][0] <= reached:
            _, message_id = self._bodies.pop(0)
            self._body_writer.remove([message_id])
