"""Messages whose time is over leave their queues, as a broker's scan for them does: at most
`message-expiry-scan-period` later. So do those that failed and stayed, once they have somewhere to go.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import trio

from journalfs.broker.consume.forwarding import Forwarding
from journalfs.broker.consume.leaving import chosen_runs
from journalfs.change.address_rules import AddressRules
from journalfs.clock import NS_PER_MS, Clock
from journalfs.config.in_force import SettingsInForce
from journalfs.damage import FileStamp
from journalfs.engine.waiting import Slices, checkpoint
from journalfs.errors import Gone, JournalfsError
from journalfs.ids import MessageId, PageNumber, QueueId
from journalfs.limits import EXPIRED_BYTES_MAX, EXPIRED_MESSAGES_MAX, FOLLOW_INTERVAL_S
from journalfs.live.content import Why
from journalfs.live.core import Core
from journalfs.live.runs import PageRun
from journalfs.live.settings import settings_in_force
from journalfs.pages.address import PagedAddress
from journalfs.views.queues import StoreAddress, StoreQueue

# What a store does again and again, as long as it is open for writing.


async def every_period(clock: Clock, period_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` each time so much has passed, until cancelled; 0 or less: never."""
    while period_ms > 0:
        due_ns = clock.monotonic_ns() + period_ms * NS_PER_MS
        while (left_ns := due_ns - clock.monotonic_ns()) > 0:
            # Not all at once: the clock may be another than that of the event loop.
            await trio.sleep(min(left_ns / 1e9, FOLLOW_INTERVAL_S))
        await work()


@dataclass(frozen=True, slots=True)
class _Seen:
    """The facts about a page that was looked through."""

    stamp: FileStamp
    next_ms: int
    """When the next of its messages expires; 0: none does."""
    stays: SettingsInForce | None
    """The reason why an expired message stays in its queue."""


class Queues(Protocol):
    """A store's queues, as it shows them."""

    def addresses(self) -> Sequence[StoreAddress]: ...

    def address(self, name: str) -> StoreAddress | None: ...

    def queue_of(self, queue_id: QueueId) -> StoreQueue | None: ...


