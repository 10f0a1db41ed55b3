"""A store that this process opened itself: to read it, beside a broker too, or to write it alone."""

from __future__ import annotations

import math
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from journalfs import door
from journalfs.api import REMOVER, ByteSource, Consumer, Delivery, Follower, QueuePath, Send, View
from journalfs.broker.consume.redriving import Redriving
from journalfs.broker.limits.admission import FOREVER
from journalfs.change.routing import Routing
from journalfs.clock import SystemClock
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.engine.waiting import Slices
from journalfs.errors import HeldByReaders, NoSuchName, ReadOnlyStore, WrongCall
from journalfs.ids import MessageId
from journalfs.live.stretches import Failed, Stretch, stretches
from journalfs.python.backend import Batch, MadeOfLines, Messages, Place, Taken, Transaction
from journalfs.python.disk import DiskUse, disk_use
from journalfs.python.glimpses import OwnGlimpses
from journalfs.python.letters import SentBack, sent_back
from journalfs.python.message import Message
from journalfs.python.rows import MESSAGES_MAX, rows_of
from journalfs.store.store import JournalStore
from journalfs.store.write.store import WritingStore
from journalfs.times import moment_ms
from journalfs.views.queues import StoreQueue
from journalfs.views.unset_names import refuse_unset_names
from journalfs.views.views import ALL_NAME, QueueView
from journalfs.windows import WINDOW_BYTES

if TYPE_CHECKING:
    from journalfs.account.entries import Account
    from journalfs.api import Snapshots
    from journalfs.store.queue_counts import QueueCounts

LINES_NAME: Final = "python.jsonl"
FIRST_BYTES: Final = 1 << 16
"""What is read first: whoever wants one message does not wait for thousands."""
FIRST_MESSAGES: Final = 64
"""The same of messages."""
_removers: Final = count(-(1 << 40), -1)
"""Process groups that no process has: `undo` brings back what one call removed."""


class OwnLines:
    """Lines of an open file. Each call renders a window, in a thread where that takes long."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._at = 0
        self._window = FIRST_BYTES
        self._rest = b""

    async def more(self) -> Sequence[bytes]:
        while self._at < self._source.size_bytes:
            work = self._source.ahead(self._at, self._window)
            if work is not None:
                await trio.to_thread.run_sync(work, abandon_on_cancel=True)
            piece = self._source.read(self._at, self._window)
            self._at += len(piece)
            self._window = WINDOW_BYTES
            if not len(piece):
                break
            whole, newline, rest = bytes(piece).rpartition(b"\n")
            self._rest, lines = (rest, self._rest + whole) if newline else (self._rest + rest, b"")
            if newline:
                return lines.split(b"\n")
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def close(self) -> None:
        self._source.close()


class OwnMessages:
    """Messages of an open file. Each call reads the headers of some in C; they have the rest read later."""

    def __init__(self, source: ByteSource, found: Iterator[Stretch], queue: str) -> None:
        self._source = source
        self._loop = trio.lowlevel.current_trio_token()
        self._stretches = found
        self._stretch: Stretch | None = None
        self._queue = queue
        self._at = 0
        self._many = FIRST_MESSAGES

    async def more(self) -> Batch | None:
        while self._stretch is None or self._at == self._stretch.lines.count:
            self._stretch, self._at = next(self._stretches, None), 0
            if self._stretch is None:
                return None
            if self._stretch.failed is not None:
                self._stretch = self._stretch._replace(failed=partial(self._told, self._stretch.failed))
        found, self._at = rows_of(self._stretch, self._at, self._many, self._queue)
        self._many = MESSAGES_MAX
        return found

    def _told(self, failed: Failed, error: FileTorn | CoreRefused) -> None:
        """Tell the store in its loop: a message is looked at in the caller's thread."""
        with suppress(trio.RunFinishedError):
            self._loop.run_sync_soon(failed, error)

    def close(self) -> None:
        self._stretch, self._stretches = None, iter(())
        self._source.close()


class OwnArrivals:
    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    async def next(self, timeout_s: float | None) -> bytes | None:
        source: ByteSource | None = None
        with trio.move_on_after(math.inf if timeout_s is None else timeout_s):
            source = await self._follower.next()
        return None if source is None else line_in(source)

    def close(self) -> None:
        """There is nothing to let go of."""


def line_in(source: ByteSource) -> bytes:
    """The one line of an open file, without its newline."""
    return bytes(source.read(0, source.size_bytes)).rstrip(b"\n")


