"""An open store: opened from its index or by a scan, kept up to date, and let go of again."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from journalfs import door
from journalfs.account.taking import status_of
from journalfs.api import ByteSource, History, SlowFile, Snapshots, Usage, VirtualDirectory
from journalfs.bindings.model import Address as AddressModel
from journalfs.bindings.model import BindingsState
from journalfs.bindings.model import Queue as QueueModel
from journalfs.clock import NS_PER_MS
from journalfs.config.core_settings import USER_LIMITS
from journalfs.engine.state_batch import adopt_parts, keep_part, part_ids
from journalfs.engine.state_types import PartInfo
from journalfs.engine.status import CoreRefused
from journalfs.engine.waiting import in_a_thread
from journalfs.errors import JournalfsError
from journalfs.ids import FileId, PageNumber, QueueId
from journalfs.limits import FOLLOW_INTERVAL_S, PART_BYTES_MAX, PART_MESSAGES_MAX
from journalfs.live.bindings import BindingsReader, BindingsStamp
from journalfs.live.content import QueueContent
from journalfs.live.core import Core
from journalfs.live.events import LoopLag
from journalfs.live.index import IndexDescription, as_written, describe
from journalfs.live.index_file import write_index
from journalfs.live.missing import lost_since
from journalfs.live.opened import Horizon
from journalfs.live.page_parts import PAGE_PART_BASE, PageParts
from journalfs.live.part_names import SealedPart
from journalfs.live.undecided import messages_not_shown
from journalfs.live.waking import Waking
from journalfs.records.files.anomalies import references_to_unknown
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.store.locks import lock_holder
from journalfs.store.permissions import KeptPermissions
from journalfs.views.queues import ByName, StoreAddress, StoreQueue
from journalfs.views.tails import Tails
from journalfs.views.views import SELECTIONS

if TYPE_CHECKING:
    from journalfs.live.explaining import Explanations
    from journalfs.metrics.measuring import StoreMetrics
    from journalfs.records.kinds import RecordSource
    from journalfs.store.queue_counts import Counting
    from journalfs.store.reloading import Reloading

RELOADS_MAX = 8
"""Times a load starts over because a live broker compacted the journal under it; once is already rare."""

MESSAGES_FREE_SHOWN = 2**31
"""Free inodes shown by `df -i`: a store has no such limit, and a full one would raise alarms."""


class Closed(Protocol):
    def close(self) -> None: ...


ClosedT = TypeVar("ClosedT", bound=Closed)


class JournalStore(Horizon):
    """A store that is read and never changed. Made by `open_store`."""

    queue_type: ClassVar[type[StoreQueue]] = StoreQueue

    def __init__(self, core: Core, index: Path | None, make_loader: Callable[[], JournalLoader]) -> None:
        self.core = core
        self._permissions: KeptPermissions | None = None
        self.record_source: RecordSource | None = None
        """The source that keeps derived files up to date; None for a store that was not derived."""
        self.index = index
        self.refusals: Counter[str] = Counter()
        """Refused changes since it was opened, by the name of their errno."""
        self.rebuilds = 0
        self._make_loader = make_loader
        self._addresses: ByName[StoreAddress] = ByName()
        self._changed_ms = 0
        """When addresses or queues came or went last."""
        self._queues: dict[QueueId, StoreQueue] = {}
        self._taken: tuple[BindingsState | None, Mapping[QueueId, QueueModel]] = (None, {})
        """The bindings that are shown, and lost queues."""
        self._page_parts: dict[QueueId, PageParts] = {}
        self._bindings = BindingsReader(core.layout.bindings_dir, relative_to=core.root)
        self._bindings_seen: BindingsStamp = ()
        self._tails = Tails(core)
        self._to_seal: set[QueueId] = set()
        """Queues with messages, there since the store was opened, that are still to be measured."""
        self._reloading: Reloading | None = None
        self._gone = False
        core.horizon = self
        self._written: IndexDescription | None = None
        self._ledger = b""
        self._disk = 0, 0, 0
        """Bytes of it, free ones, and those that users other than root may have."""
        self._closed_first: list[Closed] = []

    # -- what it shows ---------------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        return True

    @property
    def waking(self) -> Waking:
        return self.core.waking

    def addresses(self) -> Sequence[StoreAddress]:
        return self._addresses.all()

    @property
    def addresses_mtime_ns(self) -> int:
        return self._changed_ms * NS_PER_MS

    def queue_of(self, queue_id: QueueId) -> StoreQueue | None:
        return self._queues.get(queue_id)

    def address(self, name: str) -> StoreAddress | None:
        return self._addresses.get(name)

    def queues(self) -> Sequence[StoreQueue]:
        return [queue for address in self.addresses() for queue in address.queues()]

    @cached_property
    def explanations(self) -> Explanations:
        """Return what keeps the journal's files from being freed."""
        from journalfs.live.explaining import Explanations  # noqa: PLC0415 - few commands ask

        return Explanations(self.core)

    @cached_property
    def metrics(self) -> StoreMetrics:
        """What Prometheus is told of it."""
        from journalfs.metrics.measuring import StoreMetrics  # noqa: PLC0415 - few commands ask

        return StoreMetrics(self)

    def metrics_for(self, shown: Callable[[str, str | None], bool]) -> SlowFile:
        return self.metrics.file(shown)

    def standing(self) -> Mapping[str, object]:
        """Return what of the status needs no look at addresses, queues or damage."""
        source = self.record_source
        return {
            "readOnly": self.read_only,
            "liveBroker": self.core.live_broker or (source is not None and source.has_broker),
            "storeGone": self._gone,
        }

    def consumers_of(self, queue_id: QueueId) -> int:
        """How many readers of `.take` a queue has."""
        return 0

    @cached_property
    def counting(self) -> Counting:
        """What each queue holds, kept from look to look."""
        from journalfs.store.queue_counts import Counting  # noqa: PLC0415 - few commands ask

        return Counting(self)

    def control(self) -> VirtualDirectory:
        from journalfs.store.control import control_tree  # noqa: PLC0415 - few commands show it

        return control_tree(self)

    @property
    def snapshots(self) -> Snapshots | None:
        return None

    @property
    def history(self) -> History | None:
        return None

    def user_limits(self) -> Mapping[str, int]:
        value = self.core.layout.value_in_force
        return {name: int(value(name) or 0) for name in USER_LIMITS}

    def refused(self, what: str, reason: str) -> None:
        self.refusals[what.rpartition(": ")[2]] += 1
        self.core.events.add("refused", f"{what}: {reason}", level=20, what=what, reason=reason)

    def doubted(self, what: str, doubt: JournalfsError) -> None:
        self.core.events.add(doubt.identifier, f"{what}: {doubt}")

    @property
    def permissions(self) -> KeptPermissions:
        if self._permissions is None:

            def tell(reason: str) -> None:
                self.core.events.add("permissions-unreadable", reason)

            self._permissions = KeptPermissions(self.core.root, tell)
        return self._permissions

    @property
    def loop_lag(self) -> LoopLag:
        return self.core.lag

    def hidden_bits(self, group: int) -> int:
        return door.hidden_bits(self.core.layout.places, group)

    def usage(self) -> Usage:
        self._look_at_disk()
        messages = self.core.totals.live()
        return Usage(*self._disk, messages, messages + MESSAGES_FREE_SHOWN)

    def _look_at_disk(self) -> None:
        """Look at the size and free room of the disk. If the store's directory is gone, the last result
        stays: what was read of it is still shown.
        """
        with contextlib.suppress(OSError):
            disk = door.disk_of(self.core.root)
            block = disk.f_frsize
            self._disk = disk.f_blocks * block, disk.f_bfree * block, disk.f_bavail * block

    def status(self) -> Mapping[str, object]:
        core = self.core
        damage, undecided = core.damage(), core.undecided()
        counts = core.loader.state.counts()
        return {
            "path": core.shown,
            **self._origin(),
            "readOnly": True,
            "persistent": True,
            "liveBroker": core.live_broker
            or (self.record_source is not None and self.record_source.has_broker),
            "storeGone": self._gone,
            "generation": core.names.generation,
            "addresses": len(self._addresses),
            "queues": len(self._queues),
            "messages": core.totals.live(),
            "journalFiles": len(core.loader.files),
            "journalBytesScanned": core.loader.bytes_scanned,
            "pageBytesScanned": sum(paged.bytes_scanned for paged in core.pages.values()),
            "rebuilds": self.rebuilds,
            "preparedTransactions": core.loader.state.prepared(),
            "undecidedTransactions": len(undecided),
            "messagesNotShown": messages_not_shown(undecided),
            "damage": len(damage),
            "damagedBytes": sum(item.length_bytes for item in damage),
            "missingJournalFiles": self.missing_journal_files(),
            "unknownReferences": self.references_to_unknown(),
            "orphanedReferences": core.totals.orphans(),
            "pagesSetAside": len(core.pages_set_aside()),
            "account": status_of(core),
            "index": str(self.index) if self.index is not None else None,
            "stateBytes": counts.memory_bytes,
            "journalMessages": counts.messages,
            "events": len(core.events),
            "loopLagMs": core.lag.status(),
            **({} if core.lag.front is None else {"frontRequests": core.lag.front.counts()}),
            "selections": len(SELECTIONS),
            "selectionBytes": SELECTIONS.size_bytes,
            "userLimits": self.user_limits(),
        }

    def _origin(self) -> Mapping[str, object]:
        """Return the path and the kind of the older store that this one was derived from."""
        derived = self.core.derived
        if derived is None:
            return {}
        return {"derivedFrom": derived.source, "format": derived.kind, "derivedAt": str(self.core.root)}

    def orphaned_bodies(self) -> Sequence[str]:
        from journalfs.store.orphans import orphaned_bodies  # noqa: PLC0415 - few commands ask

        return [file.name for file in orphaned_bodies(self.core)]

    def pages_set_aside(self) -> Sequence[str]:
        return self.core.pages_set_aside()

    def missing_journal_files(self) -> Sequence[str]:
        return self.core.missing_journal_files

    def references_to_unknown(self) -> Mapping[str, int]:
        return references_to_unknown(self.core.loader.state.anomalies(), self.core.queue_names())

    def prepared_sends(self) -> Iterator[tuple[str, ByteSource]]:
        from journalfs.views.transactions import sent_lines  # noqa: PLC0415 - few commands ask

        return sent_lines(self.core)

    # -- becoming and staying current ------------------------------------------------------------------------

    def start(self) -> None:
        """First look after opening: pages, measures, addresses, parts."""
        self.core.live_broker = self._broker_is_there()
        self._bindings_seen = self._bindings.stamp()
        self._settle()
        self._seal(self.queues())
        self._tails.seen()
        self._to_seal = {one.content.queue_id for one in self.queues() if not one.content.is_settled()}
        self.core.names.keep(self._highest_number())
        self._look_at_disk()

    def resume_bindings(self, reader: BindingsReader) -> None:
        """Go on reading the bindings where the store was opened."""
        self._bindings = reader

    def resume_page_parts(self, parts: Mapping[QueueId, PageParts]) -> None:
        self._page_parts = dict(parts)

    def resume_sealed(self) -> None:
        """Give back their names to parts that the index does not know, and note those that are made."""
        self.core.names.claim(make_folder=not self.read_only)
        slots = {info.queue_id: slot for slot, info in enumerate(self.core.loader.state.queues())}
        for part in self.core.names.found:
            if part.in_page is not None:
                self._parts_of(part.queue_id).keep(part.in_page)
            elif part.queue_id in slots:
                state, slot = self.core.loader.state, slots[part.queue_id]
                self.core.bodies.settle_those(part.ids)
                try:
                    keep_part(state, slot, part.number, part.sealed_ms, part.ids)
                except CoreRefused as error:
                    self.core.events.add("part-names-not-kept", str(error))

    def _settle(self) -> None:
        """Bring everything derived in line with journal and bindings."""
        self.core.register_queues()
        self.core.bodies.measure_added()
        self.core.refresh_pages()
        self.core.lost.look()
        self._take_bindings()

    def _take_bindings(self) -> None:
        """Update the addresses and queues that changed in the bindings or among the lost ones."""
        bindings, lost = self.core.bindings, self.core.lost
        before, self._taken = self._taken, (bindings, lost.queues)
        changed = bindings.changed_since(before[0])
        others = {**before[1], **lost.queues}
        names = {queue.address for queue in others.values()}
        if changed is None:
            ids = {*bindings.queues, *self._queues, *others}
            names |= bindings.addresses.keys() | {address.name for address in self.addresses()}
        else:
            ids, names = {*changed.queues, *others}, names | changed.addresses
        now_ms, first = self.core.clock.now_ms(), not len(self._addresses)
        implied = lost.addresses()
        for name in sorted(names):
            self._take_address(name, bindings.addresses.get(name) or implied.get(name), now_ms)
        models = {one: bindings.queues.get(one) or lost.queues.get(one) for one in ids}
        for queue_id, model in models.items():
            self._let_queue_go(queue_id, model, now_ms)
        for model in sorted(filter(None, models.values()), key=attrgetter("name")):
            self._take_queue(model, now_ms, made_ms=0 if first else now_ms)

    def _take_address(self, name: str, model: AddressModel | None, now_ms: int) -> None:
        address = self._addresses.get(name)
        if model is None:
            self._addresses.drop(name)
            self._changed_ms = now_ms
        elif address is None:
            self._addresses.put(name, StoreAddress(self.core, model, mtime_ns=now_ms * NS_PER_MS))
            self._changed_ms = now_ms
        else:
            address.model = model

    def _let_queue_go(self, queue_id: QueueId, model: QueueModel | None, now_ms: int) -> None:
        """Show a queue no more where it was, unless it stays there."""
        queue = self._queues.get(queue_id)
        if queue is None:
            return
        was = queue.model
        if model is not None and (model.name, model.address) == (was.name, was.address):
            return
        del self._queues[queue_id]
        address = self._addresses.get(was.address)
        if address is not None:
            address.bound.drop(was.name)
            address.mtime_ns = now_ms * NS_PER_MS
            self._changed_ms = now_ms

    def _take_queue(self, model: QueueModel, now_ms: int, *, made_ms: int) -> None:
        queue = self._queues.get(model.queue_id)
        if queue is not None:
            queue.take_model(model)
            return
        address = self._addresses.get(model.address)
        assert address is not None, "every queue is bound to an address, be it implied"
        queue = self.queue_type(self.core, model, self._parts_of(model.queue_id), self._seal_one)
        queue.made_ms = made_ms
        self._queues[model.queue_id] = queue
        self._tails.look_at(model.queue_id)
        address.bound.put(model.name, queue)
        address.mtime_ns = now_ms * NS_PER_MS
        self._changed_ms = now_ms

    def _parts_of(self, queue_id: QueueId) -> PageParts:
        parts = self._page_parts.get(queue_id)
        if parts is None:
            parts = self._page_parts[queue_id] = PageParts(queue_id, self.core.names.highest + 1)
        return parts

    def was_measured(self, slots: set[int]) -> None:
        """Seal what was there at the opening in queues of `slots` that are measured now, so that it is
        in parts from the first listing on.
        """
        for queue_id in sorted(self._to_seal & self._queues.keys()):
            content = self._queues[queue_id].content
            if content.slot in slots and content.is_settled():
                self._to_seal.discard(queue_id)
                self._seal([self._queues[queue_id]])

    def _seal(self, queues: Iterable[StoreQueue]) -> None:
        """Give tails parts of their own."""
        now_ms = self.core.clock.now_ms()
        made: list[SealedPart] = []
        for queue in queues:
            wholly = self._seal_queue(queue, now_ms, made)
            while not wholly and self.core.names.take(self._highest_number()):
                wholly = self._seal_queue(queue, now_ms, made)
            self._tails.sealed(queue.content.queue_id, wholly=wholly and queue.content.is_settled())
        if made:
            self.core.names.note(made, self._all_sealed)

    def _seal_one(self, queue: StoreQueue) -> None:
        self._seal([queue])

    def _seal_queue(self, queue: StoreQueue, now_ms: int, made: list[SealedPart]) -> bool:
        """Put a queue's tail into parts. False if there were not enough numbers for it."""
        names = self.core.names
        content = queue.content
        parts = queue.page_parts
        own = range(max(names.begin, parts.numbers_from), names.end)
        complete = False
        if parts.promised is not None:
            complete = self._seal_journal(content, now_ms, range(parts.promised, parts.promised + 1), made)
        if not complete and not self._seal_journal(content, now_ms, own, made):
            return False
        if content.paged is None:
            return True
        undecided = self._undecided_pages(queue.model.address)
        before = parts.parts[-1].number if parts.parts else 0
        complete = parts.seal(content.paged, now_ms=now_ms, numbers=own, undecided=undecided)
        names.used(parts.next_number - 1 - PAGE_PART_BASE)
        made += (SealedPart(content.queue_id, part) for part in parts.parts if part.number > before)
        return complete

    def _undecided_pages(self, address: str) -> frozenset[PageNumber]:
        """Pages with records of which it is not known yet whether they count."""
        return frozenset()

    def _seal_journal(self, content: QueueContent, now_ms: int, own: range, made: list[SealedPart]) -> bool:
        """Seal messages of the journal into parts, with numbers of `own`."""
        sealed = content.state.seal(
            content.slot, now_ms, max_messages=PART_MESSAGES_MAX, max_bytes=PART_BYTES_MAX, numbers=own
        )
        for part in sealed.parts:
            self.core.names.used(part.number)
        made += _sealed_of(content, sealed.parts)
        return sealed.complete

    def _all_sealed(self) -> Iterator[SealedPart]:
        """Every part there is."""
        for queue in self.queues():
            content = queue.content
            yield from _sealed_of(content, content.state.parts(content.slot))
            yield from (SealedPart(content.queue_id, part) for part in queue.page_parts.parts)

    def _highest_number(self) -> int:
        """No part of any queue has a higher one."""
        journal = (info.next_part - 1 for info in self.core.loader.state.queues())
        pages = (parts.next_number - 1 - PAGE_PART_BASE for parts in self._page_parts.values())
        return max((self.core.names.highest, *journal, *pages))

    async def follow(self) -> None:
        """Look again and again, until cancelled, at most half of the time. A failure to look is an event, and
        the next look tries again.
        """
        import trio  # noqa: PLC0415 - commands that do not wait start faster without it

        # What is live changes in this thread: it is copied here, and written elsewhere.
        save = self._index_to_save()
        if save is not None:
            await in_a_thread(save)
        said = None
        while True:
            began_s = trio.current_time()
            try:
                if self.record_source is not None:
                    await in_a_thread(self.record_source.look, abandon=True)
                await self.look()
                said = None
            except (OSError, JournalfsError, MemoryError) as error:
                if str(error) != said:
                    said = str(error)
                    self.core.events.add("follow-failed", f"cannot look at the store: {error}")
            await trio.sleep(max(FOLLOW_INTERVAL_S, trio.current_time() - began_s))

    @property
    def measures(self) -> bool:
        return bool(self.core.bodies.postponed)

    async def measure(self) -> None:
        await self.core.totals.learn()
        await self.core.bodies.run()

    async def look(self) -> None:
        """Apply what changed in the store since the last look."""
        bindings_changed, result = self._looked()
        if result is PollResult.REWRITTEN:
            await self._reload()
        self._take_over(bindings_changed, result)

    def look_now(self) -> None:
        """Apply the broker's changes at once, for a reader that met overwritten bytes. A reload under way is
        waited for first, since nothing newer is known.
        """
        self._finish_reload()
        bindings_changed, result = self._looked()
        if result is PollResult.REWRITTEN:
            self._replace_loader(self._loaded_whole())
        self._take_over(bindings_changed, result)

    def _looked(self) -> tuple[bool, PollResult]:
        """Return what changed, also if only a reader noticed it."""
        core = self.core
        bindings_changed, result = self._poll()
        if self._gone:
            return False, PollResult.UNCHANGED
        if core.torn and result is not PollResult.REWRITTEN:
            core.loader.mend(core.torn)
            result = PollResult.APPENDED
        core.torn.clear()
        if core.index_void:
            self._forget_index()
        return bindings_changed, PollResult.REWRITTEN if core.journal_doubted else result

    def _forget_index(self) -> None:
        """The next mount is not to be misled as this one was."""
        self.core.index_void = False
        self._written = None
        if self.index is None:
            return
        try:
            door.remove_if_there(self.index)
        except OSError as error:
            self.core.events.add("index-not-written", f"{self.index}: cannot be removed: {error.strerror}")

    def _poll(self) -> tuple[bool, PollResult]:
        core = self.core
        if self._is_gone():
            return False, PollResult.UNCHANGED
        core.live_broker = self._broker_is_there()
        bindings = core.bindings, core.bindings_damage, self._bindings_seen
        bindings_changed = self._look_at_bindings()
        result = core.loader.poll()
        if self._is_gone():
            # Since a moment ago: what was looked at may have been gone already.
            core.bindings, core.bindings_damage, self._bindings_seen = bindings
            return False, PollResult.UNCHANGED
        return bindings_changed, result

    def _is_gone(self) -> bool:
        """Return True if the directories that were read are gone: moved, removed or unmounted. The known
        content is shown until they are back.
        """
        core = self.core
        gone = bool(len(core.loaded.files)) and not door.is_folder(core.layout.journal_dir)
        gone = gone or (bool(core.bindings.queues) and not door.is_folder(core.layout.bindings_dir))
        gone = gone or (bool(core.pages) and not door.is_folder(core.layout.paging_dir))
        if gone and not self._gone:
            reason = "it was moved, removed or unmounted; its read messages are shown until it is back"
            core.events.add("store-gone", f"{core.root}: {reason}")
        elif self._gone and not gone:
            core.events.add("store-back", f"{core.root}: the store is there again", level=20)
        self._gone = gone
        return gone

    def _source_has_broker(self) -> bool:
        """True while a broker seems to have what this was derived from, which its files do not tell."""
        return self.record_source is not None and self.record_source.has_broker

    def _broker_is_there(self) -> bool:
        return lock_holder(self.core.layout.node_manager_lock_dir) is not None

    def _take_over(self, bindings_changed: bool, result: PollResult) -> None:
        """Bring what is derived in line with what was polled."""
        core = self.core
        if self._gone:
            return
        if bindings_changed:
            core.register_queues()
        bodies_changed = core.bodies.changed or not core.bodies.measured
        if bodies_changed or result is not PollResult.UNCHANGED:
            core.bodies.measure_added()
        pages_changed = self.core.refresh_pages() or bodies_changed
        if not (bindings_changed or pages_changed or result is not PollResult.UNCHANGED or self._tails):
            return
        if core.lost.look() or bindings_changed:
            self._take_bindings()
        self._seal(self._tails.due(self._queues))
        core.waking.ring()

    def _look_at_bindings(self) -> bool:
        core = self.core
        seen = self._bindings.stamp()
        if seen == self._bindings_seen:
            return False
        core.bindings, core.bindings_damage = self._bindings.read(self._bindings_limit())
        self._bindings_seen = seen
        return True

    def _bindings_limit(self) -> tuple[FileId, int] | None:
        """Where to stop reading the bindings journal; None: at its end."""
        return None

    async def _reload(self) -> None:
        """Read the journal again in a thread, while the store goes on answering from its present state."""
        from journalfs.store.reloading import Reloading  # noqa: PLC0415 - as above

        reloading = self._reloading = Reloading(self.core.loaded, self._loaded_whole)
        try:
            await in_a_thread(reloading.read)
            self._finish_reload()
        finally:
            self._reloading = None

    def _finish_reload(self) -> None:
        """Adopt the result of a reload, unless a caller that could not wait has adopted it, or has read
        further itself.
        """
        reloading, self._reloading = self._reloading, None
        if reloading is None or self.core.loaded is not reloading.before:
            return
        loader = reloading.result()
        if loader is not None:
            self._replace_loader(loader)

    def _loaded_whole(self) -> JournalLoader:
        """The journal read from nothing, again if the broker compacted it meanwhile."""
        loader = self._loaded()
        for _ in range(RELOADS_MAX):
            if loader.poll() is not PollResult.REWRITTEN:
                break
            loader = self._loaded()
        return loader

    def _replace_loader(self, loader: JournalLoader) -> None:
        """Go on with a journal that was read again; parts are carried over from the state that
        it replaces.
        """
        if self._is_gone():
            return
        old = self.core.loaded
        missing = lost_since(old, [read.known() for read in old.files.read_files()], old.state)
        loader.missing = (*old.missing, *missing)
        loader.bytes_scanned += old.bytes_scanned
        self.core.loaded = loader
        self.core.epoch += 1
        self.core.laid_out.clear()
        self.core.torn.clear()  # slots of the one before
        self.core.edition += old.overwritten or self.core.journal_doubted
        self.core.register_queues()  # bindings may be others since it was begun
        self.core.bodies.measure_added()
        adopt_parts(loader.state, old.state)
        self.core.keep_aside()
        self.rebuilds += 1
        doubted, self.core.journal_doubted = self.core.journal_doubted, False
        if doubted:
            self.core.events.add(
                "journal-doubted", "a message contradicted the index: the journal has been read again"
            )
            return
        why = "bytes of the journal changed in place" if old.overwritten else "the journal was compacted"
        if missing:
            why = f"something of {len(missing)} journal files is gone"
        self.core.events.add("journal-rewritten", f"{why} and it has been read again", level=20)

    def _loaded(self) -> JournalLoader:
        loader = self._make_loader()
        loader.state.bind_queues(sorted(self.core.bindings.queues))
        loader.load()
        return loader

    # -- letting go ------------------------------------------------------------------------------------------

    def save_index(self) -> None:
        """Write the index if anything was read that it does not hold. A failure costs only the next mount's
        time.
        """
        save = self._index_to_save()
        if save is not None:
            save()

    def _index_to_save(self) -> Callable[[], None] | None:
        """Return a call that writes the present index in any thread; None if nothing is to be written."""
        if self.index is None or self._is_gone() or not door.is_folder(self.core.layout.journal_dir):
            # Without its directories the index may be all that is known of a store.
            return None
        if not self.core.names.gives_names():
            return None  # an index with other names would take its place
        noted = self.core.names.noted
        description, ledger = self._described()
        if description is None and (self.core.loader.unreadable or self.core.bodies.unreadable):
            # It says of what cannot be read how long its lines are.
            self._forget_index()
        if description is None or description == self._written:
            return None
        return partial(self._write_index, description, [self.core.loader.state.save(), ledger], noted)

    def _write_index(self, description: IndexDescription, sections: list[bytes], noted: int) -> None:
        assert self.index is not None
        try:
            write_index(self.index, description, sections)
        except OSError as error:
            self.core.events.add(
                "index-not-written", f"{self.index}: cannot write the index: {error.strerror}"
            )
            return
        self._written = description
        self.core.names.in_index(noted)

    def _described(self) -> tuple[IndexDescription | None, bytes]:
        """Return the description for the index, and the ledger of the journal's last writer; empty if it is
        unknown.
        """
        description = describe(self.core, self._page_parts)
        if description is not None and self._written is not None:
            description = as_written(self._written, description)
        return description, self._ledger if description is not None and description.written else b""

    def index_holds(self, description: IndexDescription | None, ledger: bytes) -> None:
        """Note that the index was just read, so that it is written again only after a change."""
        self._written, self._ledger = description, ledger

    def closed_with_it(self, part: ClosedT) -> ClosedT:
        """Have something of the store closed before it."""
        self._closed_first.append(part)
        return part

    def discard(self) -> None:
        """Close what is no more: nothing of it is kept."""
        self.core.names.close()
        self._addresses = ByName()

    def close(self) -> None:
        if self.record_source is not None:
            self.record_source.close()
        for part in self._closed_first:
            part.close()
        try:
            if len(self._addresses) and not self._is_gone():
                self._seal(self.queues())  # what was listed as a tail has its name after this, too
            self.save_index()
        finally:
            self.core.names.close()
        self._addresses = ByName()


def _sealed_of(content: QueueContent, parts: Iterable[PartInfo]) -> Iterator[SealedPart]:
    for part in parts:
        ids = part_ids(content.state, content.slot, part)
        yield SealedPart(content.queue_id, None, part.number, part.mtime_ms, ids)