@dataclass(slots=True)
class Expiring:
    core: Core
    rules: AddressRules
    queues: Queues
    forwarding: Forwarding
    enabled: bool = True
    """Off: nothing expires by itself."""
    _pages: dict[tuple[str, PageNumber], _Seen] = field(default_factory=dict)
    """Pages that were gone through."""

    @property
    def period_ms(self) -> int:
        """From one scan to the next; 0 or less: there is none."""
        period = self.core.layout.value_in_force("message-expiry-scan-period")
        return period if isinstance(period, int) else 0

    async def run(self) -> None:
        """Scan again and again, until cancelled."""
        if not self.enabled:
            return
        await every_period(self.core.clock, self.period_ms, self._try)

    async def _try(self) -> None:
        try:
            await self.scan()
        except (JournalfsError, MemoryError) as error:
            self.core.events.add("not-expired", f"expired messages stay, until the next try: {error}")

    async def scan(self) -> int:
        """Let go of all that expired by now; how many messages left a queue."""
        left = 0
        for queue, message_ids in self._expired_in_journal():
            left += await self.forwarding.forward(queue, chosen_runs(queue, message_ids), Why.EXPIRED)
        for address, paged in list(self.core.pages.items()):
            if not self._keeps(address):
                left += await self._scan_pages(address, paged)
        return left + await self._forward_failed()

    async def _forward_failed(self) -> int:
        left = 0
        slices = Slices()
        for queue in (queue for address in self.queues.addresses() for queue in address.queues()):
            await slices.pause()
            runs = queue.content.failed()
            for run in runs if runs and self.forwarding.may_leave(queue, Why.KILLED) else ():
                for few in run.split(EXPIRED_MESSAGES_MAX):
                    left += await self.forwarding.forward(queue, [few], Why.KILLED)
        return left

    def _keeps(self, address: str) -> bool:
        """Return True if messages must not expire there: they would come back to the same queue."""
        return self.rules.text(address, "expiry-address") == address

    # ---- the journal ----

    def _expired_in_journal(self) -> Iterator[tuple[StoreQueue, list[MessageId]]]:
        """Yield the expired messages of a queue, some at a time, in the order of delivery. Scheduled messages
        that are not due do not expire, nor do those that a prepared transaction acknowledged.
        """
        ids = sorted(self.core.loader.state.expired(self.core.clock.now_ms()))
        for at in range(0, len(ids), EXPIRED_MESSAGES_MAX):
            for slot, messages in self._by_queue(ids[at : at + EXPIRED_MESSAGES_MAX]).items():
                queue = self.queues.queue_of(QueueId(self.core.loader.state.queue(slot).queue_id))
                if queue is None or self._keeps(queue.model.address):
                    continue
                if self.forwarding.may_leave(queue, Why.EXPIRED):
                    for together in _in_bounds(messages):
                        yield queue, together

    def _by_queue(self, message_ids: Sequence[int]) -> dict[int, list[tuple[int, MessageId, int]]]:
        """By queue slot: priority, id and length of the record, highest priority first."""
        state, now_ms = self.core.loader.state, self.core.clock.now_ms()
        found: dict[int, list[tuple[int, MessageId, int]]] = {}
        for message_id in message_ids:
            for ref in state.message_refs(message_id):
                info = state.ref(ref)
                if not info.delivering and info.scheduled_ms <= now_ms:
                    message = (info.priority, MessageId(message_id), info.body_bytes)
                    found.setdefault(info.queue_slot, []).append(message)
        for messages in found.values():
            messages.sort(key=lambda message: -message[0])
        return found

    # ---- pages ----

    async def _scan_pages(self, address: str, paged: PagedAddress) -> int:
        left = 0
        for number in paged.numbers():
            try:
                if self._is_due(address, paged, number):
                    left += await self._scan_page(address, paged, number)
            except Gone:
                continue
            await checkpoint()
        for known in [one for one in self._pages if one[0] == address and one[1] not in paged.files]:
            del self._pages[known]
        return left

    def _is_due(self, address: str, paged: PagedAddress, number: PageNumber) -> bool:
        summary = paged.summary(number)
        seen = self._pages.get((address, number))
        next_ms = summary.first_expiry_ms
        if seen is not None and seen.stamp == summary.stamp:
            stays = seen.stays is None or seen.stays is settings_in_force(self.core)
            next_ms = seen.next_ms if stays else next_ms
        return 0 < next_ms <= self.core.clock.now_ms()

    async def _scan_page(self, address: str, paged: PagedAddress, number: PageNumber) -> int:
        left, found, next_ms = 0, 0, 0
        stamp = paged.files[number].stamp
        shown = self.queues.address(address)
        bound = () if shown is None else shown.queues()
        live = [paged.live(number, queue.content.queue_id) for queue in bound]
        # All of it before the first are sent on: the page may go with them.
        over = [queue.content.page_expired(number, there) for queue, there in zip(bound, live, strict=True)]
        for queue, (due, later_ms) in zip(bound, over, strict=True):
            next_ms = min(filter(None, (next_ms, later_ms)), default=0)
            found += len(due)
            for at in range(0, len(due), EXPIRED_MESSAGES_MAX):
                if not self.forwarding.may_leave(queue, Why.EXPIRED):
                    break
                run = PageRun(number, array("I", due[at : at + EXPIRED_MESSAGES_MAX]))
                left += await self.forwarding.forward(queue, [run], Why.EXPIRED)
        stays = settings_in_force(self.core) if left < found else None
        self._pages[address, number] = _Seen(stamp, next_ms, stays)
        return left


def _in_bounds(messages: Sequence[tuple[int, MessageId, int]]) -> Iterator[list[MessageId]]:
    """So many at a time that their records are easily held in memory."""
    together: list[MessageId] = []
    size_bytes = 0
    for _, message_id, record_bytes in messages:
        if together and size_bytes + record_bytes > EXPIRED_BYTES_MAX:
            yield together
            together, size_bytes = [], 0
        together.append(message_id)
        size_bytes += record_bytes
    yield together
