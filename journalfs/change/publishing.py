"""From messages to records: what is staged when something is published.

A single message for a single queue is an ADD and a reference; anything more is one transaction, so that it is
published whole or not at all. The body of a large message is durable before the record that names it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from journalfs.bodies.writing import BodyStore, NewBody
from journalfs.change.duplicates import DuplicateIds, Remembered, Settled
from journalfs.change.journals import Journals
from journalfs.change.message_settings import at_once_ms
from journalfs.change.queue_kinds import QueueKinds
from journalfs.change.routing import Alike, AnyRoute, Routed
from journalfs.clock import Clock
from journalfs.engine.message_batch import CopyBatch, CopyFields, TextBatch, TextFields
from journalfs.engine.stage import record_bytes
from journalfs.engine.waiting import Turn, offload, unbroken
from journalfs.errors import JournalfsError, SystemFailure, WriteFailed
from journalfs.format import primitives, record_bodies
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId, QueueId, RecordId, TxId
from journalfs.limits import COPY_CHUNK_BYTES, HISTORY_EVENT_BYTES, TEXT_BATCHES_KEPT_MAX
from journalfs.message.outgoing import NO_PROPERTIES, RECORD_SPARE_BYTES, USER_IDS, Outgoing, address_field
from journalfs.records.files.upkept import Position
from journalfs.records.files.writer import JournalWriter

Prepared: TypeAlias = tuple[Sequence[tuple[MessageId, Routed]], frozenset[MessageId]]
"""Messages with their ids, and those of them whose bodies went to files of their own."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What messages that are staged together have in common."""

    address: str
    now_ms: int
    large: frozenset[MessageId]
    """Those whose bodies went to files of their own."""

    def record(self, message_id: MessageId, message: Outgoing) -> tuple[int, bytes]:
        encode = message.large_record if message_id in self.large else message.record
        return encode(message_id, message.named(self.address), self.now_ms)


@dataclass(frozen=True, slots=True)
class Published:
    """What was staged. Everything is there once `position` is durable."""

    position: Position
    transactional: bool
    messages: int = 0
    """How many, without duplicates and those that no queue takes. Not of texts, which have no ids."""


