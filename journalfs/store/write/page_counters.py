"""How many messages each queue has in pages, kept in the journal for the next broker.

Brokers count anew when they start; until that is done they show what these records say. So they are brought
up to date as brokers do it: now and then, and when the store is closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import QueueId, RecordId, TxId
from journalfs.store.core import Core
from journalfs.store.write.journals import Journals

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
