"""A store that is open for writing: what it accepts, and the parts that do it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

import trio

from journalfs import door
from journalfs.api import Patience, QueuePath, Redriven, Require, Usage, all_may
from journalfs.bindings.model import Address
from journalfs.bodies.flushed import FlushedFolder
from journalfs.bodies.writing import BodyStore
from journalfs.broker.consume.copies import BroughtBack, Copies
from journalfs.broker.consume.delivering import Consumer, Deliveries
from journalfs.broker.consume.expiring import Expiring
from journalfs.broker.consume.forwarding import Forwarding
from journalfs.broker.consume.leaving import Leaving, StageAlso, chosen_runs
from journalfs.broker.consume.prepared import PreparedTransactions
from journalfs.broker.consume.redriving import Redriving
from journalfs.broker.consume.removals import Back
from journalfs.broker.limits.address_limits import PageRoom
from journalfs.broker.limits.admission import FOREVER, Admission
from journalfs.broker.limits.disk_limits import DiskLimits
from journalfs.broker.pages.page_cleanup import PageCleanup
from journalfs.broker.publish.flushed import Flushed
from journalfs.broker.publish.lending import Lending
from journalfs.broker.publish.publisher import FilePublisher
from journalfs.broker.publish.sending import Sending
from journalfs.broker.queues.administering import (
    Administering,
    Deleted,
    address_named,
    checked_settings,
    queue_named,
)
from journalfs.broker.queues.auto_deleting import AutoDeleting
from journalfs.broker.queues.deleting import Deleting
from journalfs.broker.queues.making import NewQueue, rounds, settings_rounds
from journalfs.change.journals import Journals
from journalfs.change.message_settings import stage_message_update
from journalfs.change.store_parts import StoreParts
from journalfs.engine.page_file import PageStore
from journalfs.engine.tail import Tail
from journalfs.engine.waiting import in_a_thread, together
from journalfs.errors import JournalfsError, NoSuchName, NotInOlderStore, SettingRefused, StoreAway
from journalfs.format.core_message import CoreType
from journalfs.ids import MessageId, PageNumber, Position, QueueId
from journalfs.limits import FOLLOW_INTERVAL_S, SETTLED_OPERATIONS
from journalfs.live.content import Why
from journalfs.live.core import Core
from journalfs.live.explaining import Explanations
from journalfs.live.index import IndexDescription, describe, with_ledger
from journalfs.message.outgoing import CoreMessage, Outgoing
from journalfs.records.capabilities import ALL, Capabilities
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.store.journal_setup import FOLDER, not_made
from journalfs.store.node_lock import NodeLock
from journalfs.store.write.drafts import TRANSACTIONS, Drafts
from journalfs.store.write.replaying import OwnHistory
from journalfs.store.write.self_reading import SelfReadingStore
from journalfs.store.write.snapshotting import SnapshotMaking
from journalfs.store.write.sync_mode import SyncMode
from journalfs.store.write.undo import Keeping
from journalfs.views.message import HEADER_PREFIX
from journalfs.views.queues import StoreQueue
from journalfs.views.transactions import refuse_held

__all__ = ["SyncMode", "WritingStore"]

STAGING = "staging"


class WritingStore(SelfReadingStore):
    """Made by `open_store`. Changes are asked for on the trio thread, while `run` runs."""

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
        capabilities: Capabilities = ALL,
    ) -> None:
        super().__init__(core, index, make_loader=make_loader, journals=journals)
        self.sync, self._lock, self._can = sync, lock, capabilities
        self._bindings_unshown = False
        """A change of the bindings is durable and could not be looked at, or the store is away."""
        self.parts = parts = StoreParts.of(
            core, journals, bodies, pages, self, min_large_bytes=min_large_bytes
        )
        self.removing = parts.removing
        self.paged = PageCleanup(parts)
        self.snapshotting: SnapshotMaking = self.closed_with_it(
            SnapshotMaking(core, journals, self.paged, bodies, parts.arrivals.administered)
        )
        self._deleted = Deleted(core.clock, lambda: int(core.layout.value_in_force("removed-keep-s") or 0))
        self._administering = Administering(core, journals, self._deleted)
        self.admission = Admission(core, disk, journals, self.current, PageRoom(core, parts.paging))
        self.sending = Sending(parts, self.admission, writes_wait=sync is not SyncMode.CLOSE)
        self.flushed = Flushed(self.sending, flushed, self.own_directory)
        self.leaving = Leaving(parts, self.admission, self.paged)
        self.keeping = Keeping(core, self.leaving.noting, bodies, self.bring_back)
        forwarding = Forwarding(parts, self.leaving)
        self.deliveries = Deliveries(parts, self.leaving, forwarding)
        self.transactions = Drafts(
            self.sending,
            self.deliveries,
            lambda: self.staging_directory() / TRANSACTIONS,
            sync=sync is not SyncMode.NONE,
            outlive=capabilities.drafts_outlive,
        )
        self.prepared = PreparedTransactions(parts, self.deliveries, self.paged, self.admission)
        self.lending = Lending(parts, self.admission, self._takes_lines, self._lines_published, Tail())
        self.expiring = Expiring(core, parts.rules, self, forwarding)
        self._deleting = Deleting(parts, self._administering, self.deliveries, self.paged, self._bound)
        self.auto_deleting = AutoDeleting(
            core,
            parts.rules,
            self._deleting,
            lambda: self._change("deleting what nobody uses"),
            self.left_unpublished,
        )
        core.limits, parts.routing.consumers = self.admission, self.deliveries
        self._addresses_paging = lambda: parts.paging.addresses

    @cached_property
    def explanations(self) -> Explanations:
        return Explanations(self.core, self.journals.messages.upkeep.explain)

    def _undecided_pages(self, address: str) -> frozenset[PageNumber]:
        return self.parts.paging.undecided(address)

    def refuse_prepared(self) -> None:
        self._needs(self._can.prepares, "a transaction that is prepared, or decided by hand")

    def _needs(self, has: bool, what: str) -> None:
        """Raise `NotInOlderStore`."""
        if not has:
            raise NotInOlderStore(self.core.shown, what)

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

    def standing(self) -> Mapping[str, object]:
        return {**super().standing(), "writeFailure": self.journals.failure}

    def consumers_of(self, queue_id: QueueId) -> int:
        return len(self.deliveries.consumers_of(queue_id))

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
        self.refuse_failed()
        if queue is None:
            address_named(self.core.bindings, address)
        else:
            queue_named(self.core.bindings, address, queue)
        return FilePublisher(self.flushed, address, queue, file_name, patience)

    def refuse_message(self, message: Outgoing) -> None:
        can = self._can
        if can is ALL:
            return
        if not isinstance(message, CoreMessage):
            self._needs(can.amqp, "a message of AMQP")
            return
        nested = message.core_type in (CoreType.EMBEDDED, CoreType.LARGE_EMBEDDED)
        self._needs(can.schedules or not message.scheduled_ms, "a message that is due later")
        self._needs(can.embeds or not nested, "a message that holds one of another protocol")
        lack = can.lack_of(message.properties.entries)
        self._needs(lack is None, lack or "")

    async def publish_files(
        self,
        address: str,
        queue: str | None,
        files: Sequence[tuple[Path, str]],
        patience: Patience = FOREVER,
    ) -> None:
        self.refuse_failed()
        await self.sending.publish_files(address, queue, files, patience)

    async def publish(self, address: str, queue: str | None, messages: Sequence[Outgoing]) -> None:
        """Publish messages in one transaction. Waits for room."""
        await self.sending.publish(address, queue, messages)

    # -- acknowledging ---------------------------------------------------------------------------------------

    async def acknowledge(self, queue: QueuePath, message_ids: Sequence[MessageId]) -> int:
        self.refuse_failed()
        found = self.queue_at(queue)
        left = await self.leaving.acknowledge(found, lambda found: chosen_runs(found, message_ids))
        if not left:
            refuse_held(found.content, message_ids)
        return left

    async def acknowledge_part(self, queue: QueuePath, part_name: str) -> int:
        self.refuse_failed()
        return await self.leaving.acknowledge(self.queue_at(queue), lambda found: found.part_runs(part_name))

    async def move(self, source: QueuePath, message_ids: Sequence[MessageId], target: QueuePath) -> int:
        self.refuse_failed()
        found = self.queue_at(source)
        moved = await self.leaving.move(found, target, lambda found: chosen_runs(found, message_ids))
        if not moved:
            refuse_held(found.content, message_ids)
        return moved

    async def move_part(self, source: QueuePath, part_name: str, target: QueuePath) -> int:
        self.refuse_failed()
        return await self.leaving.move(
            self.queue_at(source), target, lambda found: found.part_runs(part_name)
        )

    async def redrive(
        self, source: QueuePath, message_ids: Sequence[MessageId], require: Require = all_may
    ) -> Redriven:
        self.refuse_failed()
        redriving = Redriving(self.core, self.parts.routing.concerns, self.leaving.move)
        return await redriving.redrive(self.queue_at(source), message_ids, require)

    # -- bringing back ---------------------------------------------------------------------------------------

    def keep_removed(self) -> Keeping:
        self.leaving.noting.on = True
        return self.keeping

    async def bring_back(
        self,
        backs: Sequence[Back],
        kind: type[Copies] = BroughtBack,
        stage_also: StageAlso = lambda tx: None,
    ) -> None:
        """Publish messages of other stores again, all in one transaction, in which `stage_also` may stage
        more. Deleted queues are made again first, with the settings that they had.
        """
        self.refuse_failed()
        some = [one for one in backs if one.ids]
        for one in some:
            await self._made_again(one)
        if some:
            await self.leaving.bring_back(some, kind, stage_also)

    @property
    def snapshots(self) -> SnapshotMaking:
        return self.snapshotting

    @cached_property
    def history(self) -> OwnHistory:
        return self.closed_with_it(OwnHistory(self.parts, self.snapshotting, self.bring_back))

    async def _made_again(self, back: Back) -> None:
        address, name = back.target
        there = self.core.bindings.queue_named(name)
        if back.made is None or (there is not None and there.address == address):
            return
        if self._deleted.get(address, name) is None:
            self._deleted.add(back.made)
        if self.address(address) is None:
            await self.create_address(address)
        await self.create_queue(address, name)

    async def send_to_dead_letters(self, queue: QueuePath, message_ids: Sequence[MessageId]) -> int:
        """Send messages that were delivered in vain too often to the dead-letter address of their queue's
        address, or drop them if there is none and they may be; how many left.
        """
        found = self.queue_at(queue)
        return await self.deliveries.forwarding.forward(found, chosen_runs(found, message_ids), Why.KILLED)

    async def expire(self, queue: QueuePath, message_ids: Sequence[MessageId]) -> int:
        """Move messages to the expiry address of the address that they were sent to."""
        found = self.queue_at(queue)
        return await self.deliveries.forwarding.forward(found, chosen_runs(found, message_ids), Why.EXPIRED)

    async def expire_due(self) -> int:
        """Expire all messages whose time is over; `run` does it again and again."""
        return await self.expiring.scan()

    def consumer(self, queue: QueuePath, selectors: Sequence[str] = ()) -> Consumer:
        """A new reader that competes for the messages of a queue. Raises `TooManyConsumers`."""
        self.refuse_failed()
        return self.deliveries.consumer(self.queue_at(queue), selectors)

    def queue_at(self, path: QueuePath) -> StoreQueue:
        address = self.address(path[0])
        queue = address.queue(path[1]) if address is not None else None
        if queue is None:
            raise NoSuchName(f"{path[0]}::{path[1]}: there is no such queue")
        return queue

    # -- administering ---------------------------------------------------------------------------------------

    async def create_address(self, name: str) -> None:
        async with self._change(f"making the address {name}"):
            await self._bound(self._administering.create_address(name))
            self.parts.uses.made(name)

    async def delete_address(self, name: str) -> None:
        async with self._change(f"deleting the address {name}"):
            await self._deleting.address(name)

    async def create_queue(self, address: str, name: str) -> None:
        async with self._change(f"making the queue {address}::{name}"):
            # An address whose binding is lost gets one again with its first queue.
            found = self.core.lost.addresses().get(address) or address_named(self.core.bindings, address)
            await self._bound(self._administering.create_queue(found, name))
            self.parts.uses.queue_made(name)

    async def create_queues(self, wanted: Sequence[NewQueue]) -> None:
        """Make those that are not there, with their addresses: waiting for the disk, and looking at the
        bindings, takes as long for all as for one. Raises what `create_queue` raises; some are made then.
        """
        async with self._change(f"making {len(wanted)} queues"):
            missing = dict.fromkeys(one.address for one in wanted if self.address(one.address) is None)
            await self._bound_all(map(self._administering.create_address, missing))
            made = {one.path: one for one in wanted if self._is_missing(one)}
            for some in rounds(made):
                await self._bound_all(self._administering.create_queue(*self._model(one)) for one in some)
            for some in settings_rounds([one for one in made.values() if one.settings], self._routes):
                await self._bound_all(map(self._set, some))
        for name in missing:
            self.parts.uses.made(name)
        for one in made.values():
            self.parts.uses.queue_made(one.name)

    def _routes(self, wanted: NewQueue) -> str:
        return queue_named(self.core.bindings, wanted.address, wanted.name).binding.routing_type.name

    def _set(self, wanted: NewQueue) -> Position | None:
        queue = queue_named(self.core.bindings, wanted.address, wanted.name)
        return self._administering.set_queue(queue, wanted.settings)

    def _is_missing(self, wanted: NewQueue) -> bool:
        address = self.address(wanted.address)
        return address is None or address.queue(wanted.name) is None

    def _model(self, wanted: NewQueue) -> tuple[Address, str]:
        lost = self.core.lost.addresses().get(wanted.address)
        return lost or address_named(self.core.bindings, wanted.address), wanted.name

    async def _bound_all(self, changes: Iterable[Position | None]) -> None:
        """Stage changes that do not depend on each other, and wait for all of them at once."""
        with self.journals.bindings.gathering():
            positions = [position for position in changes if position is not None]
        await self._bound(max(positions, default=None))

    def was_deleted(self, address: str, queue: str | None) -> bool:
        return self._deleted.get(address, queue) is not None

    async def make_queue(self, address: str, name: str, accepted: str) -> None:
        """A queue with a filter, unless there is one of that name."""
        async with self._change(f"making the queue {address}::{name}"):
            if self.core.bindings.queue_named(name) is None:
                await self._bound(self._administering.create_automatic(address, name, accepted))
                self.parts.uses.queue_made(name)

    async def delete_queue(self, address: str, name: str) -> None:
        async with self._change(f"deleting the queue {address}::{name}"):
            await self._deleting.queue(address, name)

    @asynccontextmanager
    async def _change(self, what: str) -> AsyncIterator[None]:
        """One change of the bindings at a time. Raises `ReadOnlyStore` and `NotInOlderStore`."""
        self._needs(self._can.administers, what)
        self.refuse_failed()
        async with self.parts.arrivals.administered:
            self.refuse_failed()
            yield

    async def set_attribute(self, address: str, queue: str | None, name: str, value: bytes) -> None:
        setting, text = name.removeprefix(HEADER_PREFIX), value.decode("utf-8", "replace").strip()
        async with self._change(f"setting {name} of {address}"):
            try:
                await self._change_settings(address, queue, {setting: text})
            except SettingRefused:
                # What copies all attributes, as mv does, also sets those that say what a queue is.
                if self._attributes(address, queue).get(name) != text.encode():
                    raise

    def _attributes(self, address: str, queue: str | None) -> Mapping[str, bytes]:
        if queue is not None:
            return self.queue_at((address, queue)).attributes()
        found = self.address(address)
        return {} if found is None else found.attributes()

    async def remove_attribute(self, address: str, queue: str | None, name: str) -> None:
        async with self._change(f"setting {name} of {address}"):
            await self._bound(self._administering.reset(address, queue, name.removeprefix(HEADER_PREFIX)))

    def check_settings(self, address: str, queue: str | None, text: bytes) -> None:
        """Raise `SettingRefused` or `ReadOnlyStore` where `write_settings` would now. Nothing changes."""
        self._needs(self._can.administers, f"settings of {address}")
        self.refuse_failed()
        checked_settings(self.core, address, queue, text)

    async def write_settings(self, address: str, queue: str | None, text: bytes) -> None:
        """Apply the differences in an edited `.settings`, all of them or none. Settings that it does not name
        stay.
        """
        async with self._change(f"settings of {address}"):
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
        self._needs(self._can.marks, f"setting {name} of a message")
        self.refuse_failed()
        found = self.queue_at(queue)
        position = stage_message_update(self.journals, found, message_id, name, value)
        await self.settled(position)
        if name.removeprefix(HEADER_PREFIX) == "scheduledTime":
            self.parts.kinds.rescheduled(found.content.queue_id, message_id, int(value))

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

    def refuse_failed(self) -> None:
        super().refuse_failed()
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
                self.sending.clear_replaced()
                await self.paged.look()
                await in_a_thread(self.removing.remove_bodies)
                await self.keeping.look()
                await self.flushed.tidy()
                await self.admission.scan_disk()
                self.admission.tick()
            except (OSError, JournalfsError, MemoryError) as error:
                self._tell_unseen(error)
            else:
                self._unseen_told = None
            self._tell_failure()
            await trio.sleep(FOLLOW_INTERVAL_S)

    async def follow_due(self) -> None:
        """Let go of what has to go since messages became due."""
        await self.leaving.became_due()

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
        try:
            door.make_folders(path)
        except OSError as error:
            raise not_made(error, path if door.exists(path.parent) else path.parent) from error
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
