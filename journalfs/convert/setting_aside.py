"""Puts messages of a store that is being made where a broker can deal with them.

Messages of transactions whose end is lost go to a queue `undecided.ID`, messages that cannot be read whole to
the queue `damaged`, each with a note of where it comes from, so that a broker's retry, or `journalfs dlq
redrive`, sends it there. Messages that the caller did not ask for leave their queues. `Carrying` calls this
for the store that it puts together, which nobody else has; the source is never touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from journalfs.account.books import NotCarried, SetAside, not_asked_for
from journalfs.account.entries import Account, Entry, Standing
from journalfs.account.filters import Wanted
from journalfs.broker.consume.leaving import chosen_runs
from journalfs.change.routing import Routed
from journalfs.engine.lines import SOURCE_CORE_LARGE
from journalfs.engine.state_types import TransactionInfo
from journalfs.errors import DecodeError
from journalfs.format import core_message
from journalfs.format.core_message import CoreHeader, CoreType
from journalfs.format.primitives import Reader
from journalfs.format.properties import Code
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, QueueId
from journalfs.limits import ROUTED_PIECE_MESSAGES
from journalfs.live.core import Core
from journalfs.live.stored_runs import StoredBytes, each_place, message_of_record
from journalfs.live.undecided import adds_message, adds_pages
from journalfs.message.outgoing import Body, CoreMessage, FileBody, Outgoing, Properties
from journalfs.records.files.anomalies import name_of_queue
from journalfs.store.write.opening import change_in
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue

UNDECIDED: Final = "undecided."
"""Before the number of a transaction: the queue of its messages."""

DAMAGED: Final = "damaged"
"""The queue of messages that cannot be read whole."""

WHY: Final = "journalfs_damage"
"""The property of a message in `DAMAGED` that says what is wrong with it."""

_LEFT_OUT: Final = (core_message.LARGE_SIZE, core_message.LARGE_COMPRESSED, core_message.DUPLICATE_ID)
"""Properties that are about a body which is no more as it was, or that would have the message refused."""


@dataclass(slots=True)
class SettingAside:
    """What to do to a new store, and what was done."""

    undecided: Mapping[int, str]
    """Names of the transactions whose end is lost, by their ids."""
    account: Account
    """Of the new store as it is: its damaged messages are set aside."""
    wanted: Wanted
    here: Mapping[str, str]
    """What queues are called in the source, where that is another name."""
    keep_damaged: bool = False
    set_aside: list[SetAside] = field(default_factory=list)
    not_carried: list[NotCarried] = field(default_factory=list)
    copied: set[int] = field(default_factory=set)
    """Messages whose bodies others have now."""

    @property
    def damaged(self) -> Sequence[Entry]:
        """The damaged messages that are set aside: each for one queue."""
        if self.keep_damaged:
            return ()
        return [one for one in self.account.entries if is_damaged_message(one)]

    @property
    def is_needed(self) -> bool:
        return bool(self.undecided or self.damaged or not self.wanted.is_all)

    async def run(self, store: WritingStore) -> None:
        """Do it, and close the store. Raises what changing a store raises."""
        await change_in(store, self._run, store.journals.run)

    async def _run(self, store: WritingStore) -> None:
        await self._leave_out(store)
        by_id = {one.tx_id: one for one in _open_transactions(store.core, self.undecided)}
        for tx_id, name in self.undecided.items():
            if tx_id in by_id:
                await self._decidable(store, by_id[tx_id], name)
        if self.damaged:
            await self._damaged(store)

    # ---- what was not asked for ----

    async def _leave_out(self, store: WritingStore) -> None:
        """Acknowledge what the caller does not want."""
        if self.wanted.is_all:
            return
        for queue in list(store.queues()):
            before = len(queue)
            reason = await self._left_out_of(store, queue)
            gone = before - len(queue)
            if gone:
                full = f"{queue.model.address}::{queue.name}"
                self.not_carried.append(not_asked_for(full, gone, reason))

    async def _left_out_of(self, store: WritingStore, queue: StoreQueue) -> str:
        """Acknowledge what of a queue is not wanted; return the options that say so."""
        content = queue.content
        full = f"{queue.model.address}::{queue.name}"
        address, _, name = self.here.get(full, full).partition("::")
        if not self.wanted.wants_queue(address, name):
            await store.leaving.acknowledge(queue, lambda found: found.content.live())
            return self.wanted.told_queues()
        ids: list[MessageId] = []
        for run in content.live():
            kept = set(self.wanted.chosen(content, run).ids(content))
            ids.extend(MessageId(one) for one in run.ids(content) if one not in kept)
        if ids:
            await store.leaving.acknowledge(queue, lambda found: chosen_runs(found, ids))
        return self.wanted.told()

    # ---- transactions whose end is lost ----

    async def _decidable(self, store: WritingStore, transaction: TransactionInfo, name: str) -> None:
        """Put the messages of a transaction into a queue of their own, one for each queue that they were
        sent to.
        """
        if not any(adds_message(one) or adds_pages(one) for one in transaction.operations):
            return  # it only acknowledged
        queue = await _new_queue(store, f"{UNDECIDED}{transaction.tx_id}")
        into = f"{queue.model.address}::{queue.name}"
        sent: Counter[str | None] = Counter()

        def messages() -> Iterator[Outgoing]:
            for target, message in _sent_by(store.core, transaction):
                sent[target] += 1
                yield message

        await _put(store, queue, messages())
        self.copied |= {one.record_id for one in transaction.operations if adds_message(one)}
        for target, count in sorted(sent.items(), key=lambda item: item[0] or ""):
            reason = f"the end of {name} is lost; what it sent waits here for somebody who knows it"
            self.set_aside.append(SetAside(target, into, Standing.UNDECIDED, count, reason))

    # ---- damaged messages ----

    async def _damaged(self, store: WritingStore) -> None:
        """Put what there is of each damaged message into the queue for them, and take it out of its own."""
        queue = await _new_queue(store, DAMAGED)
        into = f"{queue.model.address}::{queue.name}"
        reasons: dict[MessageId, str] = {}
        by_queue: dict[str, list[MessageId]] = {}
        for entry in self.damaged:
            assert entry.queue is not None
            assert entry.id is not None
            reasons[MessageId(entry.id)] = entry.reason
            by_queue.setdefault(entry.queue, []).append(MessageId(entry.id))
        names = {f"{one.model.address}::{one.name}": one for one in store.queues()}
        for full, ids in sorted(by_queue.items()):
            await self._out_of(store, names[full], queue, ids, reasons)
            told = "; ".join(sorted({reasons[one] for one in ids})[:3])
            self.set_aside.append(SetAside(full, into, Standing.DAMAGED, len(ids), told))

    async def _out_of(
        self,
        store: WritingStore,
        source: StoreQueue,
        target: StoreQueue,
        ids: Sequence[MessageId],
        reasons: Mapping[MessageId, str],
    ) -> None:
        runs = [run for run in chosen_runs(source, ids) if len(run)]
        if not runs:
            return
        places = (place for run in runs for place in each_place(source.content, run))
        await _put(store, target, (_remains(store.core, source, one, reasons) for one in places))
        await store.leaving.acknowledge(source, lambda found: chosen_runs(found, ids))


def is_damaged_message(entry: Entry) -> bool:
    """Return whether an entry is about one message of a queue that can be taken out of it."""
    is_one = entry.queue is not None and entry.id is not None and entry.messages.messages == 1
    return entry.standing is Standing.DAMAGED and is_one and entry.transaction is None


async def _new_queue(store: WritingStore, name: str) -> StoreQueue:
    """Make a point-to-point queue and its address; nothing else of the store has its name."""
    while store.address(name) is not None or store.core.bindings.queue_named(name) is not None:
        name += "-new"
    await store.create_address(name)
    await store.create_queue(name, name)
    return store.queue_at((name, name))


async def _put(store: WritingStore, queue: StoreQueue, messages: Iterable[Outgoing]) -> None:
    """Add messages to a queue in one transaction, as they are: none is looked for as a duplicate, none is
    refused since an address is full.
    """
    parts, address, queue_id = store.parts, queue.model.address, queue.content.queue_id
    await parts.journals.make_room()
    async with parts.changes.one() as change:
        each = iter(messages)
        while few := list(islice(each, ROUTED_PIECE_MESSAGES)):
            numbered = [(parts.publishing.new_id(), one) for one in few]
            await parts.publishing.write_bodies(change, address, numbered)
            routed = [(message_id, Routed(one, (queue_id,))) for message_id, one in numbered]
            parts.publishing.stage_in(change, address, routed)
            await change.after(2 * len(routed))
        await change.written()
        position = change.commit()
    await parts.settle(position)


# ---- what a transaction sent ----


def _open_transactions(core: Core, wanted: Mapping[int, str]) -> list[TransactionInfo]:
    return core.loader.state.undecided(lambda tx_id, _: tx_id in wanted)


def _sent_by(core: Core, transaction: TransactionInfo) -> Iterator[tuple[str | None, Outgoing]]:
    """Yield each message of a transaction once for each queue that it was sent to, with that queue's full
    name; None where no queue is known.
    """
    targets: dict[int, list[int]] = {}
    for one in transaction.operations:
        if one.user_type == MessageType.ADD_REFERENCE:
            targets.setdefault(one.record_id, []).append(one.a)
    for one in transaction.operations:
        if adds_message(one):
            payload = core.loader.files[one.file_slot].copy(one.body_offset, one.body_bytes)
            yield from _copies(core, one.record_id, one.user_type, payload, targets.get(one.record_id, ()))
        elif adds_pages(one):
            yield from _paged_copies(core, one.a)


def _paged_copies(core: Core, tx_id: int) -> Iterator[tuple[str | None, Outgoing]]:
    for paged in core.pages.values():
        for number in paged.numbers():
            if tx_id not in paged.summary(number).tx_ids:
                continue
            scan, page = paged.scan(number), paged.mapped(number)
            for index, tx in enumerate(scan.tx_ids()):
                if tx == tx_id:
                    entry = scan.entry(index)
                    payload = page.copy(entry.payload_offset, entry.payload_bytes)
                    is_large = entry.source == SOURCE_CORE_LARGE
                    kind = MessageType.LARGE_MESSAGE if is_large else MessageType.MESSAGE
                    yield from _copies(core, entry.message_id, kind, payload, entry.queue_ids)


def _copies(
    core: Core, message_id: int, user_type: int, payload: bytes, queues: Iterable[int]
) -> Iterator[tuple[str | None, Outgoing]]:
    body = _body_file(core, MessageId(message_id))
    for queue_id in queues or (None,):
        queue = None if queue_id is None else core.bindings.queues.get(QueueId(queue_id))
        try:
            message = message_of_record(user_type, payload, body)
        except DecodeError as error:
            is_large = user_type == MessageType.LARGE_MESSAGE
            message = _unreadable(payload, body, error.reason, large=is_large)
        address = message.sent_to or (queue.address if queue is not None else "")
        name = queue.name if queue is not None else ""
        full = None if queue_id is None else name_of_queue(queue_id, core.queue_names())
        notes = core_message.origin(message_id, name, queue.address if queue is not None else address)
        yield full, message.with_properties(notes).kept()


# ---- what there is of a damaged message ----


def _remains(core: Core, queue: StoreQueue, place: StoredBytes, reasons: Mapping[MessageId, str]) -> Outgoing:
    """Return a message of bytes with all that can be read of a damaged one: its body as far as it is there,
    or its record where even that says nothing.
    """
    payload = place.file.reading(lambda: place.file.copy(place.offset, place.size_bytes))
    is_large = place.source == SOURCE_CORE_LARGE
    body, reason = _body_file(core, place.message_id), reasons[place.message_id]
    message = _unreadable(payload, body, reason, large=is_large)
    notes = core_message.origin(place.message_id, queue.name, queue.model.address)
    return message.with_properties(notes)


def _unreadable(payload: bytes, body: Body | None, reason: str, *, large: bool) -> CoreMessage:
    """Return a message of bytes that any client can receive. `large`: the record has the header alone."""
    header: CoreHeader | None = None
    properties = Properties(())
    try:
        if large:
            header = core_message.split_header(Reader(payload)).header
            properties = Properties(None, header.properties).without(*_LEFT_OUT)
    except (DecodeError, ValueError):
        header, properties = None, Properties(())
    content: Body = body if body is not None else (b"" if header is not None else payload)
    message = CoreMessage(CoreType.BYTES, content, properties)
    if header is not None:
        message.user_id, message.priority = header.user_id, header.priority
        message.timestamp_ms = header.timestamp_ms
    return message.with_properties({WHY: (Code.STRING, reason)})


def _body_file(core: Core, message_id: MessageId) -> FileBody | None:
    path: Path | None = core.large.file(message_id)
    try:
        return None if path is None else FileBody(path)
    except OSError:
        return None  # that it cannot be read is listed already
