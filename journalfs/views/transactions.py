"""Transactions as directories, prepared ones and those that damage left undecided: each shows what its commit
would do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from journalfs.api import ByteSource, VirtualDirectory
from journalfs.engine.lines import LineBatch
from journalfs.engine.pages import PageScan
from journalfs.engine.state_types import Operation, TransactionInfo
from journalfs.errors import DecodeError, HeldByReaders, HeldByTransaction
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.format.xid import Xid, decode_xid
from journalfs.ids import MessageId, PageNumber, QueueId
from journalfs.limits import NAME_BYTES_MAX
from journalfs.live.content import QueueContent
from journalfs.live.runs import JournalSegment, page_batch
from journalfs.live.sources import SegmentedSource, WindowSource
from journalfs.live.undecided import adds_message, adds_pages
from journalfs.live.virtual import (
    ComputedDirectory,
    ComputedFile,
    FixedDirectory,
    SourceFile,
    to_json,
    to_json_lines,
)
from journalfs.message.envelope import decode_envelope
from journalfs.views.message import StoreMessage

if TYPE_CHECKING:
    from journalfs.live.core import Core


_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class Named(Generic[_Thing]):
    """Things of which each may have several names, and several the same."""

    shown: Mapping[str, _Thing]
    """Each once, by the first of its names that no other has and that a file can have, else by its last."""
    meant: Mapping[str, _Thing]
    """By all of these names."""


def by_name(found: Sequence[tuple[_Thing, Sequence[str]]]) -> Named[_Thing]:
    times = Counter(name for _, names in found for name in names)
    meant = {
        name: thing
        for thing, names in found
        for name in names
        if times[name] == 1 and len(name) <= NAME_BYTES_MAX
    }
    shown = {next((one for one in names if one in meant), names[-1]): thing for thing, names in found}
    return Named(shown, meant)


def transactions_directory(core: Core) -> VirtualDirectory:
    def named() -> Named[StoredTransaction]:
        undecided = [(one, one.names) for one in undecided_transactions(core)]
        return by_name([*((one, one.names) for one in prepared_transactions(core)), *undecided])

    def find(name: str) -> StoredTransaction | None:
        return named().meant.get(name)

    now = lambda: core.clock.now_ms() * 1_000_000  # noqa: E731
    return ComputedDirectory(lambda: named().shown, StoredTransaction.directory, now, find)


def prepared_transactions(core: Core) -> Sequence[StoredTransaction]:
    found = [StoredTransaction(core, transaction) for transaction in core.loader.state.transactions()]
    for name, one in by_name([(one, one.names) for one in found]).shown.items():
        one.name = name
    return found


def undecided_transactions(core: Core) -> Iterator[StoredTransaction]:
    """Return the transactions that lost bytes of the journal may have committed."""
    return (StoredTransaction(core, transaction) for transaction in core.undecided())


def sent_lines(core: Core) -> Iterator[tuple[str, ByteSource]]:
    """All that prepared transactions sent, and those that damage left undecided: the name of the transaction,
    and a file with lines of messages.
    """
    for prepared in chain(prepared_transactions(core), undecided_transactions(core)):
        for batch in prepared.sent():
            yield prepared.name, WindowSource(batch)


def names_of(xid: Xid) -> tuple[str, str]:
    """As brokers print it, safe as a file name, and as it is named where others are printed so, too."""
    return xid.base64().replace("/", "%2F"), xid.whole()


class StoredTransaction:
    """One transaction of the journal of which nothing counts yet."""

    def __init__(self, core: Core, transaction: TransactionInfo) -> None:
        self._core = core
        self._transaction = transaction
        self.xid: Xid | None = None
        if transaction.extra_bytes:
            file = core.loader.files[transaction.file_slot]
            with suppress(DecodeError):
                self.xid = decode_xid(file.copy(transaction.extra_offset, transaction.extra_bytes))
        self.name = self.names[-1]

    @property
    def names(self) -> Sequence[str]:
        """The names of the directory: the transaction manager's id, then the journal's number; the number
        alone if there is no id, or if damage hides the end of the transaction.
        """
        numbered = f"transaction-{self._transaction.tx_id}"
        if self.xid is None or not self._transaction.prepared:
            return (numbered,)
        return (*names_of(self.xid), numbered)

    @property
    def tx_id(self) -> int:
        return self._transaction.tx_id

    @property
    def info(self) -> TransactionInfo:
        """The transaction as the journal has it."""
        return self._transaction

    @property
    def records(self) -> Sequence[Operation]:
        """Return the records that take effect at the commit, in the order of the journal."""
        return self._transaction.operations

    def directory(self) -> VirtualDirectory:
        now = lambda: self._core.clock.now_ms() * 1_000_000  # noqa: E731
        return FixedDirectory(
            {
                "status.json": ComputedFile(lambda: to_json(self.status()), now),
                "operations.jsonl": ComputedFile(lambda: to_json_lines(self.operations()), now),
                "messages.jsonl": SourceFile(self._sent_lines, now),
            },
            now,
        )

    def _sent_lines(self) -> ByteSource:
        return SegmentedSource([JournalSegment(batch, []) for batch in self.sent()])

    def status(self) -> dict[str, object]:
        facts: dict[str, object] = {
            "transaction": self._transaction.tx_id,
            "state": "prepared" if self._transaction.prepared else "undecided",
            "records": len(self._transaction.operations),
        }
        if self.xid is not None:
            facts |= {
                "xid": self.xid.base64(),
                "name": self.xid.whole(),
                "formatId": self.xid.format_id,
                "globalTransactionId": self.xid.global_transaction_id.decode("utf-8", "backslashreplace"),
                "branchQualifier": self.xid.branch_qualifier.decode("utf-8", "backslashreplace"),
            }
        return facts

    def operations(self) -> list[dict[str, object]]:
        """Sends and acknowledgements in the order of the journal, each with its message as an envelope."""
        operations = self._transaction.operations
        sent = {MessageId(op.record_id): op for op in operations if adds_message(op)}
        found: list[dict[str, object]] = []
        for op in operations:
            match op.user_type:
                case MessageType.ADD_REFERENCE:
                    found.append(self._send(op, sent))
                case MessageType.ACKNOWLEDGE_REFERENCE:
                    found.append(self._acknowledge(op))
                case MessageType.ACKNOWLEDGE_CURSOR if op.kind == RecordKind.ADD:
                    found.append(self._acknowledge_paged(op))
                case MessageType.PAGE_TRANSACTION if adds_pages(op):
                    found.extend(self._paged_sends(op))
                case _:
                    pass
        return found

    def sent(self) -> Iterator[LineBatch]:
        """The messages that it sends, each once, however many queues get it."""
        for op in self._transaction.operations:
            if adds_message(op):
                yield self._core.bodies.batch_of(op)
            elif adds_pages(op):
                for _, _, scan, indexes in self._in_pages(op):
                    yield self._page_lines(scan, indexes)

    def _facts(self, operation: str, queue_id: int) -> dict[str, object]:
        queue = self._core.bindings.queues.get(QueueId(queue_id))
        facts: dict[str, object] = {"operation": operation, "queueId": queue_id}
        if queue is not None:
            facts |= {"queue": queue.name, "address": queue.address}
        return facts

    def _send(self, op: Operation, sent: dict[MessageId, Operation]) -> dict[str, object]:
        facts = self._facts("send", op.a) | {"id": op.record_id}
        added = sent.get(MessageId(op.record_id))
        if added is not None:
            facts["message"] = self._envelope(added)
        return facts

    def _envelope(self, added: Operation) -> Mapping[str, object]:
        return decode_envelope(self._core.bodies.batch_of(added).line(0))

    def _acknowledge(self, op: Operation) -> dict[str, object]:
        facts = self._facts("ack", op.a) | {"id": op.record_id}
        queue = self._core.bindings.queues.get(QueueId(op.a))
        if queue is not None:
            content = QueueContent(self._core, queue)
            run = content.find(MessageId(op.record_id))
            if run is not None:
                facts["message"] = StoreMessage(content, run).envelope()
        return facts

    def _acknowledge_paged(self, op: Operation) -> dict[str, object]:
        facts = self._facts("ack", op.a) | {"page": op.b, "record": op.c}
        queue = self._core.bindings.queues.get(QueueId(op.a))
        paged = self._core.paged(queue.address) if queue is not None else None
        if queue is not None and paged is not None and PageNumber(op.b) in paged.files:
            facts |= self._paged_message(queue.address, PageNumber(op.b), op.c)
        return facts

    def _paged_message(self, address: str, page: PageNumber, index: int) -> dict[str, object]:
        scan = self._core.pages[address].scan(page)
        if index >= scan.count:
            return {}
        line = self._page_lines(scan, [index]).line(0)
        return {"id": scan.entry(index).message_id, "message": decode_envelope(line)}

    def _page_lines(self, scan: PageScan, indexes: Sequence[int]) -> LineBatch:
        return page_batch(self._core, scan, indexes, queue=None, now_ms=self._core.clock.now_ms())

    def _paged_sends(self, op: Operation) -> Iterable[dict[str, object]]:
        for address, number, scan, indexes in self._in_pages(op):
            for index in indexes:
                for queue_id in scan.entry(index).queue_ids:
                    yield self._facts("send", queue_id) | self._paged_message(address, number, index)

    def _in_pages(self, op: Operation) -> Iterator[tuple[str, PageNumber, PageScan, list[int]]]:
        """Records that lie in pages already and count once the transaction commits."""
        for address, paged in self._core.pages.items():
            for number in paged.numbers():
                if op.a in paged.summary(number).tx_ids:
                    scan = paged.scan(number)
                    yield address, number, scan, [i for i, tx in enumerate(scan.tx_ids()) if tx == op.a]


# What prepared transactions keep from being changed: messages that they consumed, queues they send to.


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
    """Raise `HeldByTransaction` if a prepared one consumed a message of a queue, or sends one to it."""
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
    if not adds_pages(operation) or content.paged is None:
        return False
    return any(
        tx_id == operation.a and content.queue_id in scan.entry(index).queue_ids
        for number in content.paged.numbers()
        if content.paged.summary(number).has_transactions
        for scan in (content.page_scan(number),)
        for index, tx_id in enumerate(scan.tx_ids())
    )