class OwnTaken:
    def __init__(self, consumer: Consumer, delivery: Delivery) -> None:
        self._consumer = consumer
        self._delivery = delivery
        self.line = line_in(delivery.line)

    async def acknowledge(self) -> None:
        await self._end(self._delivery.acknowledge)

    async def give_back(self) -> None:
        await self._end(lambda: self._delivery.give_back(failed=True))

    async def put_back(self) -> None:
        """Without counting an attempt."""
        await self._end(lambda: self._delivery.give_back(failed=False))

    async def _end(self, way: Callable[[], Awaitable[None]]) -> None:
        with trio.CancelScope(shield=True):
            REMOVER.set(next(_removers))
            try:
                await way()
            finally:
                await self._consumer.close()


class OwnBackend:
    """Its calls run in the loop that the store works in."""

    def __init__(self, source: str, store: JournalStore) -> None:
        self.source = source
        self.store = store
        self._keeping = store.keep_removed() if isinstance(store, WritingStore) else None

    @property
    def writes(self) -> bool:
        return isinstance(self.store, WritingStore)

    def _writing(self, what: str) -> WritingStore:
        if isinstance(self.store, WritingStore):
            return self.store
        raise ReadOnlyStore(
            f"{self.source}: cannot {what}: it was opened for reading; journalfs.open(..., write=True) opens "
            "it for writing, where no broker has it"
        )

    # -- looking ---------------------------------------------------------------------------------------------

    async def addresses(self) -> Sequence[str]:
        return [one.name for one in self.store.addresses()]

    async def queues(self) -> Sequence[QueuePath]:
        return [(one.name, queue.name) for one in self.store.addresses() for queue in one.queues()]

    async def status(self, place: Place | None) -> Mapping[str, object]:
        if place is None:
            return self.store.status()
        if place[1] is not None:
            return self._queue((place[0], place[1])).status()
        address = self.store.address(place[0])
        if address is None:
            raise NoSuchName(f"{self.source}: no address {place[0]}")
        return address.status()

    def _queue(self, path: QueuePath) -> StoreQueue:
        address = self.store.address(path[0])
        queue = None if address is None else address.queue(path[1])
        if queue is None:
            raise NoSuchName(f"{self.source}: no queue {path[0]}::{path[1]}")
        return queue

    async def view(self, path: QueuePath, selector: str | None) -> QueueView:
        """What is asked for, found out."""
        view: QueueView = self._queue(path)
        if selector is not None:
            await view.understand(selector)
            view = view.where(selector)
        if not view.is_found():
            await view.find()
        return view

    async def count(self, queue: QueuePath, selector: str | None) -> int:
        return len(await self.view(queue, selector))

    async def lines(self, queue: QueuePath, selector: str | None) -> OwnLines:
        return OwnLines((await self.view(queue, selector)).open_all())

    async def messages(self, queue: QueuePath, selector: str | None) -> Messages:
        source = (await self.view(queue, selector)).open_all()
        # A broker may use a journal file again while a message of it is looked at: with its line read at
        # once, the message is whole all the same.
        found = None if self.store.core.live_broker else stretches(source)
        return MadeOfLines(OwnLines(source)) if found is None else OwnMessages(source, found, queue[1])

    async def arrivals(self, queue: QueuePath, selector: str | None) -> OwnArrivals:
        return OwnArrivals((await self.view(queue, selector)).follow())

    async def metrics(self) -> bytes:
        return await self.store.metrics.text(Slices())

    async def overview(self) -> Sequence[QueueCounts]:
        return await self.store.counting.look(Slices())

    async def glimpses(self, queue: QueuePath, selector: str | None) -> OwnGlimpses:
        return OwnGlimpses(partial(self.view, queue, selector))

    async def events(self) -> Sequence[Mapping[str, Any]]:
        return list(self.store.core.events)

    async def reasons(self, queue: QueuePath) -> Mapping[str, int]:
        origins = self._queue(queue).origins()
        await origins.find()
        return origins.reasons()

    async def disk(self) -> DiskUse:
        return await trio.to_thread.run_sync(disk_use, self.store.core.layout)

    async def account(self) -> Account:
        from journalfs.account.taking import account_of  # noqa: PLC0415 - few ask

        return account_of(self.store)

    def moment(self) -> JournalStore:
        return self.store

    # -- changing --------------------------------------------------------------------------------------------

    async def publish(self, place: Place, lines: bytes) -> None:
        publisher = self._writing("publish").publisher(*place, LINES_NAME)
        await publisher.write(lines)
        await publisher.finish()

    async def take(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> Taken | None:
        return await self.taken(queue, selector, timeout_s)

    async def taken(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> OwnTaken | None:
        store = self._writing("take a message")
        await self._refuse_unset(queue, selector)
        consumer = store.consumer(queue, () if selector is None else (selector,))
        try:
            delivery = await next_of(consumer, timeout_s)
        except BaseException:
            with trio.CancelScope(shield=True):
                await consumer.close()
            raise
        if delivery is None:
            await consumer.close()
            return None
        return OwnTaken(consumer, delivery)

    async def _refuse_unset(self, queue: QueuePath, selector: str | None) -> None:
        if selector is not None:
            view: View = self._queue(queue)
            await view.understand(selector)
            await refuse_unset_names(view, selector)

    async def remove(self, queue: QueuePath, selector: str | None) -> int:
        store = self._writing("remove messages")
        await self._refuse_unset(queue, selector)
        REMOVER.set(next(_removers))
        if selector is None:
            return await store.acknowledge_part(queue, ALL_NAME)
        ids = (await self.view(queue, selector)).message_ids(ALL_NAME)
        return await store.acknowledge(queue, ids) if ids else 0

    async def move(self, queue: QueuePath, selector: str | None, target: QueuePath) -> int:
        store = self._writing("move messages")
        await self._refuse_unset(queue, selector)
        if selector is None:
            return await store.move_part(queue, ALL_NAME, target)
        ids = (await self.view(queue, selector)).message_ids(ALL_NAME)
        return await store.move(queue, ids, target) if ids else 0

    async def remove_those(self, queue: QueuePath, ids: Sequence[int]) -> int:
        REMOVER.set(next(_removers))
        return await self._writing("remove messages").acknowledge(queue, list(map(MessageId, ids)))

    async def move_those(self, queue: QueuePath, ids: Sequence[int], target: QueuePath) -> int:
        return await self._writing("move messages").move(queue, list(map(MessageId, ids)), target)

    async def redrive(
        self, queue: QueuePath, selector: str | None, ids: Sequence[int] | None, *, plans: bool
    ) -> SentBack:
        if ids is None:
            await self._refuse_unset(queue, selector)
            chosen = (await self.view(queue, selector)).message_ids(ALL_NAME)
        else:
            chosen = list(map(MessageId, ids))
        if plans:
            core = self.store.core
            redriving = Redriving(core, Routing(core, lambda *_: False).concerns, _changes_nothing)
            return sent_back(await redriving.planned(self._queue(queue), chosen))
        return sent_back(await self._writing("send messages back").redrive(queue, chosen))

    async def create(self, place: Place) -> None:
        store, (address, queue) = self._writing("make an address or a queue"), place
        if store.address(address) is None:
            await store.create_address(address)
        found = store.address(address)
        if queue is not None and (found is None or found.queue(queue) is None):
            await store.create_queue(address, queue)

    async def begin(self) -> Transaction:
        store, name = self._writing("begin a transaction"), f"python-{uuid.uuid4().hex}"
        await store.transactions.begin(name)
        return OwnTransaction(self, store, name)

    async def undo(self, since: str | None, *, plans: bool = False) -> Mapping[str, int]:
        self._writing("bring messages back")
        assert self._keeping is not None, "it writes"
        if since is None:
            undone = await self._keeping.undo_last(plans=plans)
        else:
            time_ms = moment_ms(since, SystemClock().now_ms())
            undone = await self._keeping.undo_since(time_ms, plans=plans)
        return {"::".join(path): messages for path, messages in undone.back.items()}

    # -- moments ---------------------------------------------------------------------------------------------

    async def snapshot(self, name: str) -> None:
        await self._writing("make a snapshot").snapshots.create(name)

    def _snapshots(self) -> Snapshots:
        found = self.store.snapshots
        if found is None:
            raise WrongCall(f"{self.source}: this is itself of one moment, and has no snapshots")
        return found

    async def snapshots(self) -> Sequence[str]:
        return [one.name for one in self._snapshots().all()]

    async def drop_snapshot(self, name: str) -> None:
        await self._writing("remove a snapshot").snapshots.delete(name)

    async def of_snapshot(self, name: str) -> OwnBackend:
        found = self._snapshots().named(name)
        if found is None:
            raise NoSuchName(f"{self.source}: no snapshot {name}")
        return self._of(await found.opened(), f"{self.source} (snapshot {name})")

    async def of_history(self, name: str) -> OwnBackend:
        history = self.store.history
        if history is None:
            raise WrongCall(f"{self.source}: this is itself of one moment, and has no history")
        if not history:
            raise NoSuchName(f"{self.source}: no history is kept; set journal-retention-directory")
        return self._of(await history.named(name).opened(), f"{self.source} (history {name})")

    def _of(self, store: object, source: str) -> OwnBackend:
        assert isinstance(store, JournalStore), "stores in files are opened as such"
        return OwnBackend(source, store)


async def _changes_nothing(*_: object) -> int:
    raise AssertionError("what is planned is not done")


async def next_of(consumer: Consumer, timeout_s: float | None) -> Delivery | None:
    """The next message that is the consumer's; None after so many seconds, or once the queue is gone."""
    await consumer.find()
    delivery = consumer.take()
    if delivery is None and timeout_s != 0:
        with trio.move_on_after(math.inf if timeout_s is None else timeout_s):
            delivery = await consumer.next()
    return delivery


class OwnTransaction:
    """A transaction that was begun: what it publishes waits in a file for each run of lines to one place."""

    def __init__(self, backend: OwnBackend, store: WritingStore, name: str) -> None:
        self._backend = backend
        self._store = store
        self._name = name
        self._files: list[tuple[Place, list[bytes]]] = []

    async def publish(self, place: Place, lines: bytes) -> None:
        publisher = self._store.publisher(*place, LINES_NAME)  # raises where there is no such place
        publisher.abandon()
        if not self._files or self._files[-1][0] != place:
            self._files.append((place, []))
        self._files[-1][1].append(lines)

    async def take(self, queue: QueuePath, selector: str | None, timeout_s: float | None) -> Taken | None:
        """Hold the message until the end. Another reader may be quicker between looking and holding."""
        deadline = trio.current_time() + (math.inf if timeout_s is None else timeout_s)
        while True:
            left_s = None if timeout_s is None else max(0.0, deadline - trio.current_time())
            taken = await self._backend.taken(queue, selector, left_s)
            if taken is None:
                return None
            held = await self._hold(queue, taken)
            if held is not None:
                return held

    async def _hold(self, queue: QueuePath, taken: OwnTaken) -> Taken | None:
        number = Message(taken.line).id
        await taken.put_back()
        if number is None:
            raise WrongCall(f"{'::'.join(queue)}: a message without an id cannot be taken in a transaction")
        held = _Held(self._store, self._name, queue, MessageId(number), taken.line)
        with suppress(HeldByReaders):
            if await self._store.transactions.hold(self._name, queue, [held.message_id], None):
                return held
        return None

    async def remove_those(self, queue: QueuePath, ids: Sequence[int]) -> int:
        return await self._store.transactions.hold(self._name, queue, list(map(MessageId, ids)), None)

    async def commit(self) -> None:
        draft = self._store.transactions.draft(self._name)
        if draft is None:
            raise NoSuchName(f"{self._backend.source}: the transaction {self._name} has ended already")
        sends = []
        for number, (place, pieces) in enumerate(self._files):
            file = draft.staged / f"{number:09d}.jsonl"
            await trio.to_thread.run_sync(_write, file, pieces)
            sends.append(Send(*place, [(file, LINES_NAME)]))
        REMOVER.set(next(_removers))
        await self._store.transactions.commit(self._name, sends, FOREVER)

    async def roll_back(self) -> None:
        with trio.CancelScope(shield=True), suppress(NoSuchName):
            await self._store.transactions.roll_back(self._name)


@dataclass(frozen=True, slots=True)
class _Held:
    """A message that a transaction takes out of its queue when it is committed."""

    store: WritingStore
    transaction: str
    queue: QueuePath
    message_id: MessageId
    line: bytes

    async def acknowledge(self) -> None:
        """The commit does it."""

    async def give_back(self) -> None:
        with trio.CancelScope(shield=True):
            await self.store.transactions.give_back(self.transaction, self.queue, [self.message_id])


def _write(file: Path, pieces: Sequence[bytes]) -> None:
    door.make_folders(file.parent)
    with file.open("wb") as out:
        out.writelines(pieces)