@dataclass(slots=True)
class LongPublication(Remembered):
    """One that others go on beside."""

    turn: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Keeps back other publications that may have the same duplicate ids."""
    has_turn: bool = False
    duplicates: int = 0
    """Messages that are left out, since their duplicate ids are known."""
    large: list[MessageId] = field(default_factory=list)
    """Messages whose bodies are in files of their own."""


class Publishing:
    """Stages messages in the journal; nothing here waits but the writing of large bodies."""

    def __init__(
        self,
        journals: Journals,
        duplicates: DuplicateIds,
        settled: Settled,
        bodies: BodyStore,
        clock: Clock,
        *,
        kinds: QueueKinds,
        min_large_bytes: int,
    ) -> None:
        self._journals = journals
        self.kinds = kinds
        self._duplicates = duplicates
        self._settled = settled
        self._bodies = bodies
        self._clock = clock
        self._min_large_bytes = min_large_bytes
        self._batches: dict[tuple[str, AnyRoute], TextBatch] = {}
        self._long: dict[str, trio.Event] = {}
        """By address: when the long publication ends that has duplicate ids."""
        self._turns: dict[str, Turn] = {}
        """By address: somebody publishes what may be duplicates, and others go on meanwhile."""

    async def stage(
        self, address: str, routed: Sequence[Routed], *, settles: str | None = None
    ) -> Published | None:
        """Stage messages; None when there is nothing to stage. `address` is where they are sent to; `settles`
        is the note of what was flushed that they take the place of.

        Raises JournalfsError with nothing staged that would count.
        """
        async with self.prepared(address, routed) as (numbered, large):
            return self._stage(address, numbered, large, settles) if numbered else None

    @asynccontextmanager
    async def prepared(self, address: str, routed: Sequence[Routed]) -> AsyncIterator[Prepared]:
        """Those messages that are no duplicates, with their ids, and which of them are large: their bodies
        are durable. If what is done with them fails, the bodies are removed. Otherwise the address remembers
        the duplicate ids of those too that no queue took.
        """
        numbered, large = await self.numbered(address, routed)
        try:
            yield numbered, large
        except WriteFailed:
            raise  # nobody knows what is on the disk: it may name the bodies
        except BaseException:
            await unbroken(lambda: self.remove_bodies(large))
            raise
        refused = [(MessageId(0), one) for one in self._refused(address, routed)]
        if refused:
            self.in_transaction(self._journals.new_tx(), address, refused, lambda: None, None)

    async def numbered(self, address: str, routed: Sequence[Routed], *, waits: bool = True) -> Prepared:
        """What of it is to be staged, with ids, and whose bodies were written. `waits`: for what comes of a
        long publication.
        """
        if waits:
            await self._known_outcome(address, routed)
        fresh = self._without_duplicates(address, routed)
        numbered = [(self.new_id(), one) for one in fresh if one.queues]
        large = await self.write_bodies(address, [(message_id, one.message) for message_id, one in numbered])
        try:
            if large:
                numbered = await self._still_fresh(address, numbered, large, waits=waits)
        except BaseException:
            await unbroken(lambda: self.remove_bodies(large))
            raise
        return numbered, large

    def new_id(self) -> MessageId:
        return MessageId(self._journals.ids.draw())

    def turn(self, address: str) -> Turn:
        """For who publishes what may be duplicates, and lets others go on before that is staged."""
        return self._turns.setdefault(address, Turn())

    async def _known_outcome(self, address: str, routed: Sequence[Routed]) -> None:
        """Wait for a long publication with duplicate ids: only what came of it says what is superfluous."""
        while address in self._long and has_ids(routed):
            await self._long[address].wait()

    @asynccontextmanager
    async def long_publication(self, address: str) -> AsyncIterator[LongPublication]:
        """For messages that are staged as part of one transaction that is committed within this. If that
        fails, the bodies are removed.
        """
        async with AsyncExitStack() as turn:
            publication = LongPublication(address, turn=turn)
            try:
                yield publication
            except BaseException as error:
                self._duplicates.forget(publication)
                if not isinstance(error, WriteFailed):  # then nobody knows what is on the disk
                    await unbroken(lambda: self.remove_bodies(publication.large))
                raise
            finally:
                if publication.has_turn:
                    self._long.pop(address).set()

    @contextmanager
    def settling(self, tx: TxId, settles: str | None) -> Iterator[None]:
        """For what is published as part of a transaction in the place of what was flushed."""
        try:
            if settles is not None:
                self._settled.stage_in(tx, settles)
            yield
        except BaseException:
            if settles is not None:
                self._settled.undo(settles)
            raise

    async def prepared_in(self, tx: TxId, publication: LongPublication, routed: Sequence[Routed]) -> Prepared:
        """A few messages of a long publication. Their duplicate ids are staged, and nothing else yet."""
        if has_ids(routed) and not publication.has_turn:
            # Two could wait for each other's ids.
            await publication.turn.enter_async_context(self.turn(publication.address))
            publication.has_turn = True
            self._long[publication.address] = trio.Event()
        numbered, large = await self.numbered(publication.address, routed, waits=False)
        publication.large += large
        publication.duplicates += taken(routed) - taken(one for _, one in numbered)
        for _, one in numbered:
            self._stage_duplicate_id_of(tx, publication, one)
        for one in self._refused(publication.address, routed):
            self._stage_duplicate_id_of(tx, publication, one)
        return numbered, large

    @property
    def position(self) -> Position:
        """Behind everything staged so far."""
        return self._journals.messages.position

    def stage_numbered_in(
        self,
        tx: TxId,
        address: str,
        numbered: Iterable[tuple[MessageId, Routed]],
        large: frozenset[MessageId],
        *,
        arriving: bool,
    ) -> None:
        """Stage those of them that go into the journal. `arriving`: others may have to leave for them; nobody
        else goes on before the transaction ends.
        """
        batch = _Batch(address, self._clock.now_ms(), large)
        stage = self._stage_arriving_in if arriving else self._stage_message_in
        for message_id, one in numbered:
            if one.pages_of is None:
                stage(tx, batch, message_id, one)

    def stage_texts_in(self, tx: TxId, alike: Alike) -> bool:
        """The same with texts. False, with nothing staged, if they have to be staged one by one."""
        _, batch = self.begun_texts(alike, tx)
        try:
            return self._journals.messages.stage_messages(batch) is not None
        finally:
            batch.end()

    def stage_texts(self, alike: Alike, *, settles: str | None) -> Published | None:
        """Stage texts; None, with nothing staged, if they have to be staged one by one.

        Raises JournalfsError with nothing staged that would count.
        """
        writer = self._journals.messages
        alone = alike.pairs == 1 and settles is None
        tx = TxId(0) if alone else self._journals.new_tx()
        first_id, batch = self.begun_texts(alike, tx)
        try:
            position = writer.stage_messages(batch)
            if position is not None and not alone:
                if settles is not None:
                    self._settled.stage_in(tx, settles)
                position = writer.stage_commit(tx)
        except JournalfsError:
            if settles is not None:
                self._settled.undo(settles)
            if not alone:
                writer.roll_back(tx)
            elif batch.begun:
                # Without a reference it does not count, but it would stay.
                writer.stage_delete(first_id)
            raise
        finally:
            batch.end()
        return None if position is None else Published(position, not alone)

    def begun_texts(self, alike: Alike, tx: TxId) -> tuple[RecordId, TextBatch]:
        """The batch that these texts are as part of a transaction, or outside of any (0), with the id of the
        first. Who goes on with it after he waited makes it his own before (`keep_batch`).
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
        """The batch that was begun last is its owner's: others get another one."""
        self._batches.pop((alike.address, alike.route), None)

    def batch_of(self, address: str, route: AnyRoute) -> TextBatch:
        """What texts for an address have in common that go one way; anybody's until it is begun."""
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
                body_bytes_max=self._min_large_bytes - 1,
                record_bytes_max=self._journals.messages.record_bytes_max - RECORD_SPARE_BYTES,
            )
            batch = self._batches[address, route] = TextBatch(fields)
        return batch

    async def write_bodies(
        self, address: str, numbered: Sequence[tuple[MessageId, Outgoing]]
    ) -> frozenset[MessageId]:
        """Write the bodies that go to files of their own, and return whose those are. Raises
        `SystemFailure`, and then there are none.
        """
        large = [(message_id, message) for message_id, message in numbered if self.is_large(address, message)]
        if large:
            await self._write_bodies(large)
        return frozenset(message_id for message_id, _ in large)

    async def remove_bodies(self, message_ids: Collection[MessageId]) -> None:
        """The records that would have named them were not staged after all. One that cannot be removed is
        nobody's, and is set aside when the store is opened again.
        """
        if message_ids:
            with suppress(OSError):
                await offload(lambda: self._bodies.remove(message_ids))

    def is_large(self, address: str, message: Outgoing) -> bool:
        """Whether its body goes to a file of its own."""
        return message.is_large(
            address,
            min_large_bytes=self._min_large_bytes,
            record_bytes_max=self._journals.messages.record_bytes_max,
        )

    def stage_copies_in(
        self,
        tx: TxId,
        address: str,
        numbered: Sequence[tuple[MessageId, Outgoing]],
        queue: QueueId,
        *,
        large: frozenset[MessageId],
        arriving: bool,
    ) -> None:
        """Stage messages for one queue as part of a transaction. No duplicate is looked for: a copy has the
        id of what it was copied from.
        """
        routed = ((message_id, Routed(message, (queue,))) for message_id, message in numbered)
        self.stage_numbered_in(tx, address, routed, large, arriving=arriving)

    def copy_fields(self, tx: TxId, address: str, queue: QueueId, source: str, *, notes: int) -> CopyFields:
        """For copies of messages of the queue `source`, as part of a transaction."""
        return CopyFields(
            address=address_field(address),
            queue_name=primitives.simple_string(source),
            queue=queue,
            tx_id=tx,
            body_bytes_max=self._min_large_bytes - 1,
            message_bytes_max=self._journals.messages.record_bytes_max - RECORD_SPARE_BYTES,
            notes=notes,
        )

    def stage_copied_in(self, batch: CopyBatch, count: int) -> bool:
        """Stage copies of the first so many. False, with nothing staged, if they have to be staged one by
        one. Raises JournalfsError, FileTorn.
        """
        batch.take(count, first_id=self._journals.ids.draw_many(count))
        return self._journals.messages.stage_messages(batch) is not None

    def stage_routed_in(
        self,
        tx: TxId,
        address: str,
        numbered: Sequence[tuple[MessageId, Routed]],
        *,
        large: frozenset[MessageId],
    ) -> None:
        """Stage messages as part of a transaction that the store itself sends. The address remembers their
        duplicate ids, and takes a message whose id it remembers already all the same.
        """
        batch, remembered = _Batch(address, self._clock.now_ms(), large), Remembered(address)
        try:
            for message_id, one in numbered:
                duplicate_id = one.message.duplicate_id
                if duplicate_id is not None and not self._duplicates.has(address, duplicate_id):
                    self._stage_duplicate_id(tx, remembered, duplicate_id)
                self._stage_arriving_in(tx, batch, message_id, one)
        except JournalfsError:
            self._duplicates.forget(remembered)
            raise

    async def _still_fresh(
        self,
        address: str,
        numbered: Sequence[tuple[MessageId, Routed]],
        large: frozenset[MessageId],
        *,
        waits: bool,
    ) -> list[tuple[MessageId, Routed]]:
        """Those that nobody else published while their bodies were written."""
        if waits:
            await self._known_outcome(address, [one for _, one in numbered])
        fresh = {id(one) for one in self._without_duplicates(address, [one for _, one in numbered])}
        late = [message_id for message_id, one in numbered if id(one) not in fresh]
        if late:
            await self.remove_bodies([message_id for message_id in late if message_id in large])
            left = [(message_id, one) for message_id, one in numbered if id(one) in fresh]
            return await self._still_fresh(address, left, large, waits=waits)
        return list(numbered)

    def _refused(self, address: str, routed: Sequence[Routed]) -> list[Routed]:
        """Messages that no queue took, and whose duplicate id the address does not remember yet."""
        return self._without_duplicates(address, [one for one in routed if not one.queues])

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
            if duplicate_id is not None and left_out:
                continue
            if one.queues or duplicate_id is not None:
                fresh.append(one)
        return fresh

    # ---- records ----

    def _stage(
        self,
        address: str,
        numbered: Sequence[tuple[MessageId, Routed]],
        large: frozenset[MessageId],
        settles: str | None,
    ) -> Published:
        if len(numbered) == 1 and settles is None:
            message_id, one = numbered[0]
            plain = one.message.duplicate_id is None and not self.kinds.special(one.queues)
            if len(one.queues) == 1 and plain:
                batch = _Batch(address, self._clock.now_ms(), large)
                return Published(self._stage_one(batch, message_id, one), False, 1)
        tx = self._journals.new_tx()
        position = self.in_transaction(
            tx,
            address,
            numbered,
            lambda: self.stage_numbered_in(tx, address, numbered, large, arriving=True),
            settles,
        )
        return Published(position, True, len(numbered))

    def in_transaction(
        self,
        tx: TxId,
        address: str,
        numbered: Sequence[tuple[MessageId, Routed]],
        stage: Callable[[], None],
        settles: str | None,
    ) -> Position:
        """Stage a transaction that publishes messages, with their duplicate ids and what it settles. If that
        fails, it is rolled back.
        """
        writer, remembered = self._journals.messages, Remembered(address)
        with self._rolled_back_on_failure(writer, tx, remembered, settles):
            if settles is not None:
                self._settled.stage_in(tx, settles)
            for _, one in numbered:
                self._stage_duplicate_id_of(tx, remembered, one)
            stage()
            position = writer.stage_commit(tx)
        self.kinds.removing.replaced(position)
        return position

    def _stage_one(self, batch: _Batch, message_id: MessageId, one: Routed) -> Position:
        writer, record, queue = self._journals.messages, RecordId(message_id), one.queues[0]
        writer.stage_add(record, *batch.record(message_id, one.message))
        try:
            position = writer.stage_update(record, MessageType.ADD_REFERENCE, record_bodies.reference(queue))
            for kind, update in _extras(one.message, queue, batch.now_ms):
                position = writer.stage_update(record, kind, update)
        except JournalfsError:
            # Without a reference it does not count, but it would stay.
            writer.stage_delete(record)
            raise
        return position

    def _stage_message_in(self, tx: TxId, batch: _Batch, message_id: MessageId, one: Routed) -> None:
        writer, record = self._journals.messages, RecordId(message_id)
        writer.stage_add_in(tx, record, *batch.record(message_id, one.message))
        for queue in one.queues:
            writer.stage_update_in(tx, record, MessageType.ADD_REFERENCE, record_bodies.reference(queue))
            for kind, update in _extras(one.message, queue, batch.now_ms):
                writer.stage_update_in(tx, record, kind, update)

    def _stage_arriving_in(self, tx: TxId, batch: _Batch, message_id: MessageId, one: Routed) -> None:
        """The same, and that others leave for it. Not while anybody else can go on: what leaves is known of
        one transaction at a time.
        """
        self._stage_message_in(tx, batch, message_id, one)
        if self.kinds.special(one.queues):
            self.kinds.arrived_in(tx, one.queues, message_id, one.message, batch.now_ms)

    def _stage_duplicate_id_of(self, tx: TxId, remembered: Remembered, one: Routed) -> None:
        duplicate_id = one.message.duplicate_id
        if duplicate_id is not None and not one.is_copy:
            self._stage_duplicate_id(tx, remembered, duplicate_id)

    def _stage_duplicate_id(self, tx: TxId, remembered: Remembered, duplicate_id: bytes) -> None:
        address = remembered.address
        record = RecordId(self._journals.ids.draw())
        writer = self._journals.messages
        writer.stage_add_in(
            tx, record, MessageType.DUPLICATE_ID, record_bodies.duplicate_id(address, duplicate_id)
        )
        for oldest in self._duplicates.remember(remembered, duplicate_id, record):
            writer.stage_delete_in(tx, oldest)

    @contextmanager
    def _rolled_back_on_failure(
        self, writer: JournalWriter, tx: TxId, remembered: Remembered, settles: str | None
    ) -> Iterator[None]:
        try:
            yield
        except JournalfsError:
            self.kinds.removing.nothing_replaced()
            if settles is not None:
                self._settled.undo(settles)
            self._duplicates.forget(remembered)
            writer.roll_back(tx)
            raise

    # ---- large bodies ----

    async def _write_bodies(self, large: Sequence[tuple[MessageId, Outgoing]]) -> None:
        bodies = [
            NewBody(message_id, message.large_body(), message.body_file) for message_id, message in large
        ]
        try:
            await offload(lambda: self._bodies.write(bodies))
        except OSError as error:
            await self.remove_bodies([message_id for message_id, _ in large])
            raise SystemFailure.from_os(
                error, self._bodies.directory, doing="write a large message"
            ) from error
        if self._journals.messages.retention is not None:
            try:
                for message_id, _ in large:
                    await self._record_body(message_id)
            except BaseException:
                await unbroken(lambda: self.remove_bodies([message_id for message_id, _ in large]))
                raise

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
        try:
            return await offload(lambda: self._bodies.read(message_id, offset, COPY_CHUNK_BYTES))
        except OSError as error:
            path = self._bodies.path(message_id)
            raise SystemFailure.from_os(error, path, doing="read a large message") from error


def taken(routed: Iterable[Routed]) -> int:
    """How many messages queues take."""
    return sum(1 for one in routed if one.queues and not one.is_copy)


def has_ids(routed: Iterable[Routed]) -> bool:
    """Whether some may be duplicates."""
    return any(one.message.duplicate_id is not None for one in routed)


def _extras(message: Outgoing, queue: QueueId, now_ms: int) -> Iterator[tuple[int, bytes]]:
    """What belongs to a message in one queue, beside the reference."""
    if message.scheduled_ms > now_ms:
        yield MessageType.SCHEDULED_TIME, record_bodies.scheduled_time(queue, message.scheduled_ms)
    elif message.own_schedule_ms > 0:
        # Else a broker that loads it goes by what it says itself, and delivers it before all that wait.
        yield MessageType.SCHEDULED_TIME, record_bodies.scheduled_time(queue, at_once_ms(now_ms))
    if message.delivery_count:
        yield MessageType.DELIVERY_COUNT, record_bodies.delivery_count(queue, message.delivery_count)
