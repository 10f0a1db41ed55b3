"""A store that is open for writing: what it takes, and who does it."""

from __future__ import annotations

import logging
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, cast

import trio

from journalfs import door
from journalfs.api import Patience, QueuePath, Redriven, Usage
from journalfs.bodies.flushed import FlushedFolder
from journalfs.bodies.writing import BodyStore
from journalfs.broker.consume.copies import BroughtBack, Copies
from journalfs.broker.consume.copies import Replayed as ReplayedCopies
from journalfs.broker.consume.deciding import Deciding
from journalfs.broker.consume.delivering import Consumer, Deliveries
from journalfs.broker.consume.expiring import Expiring
from journalfs.broker.consume.forwarding import Forwarding
from journalfs.broker.consume.leaving import Choice, Leaving, StageAlso, chosen_runs
from journalfs.broker.consume.redriving import Redriving
from journalfs.broker.consume.removals import Back
from journalfs.broker.limits.address_limits import PageRoom
from journalfs.broker.limits.admission import FOREVER, Action, Admission, Admitted
from journalfs.broker.limits.disk_limits import DiskLimits
from journalfs.broker.pages.paged import Paged
from journalfs.broker.publish.flushed import Flushed, path_of
from journalfs.broker.publish.lending import Lending
from journalfs.broker.publish.publication import (
    Publication,
    Source,
    Staged,
    are_few,
    is_short,
    messages_given,
    messages_in,
)
from journalfs.broker.publish.publisher import FilePublisher
from journalfs.broker.publish.sending import FindingWays, Sending, Sent
from journalfs.broker.queues.administering import (
    Administering,
    Deleted,
    address_named,
    checked_settings,
    queue_named,
)
from journalfs.broker.queues.auto_deleting import AutoDeleting
from journalfs.broker.queues.deleting import Deleting
from journalfs.change.address_rules import AddressRules
from journalfs.change.arrivals import Arrivals
from journalfs.change.change import Changes
from journalfs.change.duplicates import DRAFTS, DuplicateIds, Settled
from journalfs.change.journals import Journals
from journalfs.change.long_changes import Paced
from journalfs.change.message_settings import stage_message_update
from journalfs.change.publishing import Published, Publishing
from journalfs.change.queue_kinds import QueueKinds
from journalfs.change.removing import Removing
from journalfs.change.routing import Routing
from journalfs.engine.page_file import PageStore
from journalfs.engine.tail import Tail
from journalfs.engine.waiting import together, unbroken
from journalfs.errors import JournalfsError, NoSuchName, SettingRefused, StoreAway
from journalfs.ids import MessageId, PageNumber
from journalfs.limits import FOLLOW_INTERVAL_S, SETTLED_OPERATIONS
from journalfs.live.content import Why
from journalfs.live.core import Core
from journalfs.live.events import leave_words
from journalfs.live.explaining import Explanations
from journalfs.live.index import IndexDescription, describe, with_ledger
from journalfs.live.runs import Run
from journalfs.message.outgoing import Outgoing
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.records.files.upkept import Position
from journalfs.store.node_lock import NodeLock
from journalfs.store.replaying import Asked, Replayed
from journalfs.store.write.drafts import TRANSACTIONS, Drafts
from journalfs.store.write.replaying import OwnHistory, Progress, replay
from journalfs.store.write.self_reading import SelfReadingStore
from journalfs.store.write.snapshotting import SnapshotMaking
from journalfs.store.write.sync_mode import SyncMode
from journalfs.store.write.undo import Keeping
from journalfs.views.message import HEADER_PREFIX
from journalfs.views.queues import StoreQueue
from journalfs.views.transactions import refuse_held

__all__ = ["SyncMode", "WritingStore"]

FOLDER = "journalfs"
STAGING = "staging"


