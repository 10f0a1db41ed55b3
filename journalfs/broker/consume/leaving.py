"""Messages that leave a queue: acknowledged, or moved into another one, however many in one transaction."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, groupby
from typing import TypeAlias

from journalfs.api import QueuePath
from journalfs.bindings.model import Queue
from journalfs.broker.consume.copies import BroughtBack, Copies, run_of
from journalfs.broker.consume.removals import Back, Noted, Noting, always
from journalfs.broker.limits.admission import Action, Admission
from journalfs.broker.pages.page_cleanup import PageCleanup
from journalfs.change.change import Change, pieces
from journalfs.change.paging import InPages
from journalfs.change.removing import Chosen
from journalfs.change.store_parts import StoreParts
from journalfs.engine.state_batch import NOWHERE, damaged, places
from journalfs.engine.waiting import checkpoint, unbroken
from journalfs.errors import JournalfsError
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, Position, QueueId, RecordId, TxId
from journalfs.limits import ROUTED_PIECE_MESSAGES
from journalfs.live.content import QueueContent
from journalfs.live.runs import JournalRun, PageRun, Run
from journalfs.views.queues import StoreQueue

Choice: TypeAlias = Callable[[StoreQueue], Iterable[Run]]

StageAlso: TypeAlias = Callable[[TxId], None]
"""Stages something as part of a transaction."""


def chosen_runs(queue: StoreQueue, wanted: Sequence[MessageId]) -> list[Run]:
    """Return the runs of those messages that are in a queue: the journal's first, then those in pages."""
    content = queue.content
    ids = wanted if isinstance(wanted, array) else array("q", dict.fromkeys(wanted))
    refs = places(content.state, content.slot, ids, live=True).refs
    runs: list[Run] = [JournalRun(array("I", (ref for ref in refs if ref != NOWHERE)))]
    if content.paged is not None:
        rest = compress(ids, (ref == NOWHERE for ref in refs))
        runs += [PageRun(*place) for place in content.paged.find_all(content.queue_id, rest)]
    return runs


