"""Transactions that a damaged journal does not say the end of, and what of them is therefore not shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from journalfs.damage import Damage, name_of
from journalfs.engine.state_types import AnomalyKind, Operation, TransactionInfo
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.pages.address import PagedAddress
from journalfs.records.files.anomalies import name_of_queue
from journalfs.records.files.loader import JournalLoader

UNDECIDED = "undecided-transaction"
_MESSAGES = frozenset({MessageType.MESSAGE, MessageType.LARGE_MESSAGE})


def adds_message(operation: Operation) -> bool:
    return operation.kind == RecordKind.ADD and operation.user_type in _MESSAGES


def adds_pages(operation: Operation) -> bool:
    """Whether its transaction paged messages. An update says what it consumed of those of another one."""
    return operation.kind == RecordKind.ADD and operation.user_type == MessageType.PAGE_TRANSACTION


def undecided_in(loader: JournalLoader, is_damaged: Callable[[], bool]) -> list[TransactionInfo]:
    """Return the transactions of which a part is known to be lost. For a damaged journal that no other
    process writes, also those that were open when it was read: any killed writer leaves such, but here a lost
    record may have committed them.
    """

    @cache
    def unfinished() -> frozenset[int]:
        if loader.following or not is_damaged():
            return frozenset()
        found = loader.state.anomalies()
        return frozenset(one.a for one in found if one.kind is AnomalyKind.TX_UNFINISHED)

    return loader.state.undecided(lambda tx_id, incomplete: incomplete or tx_id in unfinished())


def messages_not_shown(transactions: Iterable[TransactionInfo]) -> int:
    """How many messages they would add to the journal."""
    return sum(adds_message(one) for transaction in transactions for one in transaction.operations)


def undecided_damage(
    transactions: Iterable[TransactionInfo],
    loader: JournalLoader,
    names: Mapping[int, str],
    pages: Iterable[PagedAddress],
) -> Iterator[Damage]:
    """One entry each, at the first record that is there. `names` are those of queues."""
    for transaction in transactions:
        first = next(iter(transaction.operations), None)
        read = loader.files.get_read(first.file_slot) if first is not None else None
        if first is None or read is None:
            continue
        why = "records that it counts are lost" if transaction.incomplete else "what ended it is lost"
        sent, taken = of_transaction(transaction, names, pages)
        reason = (
            f"transaction {transaction.tx_id}: {why}, so {_counted(sent, taken.total())}; "
            f"see .journalfs/transactions/transaction-{transaction.tx_id}"
        )
        place = name_of(read.file.path, loader.relative_to), first.body_offset, 0, UNDECIDED, reason
        yield Damage(*place, messages=sent.total(), id=transaction.tx_id)


def _counted(sent: Counter[str], acknowledged: int) -> str:
    parts = [f"{count} of {queue}" for queue, count in sorted(sent.items())]
    told = f"{sent.total()} messages are not shown" + (f" ({', '.join(parts)})" if parts else "")
    return told + (f", and {acknowledged} acknowledgements do not count" if acknowledged else "")


NO_QUEUE: Final = "no known queue"
"""Stands for the queues of messages that a transaction adds and nothing of it refers to."""


def of_transaction(
    transaction: TransactionInfo, names: Mapping[int, str], pages: Iterable[PagedAddress]
) -> tuple[Counter[str], Counter[str]]:
    """Return how many messages a transaction sends, and how many it acknowledges, by queue."""
    sent: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    without_queue = {one.record_id for one in transaction.operations if adds_message(one)}
    for one in transaction.operations:
        match one.user_type:
            case MessageType.ADD_REFERENCE:
                sent[name_of_queue(one.a, names)] += 1
                without_queue.discard(one.record_id)
            case MessageType.ACKNOWLEDGE_REFERENCE | MessageType.ACKNOWLEDGE_CURSOR:
                if one.user_type == MessageType.ACKNOWLEDGE_REFERENCE or one.kind == RecordKind.ADD:
                    taken[name_of_queue(one.a, names)] += 1
            case MessageType.PAGE_TRANSACTION if adds_pages(one):
                sent.update(name_of_queue(queue, names) for queue in _in_pages(one.a, pages))
            case _:
                pass
    if without_queue:
        sent[NO_QUEUE] += len(without_queue)
    return sent, taken


def _in_pages(tx_id: int, pages: Iterable[PagedAddress]) -> Iterator[int]:
    """The queue of each message that lies in pages already and counts once the transaction commits."""
    for paged in pages:
        for number in paged.numbers():
            if tx_id in paged.summary(number).tx_ids:
                scan = paged.scan(number)
                for index, tx in enumerate(scan.tx_ids()):
                    if tx == tx_id:
                        yield from scan.entry(index).queue_ids
