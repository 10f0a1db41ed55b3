"""Messages that leave a queue: acknowledged, or moved into another one, however many in one transaction."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import compress, groupby
from typing import TYPE_CHECKING, Protocol, TypeAlias

from journalfs.bindings.model import Queue
from journalfs.bodies.aside import Aside
from journalfs.broker.consume.copies import Copies, Restored, run_of
from journalfs.broker.consume.removals import Back, Noted, Noting, always
from journalfs.broker.pages.paged import Paged
from journalfs.broker.publish.sending import Sending
from journalfs.change.change import Change, Changes
from journalfs.change.idle import Uses
from journalfs.change.long_changes import Paced, Transaction, pieces
from journalfs.change.removing import Chosen, Removing
from journalfs.change.routing import Routed
from journalfs.engine.state_batch import NOWHERE, damaged, places
from journalfs.engine.waiting import checkpoint, unbroken
from journalfs.errors import JournalfsError
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, QueueId, RecordId, TxId
from journalfs.limits import ROUTED_PIECE_MESSAGES
from journalfs.live.content import QueueContent
from journalfs.live.runs import JournalRun, PageRun, Run
from journalfs.records.files.upkept import Position
from journalfs.views.queues import StoreQueue

if TYPE_CHECKING:
    from journalfs.broker.limits.admission import Admission
    from journalfs.change.journals import Journals
    from journalfs.live.core import Core

Choice: TypeAlias = Callable[[StoreQueue], Iterable[Run]]

Stage: TypeAlias = Callable[[Chosen], Awaitable[Position]]


StageAlso: TypeAlias = Callable[[TxId], None]
"""Stages something as part of a transaction."""


def chosen_runs(queue: StoreQueue, wanted: Sequence[MessageId]) -> list[Run]:
    """What of some messages is in a queue: those of the journal, then those in pages."""
    content = queue.content
    ids = wanted if isinstance(wanted, array) else array("q", dict.fromkeys(wanted))
    refs = places(content.state, content.slot, ids, live=True).refs
    runs: list[Run] = [JournalRun(array("I", (ref for ref in refs if ref != NOWHERE)))]
    if content.paged is not None:
        rest = compress(ids, (ref == NOWHERE for ref in refs))
        runs += [PageRun(*place) for place in content.paged.find_all(content.queue_id, rest)]
    return runs


class LeftStore(Protocol):
    """The store that messages leave: `journalfs.store.write.store.WritingStore`."""

    core: Core
    journals: Journals
    admission: Admission

    @property
    def read_only(self) -> bool: ...

    async def published(self) -> None: ...

    async def settled(self, position: Position) -> None: ...


class Leaving:
    """Cancelled before all of a change is staged, nothing happened; from then on it is done to its end."""

    def __init__(
        self,
        store: LeftStore,
        removing: Removing,
        sending: Sending,
        paged: Paged,
        *,
        paced: Paced,
        changes: Changes,
        aside: Aside,
    ) -> None:
        self._store = store
        self._removing = removing
        self._sending = sending
        self._publishing = sending.publishing
        self._paged = paged
        self._paced = paced
        self._changes = changes
        self.uses = Uses(store.core)
        self.noting = Noting(store.core, store.journals, aside)

    async def acknowledge(self, queue: StoreQueue, choose: Choice) -> int:
        """Take messages out of a queue; how many were there. Raises `HeldByReaders`."""
        chosen = self._removing.choose(queue.content, choose(queue))
        only = chosen.only()
        if only is not None:
            noted = self.noting.one(queue.content, only)
            left = await self._leave(chosen, self._stage)
            if noted is not None and left:
                self.noting.removals.add_one(queue.model, noted)
            return left
        removal = self.noting.begin(queue.model)

        async def stage(chosen: Chosen) -> Position:
            if removal is not None:
                await removal.note_all(chosen)
            return await self._stage(chosen)

        left = await self._leave(chosen, stage)
        if removal is not None and left:
            self.noting.removals.add(removal)
        return left

    async def move(self, source: StoreQueue, target: StoreQueue, choose: Choice, *, full: bool) -> int:
        """The same, and put them into another queue; into the pages of its address if that pages, or is
        `full` and is to.
        """
        if source is target:
            return 0
        return await self._move(source, target, choose, self.copies(Copies, target), full=full)

    async def send_back(
        self, source: StoreQueue, target: StoreQueue, address: str, choose: Choice, *, full: bool
    ) -> int:
        """The same with what came from that queue, which is as it was before then. `address`: where it was
        sent to.
        """
        return await self._move(source, target, choose, self._copies(Restored, address, target), full=full)

    def copies(self, kind: type[Copies], target: StoreQueue) -> Copies:
        """For what is moved to a queue. Entered for as long as it is staged."""
        return self._copies(kind, target.model.address, target)

    def _copies(self, kind: type[Copies], address: str, target: StoreQueue) -> Copies:
        return kind(self._publishing, self._sending.rules, address, target.content.queue_id)

    async def _move(
        self, source: StoreQueue, target: StoreQueue, choose: Choice, copies: Copies, *, full: bool
    ) -> int:
        kinds, to = self._sending.kinds, (target.content.queue_id,)
        knows = kinds.special(to)
        chosen = self._removing.choose(source.content, choose(source))
        moved = await self._leave(chosen, lambda chosen: self._stage_move(chosen, target, copies, full=full))
        if not knows and kinds.special(to):
            kinds.forget(to)  # it became one meanwhile
        return moved

    async def _leave(self, chosen: Chosen, stage: Stage) -> int:
        try:
            self._removing.refuse_held(chosen)
            if not len(chosen):
                # Whatever is there is on its way out by somebody else's doing.
                await self._store.published()
                self._removing.let_go(chosen)
                return 0
            await self._settle(await stage(chosen))
        except BaseException:
            self._removing.let_go(chosen)
            await self.stayed(chosen)
            raise
        self._removing.let_go(chosen)
        await self.clear(chosen)
        return len(chosen)

    async def consume(
        self, chosen: Chosen, by: Hashable | None = None, is_over: Callable[[], bool] = always
    ) -> None:
        """What was chosen is acknowledged on return. Whoever chose lets go, and clears it away. `by`: who
        took it, until `is_over`; None: nobody did.
        """
        model, only = chosen.content.model, chosen.only()
        if by is not None and only is not None:
            noted = self.noting.one(chosen.content, only)
            await self._settle(await self._stage(chosen))
            if noted is not None:
                self.noting.removals.add_one(model, noted, by, is_over)
            return
        removal = None if by is None else self.noting.begin(model, by, is_over)
        if removal is not None:
            await removal.note_all(chosen)
        await self._settle(await self._stage(chosen))
        if removal is not None:
            self.noting.removals.add(removal)

    async def _settle(self, position: Position) -> None:
        await unbroken(lambda: self._store.settled(position))

    async def returned(self, chosen: Chosen, due_ms: int = 0) -> None:
        """A reader gave back what was chosen for it, to be delivered again from `due_ms` on: what its queue
        lets go of for it leaves, or itself. It was let go just before, so nobody else has it yet.
        """
        only, kinds = chosen.only(), self._sending.kinds
        if only is not None:
            await self._replaced(lambda: kinds.returned(chosen.queue, only, due_ms))

    async def stayed(self, chosen: Chosen) -> None:
        """The same for what was chosen to leave, and was let go just before. What left is not there."""
        if not self._store.read_only and self._sending.kinds.special((chosen.queue,)):
            await unbroken(lambda: self._stayed(chosen))

    async def _stayed(self, chosen: Chosen) -> None:
        queue, kinds = chosen.queue, self._sending.kinds
        for ids in chosen.pieces():
            for few in pieces(ids, ROUTED_PIECE_MESSAGES):
                some = [MessageId(one) for one in few]
                await self._replaced(partial(kinds.stayed, queue, some))
                await checkpoint()

    async def became_due(self) -> None:
        """The same for messages whose time came."""
        await self._replaced(self._sending.kinds.became_due)

    async def _replaced(self, stage: Callable[[], Position | None]) -> None:
        try:
            position = stage()
            if position is not None:
                await self._settle(position)
                self._removing.clear_replaced()
                self._store.admission.look_again()
        except JournalfsError as error:
            self._removing.postponed(error)

    async def clear(self, chosen: Chosen) -> None:
        """Clear away what nobody needs any more of messages that left."""
        await unbroken(lambda: self._clear(chosen))

    async def _clear(self, chosen: Chosen) -> None:
        if len(chosen):
            self.uses.queue(chosen.queue).emptied = True
        if chosen.paged:
            address = chosen.content.model.address
            await self._paged.consumed(address, {one.number for one in chosen.paged})
        await self._removing.clear(chosen, self._paced.pauses())
        self._store.admission.look_again()

    # ---- what comes back ----

    async def bring_back(
        self, backs: Sequence[tuple[Back, StoreQueue, bool]], kind: type[Copies], stage_also: StageAlso
    ) -> None:
        """Publish messages of other stores anew in queues, all in one transaction, together with what
        `stage_also` stages; into the pages of an address if that pages, or is full (the third of each) and is
        to. What leaves a queue for them was removed then.
        """
        await self._store.journals.make_room()
        kinds = self._sending.kinds
        special = [kinds.special((target.content.queue_id,)) for _, target, _ in backs]
        async with AsyncExitStack() as stack:
            copied: list[Copies] = []
            for _, target, _ in backs:
                copies = self._copies(kind, target.model.address, target)
                copied.append(await stack.enter_async_context(copies))
            position, left = await self._stage_back(backs, copied, stage_also)
            await self._settle(position)
        for queue, noted in left:
            self.noting.removals.add_one(queue, noted)
        for (_, target, _), knew in zip(backs, special, strict=True):
            to = (target.content.queue_id,)
            if not knew and kinds.special(to):
                kinds.forget(to)  # it became one meanwhile
        self._store.admission.look_again()

    async def _stage_back(
        self,
        backs: Sequence[tuple[Back, StoreQueue, bool]],
        copied: Sequence[Copies],
        stage_also: StageAlso,
    ) -> tuple[Position, list[tuple[Queue, Noted]]]:
        left: list[tuple[Queue, Noted]] = []
        targets = {target.content.queue_id: target for _, target, _ in backs}

        def note(_tx: TxId) -> None:
            """What leaves a queue for what comes back."""
            going = [(targets[queue], one) for queue, one in self._removing.replacing]
            found = ((queue.model, self.noting.one(queue.content, one)) for queue, one in going)
            left.extend((queue, noted) for queue, noted in found if noted is not None)

        async with self._changes.one() as change:
            for (back, target, full), copies in zip(backs, copied, strict=True):
                await self._bring_in(change, back, target, copies, full=full)
            await change.written()
            change.at_once(note)
            change.at_once(stage_also)
            return change.commit(), left

    async def _bring_in(
        self, change: Change, back: Back, target: StoreQueue, copies: Copies, *, full: bool
    ) -> None:
        address, queue = target.model.address, target.content.queue_id
        source, few = back.source.content, pieces(back.ids, ROUTED_PIECE_MESSAGES)
        if self._sending.paging.pages_now(address) or (full and self._sending.takes_pages(address)):
            pages = change.pages(address, (address,))
            for ids in few:
                some, large = await copies.numbered(source, run_of(source, ids))
                await pages.add([(one, Routed(message, (queue,), address)) for one, message in some], large)
                await change.transaction.after(len(some))
        elif self._sending.kinds.special((queue,)):
            for ids in few:
                some, large = await copies.numbered(source, run_of(source, ids))
                change.at_once(partial(copies.stage_at_once_in, numbered=some, large=large))
        else:
            await copies.add_journal(change.transaction, source, back.ids)

    # ---- what is staged ----

    async def _stage(self, chosen: Chosen) -> Position:
        await self._store.journals.make_room()
        only = chosen.only()
        if only is not None:
            return self._removing.stage_one(chosen.queue, only)
        async with self._changes.one() as change:
            await self.take_in(change, chosen)
            return change.commit()

    async def _stage_move(
        self, chosen: Chosen, target: StoreQueue, copies: Copies, *, full: bool
    ) -> Position:
        await self._store.journals.make_room()
        async with copies, self._changes.one() as change:
            await self.move_in(change, chosen, target, copies, full=full)
            await change.written()
            return change.commit()

    async def take_in(self, change: Change, chosen: Chosen) -> None:
        """As part of a change, take messages out of their queue."""
        self._removing.refuse_beyond_room(chosen)
        await self._removing.stage_in(change.transaction, chosen, whole_pages=change.is_decided)

    async def move_in(
        self, change: Change, chosen: Chosen, target: StoreQueue, copies: Copies, *, full: bool
    ) -> None:
        """The same, and put them into another. Messages in the journal stay the records that they are and
        change queues within an address. To another they are copied: a message says where it was sent, by
        which it is judged where it goes when it expires or fails. Those in pages, which are never rewritten,
        are copied too, and those that the other queue has already. Where others have to leave for them, or
        the other address pages, all are copied.
        """
        address, queue = target.model.address, target.content.queue_id
        special = change.is_decided and self._sending.kinds.special((queue,))
        transaction, pages_now = change.transaction, self._sending.paging.pages_now(address)
        self._removing.refuse_beyond_room(chosen, moved=True)
        if special and not pages_now:
            for few in _few(chosen):
                numbered, large = await copies.numbered(chosen.content, few)
                change.at_once(partial(copies.stage_at_once_in, numbered=numbered, large=large))
                await transaction.after(len(numbered))
        elif special or pages_now or (full and self._sending.takes_pages(address)):
            pages = change.pages(copies.address, (address,))
            for few in _few(chosen):
                numbered, large = await copies.numbered(chosen.content, few)
                routed = [(one, Routed(message, (queue,), address)) for one, message in numbered]
                await pages.add(routed, large)
                await transaction.after(len(numbered))
        else:
            for ids in chosen.pieces():
                await self._move_in(transaction, chosen, ids, target, copies)
            for few in _few(chosen, journal=False):
                await copies.add(transaction, chosen.content, few)
        await self._removing.stage_in(transaction, chosen, whole_pages=change.is_decided)

    async def _move_in(
        self,
        transaction: Transaction,
        chosen: Chosen,
        ids: array[int],
        target: StoreQueue,
        copies: Copies,
    ) -> None:
        """Put some messages of the journal into the target, in their order."""
        as_they_are = self._places(chosen, target, ids, copies)
        if all(as_they_are):
            self._stage_references(transaction, chosen.content, ids, target.content.queue_id)
            await transaction.after(len(ids))
            return
        for alike, some in groupby(zip(ids, as_they_are, strict=True), key=lambda one: one[1]):
            group = array("q", (message_id for message_id, _ in some))
            if alike:
                self._stage_references(transaction, chosen.content, group, target.content.queue_id)
                await transaction.after(len(group))
                continue
            await copies.add_journal(transaction, chosen.content, group)

    def _places(self, chosen: Chosen, target: StoreQueue, ids: array[int], copies: Copies) -> bytes:
        """For each of some messages 1 if it is put into the target as the record that it is: those of one
        address; of another, which the copy names, only what is damaged, so that nothing can be copied.
        """
        content = chosen.content
        if copies.separate:
            return bytes(len(ids))
        if copies.keeps_records(content):
            return self._removing.take_places(chosen, target.content, ids)
        broken = damaged(content.state, ids, content.slot)
        if not any(broken):
            return broken
        some = array("q", compress(ids, broken))
        placed = iter(self._removing.take_places(chosen, target.content, some))
        return bytes(one and next(placed) for one in broken)

    def _stage_references(
        self, transaction: Transaction, source: QueueContent, ids: array[int], queue: QueueId
    ) -> None:
        """Put messages into a queue as the records that they are. What is not due yet stays so; and what is
        due because a record says so needs one that does (`journalfs.change.message_settings`).
        """
        writer, tx = self._store.journals.messages, transaction.tx
        writer.stage_updates_in(tx, ids, MessageType.ADD_REFERENCE, record_bodies.reference(queue))
        times = places(source.state, source.slot, ids, live=False).scheduled_ms
        for message_id, due_ms in zip(ids, times, strict=True) if any(times) else ():
            if due_ms:
                schedule = record_bodies.scheduled_time(queue, due_ms)
                writer.stage_update_in(tx, RecordId(message_id), MessageType.SCHEDULED_TIME, schedule)


def _few(chosen: Chosen, *, journal: bool = True) -> Iterator[Run]:
    """What was chosen, some messages at a time."""
    for claim in chosen.claims if journal else ():
        for ids in pieces(claim.ids, ROUTED_PIECE_MESSAGES):
            yield run_of(chosen.content, ids)
    for one in chosen.paged:
        for indexes in pieces(one.claim.ids, ROUTED_PIECE_MESSAGES):
            yield PageRun(one.number, array("I", indexes))
