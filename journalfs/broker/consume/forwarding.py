"""Forwards messages that expired, or were delivered in vain too often.

A message leaves its queue in the transaction that adds its copy to the queues of the expiry or dead-letter
address. The copy is a broker's: a new id, no expiration, the new address, and its origin among the properties
(docs/format/messages.md, "Sequences"). Without such an address, or without a queue there that accepts it, the
message is dropped, or stays if no setting lets it go (`store.undeliverable`).
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from journalfs.broker.consume.leaving import Leaving
from journalfs.change.removing import Chosen, ChosenOfPage, Claim, PagedMessage
from journalfs.change.routing import Routed
from journalfs.change.store_parts import StoreParts
from journalfs.errors import JournalfsError, RecordTooLarge
from journalfs.format import core_message
from journalfs.format.properties import Code
from journalfs.ids import MessageId, PageNumber, Position, QueueId
from journalfs.live.content import Why, may_be_dropped
from journalfs.live.runs import PageRun, Run
from journalfs.live.stored_runs import stored_messages
from journalfs.message.outgoing import Outgoing, known_routing_type
from journalfs.views.queues import StoreQueue


@dataclass(slots=True)
class _Leaving:
    """Messages on their way out of a queue, and what is made of them."""

    chosen: Chosen
    copies: dict[str, list[tuple[MessageId, Routed]]] = field(default_factory=dict)
    """By the address that they are sent to."""
    dropped: Counter[str] = field(default_factory=Counter)
    """By the address that does not take them; empty: there is none."""

    def __len__(self) -> int:
        return self.dropped.total() + sum(map(len, self.copies.values()))


@dataclass(frozen=True, slots=True)
class _Origin:
    """A message that was chosen, and read."""

    chosen: MessageId | PagedMessage
    message_id: MessageId
    message: Outgoing
    address: str
    """The one it was sent to."""


def _ruling(queue_address: str, message_address: str, why: Why) -> str:
    """The address whose settings say where a message goes."""
    return message_address if why is Why.EXPIRED else queue_address


class Forwarding:
    def __init__(self, parts: StoreParts, leaving: Leaving) -> None:
        self._parts = parts
        self._leaving = leaving
        self._core = parts.core
        self._routing = parts.routing
        self._rules = parts.rules
        self._kept: set[tuple[QueueId, MessageId | PagedMessage]] = set()
        """Messages that could not be read, and were told of."""
        self._told: set[tuple[QueueId, Why]] = set()
        """Queues of which something stays, and was told of."""

    async def forward(self, queue: StoreQueue, runs: Iterable[Run], why: Why) -> int:
        """Send on, or drop, messages of a queue; how many left it."""
        self._parts.store.refuse_failed()
        removing = self._parts.removing
        chosen = removing.choose(queue.content, runs)
        count = 0
        try:
            count = await self.forward_chosen(queue, chosen, why)
        finally:
            removing.let_go(chosen)
            if count < len(chosen):
                await self._leaving.stayed(chosen)
        await self._leaving.clear(chosen)
        return count

    async def forward_chosen(self, queue: StoreQueue, chosen: Chosen, why: Why) -> int:
        """Forward chosen messages. The caller gives up its claim and clears them away."""
        return await self._forward(queue, list(self._origins(queue, chosen)), why)

    async def _forward(self, queue: StoreQueue, origins: Sequence[_Origin], why: Why) -> int:
        try:
            return await self._forward_together(queue, origins, why)
        except RecordTooLarge as error:
            # What is noted on a copy may be too much for a message whose properties all but fill a record.
            if len(origins) == 1:
                self._keep(queue, origins[0].chosen, error)
                return 0
        return sum([await self._forward(queue, [origin], why) for origin in origins])

    async def _forward_together(self, queue: StoreQueue, origins: Sequence[_Origin], why: Why) -> int:
        ways = {one.address: self._destination(queue.model.address, one.address, why) for one in origins}
        for address, to in ways.items():
            if to:
                await self._make_resources(_ruling(queue.model.address, address, why), address, to, why)
        async with self._parts.arrivals.bringing(*{to for to in ways.values() if to}):
            leaving = self._made(queue, origins, ways, why)
            if not len(leaving):
                return 0
            await self._parts.settle(await self._staged(leaving))
        self._tell(queue, leaving, why)
        return len(leaving)

    # ---- where to ----

    def _destination(self, queue_address: str, message_address: str, why: Why) -> str:
        """The address that copies go to; empty: nowhere."""
        return self._rules.text(_ruling(queue_address, message_address, why), why.setting)

    def may_leave(self, queue: StoreQueue, why: Why) -> bool:
        """Whether some such messages of a queue have somewhere to go, or may be dropped. That they stay is
        said once.
        """
        address = queue.model.address
        reached = any(map(self._routing.reached_from, self._rules.texts(why.setting)))
        if not reached and not may_be_dropped(self._core, address, why):
            self._tell_kept(queue, self._rules.text(address, why.setting), why)
            return False
        return True

    async def _make_resources(self, ruling: str, address: str, to: str, why: Why) -> None:
        """The queue that is made for what was sent to one address, where the settings of `ruling` say so."""
        value = self._rules.value
        if ruling == to or not value(ruling, f"auto-create-{why.value}-resources"):
            return
        text, prefix = self._rules.text, f"{why.value}-queue-"
        name = text(ruling, prefix + "prefix") + address + text(ruling, prefix + "suffix")
        if self._core.bindings.queue_named(name) is None:
            quoted = address.replace("'", "''")
            await self._parts.store.make_queue(to, name, f"{core_message.ORIGINAL_ADDRESS} = '{quoted}'")

    # ---- what becomes of them ----

    def _origins(self, queue: StoreQueue, chosen: Chosen) -> Iterator[_Origin]:
        """The chosen messages that are there and can be read whole; the others stay."""
        entries: list[tuple[MessageId | PagedMessage, Run | None]]
        entries = [(message_id, queue.message_run(message_id)) for message_id in chosen.messages()]
        entries += [(one, PageRun(one.number, array("I", [one.index]))) for one in chosen.paged_messages()]
        for entry, run in entries:
            if run is None:
                continue
            try:
                ((message_id, message),) = stored_messages(queue.content, run)
            except JournalfsError as error:
                self._keep(queue, entry, error)
                continue
            yield _Origin(entry, message_id, message, message.sent_to or queue.model.address)

    def _keep(self, queue: StoreQueue, entry: MessageId | PagedMessage, error: Exception) -> None:
        """Say once that a message stays where it is."""
        known = (queue.content.queue_id, entry)
        if known not in self._kept:
            self._kept.add(known)
            which = (
                f"page {entry.number}, message {entry.index}" if isinstance(entry, PagedMessage) else entry
            )
            text = f"{queue.model.address}::{queue.name}: {which} stays here, though it should go: {error}"
            self._core.events.add("not-forwarded", text)

    def _made(
        self, queue: StoreQueue, origins: Sequence[_Origin], ways: Mapping[str, str], why: Why
    ) -> _Leaving:
        leaving = _Leaving(Chosen(queue.content))
        gone = array("q")
        paged: dict[PageNumber, array[int]] = {}
        for origin in origins:
            to = ways[origin.address]
            routed = self._routed(queue, origin, to, why) if to else None
            ruling = _ruling(queue.model.address, origin.address, why)
            if not (routed and routed.queues) and not may_be_dropped(self._core, ruling, why):
                self._tell_kept(queue, to, why)
                continue
            if isinstance(origin.chosen, PagedMessage):
                paged.setdefault(origin.chosen.number, array("q")).append(origin.chosen.index)
            else:
                gone.append(origin.chosen)
            if routed is not None and routed.queues:
                numbered = (self._parts.publishing.new_id(), routed)
                leaving.copies.setdefault(to, []).append(numbered)
            else:
                leaving.dropped[to] += 1
        leaving.chosen.claims.append(Claim(leaving.chosen.queue, gone))
        leaving.chosen.paged += [ChosenOfPage(one, Claim(one, indexes)) for one, indexes in paged.items()]
        return leaving

    def _routed(self, queue: StoreQueue, origin: _Origin, to: str, why: Why) -> Routed | None:
        """The copy, and the queues that get it; None where no queue gets what is sent to its address."""
        if not self._routing.reached_from(to):
            return None
        now_ms = self._core.clock.now_ms()
        notes = core_message.origin(origin.message_id, queue.name, origin.address)
        message = origin.message
        if message.routing_type is not None:
            notes[core_message.ORIGINAL_ROUTING_TYPE] = (Code.BYTE, message.routing_type)
        if why is Why.EXPIRED:
            notes[core_message.ACTUAL_EXPIRY] = (Code.LONG, now_ms)
        # A message that was such a copy before wants again what its sender wanted.
        wanted = message.integer(core_message.ORIGINAL_ROUTING_TYPE)
        copy = message.with_properties(notes).wanting(known_routing_type(wanted))
        copy = copy.expiring_at(self._rules.expiry(to).expiration_ms(0, now_ms)).kept()
        copy.queue_schedule_ms = 0  # it was due, whatever it says itself
        copy = copy.in_journal(now_ms)
        return Routed(copy, self._routing.of_either_kind(to, copy))

    # ---- records ----

    async def _staged(self, leaving: _Leaving) -> Position:
        publishing = self._parts.publishing
        async with self._parts.changes.one() as change:
            for to, copies in leaving.copies.items():
                numbered = ((message_id, one.message) for message_id, one in copies)
                await publishing.write_bodies(change, to, numbered)
                publishing.remember_in(change, to, [one for _, one in copies])
                publishing.stage_arriving_in(change, to, copies)
            await self._parts.removing.stage_in(change, leaving.chosen, self._leaving.empties)
            return change.commit()

    def _tell_kept(self, queue: StoreQueue, to: str, why: Why) -> None:
        """Tell once by an event that such messages stay in a queue. `to`: the address they cannot go to, if
        known.
        """
        known = (queue.content.queue_id, why)
        if known not in self._told:
            self._told.add(known)
            where = f"{queue.model.address}::{queue.name}"
            expired = why is Why.EXPIRED
            what, view = ("whose time is over", ".expired") if expired else ("that failed", ".failed")
            reason = f"no queue of {to} takes them" if to else f"no {why.setting} is known"
            message = f"{where}: messages {what} stay, and are in {view}, since {reason}"
            self._core.events.add("undeliverable", message, queue=queue.name, setting=why.setting)

    def _tell(self, queue: StoreQueue, leaving: _Leaving, why: Why) -> None:
        count = len(leaving)
        self._core.tally[queue.content.queue_id, why.counter] += count
        ways = [f"{len(copies)} sent to {to}" for to, copies in leaving.copies.items()]
        for to, dropped in leaving.dropped.items():
            reason = f"no queue of {to} takes them" if to else f"there is no {why.value}-address"
            ways.append(f"{dropped} dropped, since {reason}")
        where = f"{queue.model.address}::{queue.name}"
        facts = {"queue": queue.name, "messages": count, "dropped": leaving.dropped.total()}
        if why is Why.EXPIRED:
            message = f"{where}: {count} messages expired: {', '.join(ways)}"
            self._core.events.add("expired", message, level=logging.INFO, **facts)
        else:
            message = f"{where}: {count} messages were delivered in vain too often: {', '.join(ways)}"
            level = logging.WARNING if leaving.dropped else logging.INFO
            self._core.events.add("dead-letters", message, level=level, **facts)
