"""Acknowledges messages: claims them, stages their acknowledgements, and deletes their records.

A message's record is deleted in a flush of its own, once its last acknowledgement is durable. The body file
of a large message goes after that delete is durable. So a crash can leave a body without a record, and never
a record without a body.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Final, TypeAlias

from journalfs import door
from journalfs.bodies.writing import BodyStore
from journalfs.change.change import Change, Pauses, pieces
from journalfs.change.journals import Journals
from journalfs.engine.id_batch import IdSet
from journalfs.engine.stage import record_bytes
from journalfs.engine.state_batch import NOWHERE, UNREFERENCED_LARGE, message_ids, places, unreferenced
from journalfs.errors import HeldByReaders, JournalfsError, RecordRefused
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId, PageNumber, Position, QueueId, RecordId, TxId
from journalfs.live.content import QueueContent
from journalfs.live.core import Core
from journalfs.live.runs import Run

# Who takes what away: a message that one caller has claimed is not given to another.

FEW: Final = 16
"""Claims of so many ids and less, of which there may be any number, lie in one set together."""


class Claim:
    """The messages that one caller has claimed. It takes 8 bytes a message, and some 16 more once another
    caller asks about the same place.
    """

    __slots__ = ("_set", "ids", "place")

    def __init__(self, place: Hashable, ids: array[int]) -> None:
        self.place = place
        self.ids = ids
        self._set: IdSet | None = None

    def without(self, ids: array[int]) -> array[int]:
        """Return those of the ids that this claim does not hold."""
        if self._set is None:
            self._set = IdSet(self.ids)
        return self._set.without(ids)


class Claims:
    """Claims by place: ids in one place have nothing to do with those of another."""

    __slots__ = ("_few", "_many")

    def __init__(self) -> None:
        self._few: dict[Hashable, set[int]] = {}
        """Ids of all small claims."""
        self._many: dict[Hashable, list[Claim]] = {}

    def has(self, place: Hashable, one: int) -> bool:
        """Whether anybody claimed it."""
        if one in self._few.get(place, ()):
            return True
        many = self._many.get(place)
        return many is not None and not all(len(claim.without(array("q", [one]))) for claim in many)

    def take(self, place: Hashable, ids: array[int], *, ours: Sequence[Claim] = ()) -> Claim:
        """Claim those of `ids`, all different, that nobody else has. None of them is in `ours`."""
        few = self._few.get(place)
        if few:
            if len(ids) <= FEW:
                ids = array("q", (one for one in ids if one not in few))
            else:
                ids = IdSet(array("q", few)).without(ids)
        for other in self._many.get(place, ()):
            if other not in ours:
                ids = other.without(ids)
        claim = Claim(place, ids)
        if len(ids) <= FEW:
            if len(ids):
                self._few.setdefault(place, set()).update(ids)
        else:
            self._many.setdefault(place, []).append(claim)
        return claim

    def let_go(self, claim: Claim) -> None:
        if len(claim.ids) > FEW:
            many = self._many[claim.place]
            many.remove(claim)
            if not many:
                del self._many[claim.place]
        elif len(claim.ids):
            few = self._few[claim.place]
            few.difference_update(claim.ids)
            if not few:
                del self._few[claim.place]


Stager: TypeAlias = Callable[[TxId], None]
"""Stages the records of a transaction."""

Emptied: TypeAlias = Callable[[QueueContent, PageNumber, "array[int]"], bool]


@dataclass(frozen=True, slots=True)
class PagedMessage:
    """One message in a page."""

    number: PageNumber
    index: int


@dataclass(frozen=True, slots=True)
class ChosenOfPage:
    """Messages of one page, by their place in it."""

    number: PageNumber
    claim: Claim


@dataclass(slots=True)
class Chosen:
    """Messages of one queue that are about to leave it: 8 bytes each."""

    content: QueueContent
    claims: list[Claim] = field(default_factory=list)
    """Ids of messages in the journal."""
    paged: list[ChosenOfPage] = field(default_factory=list)
    places: list[Claim] = field(default_factory=list)
    """Where some of them are on their way to."""
    with_readers: bool = False
    """Whether a message was not chosen because a reader has it."""

    @property
    def queue(self) -> QueueId:
        return self.content.queue_id

    def pieces(self) -> Iterable[array[int]]:
        for claim in self.claims:
            yield from pieces(claim.ids)

    def messages(self) -> Iterator[MessageId]:
        """The chosen messages of the journal."""
        return (MessageId(one) for claim in self.claims for one in claim.ids)

    def paged_messages(self) -> Iterator[PagedMessage]:
        return (PagedMessage(one.number, index) for one in self.paged for index in one.claim.ids)

    def only(self) -> MessageId | None:
        """The message, if it is a single one of the journal."""
        if self.paged or len(self) != 1:
            return None
        return next(MessageId(claim.ids[0]) for claim in self.claims if claim.ids)

    def __len__(self) -> int:
        return sum(len(claim.ids) for claim in (*self.claims, *(one.claim for one in self.paged)))


_REFERENCE_BYTES: Final = record_bytes(RecordKind.UPDATE_TX, len(record_bodies.acknowledgement(QueueId(0))))
"""To put a message into a queue, or to take it out of one, within a transaction."""


class Removing:
    """Stages acknowledgements. A message that is claimed is on its way out and is not given to another."""

    def __init__(self, core: Core, journals: Journals, bodies: BodyStore) -> None:
        self._core = core
        self._journals = journals
        self._body_writer = bodies
        self._claims = Claims()
        self._arriving = Claims()
        self.version = 0
        """Grows whenever messages are chosen to leave a queue."""
        self.failures = 0
        """Grows whenever a transaction came to nothing in which messages were to take the place of others."""
        self._coming: set[tuple[QueueId, MessageId]] = set()
        """Messages that the transaction that is being staged brings to queues where others leave for them."""
        self._replacing: list[tuple[QueueId, Claim]] = []
        """Messages that leave in the transaction that is being staged, since others come."""
        self._replaced: deque[tuple[Position, list[tuple[QueueId, Claim]]]] = deque()
        """Acknowledged messages of committed transactions that displaced them, with the
        positions of those.
        """
        self._bodies: deque[tuple[Position, MessageId]] = deque()
        """Large bodies, and when their messages are gone for good."""

    def choose(self, content: QueueContent, runs: Iterable[Run]) -> Chosen:
        """Claim those messages of `runs` that are live and not claimed yet, and return them."""
        chosen = Chosen(content)
        self.version += 1
        for run in runs:
            if run.page is None:
                self._choose_references(chosen, run)
            else:
                self._choose_paged(chosen, run.page, run.numbers)
        return chosen

    def _choose_references(self, chosen: Chosen, run: Run) -> None:
        ids, has = message_ids(chosen.content.state, run.references), self._core.in_delivery.has
        # A queue has a message once, so no run of it has what another has.
        claim = self._claims.take(chosen.queue, ids, ours=chosen.claims)
        chosen.claims.append(claim)
        if not len(claim.ids):
            chosen.with_readers |= any(has(chosen.queue, MessageId(one)) for one in ids)

    def _choose_paged(self, chosen: Chosen, number: PageNumber, indexes: array[int]) -> None:
        """A run may be from before others consumed some of it, and be let go of them: a position that is
        acknowledged twice would count twice in its page transaction, and take others with it.
        """
        paged, has = chosen.content.paged, self._core.in_delivery.has
        if paged is None or number not in paged.files:
            return
        standing = paged.standing(number, chosen.queue)
        claim = self._claims.take((chosen.queue, number), array("q", filter(standing.has, indexes)))
        if len(claim.ids):
            chosen.paged.append(ChosenOfPage(number, claim))
        else:
            chosen.with_readers |= any(has(chosen.queue, (number, one)) for one in indexes)

    @staticmethod
    def refuse_held(chosen: Chosen) -> None:
        """Raises `HeldByReaders` where nothing could be chosen because readers have it."""
        if chosen.with_readers and not len(chosen):
            raise HeldByReaders("a reader has it, and neither acknowledged it nor gave it back yet")

    def take_places(self, chosen: Chosen, target: QueueContent, ids: array[int]) -> bytes:
        """For each of some chosen messages 1 if it is put into `target` as it is. A queue has a message once:
        of one that is there, or on its way there from elsewhere, only a copy can be added.
        """
        found = places(target.state, target.slot, ids, live=False).refs
        nowhere = found.count(NOWHERE) == len(ids)
        absent = ids if nowhere else array("q", compress(ids, (ref == NOWHERE for ref in found)))
        if target.paged is not None:
            absent = array("q", (one for one in absent if target.find(MessageId(one)) is None))
        claim = self._arriving.take(target.queue_id, absent, ours=chosen.places)
        chosen.places.append(claim)
        if len(claim.ids) == len(ids):
            return b"\1" * len(ids)
        taken = frozenset(claim.ids)
        return bytes(one in taken for one in ids)

    def let_go(self, chosen: Chosen) -> None:
        """Give a claim back: its messages left, or stay after all."""
        self.leave_places(chosen)
        for claim in (*chosen.claims, *(one.claim for one in chosen.paged)):
            self._claims.let_go(claim)

    def leave_places(self, chosen: Chosen) -> None:
        """Give back the claims on the places in other queues to which the chosen messages were moving."""
        for claim in chosen.places:
            self._arriving.let_go(claim)
        chosen.places.clear()

    # ---- records ----

    def stage_one(self, queue: QueueId, message_id: MessageId) -> Position:
        """A single acknowledgement needs no transaction."""
        body = record_bodies.acknowledgement(queue)
        return self._journals.messages.stage_update(
            RecordId(message_id), MessageType.ACKNOWLEDGE_REFERENCE, body
        )

    def refuse_beyond_room(self, chosen: Chosen, *, moved: bool = False) -> None:
        """Raise NoSpace where the disk has no room for what takes the messages of the journal among them
        away, and clears them away, in one transaction. `moved`: into another queue.
        """
        messages = sum(len(claim.ids) for claim in chosen.claims)
        each_bytes = _REFERENCE_BYTES * (1 + moved) + record_bytes(RecordKind.DELETE, 0)
        self._journals.messages.refuse_beyond_room(messages * each_bytes)

    async def stage_in(self, change: Change, chosen: Chosen, empties: Emptied) -> None:
        """Stage the acknowledgements of all of them. `empties`: whether a queue is done with a page once
        these leave it, by their place in it. Brokers know nothing of that in a change that is prepared.
        """
        consumed: Counter[int] = Counter()
        for ids in chosen.pieces():
            self._stage_references_in(change.tx, chosen.content, ids)
            await change.after(len(ids))
        for one in chosen.paged:
            content, number, leaving = chosen.content, one.number, one.claim.ids
            tx_ids = content.page_scan(number).tx_ids()
            if change.is_decided and empties(content, number, leaving):
                await self._stage_whole_page_in(change, chosen.queue, number, len(tx_ids))
                consumed.update(tx_ids[index] for index in leaving)
                continue
            for indexes in pieces(leaving):
                self._stage_page_in(change.tx, chosen.queue, number, indexes)
                consumed.update(tx_ids[index] for index in indexes)
                await change.after(len(indexes))
        self._stage_page_transactions(change.tx, consumed)

    async def _stage_whole_page_in(
        self, change: Change, queue: QueueId, number: PageNumber, records: int
    ) -> None:
        """One record stands for all positions in a page that is consumed whole."""
        writer, tx = self._journals.messages, change.tx
        body = record_bodies.page_complete(queue, number, records)
        writer.stage_add_in(tx, RecordId(self._journals.ids.draw()), MessageType.PAGE_COMPLETE, body)
        for positions in pieces(self._core.cursors.positions((int(queue), int(number)))):
            for record in filter(writer.is_live, positions):
                # A prepared transaction may have a hand in it.
                with suppress(RecordRefused):
                    writer.stage_delete_in(tx, RecordId(record))
            await change.after(len(positions))
        await change.after(1)

    def in_transaction(self, stage: Stager) -> Position:
        """Stage a transaction of a few records. If that fails, it is rolled back."""
        try:
            position = self._journals.in_transaction(stage)
        except JournalfsError:
            self.replaced(None)
            raise
        self.replaced(position)
        return position

    def _stage_references_in(self, tx: TxId, content: QueueContent, ids: array[int]) -> None:
        body = record_bodies.acknowledgement(content.queue_id)
        self._journals.messages.stage_updates_in(tx, ids, MessageType.ACKNOWLEDGE_REFERENCE, body)

    def _stage_page_in(self, tx: TxId, queue: QueueId, number: PageNumber, indexes: array[int]) -> None:
        for index in indexes:
            record = RecordId(self._journals.ids.draw())
            position = record_bodies.cursor_acknowledgement(queue, number, index)
            self._journals.messages.stage_add_in(tx, record, MessageType.ACKNOWLEDGE_CURSOR, position)

    def _stage_page_transactions(self, tx: TxId, consumed: Counter[int]) -> None:
        """Count down the page transactions whose messages are consumed: how many, by transaction; 0 or less
        is none.
        """
        transactions = self._core.cursors.transactions
        for tx_id, count in consumed.items():
            if tx_id > 0 and tx_id in transactions:
                self._journals.messages.stage_update_in(
                    tx,
                    RecordId(transactions[tx_id][0]),
                    MessageType.PAGE_TRANSACTION,
                    record_bodies.page_transaction(TxId(tx_id), count),
                )

    # ---- what others take the place of ----

    def is_there(self, queue: QueueId, message_id: MessageId) -> bool:
        """Whether a message that was sent to a queue is there, or about to be, and not on its way out."""
        if self._claims.has(queue, message_id):
            return False
        if (queue, message_id) in self._coming:
            return True
        if not self._journals.messages.is_live(message_id):
            return False
        state = self._core.loader.state
        return state.find(state.register_queue(queue), message_id) >= 0 or not state.message_refs(message_id)

    def is_leaving(self, queue: QueueId, message_id: MessageId) -> bool:
        """Return True if a task other than a reader is about to take the message out of the queue."""
        return self._claims.has(queue, message_id) and not self.is_with_reader(queue, message_id)

    def is_with_reader(self, queue: QueueId, message_id: MessageId) -> bool:
        """Whether a reader has it, and may give it back."""
        return self._core.in_delivery.has(queue, message_id)

    def replace_in(
        self, tx: TxId, queue: QueueId, coming: MessageId, message_ids: Iterable[MessageId]
    ) -> list[MessageId]:
        """Stage that those of the messages that are there leave a queue, for one that comes, or comes back.
        Returns them.
        """
        self._coming.add((queue, coming))
        writer, body = self._journals.messages, record_bodies.acknowledgement(queue)
        left: list[MessageId] = []
        for message_id in message_ids:
            if self.is_there(queue, message_id):
                writer.stage_update_in(tx, RecordId(message_id), MessageType.ACKNOWLEDGE_REFERENCE, body)
                self._replacing.append((queue, self._claims.take(queue, array("q", [message_id]))))
                left.append(message_id)
        return left

    @property
    def replacing(self) -> Iterator[tuple[QueueId, MessageId]]:
        """Yield the displacements staged since the last transaction."""
        return ((queue, MessageId(one)) for queue, claim in self._replacing for one in claim.ids)

    def replaced(self, position: Position | None) -> None:
        """Note that the staged transaction is committed and will be durable at `position`. None: it failed,
        and the displaced messages stay.
        """
        if position is None:
            self.failures += bool(self._coming)
            for _, claim in self._replacing:
                self._claims.let_go(claim)
        elif self._replacing:
            self._replaced.append((position, self._replacing))
        self._coming.clear()
        self._replacing = []

    @property
    def has_replaced(self) -> bool:
        return bool(self._replaced)

    def settle_replaced(self) -> None:
        """Let go of what left by now, and stage the deletes of what is in no queue any more."""
        reached = self._journals.messages.committer.reached_position
        while self._replaced and self._replaced[0][0] <= reached:
            _, left = self._replaced.popleft()
            for queue, claim in left:
                self._claims.let_go(claim)
                self._core.tally[queue, "messagesReplaced"] += 1
            self._delete_unreferenced(array("q", {one for _, claim in left for one in claim.ids}))

    # ---- what no queue has any more ----

    async def clear(self, chosen: Chosen, pauses: Pauses) -> None:
        """Delete the records of messages without references, among these and among displaced ones. No caller
        has to wait: such a message counts for nothing, and the next opening of the store deletes it at the
        latest.
        """
        try:
            self.settle_replaced()
            for ids in chosen.pieces():
                self._delete_unreferenced(ids)
                await pauses.after(len(ids))
        except JournalfsError as error:
            self.postponed(error)
        if self._journals.messages.room_is_wanted:
            self._journals.messages.bell.ring()

    def clear_ids(self, ids: array[int]) -> None:
        """Delete the records of messages without references that left with a transaction."""
        try:
            self._delete_unreferenced(ids)
        except JournalfsError as error:
            self.postponed(error)

    def clear_replaced(self) -> None:
        """Delete the records of displaced messages without references."""
        try:
            self.settle_replaced()
        except JournalfsError as error:
            self.postponed(error)

    def postponed(self, error: JournalfsError) -> None:
        """Add an event that deletes could not be staged: the records stay for now."""
        # What is acknowledged is so all the same; opening the store deletes what has no reference.
        self._core.events.add("delete-postponed", str(error))

    def _delete_unreferenced(self, ids: array[int]) -> None:
        writer = self._journals.messages
        found = unreferenced(self._core.loader.state, ids)
        gone, flags = array("q", compress(ids, found)), bytes(flag for flag in found if flag)
        # A prepared transaction may put one of them into another queue yet: that stays. So does what only the
        # view has in no queue: the journal's own account decides.
        staged = writer.stage_deletes(gone)
        for message_id, flag, deleted in zip(gone, flags, staged, strict=True):
            if (
                deleted
                and flag & UNREFERENCED_LARGE
                and door.exists(self._body_writer.path(MessageId(message_id)))
            ):
                self._bodies.append((writer.position, MessageId(message_id)))

    def remove_bodies(self) -> None:
        """Remove the body files of messages whose deletes are durable."""
        reached = self._journals.messages.committer.reached_position
        while self._bodies and self._bodies[0][0] <= reached:
            _, message_id = self._bodies.popleft()
            self._body_writer.remove([message_id])
