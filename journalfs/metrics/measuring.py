"""Measures an open store: fills the list of `families`, in pieces between which others go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from journalfs.account.taking import entries_of
from journalfs.broker.limits.disk_limits import disk_limits, space_of
from journalfs.errors import SystemFailure
from journalfs.live.content import total_messages
from journalfs.live.settings import settings_in_force
from journalfs.live.virtual import SlicedFile
from journalfs.metrics.flows import Flows
from journalfs.metrics.samples import Samples
from journalfs.views.views import SELECTIONS

if TYPE_CHECKING:
    from journalfs.engine.waiting import Slices
    from journalfs.ids import QueueId
    from journalfs.live.core import Core
    from journalfs.live.explaining import Explanations
    from journalfs.views.queues import StoreAddress, StoreQueue

Shown = Callable[[str, str | None], bool]
"""Whether an address (None), or a queue, is shown to whoever asks."""

QUEUES_SHOWN: Final = 100
"""In a file that each user of a mount may read, and of which a copy is kept for each."""

_FLAGS: Final = {
    "journalfs_read_only": "readOnly",
    "journalfs_live_broker": "liveBroker",
    "journalfs_write_failed": "writeFailure",
    "journalfs_store_gone": "storeGone",
}
"""Metrics that are 1 where this value of the store's status is neither false nor null."""

_TALLIED: Final = {
    "journalfs_queue_expired_messages_total": "messagesExpired",
    "journalfs_queue_killed_messages_total": "messagesKilled",
    "journalfs_queue_replaced_messages_total": "messagesReplaced",
}


class Measured(Protocol):
    """See `journalfs.store.store.JournalStore`."""

    core: Core
    refusals: Counter[str]

    @property
    def explanations(self) -> Explanations: ...

    def addresses(self) -> Sequence[StoreAddress]: ...

    def consumers_of(self, queue_id: QueueId) -> int: ...

    def standing(self) -> Mapping[str, object]: ...


def everything(address: str, queue: str | None) -> bool:
    return True


