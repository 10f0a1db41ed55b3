"""Publishes messages: `Sending` asks for room, chooses the queues, and stages the messages in the journal or
in pages, as one transaction. The mount's files, transactions and moves publish through it. It must not be
called before the store's journals are open.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from journalfs.api import Patience
from journalfs.broker.limits.admission import FOREVER, Action, Admission, Admitted
from journalfs.broker.publish.publication import (
    Files,
    Source,
    is_short,
    messages_in,
    path_of,
    pieces_of,
    read_all,
)
from journalfs.change.change import Change
from journalfs.change.paging import InPages
from journalfs.change.publishing import taken
from journalfs.change.routing import Alike, Routed
from journalfs.change.store_parts import StoreParts
from journalfs.engine.waiting import checkpoint, unbroken
from journalfs.ids import Position, QueueId
from journalfs.limits import PIECE_RECORDS, PIECE_TEXTS, ROUTED_PIECE_MESSAGES
from journalfs.live.memory import NOTHING, Footprint
from journalfs.message.outgoing import NO_PROPERTIES, Outgoing, Texts


class Sinks(NamedTuple):
    """The addresses whose queues get a publication: the address itself, and the wildcard addresses that match
    it. Each of them has its own limits and pages.
    """

    stored: tuple[str, ...]
    """These from the journal."""
    pages: frozenset[str] = frozenset()
    """These from the pages of their address."""
    drops: frozenset[str] = frozenset()
    """These do not get it."""


@dataclass(slots=True)
class Sent:
    """The result of staging: the messages count once `position` is durable."""

    position: Position | None = None
    """None: there was nothing to publish."""
    transactional: bool = True
    messages: int = 0
    """How many were sent."""
    duplicates: int = 0
    """How many were left out, since their duplicate ids are known."""
    held: dict[str, Footprint] = field(default_factory=dict)
    """Upper bound of the memory that the messages take outside of pages, by the address of their queues."""


class Sending:
    def __init__(self, parts: StoreParts, admission: Admission, *, writes_wait: bool) -> None:
        """`writes_wait` off: a write returns before what it published is durable."""
        self.parts = parts
        self.admission = admission
        self.routing = parts.routing
        self.publishing = parts.publishing
        self._writes_wait = writes_wait

    # ---- where it goes ----

    def replaces(self, address: str, queue: str | None = None) -> bool:
        """Whether messages that are sent to an address, or to one queue, take the place of old ones."""
        bound = self.routing.reached_from(address)
        return self.parts.kinds.special(one.queue_id for one in bound if queue in (None, one.name))

    def has_besides(self, address: str, queue: str | None) -> bool:
        """Whether queues of other addresses get what is sent."""
        return queue is None and bool(self.routing.besides(address))

    def check(self, address: str, queue: str | None) -> None:
        """Raises `NoRoute` where nothing takes what is published, and `AddressFull` where a wildcard address
        refuses what is sent to an address.
        """
        self.routing.of_any(address, queue)
        if queue is None:
            for wild in self.routing.besides(address):
                self.admission.decide_beside(wild, late=False)

    def sinks(self, address: str, queue: str | None, taken: Admitted) -> Sinks:
        """The sinks of a publication that was taken. Raises `AddressFull`: `check`."""
        besides = self.routing.besides(address) if queue is None else ()
        if not besides and taken.action is Action.STORE:
            return Sinks((address,))
        actions = {address: taken.action}
        for wild in besides:
            actions[wild] = self.admission.decide_beside(wild, late=taken.late).action
        drops = frozenset(of for of, action in actions.items() if action is Action.DROP)
        paging = (of for of, action in actions.items() if action is Action.PAGE)
        pages = frozenset(filter(self.parts.paging.takes_pages, paging))
        stored = tuple(of for of in actions if of not in drops | pages)
        return Sinks(stored, pages, drops)

    # ---- publishing ----

    async def publish_files(
        self, address: str, queue: str | None, files: Files, patience: Patience = FOREVER
    ) -> None:
        with await self.admission.enter(address, patience) as admitted:
            short = is_short(files)
            messages = await read_all(files) if short else messages_in(files)
            path = path_of(address, queue, files[0][1] if len(files) == 1 else None)
            await self.publish(address, queue, messages, path=path, whole=True, admitted=admitted)

    async def publish(
        self,
        address: str,
        queue: str | None,
        messages: Sequence[Outgoing] | Source,
        *,
        path: str | None = None,
        whole: bool = False,
        admitted: Admitted | None = None,
        note_id: str | None = None,
    ) -> None:
        """Publish messages in one transaction. `path`: of the file they are in. `whole`: the caller waits for
        it to be durable even where single writes do not (`SyncMode.CLOSE`). Waits for room, unless they
        are `admitted` already. `note_id`: the note of what was flushed that they take the place of.
        """
        parts = self.parts
        parts.store.refuse_failed()
        if isinstance(messages, Sequence) and not messages:
            return
        with admitted or await self.admission.enter(address) as entered:
            if entered.action is Action.DROP and not self.has_besides(address, queue):
                self.admission.drop(address, await count(messages))
                return
            if parts.journals.messages.short_of_space:
                await parts.journals.make_room()
            await parts.arrivals.begin(address)
            try:
                replaces = self.replaces(address, queue)
                sinks = self.sinks(address, queue, entered)
                sent = await self._stage(address, queue, messages, sinks, note_id, replaces=replaces)
                with parts.journals.past_commit:
                    await self._counted(address, sent, sinks, entered, whole=whole)
                    self.tell_duplicates(path or path_of(address, queue), address, sent)
                    if not replaces and self.replaces(address, queue):
                        # It was not so in the beginning.
                        parts.kinds.forget(one.queue_id for one in self.routing.reached_from(address))
                    self.clear_replaced()
            finally:
                parts.arrivals.end(address)

    async def _counted(
        self, address: str, sent: Sent, sinks: Sinks, entered: Admitted, *, whole: bool
    ) -> None:
        """Weigh what was staged, and wait for it as its publisher is to. Raises WriteFailed."""
        store = self.parts.store
        if sent.position is not None:
            self.weighed(sent, sent.position)
        entered.done()
        for of in sinks.drops:
            self.admission.drop(of, sent.messages)
        if sinks.pages:
            await unbroken(store.show)  # what is in pages does not wait for the journal
        if sent.position is None:
            # What makes them superfluous may be on its way itself.
            await store.published()
            return
        await self._settled(sent.position, whole=whole, transactional=sent.transactional)
        if sinks.pages:
            self.admission.look_again()  # who waits to know how much is in pages

    async def _settled(self, position: Position, *, whole: bool, transactional: bool) -> None:
        """Wait until a publication is durable, as far as the setting of syncs asks for it, and make it
        visible. A cancellation is delivered afterwards.
        """
        parts, writer = self.parts, self.parts.journals.messages
        if whole or (self._writes_wait and writer.waits(transactional=transactional)):
            only_adds = not parts.removing.has_replaced
            await parts.store.settled_unbroken(position, only_adds=only_adds)
        elif writer.committer.reached_position >= position:
            await unbroken(parts.store.show)

    def weighed(self, sent: Sent, position: Position) -> None:
        for of, held in sent.held.items():
            self.admission.staged(of, position, held)

    def clear_replaced(self) -> None:
        """Clear away what left since others came."""
        if self.parts.removing.has_replaced:
            self.parts.removing.clear_replaced()
            self.parts.core.waking.left()
            self.admission.look_again()

    def tell_duplicates(self, path: str, address: str, sent: Sent) -> None:
        """Count the messages that were left out as duplicates and add an event. The writer gets no error for
        them.
        """
        if sent.duplicates:
            core = self.parts.core
            core.duplicates_left_out[address] += sent.duplicates
            known = "1 message is" if sent.duplicates == 1 else f"{sent.duplicates} messages are"
            message = f"{path}: {known} not published: {address} knows the duplicate ids already"
            core.events.add("duplicates", message, level=logging.INFO, what=path, messages=sent.duplicates)

    # ---- staging ----

    async def _stage(
        self,
        address: str,
        queue: str | None,
        messages: Sequence[Outgoing] | Source,
        sinks: Sinks,
        note_id: str | None,
        *,
        replaces: bool,
    ) -> Sent:
        """Stage messages, or write them to pages, where they are durable at once. Raises JournalfsError, and
        then nothing counts; so it is when this is cancelled.
        """
        few = messages if isinstance(messages, Sequence) else ()
        if few and len(few) <= PIECE_RECORDS and not replaces and not sinks.pages:
            alike = self.alike(address, queue, few, sinks)
            position = None if alike is None else self.publishing.stage_texts(alike, note_id=note_id)
            if alike is not None and position is not None:
                with self.parts.journals.past_commit:
                    self.routing.took_turns(alike)
                    held = {of: self.admission.weigh(of, few) for of in sinks.stored}
                    is_one = alike.pairs == 1 and note_id is None
                    return Sent(position, not is_one, len(few), held=held)
        routed = self.routed(address, queue, few, sinks) if len(few) == 1 else ()
        alone = note_id is None and self._is_alone(routed, replaces=replaces)
        async with self.parts.changes.one(alone=alone) as change:
            if note_id is not None:
                self.publishing.end_note_in(change, note_id)
            staging = self._staging(change, address, queue, sinks, replaces=replaces)
            if routed:
                staging.counted(few)
                await staging.stage_routed(routed)
            elif isinstance(messages, Sequence):
                await staging.stage_messages(messages)
            else:
                await staging.stage_all(messages)
            await change.written()
            if alone or change.begun:
                staging.sent.position = change.commit()
        staging.sent.transactional = not alone
        return staging.sent

    @staticmethod
    def _is_alone(routed: Sequence[Routed], *, replaces: bool) -> bool:
        """Whether it is a single message that needs no transaction: for one queue, or in pages."""
        if len(routed) != 1 or replaces or routed[0].message.duplicate_id is not None:
            return False
        one = routed[0]
        return bool(one.queues) and (one.pages_of is not None or len(one.queues) == 1)

    async def stage_in(
        self, change: Change, address: str, queue: str | None, source: Source, sinks: Sinks
    ) -> Sent:
        """Stage messages as part of a change that the caller commits. Returns what was staged."""
        replaces = change.is_decided and self.replaces(address, queue)
        staging = self._staging(change, address, queue, sinks, replaces=replaces)
        await staging.stage_all(source)
        return staging.sent

    def _staging(
        self, change: Change, address: str, queue: str | None, sinks: Sinks, *, replaces: bool
    ) -> _Staging:
        pages = InPages(self.parts.paging, change, address, sinks.pages) if sinks.pages else None
        return _Staging(self, change, address, queue, sinks, pages, replaces)

    def alike(
        self, address: str, queue: str | None, messages: Sequence[Outgoing], sinks: Sinks
    ) -> Alike | None:
        """Messages that can be staged together; None where they have to be looked at one by one. Raises
        `NoRoute`.
        """
        if sinks.drops or (sinks.pages and self.has_besides(address, queue)):
            return None
        if not isinstance(messages, Texts) or messages.properties is not NO_PROPERTIES:
            return None
        route = self.routing.of_any(address, queue)
        if route is None:
            return None
        turn = self.routing.turn(address, route)
        return Alike(address, messages, route, turn, self.parts.rules.expiry(address))

    def routed(
        self, address: str, queue: str | None, messages: Sequence[Outgoing], sinks: Sinks
    ) -> list[Routed]:
        """Messages with the queues that get them, and how."""
        ruled = self.parts.rules.expiring(address, messages)
        routed = self.routing.routed(address, queue, ruled, sinks.pages)
        for one in routed:
            self.parts.store.refuse_message(one.message)
            self.parts.kinds.refuse_unloadable(one.queues, one.message)
        if not sinks.pages and not sinks.drops:
            return routed
        return [part for one in routed for part in self._parts_of(one, sinks)]

    def _parts_of(self, one: Routed, sinks: Sinks) -> Iterator[Routed]:
        """A message once for each sink that it goes to: pages hold nothing for queues of other addresses."""
        parts: dict[str | None, list[QueueId]] = {}
        for queue in one.queues:
            of = self.routing.address_of(queue)
            if of not in sinks.drops:
                parts.setdefault(of if of in sinks.pages else None, []).append(queue)
        if not parts:
            yield Routed(one.message, ())
        for number, (pages_of, queues) in enumerate(parts.items()):
            yield Routed(one.message, tuple(queues), pages_of, is_copy=number > 0)


@dataclass(slots=True)
class _Staging:
    """Stages messages for one address as part of a change, piece by piece: no more than a piece is in memory.
    `replaces`: queues may let go of others for them.
    """

    sending: Sending
    change: Change
    address: str
    queue: str | None
    sinks: Sinks
    pages: InPages | None
    replaces: bool
    sent: Sent = field(default_factory=Sent)

    async def stage_all(self, source: Source) -> None:
        async with aclosing(source):
            async for messages in source:
                await self.stage_messages(messages)

    async def stage_messages(self, messages: Sequence[Outgoing]) -> None:
        for piece in _pieces(messages):
            self.counted(piece)
            await self._stage_piece(piece)

    def counted(self, messages: Sequence[Outgoing]) -> None:
        self.sent.messages += len(messages)
        for of in self.sinks.stored:
            weight = self.sending.admission.weigh(of, messages)
            self.sent.held[of] = self.sent.held.get(of, NOTHING) + weight

    async def _stage_piece(self, messages: Sequence[Outgoing]) -> None:
        sending = self.sending
        alike = None if self.replaces else sending.alike(self.address, self.queue, messages, self.sinks)
        if alike is not None and await self._stage_alike(alike):
            sending.routing.took_turns(alike)
            await self.change.after(len(messages))
            return
        for some in pieces_of(messages, ROUTED_PIECE_MESSAGES):
            await self.stage_routed(sending.routed(self.address, self.queue, some, self.sinks))

    async def _stage_alike(self, alike: Alike) -> bool:
        """False, with nothing staged, if they have to be looked at one by one all the same."""
        if self.pages is not None:
            return await self.pages.add_texts(alike)
        return self.sending.publishing.stage_texts_in(self.change.tx, alike)

    async def stage_routed(self, routed: Sequence[Routed]) -> None:
        publishing = self.sending.publishing
        before = publishing.position
        numbered = await publishing.numbered_in(self.change, self.address, routed)
        self.sent.duplicates += taken(routed) - taken(one for _, one in numbered)
        stage = publishing.stage_arriving_in if self.replaces else publishing.stage_in
        stage(self.change, self.address, numbered)
        if self.pages is not None:
            await self.pages.add(numbered)
        await self.change.after(max(publishing.position - before, len(numbered)))


def _pieces(messages: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    if isinstance(messages, Texts):
        return messages.pieces(PIECE_TEXTS)
    return pieces_of(messages, ROUTED_PIECE_MESSAGES)


async def count(messages: Sequence[Outgoing] | Source) -> int:
    """Raises what reading them raises."""
    if isinstance(messages, Sequence):
        return len(messages)
    found = 0
    async with aclosing(messages):
        async for some in messages:
            found += len(some)
            await checkpoint()
    return found
