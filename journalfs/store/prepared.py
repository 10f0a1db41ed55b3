"""What prepared transactions keep from being changed: messages that they consumed, queues they send to."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from journalfs.engine.state_types import Operation
from journalfs.errors import HeldByReaders, HeldByTransaction
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId, PageNumber, QueueId
from journalfs.store.content import QueueContent
from journalfs.store.transactions import StoredTransaction, prepared_transactions


def refuse_held(content: QueueContent, wanted: Collection[MessageId]) -> None:
    """Raises `HeldByTransaction` where a prepared transaction has consumed one of these messages, and
    `HeldByReaders` where one waits in a draft.
    """
    if any(content.core.in_delivery.has(content.queue_id, one) for one in wanted):
        raise HeldByReaders("a reader or a transaction has it, and it neither left nor was given back yet")
    transactions = prepared_transactions(content.core)
    held = ((prepared, held) for prepared in transactions for held in _consumed(prepared, content))
    found = next(((prepared, one) for prepared, one in held if one in wanted), None)
    if found is not None:
        raise HeldByTransaction(f"message {found[1]}", found[0].name)


def refuse_concerned(content: QueueContent) -> None:
    """The same where one consumed anything of a queue, or sends something to it."""
    for prepared in prepared_transactions(content.core):
        if is_concerned(prepared, content):
            raise HeldByTransaction(f"{content.model.address}::{content.name}", prepared.name)


def any_concerned(content: QueueContent) -> bool:
    return any(is_concerned(prepared, content) for prepared in prepared_transactions(content.core))


def is_concerned(prepared: StoredTransaction, content: QueueContent) -> bool:
    """Whether committing or rolling back a transaction changes what is in a queue."""
    return any(
        _sends(operation, content) or _is_acknowledgement(operation, content.queue_id)
        for operation in prepared.records
    )


def _is_acknowledgement(operation: Operation, queue: QueueId) -> bool:
    if operation.user_type == MessageType.ACKNOWLEDGE_CURSOR and operation.kind != RecordKind.ADD:
        return False
    kinds = (MessageType.ACKNOWLEDGE_REFERENCE, MessageType.ACKNOWLEDGE_CURSOR)
    return operation.user_type in kinds and operation.a == queue


def _consumed(prepared: StoredTransaction, content: QueueContent) -> Iterator[MessageId]:
    for operation in prepared.records:
        if not _is_acknowledgement(operation, content.queue_id):
            continue
        if operation.user_type == MessageType.ACKNOWLEDGE_REFERENCE:
            yield MessageId(operation.record_id)
        elif content.paged is not None and operation.b in content.paged.files:
            scan = content.page_scan(PageNumber(operation.b))
            if operation.c < scan.count:
                yield MessageId(scan.entry(operation.c).message_id)


def _sends(operation: Operation, content: QueueContent) -> bool:
    if operation.user_type == MessageType.ADD_REFERENCE:
        return operation.a == content.queue_id
    if operation.user_type != MessageType.PAGE_TRANSACTION or content.paged is None:
        return False
    return any(
        tx_id == operation.a and content.queue_id in scan.entry(index).queue_ids
        for number in content.paged.numbers()
        if content.paged.summary(number).has_transactions
        for scan in (content.page_scan(number),)
        for index, tx_id in enumerate(scan.tx_ids())
    )