class Leaving:
    """Cancelled before all of a change is staged, nothing happened; from then on it is done to its end."""

    def __init__(self, parts: StoreParts, admission: Admission, paged: PageCleanup) -> None:
        self.parts = parts
        self._admission = admission
        self._removing = parts.removing
        self._kinds = parts.kinds
        self._paged = paged
        self.empties = paged.empties
        self.noting = Noting(parts.core, parts.journals, parts.bodies.aside)

    async def acknowledge(self, queue: StoreQueue, choose: Choice) -> int:
        """Take messages out of a queue; how many were there. Raises `HeldByReaders`."""
        chosen = self._removing.choose(queue.content, choose(queue))
        return await self._leave(chosen, lambda: self._taken(chosen, self.noting.leaving(chosen)))

    async def consume(
        self, chosen: Chosen, by: Hashable | None = None, is_over: Callable[[], bool] = always
    ) -> None:
        """Acknowledge the chosen messages; durable on return. The caller gives up its claim and clears them
        away. `by`: the reader that has them until `is_over`; None: no reader has.
        """
        await self._taken(chosen, None if by is None else self.noting.leaving(chosen, by, is_over))

    async def _taken(self, chosen: Chosen, noting: Awaitable[Callable[[], None]] | None) -> None:
        left = None if noting is None else await noting
        await self.parts.journals.make_room()
        only = chosen.only()
        if only is not None:
            position = self._removing.stage_one(chosen.queue, only)
        else:
            async with self.parts.changes.one() as change:
                await self.take_in(change, chosen)
                position = change.commit()
        await self.parts.settle(position)
        if left is not None:
            left()

    async def move(
        self,
        source: StoreQueue,
        target: QueuePath,
        choose: Choice,
        kind: type[Copies] = Copies,
        address: str | None = None,
    ) -> int:
        """Move messages from one queue to another, or into the pages of its address if that pages or is full.
        `address`: the address that copies name, if it is another one. Raises `AddressFull`, `HeldByReaders`.
        """
        full = self._admission.decide_move(source.model.address, target[0]) is Action.PAGE
        async with self.parts.arrivals.bringing(target[0]):
            to = self.parts.store.queue_at(target)
            if source is to:
                return 0
            chosen = self._removing.choose(source.content, choose(source))

            async def leave() -> None:
                await self.parts.journals.make_room()
                async with self.parts.changes.one() as change:
                    await self.move_in(change, chosen, to, kind, address=address, full=full)
                    await change.written()
                    position = change.commit()
                await self.parts.settle(position)

            with self._kinds.coming((to.content.queue_id,)):
                moved = await self._leave(chosen, leave)
        self._admission.moved(target[0])
        return moved

    async def _leave(self, chosen: Chosen, leave: Callable[[], Awaitable[None]]) -> int:
        try:
            self._removing.refuse_held(chosen)
            if len(chosen):
                await leave()
            else:
                # Whatever is there is on its way out by somebody else's doing.
                await self.parts.store.published()
        except BaseException:
            self._removing.let_go(chosen)
            await self.stayed(chosen)
            raise
        self._removing.let_go(chosen)
        if len(chosen):
            await self.clear(chosen)
        return len(chosen)

    async def returned(self, chosen: Chosen, due_ms: int = 0) -> None:
        """Judge messages that a reader released, due from `due_ms` on: stage what their queue displaces for
        them, or their own removal. They were unmarked just before, so no other consumer has them yet.
        """
        only = chosen.only()
        if only is not None:
            await self._replaced(lambda: self._kinds.returned(chosen.queue, only, due_ms))

    async def stayed(self, chosen: Chosen) -> None:
        """Judge messages whose removal failed, in the same way. Messages that left are passed over."""
        if self.parts.journals.failure is None and self._kinds.special((chosen.queue,)):
            await unbroken(lambda: self._stayed(chosen))

    async def _stayed(self, chosen: Chosen) -> None:
        for ids in chosen.pieces():
            for few in pieces(ids, ROUTED_PIECE_MESSAGES):
                some = [MessageId(one) for one in few]
                await self._replaced(partial(self._kinds.stayed, chosen.queue, some))
                await checkpoint()

    async def became_due(self) -> None:
        """Judge messages that became due, in the same way."""
        await self._replaced(self._kinds.became_due)

    async def _replaced(self, stage: Callable[[], Position | None]) -> None:
        try:
            position = stage()
            if position is not None:
                await self.parts.settle(position)
                self._removing.clear_replaced()
                self._admission.look_again()
        except JournalfsError as error:
            self._removing.postponed(error)

    async def clear(self, chosen: Chosen) -> None:
        """Clear away what nobody needs any more of messages that left."""
        await unbroken(lambda: self._clear(chosen))

    async def _clear(self, chosen: Chosen) -> None:
        if len(chosen):
            self.parts.uses.of(chosen.queue).emptied = True
        if chosen.paged:
            address = chosen.content.model.address
            await self._paged.consumed(address, {one.number for one in chosen.paged})
        await self._removing.clear(chosen, self.parts.changes.pauses())
        self._admission.look_again()

    # ---- what comes back ----

    async def bring_back(
        self,
        backs: Sequence[Back],
        kind: type[Copies] = BroughtBack,
        stage_also: StageAlso = lambda tx: None,
    ) -> None:
        """Publish messages of other stores again, all in one transaction, together with the records that
        `stage_also` stages. Messages that they displace are noted as removed.
        """
        addresses = sorted({one.target[0] for one in backs})
        full = {one: self._admission.decide_move("", one) is Action.PAGE for one in addresses}
        left: list[tuple[Queue, Noted]] = []
        async with self.parts.arrivals.bringing(*addresses):
            found = [(one, self.parts.store.queue_at(one.target)) for one in backs]
            targets = {target.content.queue_id: target for _, target in found}

            def note(_tx: TxId) -> None:
                """Note the messages that are displaced."""
                for queue_id, one in self._removing.replacing:
                    noted = self.noting.one(targets[queue_id].content, one)
                    if noted is not None:
                        left.append((targets[queue_id].model, noted))

            await self.parts.journals.make_room()
            with self._kinds.coming(targets):
                async with self.parts.changes.one() as change:
                    for back, target in found:
                        await self._bring_in(change, back, target, kind, full=full[back.target[0]])
                    await change.written()
                    change.at_once(note)
                    change.at_once(stage_also)
                    position = change.commit()
                with self.parts.journals.past_commit:
                    await self.parts.settle(position)
        with self.parts.journals.past_commit:
            for queue, noted in left:
                self.noting.removals.add_one(queue, noted)
            for address in addresses:
                self._admission.moved(address)
            self._admission.look_again()

    async def _bring_in(
        self, change: Change, back: Back, target: StoreQueue, kind: type[Copies], *, full: bool
    ) -> None:
        source = back.source.content
        copies = kind(self.parts, change, target.model.address, target.content.queue_id)
        add = self._one_by_one(change, target, copies, full=full)
        if add is None:
            await copies.add_journal(source, back.ids)
            return
        for ids in pieces(back.ids, ROUTED_PIECE_MESSAGES):
            await add(source, run_of(source, ids))

    # ---- what is staged ----

    def _one_by_one(
        self, change: Change, target: StoreQueue, copies: Copies, *, full: bool
    ) -> Callable[[QueueContent, Run], Awaitable[None]] | None:
        """How a few messages are added, where all are copied: to pages, or with what leaves for them."""
        address, paging = target.model.address, self.parts.paging
        special = change.is_decided and self._kinds.special((target.content.queue_id,))
        if paging.pages_now(address) or (full and not special and paging.takes_pages(address)):
            pages = InPages(paging, change, copies.address, (address,))
            return partial(copies.add_to, pages, address)
        return copies.add_arriving if special else None

    async def take_in(self, change: Change, chosen: Chosen) -> None:
        """As part of a change, take messages out of their queue."""
        self._removing.refuse_beyond_room(chosen)
        await self._removing.stage_in(change, chosen, self.empties)

    async def move_in(
        self,
        change: Change,
        chosen: Chosen,
        target: StoreQueue,
        kind: type[Copies],
        *,
        full: bool,
        address: str | None = None,
    ) -> None:
        """Move messages as part of a change. Within an address, records of the journal stay and change
        queues. For another address they are copied, since a message's own address decides where it goes when
        it expires or fails. Messages in pages are copied, too, since pages are never rewritten, and messages
        that the target has already. All are copied if they displace others, or if the target address pages.
        """
        self._removing.refuse_beyond_room(chosen, moved=True)
        change.undo.append(lambda: self._removing.leave_places(chosen))
        copies = kind(self.parts, change, address or target.model.address, target.content.queue_id)
        add = self._one_by_one(change, target, copies, full=full)
        if add is None:
            for ids in chosen.pieces():
                await self._move_in(change, chosen, ids, target, copies)
        for few in _few(chosen, journal=add is not None):
            await (add or copies.add)(chosen.content, few)
        await self._removing.stage_in(change, chosen, self.empties)

    async def _move_in(
        self, change: Change, chosen: Chosen, ids: array[int], target: StoreQueue, copies: Copies
    ) -> None:
        """Put some messages of the journal into the target, in their order."""
        as_they_are = self._places(chosen, target, ids, copies)
        if all(as_they_are):
            self._stage_references(change, chosen.content, ids, target.content.queue_id)
            await change.after(len(ids))
            return
        for alike, some in groupby(zip(ids, as_they_are, strict=True), key=lambda one: one[1]):
            group = array("q", (message_id for message_id, _ in some))
            if alike:
                self._stage_references(change, chosen.content, group, target.content.queue_id)
                await change.after(len(group))
                continue
            await copies.add_journal(chosen.content, group)

    def _places(self, chosen: Chosen, target: StoreQueue, ids: array[int], copies: Copies) -> bytes:
        """Return for each message 1 if its own record is put into the target: messages of the same address,
        and damaged ones, of which no copy can be made.
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
        self, change: Change, source: QueueContent, ids: array[int], queue: QueueId
    ) -> None:
        """Put messages into a queue by references to their own records. A message that is not due stays so;
        one that is due by a record only gets such a record again (`journalfs.change.message_settings`).
        """
        writer, tx = self.parts.journals.messages, change.tx
        writer.stage_updates_in(tx, ids, MessageType.ADD_REFERENCE, record_bodies.reference(queue))
        times = places(source.state, source.slot, ids, live=False).scheduled_ms
        for message_id, due_ms in zip(ids, times, strict=True) if any(times) else ():
            if due_ms:
                schedule = record_bodies.scheduled_time(queue, due_ms)
                writer.stage_update_in(tx, RecordId(message_id), MessageType.SCHEDULED_TIME, schedule)


def _few(chosen: Chosen, *, journal: bool = True) -> Iterator[Run]:
    """Yield the chosen messages, some at a time."""
    for claim in chosen.claims if journal else ():
        for ids in pieces(claim.ids, ROUTED_PIECE_MESSAGES):
            yield run_of(chosen.content, ids)
    for one in chosen.paged:
        for indexes in pieces(one.claim.ids, ROUTED_PIECE_MESSAGES):
            yield PageRun(one.number, array("I", indexes))
