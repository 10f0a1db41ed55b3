"""What the journal says of pages against what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from journalfs.engine.state_types import Operation
from journalfs.format.record_types import MessageType
from journalfs.format.server_lock import NodeState
from journalfs.ids import PageNumber, QueueId
from journalfs.inspect.findings import Finding, file_in
from journalfs.store.node_lock import server_lock_of

if TYPE_CHECKING:
    from journalfs.paging.address import PagedAddress
    from journalfs.store.core import Core


def wrong_counts(core: Core) -> Iterator[Finding]:
    """Complete marks, page transactions and page counters. All of pages and journal has to be whole."""
    yield from _complete(core)
    yield from _transactions(core)
    yield from _counters(core)


def _complete(core: Core) -> Iterator[Finding]:
    """A mark of more records than the page has is damage of the page already."""
    paged_of = {
        queue.queue_id: paged
        for address, paged in core.pages.items()
        for queue in core.bindings.queues_of(address)
    }
    for record in core.loader.state.side(MessageType.PAGE_COMPLETE):
        queue, number, records = record.a, PageNumber(record.b), record.c
        paged = paged_of.get(queue)  # type: ignore[call-overload]
        if paged is not None and number in paged.files:
            has = paged.summary(number).records
            if records < has:
                reason = (
                    f"queue {queue} is done with the {records} messages of page {number}, which it has {has}"
                )
                yield _at(core, record, "page-complete", reason)


def _transactions(core: Core) -> Iterator[Finding]:
    """Each counts the pairs of message and queue that are still to be consumed: with fewer a broker forgets
    it, and with it what is left of them. More are harmless.
    """
    waiting: Counter[int] = Counter()
    for address, paged in core.pages.items():
        queues = {queue.queue_id for queue in core.bindings.queues_of(address)}
        for number in paged.numbers():
            if paged.summary(number).has_transactions:
                waiting.update(_pairs(paged, number, queues))
    for record in core.loader.state.side(MessageType.PAGE_TRANSACTION):
        left = core.cursors.transactions.get(record.a, (0, 0))[1]
        if waiting[record.a] > left:
            reason = (
                f"page transaction {record.a} has {left} messages left to consume in queues, "
                f"and {waiting[record.a]} are in pages"
            )
            yield _at(core, record, "page-transaction", reason)


def _pairs(paged: PagedAddress, number: PageNumber, queues: set[QueueId]) -> Iterator[int]:
    scan = paged.scan(number)
    ids, starts = scan.queue_ids()
    for index, tx_id in enumerate(scan.tx_ids()):
        if tx_id > 0:
            for queue in queues.intersection(map(QueueId, ids[starts[index] : starts[index + 1]])):
                standing = paged.standing(number, queue)
                if not standing.complete and index not in standing.gone:
                    yield tx_id


def _counters(core: Core) -> Iterator[Finding]:
    """They are what was true when a broker stopped. One that was killed leaves old ones."""
    lock = server_lock_of(core.layout)
    if lock is None or lock.state is not NodeState.STOPPED or core.live_broker:
        return
    counted: Counter[int] = Counter()
    said: dict[int, list[Operation]] = {}
    for address, paged in core.pages.items():
        for queue in core.bindings.queues_of(address):
            for number in paged.numbers():
                counted[queue.queue_id] += len(paged.live(number, queue.queue_id))
                counted[queue.queue_id] += len(paged.delivering(number, queue.queue_id))
    for record in core.loader.state.side(MessageType.PAGE_COUNTER_VALUE):
        said.setdefault(record.a, []).append(record)
    for queue_id, records in said.items():
        last, there = records[-1], counted[queue_id]
        if QueueId(queue_id) in core.bindings.queues and last.b != there:
            reason = f"it says that queue {queue_id} has {last.b} messages in pages, and {there} are there"
            yield _at(core, last, "page-counter", reason)


def _at(core: Core, record: Operation, kind: str, reason: str) -> Finding:
    return Finding(file_in(core, record.file_slot), record.body_offset, record.body_bytes, kind, reason)
