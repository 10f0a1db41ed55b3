"""All that a store which is written does about pages: publishing to them, cleaning up behind what is
consumed, and keeping account of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from journalfs.bodies.writing import BodyStore
from journalfs.broker.pages.page_cleanup import PageCleanup
from journalfs.change.journals import Journals
from journalfs.change.paging import Paging
from journalfs.engine.waiting import Turn
from journalfs.errors import JournalfsError
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import PageNumber, QueueId, RecordId, TxId
from journalfs.live.content import QueueContent
from journalfs.live.core import Core

# How many messages each queue has in pages, kept in the journal for the next broker.
#
# Brokers count anew when they start; until that is done they show what these records say. So they are brought
# up to date as brokers do it: now and then, and when the store is closed.

INTERVAL_NS: Final = 60 * 1_000_000_000
"""Time between two snapshots of a store that is at work."""


@dataclass(slots=True)
class PageCounters:
    core: Core
    journals: Journals
    _last_ns: int = 0

    def snapshot_if_due(self) -> None:
        now_ns = self.core.clock.monotonic_ns()
        if now_ns - self._last_ns >= INTERVAL_NS:
            self._last_ns = now_ns
            self.snapshot()

    def snapshot(self) -> None:
        """Stage a transaction with what changed since the last one. Nobody waits for it."""
        writer = self.journals.messages
        known: dict[int, list[tuple[int, int]]] = {}
        for record in self.core.loader.state.side(MessageType.PAGE_COUNTER_VALUE):
            known.setdefault(record.a, []).append((record.record_id, record.b))
        bodies: list[bytes] = []
        gone: list[RecordId] = []
        for queue, (messages, message_bytes) in self._counted().items():
            records = known.get(int(queue), [])
            if [value for _, value in records] == ([messages] if messages else []):
                continue
            gone += [RecordId(record_id) for record_id, _ in records if writer.is_live(record_id)]
            if messages:
                bodies.append(record_bodies.page_counter(queue, messages, message_bytes))

        def stage(tx: TxId) -> None:
            for record_id in gone:
                writer.stage_delete_in(tx, record_id)
            for body in bodies:
                new = RecordId(self.journals.ids.draw())
                writer.stage_add_in(tx, new, MessageType.PAGE_COUNTER_VALUE, body)

        if gone or bodies:
            self.journals.in_transaction(stage)

    def _counted(self) -> dict[QueueId, tuple[int, int]]:
        """By queue: messages in pages, and about how many bytes they have."""
        counted: dict[QueueId, tuple[int, int]] = {}
        for address, paged in self.core.pages.items():
            for queue in self.core.bindings.queues_of(address):
                messages = message_bytes = 0
                for page in paged.numbers():
                    live = paged.count(page, queue.queue_id)
                    if live:
                        messages += live
                        size_bytes = paged.files[page].stamp.size_bytes
                        message_bytes += size_bytes * live // paged.summary(page).records
                counted[queue.queue_id] = messages, message_bytes
        return counted


class Paged:
    """Use from one event loop."""

    def __init__(self, core: Core, journals: Journals, paging: Paging, bodies: BodyStore) -> None:
        self.paging = paging
        self._core = core
        self._journals = journals
        self._cleanup = PageCleanup(core, journals, paging, bodies)
        self._counters = PageCounters(core, journals)

    @property
    def cleanup_turn(self) -> Turn:
        """While somebody has it no page is deleted."""
        return self._cleanup.turn

    def empties(self, content: QueueContent, page: PageNumber, leaving: array[int]) -> bool:
        """Whether a queue is done with a page once these leave it, by their place in it."""
        return self._cleanup.empties(content, page, leaving)

    def start(self) -> None:
        """Once journal and pages were read."""
        self.paging.start()
        self._cleanup.check_all()

    async def consumed(self, address: str, pages: Iterable[int]) -> None:
        """Messages of these pages were acknowledged: clean up behind them, as far as it goes."""
        for page in set(pages):
            self._cleanup.check(address, PageNumber(page))
        await self.tidy()

    async def tidy(self) -> None:
        """Do what is due. What cannot be done now is done later, and takes nothing from what was done."""
        if self._cleanup.due:
            await self._postponing(self._cleanup.tidy)

    async def _postponing(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except JournalfsError as error:
            self._core.events.add("page-cleanup-postponed", str(error))

    async def look(self) -> None:
        """What is done now and then."""
        await self._postponing(self._cleanup.look)
        if self._journals.failure is None:
            self._counters.snapshot_if_due()

    async def queue_deleted(self, address: str, queue: QueueId) -> None:
        """Of a queue that is not bound any more nothing is kept about pages."""
        self._cleanup.forget_queue(queue)
        self._cleanup.check_address(address)
        await self.tidy()

    async def address_deleted(self, address: str) -> None:
        await self._cleanup.forget_address(address)

    def close(self) -> None:
        """Before the journals are closed. Raises WriteFailed."""
        self.paging.close()
        if self._journals.failure is not None:
            return
        self._journals.messages.drain()
        self.paging.current()
        self._counters.snapshot()