class WritingStore(SelfReadingStore):
    """Made by `open_store`. Changes are asked for on the trio thread, while `run` runs."""

    drafts_outlive: ClassVar[bool] = True
    """Whether transactions that have not ended outlive the process."""
    snapshotting: SnapshotMaking

    def __init__(
        self,
        core: Core,
        index: Path | None,
        *,
        make_loader: Callable[[], JournalLoader],
        journals: Journals,
        lock: NodeLock,
        sync: SyncMode,
        bodies: BodyStore,
        min_large_bytes: int,
        disk: DiskLimits,
        pages: PageStore,
        flushed: FlushedFolder,
    ) -> None:
        super().__init__(core, index, make_loader=make_loader, journals=journals)
        self.sync, self._lock, self.min_large_bytes = sync, lock, min_large_bytes
        self.removing = Removing(core, journals, bodies)
        kinds = QueueKinds(core, self.removing)
        settled, duplicates = Settled(core, journals), DuplicateIds(core)
        self._publishing = Publishing(
            journals, duplicates, settled, bodies, core.clock, kinds=kinds, min_large_bytes=min_large_bytes
        )
        self._routing = Routing(core, self._publishing.is_large)
        self.paged = Paged(core, journals, self._publishing, bodies, pages=pages, take_over=self._current)
        self.flushed = Flushed(self, settled, flushed)
        self._bindings_unshown = False
        """A change of the bindings is durable and could not be looked at, or the store is away."""
        self._administered = trio.Lock()  # each change of the bindings stands on what the one before left
        self.snapshotting = self.closed_with_it(
            SnapshotMaking(core, journals, self.paged, bodies, self._administered)
        )
        self.arrivals = Arrivals(self._administered, self._routing.concerns)
        paging, self.removing.empties = self.paged.paging, self.paged.empties
        self._deleted = Deleted(core.clock, lambda: int(core.layout.value_in_force("removed-keep-s") or 0))
        self._administering = Administering(core, journals, self._deleted)
        self._rules = AddressRules(core)
        self._sending = Sending(
            self._routing, self._rules, self._publishing, paging, kinds, self._refuse_message
        )
        page_room = PageRoom(core, paging, self._sending.takes_pages)
        self.admission = Admission(core, disk, journals, self._current, page_room)
        self.ways = FindingWays(self._routing, self._sending, self.admission)
        core.limits_of = self.admission.acting
        paced = Paced(journals, self._catch_up_with_the_disk)
        self._changes = changes = Changes(paced, paging, self.removing)
        self._leaving = Leaving(
            self, self.removing, self._sending, self.paged, paced=paced, changes=changes, aside=bodies.aside
        )
        self.keeping = Keeping(core, self._leaving.noting, bodies, self.bring_back)
        self._publication = Publication(self._sending, changes, self.admission.weigh)
        self._forwarding = Forwarding(
            core,
            journals,
            self._publishing,
            self.removing,
            routing=self._routing,
            rules=self._rules,
            bringing=self.arrivals.bringing,
            make_queue=self._make_queue,
            settled=self.settled,
        )
        self.deliveries = Deliveries(
            core, journals, self.removing, self._forwarding, self._rules, self.settled, self._leaving
        )
        self._routing.consumers_of = self.deliveries.consumers_of
        self._prepare_transactions(changes, duplicates, bodies)
        self._prepare_own_work(duplicates)
        self._addresses_paging = lambda: paging.addresses

    @cached_property
    def explanations(self) -> Explanations:
        return Explanations(self.core, self.journals.messages.upkeep.explain)

    def _undecided_pages(self, address: str) -> frozenset[PageNumber]:
        return self.paged.paging.undecided(address)

    def _prepare_own_work(self, duplicates: DuplicateIds) -> None:
        core = self.core
        self.lending = Lending(
            core,
            self.journals,
            self._routing,
            self._rules.expiry,
            self._sending.kinds,
            self._publishing,
            self.admission,
            self.arrivals,
            writable=self._takes_lines,
            published=self._lines_published,
            settle=partial(self.settled_unbroken, only_adds=True),
            tail=Tail(),
        )
        self.expiring = Expiring(core, self._rules, self, self._forward, self._forwarding.may_leave)
        self._deleting = Deleting(
            core,
            self.journals,
            duplicates,
            self._administering,
            self.arrivals,
            self.deliveries,
            self.paged,
            find=self._queue,
            bound=self._bound,
            published=self.published,
            reached_from=self._routing.reached_from,
            concerns=self._routing.concerns,
        )
        self.auto_deleting = AutoDeleting(
            core, self._rules, self._deleting, self._change, self.left_unpublished
        )

    def _prepare_transactions(self, changes: Changes, duplicates: DuplicateIds, bodies: BodyStore) -> None:
        core, journals = self.core, self.journals
        self.transactions = Drafts(
            core,
            journals,
            self.removing,
            self.deliveries,
            self._leaving,
            self._sending,
            self._publication,
            changes,
            self.arrivals,
            self.admission,
            self.ways,
            Settled(core, journals, DRAFTS),
            find=self._queue,
            settle=self.settled,
            show=self.show,
            tell_duplicates=self._tell_duplicates,
            place=lambda: self.staging_directory() / TRANSACTIONS,
            refuse_prepared=self._refuse_prepared,
            sync=self.sync is not SyncMode.NONE,
            outlive=self.drafts_outlive,
        )
        self.deciding = Deciding(
            core,
            journals,
            self.removing,
            self.deliveries,
            self._sending.kinds,
            self.paged,
            duplicates,
            bodies,
            self.admission,
            self.settled,
            self._refuse_prepared,
        )

    def _refuse_prepared(self) -> None:
        """Raise where the store has nothing for a prepared transaction."""

    def start(self) -> None:
        super().start()
        self.paged.start()

    # -- what it shows ---------------------------------------------------------------------------------------

    def status(self) -> Mapping[str, object]:
        return {
            **super().status(),
            "readOnly": self.read_only,
            "sync": str(self.sync),
            "nodeId": str(self._lock.node_id),
            **self.journals.status(),
            "removedMessages": len(self.keeping.removals),
            "removedBytesHeld": self.keeping.held_bytes,
            **self.admission.status_of_all(),
        }

    def usage(self) -> Usage:
        return self.admission.limited(super().usage())

    # -- publishing ------------------------------------------------------------------------------------------

    def _takes_lines(self) -> bool:
        """Whether lines may be published in C, which does not look at any of this."""
        waits = self.sync is not SyncMode.CLOSE and not self._bindings_unshown
        return waits and not self.read_only and not self._reading_anew.locked()

    def _lines_published(self) -> None:
        self._tell_failure()
        self._unsealed = True
        self._show_to_who_looks(only_lines=True)

    def publisher(
        self, address: str, queue: str | None, file_name: str, patience: Patience = FOREVER
    ) -> FilePublisher:
        self._writable()
        if queue is None:
            address_named(self.core.bindings, address)
        else:
            queue_named(self.core.bindings, address, queue)
        return FilePublisher(self, address, queue, file_name, patience)

    def _refuse_message(self, message: Outgoing) -> None:
        """Raise where the store has no place for such a message."""

    def require_queue(self, address: str, queue: str | None) -> None:
        """Raises `NoRoute` where nothing takes what is published."""
        self._routing.of_any(address, queue)

    async def publish_files(
        self,
        address: str,
        queue: str | None,
        files: Sequence[tuple[Path, str]],
        patience: Patience = FOREVER,
    ) -> None:
        self._writable()
        with await self.admission.enter(address, patience) as taken:
            if taken.action is Action.DROP and not self.ways.has_besides(address, queue):
                self.admission.drop(address, await self._publication.count(files))
            elif is_short(files) or self._sending.replaces(address):
                messages = await self._publication.read(files)
                path = _path_of(address, queue, files)
                await self.publish(address, queue, messages, path=path, whole=True, admitted=taken)
            else:
                async with self.arrivals.bringing(address):
                    path = path_of(address, queue, files[0][1] if len(files) == 1 else "")
                    await self._publish_long(address, queue, messages_in(files), path, taken)

    async def _publish_long(
        self,
        address: str,
        queue: str | None,
        source: Source,
        path: str,
        taken: Admitted,
        *,
        settles: str | None = None,
    ) -> None:
        await self.journals.make_room()
        ways = self.ways.find(address, queue, taken)
        staged = await self._publication.stage(address, queue, source, ways, settles)
        position = staged.position
        if position is not None:
            for of, held in staged.held.items():
                self.admission.staged(of, position, held)
        for of in ways.drops:
            self.admission.drop(of, staged.messages)
        taken.done()
        self._tell_duplicates(path, address, staged)

        async def settle() -> None:
            if position is None:
                # What makes them superfluous may be on its way itself.
                await self.published()
            else:
                await self.settled(position)

        await unbroken(settle)
        if self._sending.replaces(address):
            self._sending.forget_kinds(address)  # it was not so in the beginning

    async def publish(
        self,
        address: str,
        queue: str | None,
        messages: Sequence[Outgoing],
        *,
        path: str | None = None,
        whole: bool = False,
        admitted: Admitted | None = None,
        settles: str | None = None,
    ) -> None:
        """Publish messages in one transaction. `path`: of the file they are in. `whole`: the caller waits for
        it to be durable even where single writes do not (`SyncMode.CLOSE`). Waits for room, unless they
        are `admitted` already. `settles`: the note of what was flushed that they take the place of.
        """
        self._writable()
        if not messages:
            return
        with admitted or await self.admission.enter(address) as taken:
            if taken.action is Action.DROP and not self.ways.has_besides(address, queue):
                self.admission.drop(address, len(messages))
                return
            if self.journals.messages.short_of_space:
                await self.journals.make_room()
            await self.arrivals.begin(address)
            try:
                if not are_few(messages) and not self._sending.replaces(address):
                    source, shown = messages_given(messages), path or path_of(address, queue)
                    await self._publish_long(address, queue, source, shown, taken, settles=settles)
                    return
                ways = self.ways.find(address, queue, taken)
                sent = await self._sending.stage(address, queue, messages, settles, ways)
                for of in ways.drops:
                    self.admission.drop(of, len(messages))
                self._tell_duplicates(path or path_of(address, queue), address, sent)
                published = sent.published
                if ways.pages:
                    await unbroken(self.show)  # what is in pages does not wait for the journal
                if published is None:
                    # What makes them superfluous may be on its way itself.
                    await self.published()
                    return
                for of in ways.stored:
                    self.admission.staged(of, published.position, self.admission.weigh(of, messages))
                taken.done()
                await self._sent(published, whole=whole)
                if ways.pages:
                    self.admission.look_again()  # who waits to know how much is in pages
                self._clear_replaced()
            finally:
                self.arrivals.end(address)

    async def _sent(self, published: Published, *, whole: bool) -> None:
        """Wait for a publication, as far as its publisher is to, and show it, even if cancelled meanwhile."""
        writer, position = self.journals.messages, published.position
        waits = self.sync is not SyncMode.CLOSE and writer.waits(transactional=published.transactional)
        if whole or waits:
            await self.settled_unbroken(position, only_adds=not self.removing.has_replaced)
        elif writer.committer.reached_position >= position:
            await unbroken(self.show)

    def _tell_duplicates(self, path: str, address: str, left_out: Sent | Staged) -> None:
        """Messages were left out of a publication: who wrote them is told of no failure."""
        count = left_out.duplicates
        if count:
            self.core.duplicates_left_out[address] += count
            known = "1 message is" if count == 1 else f"{count} messages are"
            message = f"{path}: {known} not published: {address} knows the duplicate ids already"
            self.core.events.add("duplicates", message, level=logging.INFO, what=path, messages=count)

    # -- acknowledging ---------------------------------------------------------------------------------------

    async def acknowledge(self, queue: QueuePath, message_ids: Sequence[MessageId]) -> int:
        self._writable()
        found = self._queue(queue)
        left = await self._leaving.acknowledge(found, lambda found: chosen_runs(found, message_ids))
        if not left:
            refuse_held(found.content, message_ids)
        return left

    async def acknowledge_part(self, queue: QueuePath, part_name: str) -> int:
        self._writable()
        return await self._leaving.acknowledge(self._queue(queue), lambda found: found.part_runs(part_name))

    async def move(self, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath) -> int:
        moved = await self._move(source, target, lambda found: chosen_runs(found, message_ids))
        if not moved:
            refuse_held(self._queue(source).content, message_ids)
        return moved

    async def move_part(self, source: QueuePath, part_name: str, target: QueuePath) -> int:
        return await self._move(source, target, lambda found: found.part_runs(part_name))

    async def redrive(self, source: QueuePath, message_ids: Sequence[MessageId]) -> Redriven:
        self._writable()
        redriving = Redriving(self.core, self._routing.concerns, self._send_back)
        return await redriving.redrive(self._queue(source), message_ids)

    async def _send_back(self, source: StoreQueue, target: QueuePath, address: str, ids: array[int]) -> int:
        self._writable()
        full = self.admission.decide_move(source.model.address, target[0]) is Action.PAGE
        async with self.arrivals.bringing(target[0]):
            sent = await self._leaving.send_back(
                source,
                self._queue(target),
                address,
                lambda found: chosen_runs(found, cast("Sequence[MessageId]", ids)),
                full=full,
            )
        self.admission.moved(target[0])
        return sent

    async def _move(self, source: QueuePath, target: QueuePath, choose: Choice) -> int:
        self._writable()
        full = self.admission.decide_move(source[0], target[0]) is Action.PAGE
        async with self.arrivals.bringing(target[0]):
            moved = await self._leaving.move(self._queue(source), self._queue(target), choose, full=full)
        self.admission.moved(target[0])
        return moved

    # -- bringing back ---------------------------------------------------------------------------------------

    def keep_removed(self) -> Keeping:
        self._leaving.noting.on = True
        return self.keeping

    async def bring_back(
        self,
        backs: Sequence[Back],
        kind: type[Copies] = BroughtBack,
        stage_also: StageAlso = lambda tx: None,
    ) -> None:
        """Publish messages of other stores anew, all in one transaction, in which `stage_also` may stage
        more. Queues that are gone are made again before that, with the settings that they had.
        """
        self._writable()
        some = [one for one in backs if one.ids]
        if not some:
            return
        for one in some:
            await self._made_again(one)
        addresses = sorted({one.target[0] for one in some})
        full = {one: self.admission.decide_move("", one) is Action.PAGE for one in addresses}
        async with self.arrivals.bringing(*addresses):
            found = [(one, self._queue(one.target), full[one.target[0]]) for one in some]
            await self._leaving.bring_back(found, kind, stage_also)
        for address in addresses:
            self.admission.moved(address)

    @property
    def snapshots(self) -> SnapshotMaking:
        return self.snapshotting

    @cached_property
    def history(self) -> OwnHistory:
        return self.closed_with_it(OwnHistory(self))

    async def replay(self, asked: Asked, *, again: bool, progress: Progress) -> Replayed:
        """Publish once more what the history has: see `journalfs.store.write.replaying`."""
        self._writable()
        return await replay(self, asked, again=again, progress=progress)

    async def replay_window(self, backs: Sequence[Back], stage_also: StageAlso) -> None:
        """Some of it, in one transaction."""
        await self.bring_back(backs, ReplayedCopies, stage_also)

    async def mark(self, stage: StageAlso) -> None:
        """Make durable what `stage` stages, in one transaction."""
        async with self._changes.one() as change:
            change.at_once(stage)
            position = change.commit()
        await unbroken(lambda: self.settled(position))

    async def _made_again(self, back: Back) -> None:
        address, name = back.target
        there = self.core.bindings.queue_named(name)
        if back.made is None or (there is not None and there.address == address):
            return
        self._deleted.remember(back.made)
        if self.address(address) is None:
            await self.create_address(address)
        await self.create_queue(address, name)

    async def send_to_dead_letters(self, queue: QueuePath, message_ids: Sequence[MessageId]) -> int:
        """Send messages that were delivered in vain too often to the dead-letter address of their queue's
        address, or drop them if there is none and they may be; how many left.
        """
        found = self._queue(queue)
        return await self._forward(found, chosen_runs(found, message_ids), Why.KILLED)

    async def expire(self, queue: QueuePath, message_ids: Sequence[MessageId]) -> int:
        """The same with the expiry address of the address that they were sent to."""
        found = self._queue(queue)
        return await self._forward(found, chosen_runs(found, message_ids), Why.EXPIRED)

    async def expire_due(self) -> int:
        """The same with all messages whose time is over now; `run` does it again and again."""
        return await self.expiring.scan()

    async def _forward(self, queue: StoreQueue, runs: Iterable[Run], why: Why) -> int:
        self._writable()
        chosen = self.removing.choose(queue.content, runs)
        count = 0
        try:
            count = await self._forwarding.forward(queue, chosen, why)
        finally:
            self.removing.let_go(chosen)
            if count < len(chosen):
                await self._leaving.stayed(chosen)
        await self._leaving.clear(chosen)
        return count

    def consumer(self, queue: QueuePath, selectors: Sequence[str] = ()) -> Consumer:
        """A new reader that competes for the messages of a queue. Raises `TooManyConsumers`."""
        self._writable()
        return self.deliveries.consumer(self._queue(queue), selectors)

    def _clear_replaced(self) -> None:
        """Clear away what left since others came."""
        if self.removing.has_replaced:
            self.removing.clear_replaced()
            self.core.changes.left()
            self.admission.look_again()

    def _queue(self, path: QueuePath) -> StoreQueue:
        address = self.address(path[0])
        queue = address.queue(path[1]) if address is not None else None
        if queue is None:
            raise NoSuchName(f"{path[0]}::{path[1]}: there is no such queue")
        return queue

    # -- administering ---------------------------------------------------------------------------------------

    async def create_address(self, name: str) -> None:
        async with self._change():
            await self._bound(self._administering.create_address(name))
            self.deliveries.uses.address_made(name)

    async def delete_address(self, name: str) -> None:
        async with self._change():
            await self._deleting.address(name)

    async def create_queue(self, address: str, name: str) -> None:
        async with self._change():
            # An address whose binding is lost gets one again with its first queue.
            found = self.core.lost.addresses().get(address) or address_named(self.core.bindings, address)
            await self._bound(self._administering.create_queue(found, name))
            self.deliveries.uses.queue_made(name)

    def was_deleted(self, address: str, queue: str | None) -> bool:
        was = self._deleted.address(address) if queue is None else self._deleted.queue(address, queue)
        return was is not None

    async def _make_queue(self, address: str, name: str, accepted: str) -> None:
        """A queue with a filter, unless there is one of that name."""
        async with self._change():
            if self.core.bindings.queue_named(name) is None:
                await self._bound(self._administering.create_automatic(address, name, accepted))
                self.deliveries.uses.queue_made(name)

    async def delete_queue(self, address: str, name: str) -> None:
        async with self._change():
            await self._deleting.queue(address, name)

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        """One change of the bindings at a time. Raises `ReadOnlyStore`."""
        self._writable()
        async with self._administered:
            self._writable()
            yield

    async def set_attribute(self, address: str, queue: str | None, name: str, value: bytes) -> None:
        setting, text = name.removeprefix(HEADER_PREFIX), value.decode("utf-8", "replace").strip()
        async with self._change():
            try:
                await self._change_settings(address, queue, {setting: text})
            except SettingRefused:
                # What copies all attributes, as mv does, also sets those that say what a queue is.
                if self._attributes(address, queue).get(name) != text.encode():
                    raise

    def _attributes(self, address: str, queue: str | None) -> Mapping[str, bytes]:
        if queue is not None:
            return self._queue((address, queue)).attributes()
        found = self.address(address)
        return {} if found is None else found.attributes()

    async def remove_attribute(self, address: str, queue: str | None, name: str) -> None:
        async with self._change():
            await self._bound(self._administering.reset(address, queue, name.removeprefix(HEADER_PREFIX)))

    def check_settings(self, address: str, queue: str | None, text: bytes) -> None:
        """Raise `SettingRefused` or `ReadOnlyStore` where `write_settings` would now. Nothing changes."""
        self._writable()
        checked_settings(self.core, address, queue, text)

    async def write_settings(self, address: str, queue: str | None, text: bytes) -> None:
        """Take over what differs in an edited `.settings`, all of it or nothing. What is not named in it
        stays as it is.
        """
        async with self._change():
            own, of_address = checked_settings(self.core, address, queue, text)
            await self._change_settings(address, queue, own)
            if of_address:
                await self._change_settings(address, None, of_address)

    async def _change_settings(self, address: str, queue: str | None, changes: Mapping[str, str]) -> None:
        if queue is None:
            model = address_named(self.core.bindings, address)
            await self._bound(self._administering.set_address(model, changes))
        else:
            of = queue_named(self.core.bindings, address, queue)
            await self._bound(self._administering.set_queue(of, changes))

    async def set_message_attribute(
        self, queue: QueuePath, message_id: MessageId, name: str, value: bytes
    ) -> None:
        """Change what a queue knows of a message. Raises `SettingRefused` and `NoSuchName`."""
        self._writable()
        found = self._queue(queue)
        position = stage_message_update(self.journals, found, message_id, name, value)
        await self.settled(position)
        if name.removeprefix(HEADER_PREFIX) == "scheduledTime":
            self._sending.kinds.rescheduled(found.content.queue_id, message_id, int(value))

    async def _bound(self, position: Position | None) -> None:
        """Wait for a change of the bindings, and show it."""
        if position is None:
            return
        try:
            await self._told(self.journals.bindings.durable(position))
        except StoreAway:
            self._bindings_unshown = True
            raise
        self._bindings_unshown = True
        self._show_bindings()

    def _writable(self) -> None:
        super()._writable()
        if self._bindings_unshown:
            self._show_bindings()

    def _show_bindings(self) -> None:
        """Raises `OutOfResources`. Nothing is changed before it is shown: a queue that was deleted would get
        messages, and one that was made would be made again.
        """
        self._bindings_seen = ()
        self._look_at_bindings()
        self._take_over(True, PollResult.UNCHANGED)
        self.admission.look_again()
        self._bindings_unshown = self.journals.bindings.committer.suspended

    # -- its own work ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        await together(self.journals.run, self.follow, self.expiring.run, self.auto_deleting.run)

    async def follow(self) -> None:
        while True:
            try:
                await self.look()
                while self.core.loaded.state.settle(SETTLED_OPERATIONS):
                    await trio.lowlevel.checkpoint()
                if self._bindings_unshown:
                    self._show_bindings()
                await self.follow_due()
                self._clear_replaced()
                await self.paged.look()
                await trio.to_thread.run_sync(self.removing.remove_bodies)
                await self.keeping.look()
                await self.flushed.tidy()
                await self.configuration.look()
                await self.admission.scan_disk()
                self.admission.tick()
            except (OSError, JournalfsError) as error:
                self.core.events.add("follow-failed", f"cannot look at the store: {error}")
            self._tell_failure()
            await trio.sleep(FOLLOW_INTERVAL_S)

    def _configured(self) -> None:
        self.admission.settings_changed()

    async def follow_due(self) -> None:
        """Let go of what has to go since messages became due."""
        await self._leaving.became_due()

    def _described(self) -> tuple[IndexDescription | None, bytes]:
        description, writer = describe(self.core, self._page_parts), self.journals.messages
        if description is None or not writer.is_settled:
            return description, b""
        return with_ledger(description, writer.ledger, writer.data)

    def save_index(self) -> None:
        """Without what waits in drafts: these say so themselves when the store is opened again."""
        self.core.keep_aside(aside=False)
        super().save_index()
        self.core.keep_aside()

    def leave_words(self, text: str) -> None:
        leave_words(self.core.root, text)

    def emptied(self, what: str, reason: str) -> None:
        self.core.events.add("emptied", f"{what}: {reason}", level=logging.INFO, what=what, reason=reason)

    def set_aside(self, what: str, files: Sequence[Path]) -> None:
        self.flushed.set_aside_files(what, files)

    def dropped(self, what: str, reason: str) -> None:
        self.core.events.add("dropped", f"{what}: {reason}", level=logging.INFO, what=what, reason=reason)

    def recover_drafts(self) -> None:
        """Hold what transactions hold that have not ended. Raises OSError, and `ReadOnlyStore`."""
        self.transactions.recover(self.core.root / FOLDER / STAGING / TRANSACTIONS)
        if any(self.core.in_delivery.aside.paged.values()):
            self.core.refresh_pages()

    def left_unpublished(self) -> Sequence[str]:
        return self.flushed.left_addresses()

    async def publish_left(self) -> None:
        await self.flushed.publish_left()

    def staging_directory(self) -> Path:
        return self.own_directory(STAGING)

    def own_directory(self, name: str) -> Path:
        """One of those that lie beside the broker's. Raises OSError."""
        path = self.core.root / FOLDER / name
        door.make_folders(path)
        return path

    # -- letting go ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what is staged, the index, and let go of the store. Raises JournalfsError if the last of it
        could not be written; everything is let go of even so.
        """
        try:
            self.flushed.close()
            try:
                self.paged.close()
                self.keeping.close()
            finally:
                self.journals.close()
            self.removing.remove_bodies()
            self._advance()
        finally:
            try:
                super().close()
            finally:
                self._lock.release()


def _path_of(address: str, queue: str | None, files: Sequence[tuple[Path, str]]) -> str:
    """The path that files get which are published together, or of where they are."""
    return path_of(address, queue, files[0][1] if len(files) == 1 else None)