class StoreMetrics:
    """Of one open store: what was counted at the last look is kept, for what came and left since."""

    def __init__(self, store: Measured) -> None:
        self._store = store
        self._flows = Flows()

    async def text(self, slices: Slices) -> bytes:
        """All of it as Prometheus text."""
        found = await self.samples(slices)
        made = await found.text(slices)
        await found.let_go(slices)
        return made

    def file(self, shown: Shown) -> SlicedFile:
        """A file with the samples of the `QUEUES_SHOWN` deepest queues that are `shown`, for one reader."""
        core = self._store.core

        async def make(slices: Slices) -> bytes:
            found = await self.samples(slices, shown)
            made = await (await found.top(QUEUES_SHOWN, slices)).text(slices)
            await found.let_go(slices)
            return made

        # Each second anew: what is shown may be otherwise without the store being so.
        now_ms = core.clock.now_ms
        version = lambda: (core.epoch, core.waking.count, now_ms() // 1000)  # noqa: E731
        return SlicedFile(make, lambda: now_ms() * 1_000_000, version)

    async def samples(self, slices: Slices, shown: Shown = everything) -> Samples:
        """Measure the store, without addresses and queues that are not `shown`. Addresses whose
        `enable-metrics` is false are left out. Raises SystemFailure.
        """
        found = Samples()
        await self._add_store(found, slices)
        await self._add_disks(found, slices)
        settings = settings_in_force(self._store.core)
        there: set[int] = set()
        for address in self._store.addresses():
            await slices.pause()
            there.update(queue.content.queue_id for queue in address.queues())
            if settings.value(address.name, "enable-metrics") is False:
                continue
            if shown(address.name, None):
                self._add_address(found, address)
            for queue in address.queues():
                await slices.pause()
                if shown(address.name, queue.name):
                    self._add_queue(found, queue)
        self._flows.forget_all_but(there)
        return found

    # -- the store -------------------------------------------------------------------------------------------

    async def _add_store(self, found: Samples, slices: Slices) -> None:
        status, core = self._store.standing(), self._store.core
        await slices.pause()
        found.add("journalfs_up", 1)
        for name, key in _FLAGS.items():
            found.add(name, status.get(key) not in (None, False))
        found.add("journalfs_prepared_transactions", core.loader.state.prepared())
        found.add("journalfs_state_bytes", core.loader.state.counts().memory_bytes)
        found.add("journalfs_selection_bytes", SELECTIONS.size_bytes)
        _add_account(found, core)
        await slices.pause()
        for event, count in sorted(core.events.counts.items()):
            found.add("journalfs_events_total", count, event)
        for name, count in sorted(self._store.refusals.items()):
            found.add("journalfs_refused_total", count, name)
        for name, milliseconds in core.lag.status().items():
            if name != "slow":
                found.add("journalfs_loop_lag_seconds", milliseconds / 1000, name)
        found.add("journalfs_slow_turns_total", core.lag.slow)
        for name, count in {} if core.lag.front is None else core.lag.front.counts().items():
            found.add("journalfs_front_total", count, name)

    async def _add_disks(self, found: Samples, slices: Slices) -> None:
        core = self._store.core
        limit, layout = disk_limits(core).limit, core.layout
        parts = {
            "journal": layout.journal_dir,
            "bindings": layout.bindings_dir,
            "paging": layout.paging_dir,
            "large": layout.large_dir,
        }
        for part, directory in parts.items():
            await slices.pause()
            try:
                space = space_of(directory)
            except OSError:
                continue  # it is made when it is needed, or the store is gone, which has a metric
            found.add("journalfs_disk_size_bytes", space.total_bytes, part)
            found.add("journalfs_disk_free_bytes", space.usable_bytes, part)
            if limit is not None:
                found.add("journalfs_disk_room_bytes", limit.room_bytes(space), part)
        try:
            states = self._store.explanations.states()
        except SystemFailure:
            return  # as above
        for state, count in states.items():
            found.add("journalfs_journal_files", count, state)

    # -- addresses and queues --------------------------------------------------------------------------------

    def _add_address(self, found: Samples, address: StoreAddress) -> None:
        core, name = self._store.core, address.name
        paged = core.pages.get(name)
        if paged is not None:
            found.add("journalfs_address_page_files", len(paged.files), name)
            page_bytes = sum(page.stamp.size_bytes for page in paged.files.values())
            found.add("journalfs_address_page_bytes", page_bytes, name)
        found.add("journalfs_address_size_bytes", address.held().size_bytes, name)
        found.add("journalfs_address_duplicate_messages_total", core.duplicates_left_out[name], name)
        limits = core.limits_of(name)
        if limits is not None:
            found.add("journalfs_address_limit_reached", limits.limit is not None, name)
            found.add("journalfs_address_blocked_writers", limits.blocked_writers, name)
            found.add("journalfs_address_dropped_messages_total", limits.dropped_messages, name)

    def _add_queue(self, found: Samples, queue: StoreQueue) -> None:
        content, core = queue.content, self._store.core
        labels = queue.model.address, queue.name
        info = content.state.queue(content.slot)
        paged = total_messages(content.page_runs())
        messages = info.live_count + paged + total_messages(content.delivering())
        found.add("journalfs_queue_messages", messages, *labels)
        found.add("journalfs_queue_body_bytes", info.live_bytes, *labels)
        found.add("journalfs_queue_paged_messages", paged, *labels)
        # Most of very many queues are empty; these look at each of their messages.
        oldest_ms = content.state.oldest_ms(content.slot) if messages else 0
        age_ms = max(0, core.clock.now_ms() - oldest_ms) if oldest_ms else 0
        found.add("journalfs_queue_oldest_age_seconds", age_ms / 1000, *labels)
        delivering, scheduled = (len(queue.delivering()), len(queue.scheduled())) if messages else (0, 0)
        found.add("journalfs_queue_delivering_messages", delivering, *labels)
        found.add("journalfs_queue_scheduled_messages", scheduled, *labels)
        found.add("journalfs_queue_consumers", self._store.consumers_of(content.queue_id), *labels)
        self._add_flow(found, queue, paged)

    def _add_flow(self, found: Samples, queue: StoreQueue, paged: int) -> None:
        content, core = queue.content, self._store.core
        labels = queue.model.address, queue.name
        told = {name: core.tally[content.queue_id, key] for name, key in _TALLIED.items()}
        flow = self._flows.look(content.state.queue(content.slot), paged, sum(told.values()), core.epoch)
        found.add("journalfs_queue_added_messages_total", flow.added, *labels)
        found.add("journalfs_queue_acknowledged_messages_total", flow.acknowledged, *labels)
        for name, count in told.items():
            found.add(name, count, *labels)


def _add_account(found: Samples, core: Core) -> None:
    """Add what the account lists, by standing and kind, and how many messages that are."""
    entries = entries_of(core)
    losses = [entry for entry in entries if not entry.is_harmless]
    found.add("journalfs_damaged_places", len(losses))
    found.add("journalfs_whole", not losses)
    kinds = Counter((one.standing.value, one.kind) for one in entries)
    for (standing, kind), count in sorted(kinds.items()):
        found.add("journalfs_account_entries", count, standing, kind)
    messages: Counter[tuple[str, str]] = Counter()
    for one in entries:
        messages[one.standing.value, one.messages.bound.value] += one.messages.messages or 0
    for (standing, bound), count in sorted(messages.items()):
        found.add("journalfs_account_messages", count, standing, bound)
