"""A second reading of a new store, by the bytes alone: what `repair --prove` compares with the books.

It is written for one purpose, to be independent: it shares no code with the C engine, the live state or the
code that made the store, but for names of record kinds. It reads every file whole, follows the pages of
docs/format, and counts. It is slow, and takes as much memory as the largest journal.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from journalfs import door
from journalfs.config.layout import StoreLayout
from journalfs.errors import MadeNotWhole
from journalfs.format.record_types import BindingType, MessageType, RecordKind

_HEADER: Final = struct.Struct(">iiq")
_KINDS: Final = re.compile(rb"[\x0b-\x13]")
_RID_MASK: Final = 0x7FFFFFFF
_IN_TX: Final = frozenset({
    RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX, RecordKind.PREPARE, RecordKind.COMMIT,
    RecordKind.ROLLBACK,
})  # fmt: skip
_WITH_ID: Final = frozenset({
    RecordKind.ADD, RecordKind.UPDATE, RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE,
    RecordKind.DELETE_TX,
})  # fmt: skip
_WITH_BODY: Final = _WITH_ID - {RecordKind.DELETE}
_WITH_TYPE: Final = _WITH_BODY - {RecordKind.DELETE_TX}
_PAGE: Final = re.compile(r"([0-9]+)\.page")
_CORE: Final = 1
"""The first byte of a small core message."""


@dataclass(frozen=True, slots=True)
class _Record:
    kind: int
    record_id: int
    tx_id: int
    user_type: int
    count: int
    body: bytes
    end: int


@dataclass(slots=True)
class _Transaction:
    records: list[_Record] = field(default_factory=list)
    prepared: bool = False
    in_file: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class Proof:
    """What a store has by this reading. Made by `read`."""

    layout: StoreLayout
    queues: dict[int, str] = field(default_factory=dict)
    """`address::queue` by id."""
    counts: Counter[int] = field(default_factory=Counter)
    """Messages by the id of their queue: live, due later, and in the hands of prepared transactions."""
    wrong: list[tuple[str, str]] = field(default_factory=list)
    """Files, and what is wrong there."""
    _taken: set[tuple[int, int, int]] = field(default_factory=set)
    """Queue, page and number of a record: consumed."""
    _done: set[tuple[int, int]] = field(default_factory=set)
    """Queue and page: all of it is consumed."""
    _sent: set[int] = field(default_factory=set)
    """Transactions whose paged messages count."""

    def read(self) -> None:
        """Read the bindings, the journal, the bodies and the pages. Raises OSError."""
        layout = self.layout
        bindings, open_bindings = self._replayed(layout.bindings_dir, "bindings")
        for record in bindings:
            if record.user_type == BindingType.QUEUE_BINDING:
                name, at = _text(record.body, 0)
                self.queues[record.record_id] = f"{_text(record.body, at)[0]}::{name}"
        for tx_id in open_bindings:
            self.wrong.append((layout.bindings_dir.name, f"transaction {tx_id} has no end"))
        messages, transactions = self._replayed(layout.journal_dir, "amq")
        for tx_id, transaction in transactions.items():
            if not transaction.prepared:
                self.wrong.append((layout.journal_dir.name, f"transaction {tx_id} has no end"))
        prepared = [one for tx in transactions.values() if tx.prepared for one in tx.records]
        self._journal(messages, prepared)
        self._pages()

    def compare(self, books: Mapping[str, Any]) -> None:
        """Raise `MadeNotWhole` unless each queue has what the books say, and nothing else was found."""
        wanted: Counter[str] = Counter()
        for queue, messages in books["carried"].items():
            wanted[books["renamed"].get(queue, queue)] += messages
        for aside in books["setAside"]:
            wanted[aside["into"]] += aside["messages"]
        found: Counter[str] = Counter()
        for queue_id, messages in self.counts.items():
            found[self.queues.get(queue_id, f"queue {queue_id}, which no binding names")] += messages
        for queue in sorted(wanted.keys() | found.keys()):
            if wanted[queue] != found[queue]:
                told = (
                    f"a second reading finds {found[queue]:,} messages, and the books say {wanted[queue]:,}"
                )
                raise MadeNotWhole("NEW", queue, told)
        for file, reason in self.wrong:
            raise MadeNotWhole("NEW", file, reason)

    # ---- the journals ----

    def _replayed(self, folder: Path, extension: str) -> tuple[list[_Record], dict[int, _Transaction]]:
        """Return what took effect and was not deleted, and transactions without an end."""
        files = []
        for name in door.names_if_there(folder):
            if name.endswith(f".{extension}"):
                content = door.read(folder / name)
                version, _, file_id = _HEADER.unpack_from(content)
                if version != 2:
                    self.wrong.append((name, f"version {version}"))
                files.append((file_id, name, content))
        emitted: list[_Record] = []
        deleted: dict[int, int] = {}
        open_tx: dict[int, _Transaction] = {}
        for number, (file_id, name, content) in enumerate(sorted(files)):
            for record in self._records(name, content, file_id & _RID_MASK):
                self._apply(record, number, emitted, deleted, open_tx)
        live = [one for at, one in enumerate(emitted) if deleted.get(one.record_id, -1) < at]
        return live, open_tx

    def _apply(
        self,
        record: _Record,
        file: int,
        emitted: list[_Record],
        deleted: dict[int, int],
        open_tx: dict[int, _Transaction],
    ) -> None:
        match record.kind:
            case RecordKind.ADD | RecordKind.UPDATE:
                emitted.append(record)
            case RecordKind.DELETE:
                deleted[record.record_id] = len(emitted)
            case RecordKind.ADD_TX | RecordKind.UPDATE_TX | RecordKind.DELETE_TX:
                transaction = open_tx.setdefault(record.tx_id, _Transaction())
                transaction.records.append(record)
                transaction.in_file[file] += 1
            case RecordKind.PREPARE:
                transaction = open_tx.setdefault(record.tx_id, _Transaction())
                transaction.prepared = transaction.in_file[file] == record.count
            case RecordKind.COMMIT if record.tx_id in open_tx:
                transaction = open_tx.pop(record.tx_id)
                if transaction.in_file[file] != record.count:
                    self.wrong.append(("journal", f"transaction {record.tx_id} lacks records"))
                    return
                for one in transaction.records:
                    if one.kind == RecordKind.DELETE_TX:
                        deleted[one.record_id] = len(emitted)
                    else:
                        emitted.append(one)
            case RecordKind.ROLLBACK:
                open_tx.pop(record.tx_id, None)

    def _records(self, name: str, content: bytes, rid: int) -> Iterator[_Record]:
        """Yield the records of a file. Between them are zeros and events, and nothing else."""
        at = _HEADER.size
        while (possible := _KINDS.search(content, at)) is not None:
            record = _record_at(content, possible.start(), rid)
            if record is None:
                at = possible.start() + 1
            else:
                yield record
                at = record.end

    def _journal(self, live: list[_Record], prepared: list[_Record]) -> None:
        messages: set[int] = set()
        references: set[tuple[int, int]] = set()
        for record in (*live, *prepared):
            is_add = record.kind in (RecordKind.ADD, RecordKind.ADD_TX)
            if is_add and record.user_type in (MessageType.MESSAGE, MessageType.LARGE_MESSAGE):
                messages.add(record.record_id)
                if record.user_type == MessageType.LARGE_MESSAGE:
                    self._body(record.record_id)
            elif record.user_type == MessageType.ADD_REFERENCE:
                references.add((record.record_id, _i64(record.body)))
            elif is_add and record.user_type == MessageType.PAGE_TRANSACTION:
                self._sent.add(_i64(record.body))
        for record in live:  # what a prepared transaction acknowledged is there until it is committed
            if record.user_type == MessageType.ACKNOWLEDGE_REFERENCE:
                references.discard((record.record_id, _i64(record.body)))
            elif record.user_type == MessageType.ACKNOWLEDGE_CURSOR:
                self._taken.add(struct.unpack_from(">qqi", record.body))
            elif record.user_type == MessageType.PAGE_COMPLETE:
                self._done.add(struct.unpack_from(">qq", record.body))
        for message_id, queue in references:
            if message_id not in messages:
                self.wrong.append(
                    ("journal", f"queue {queue} refers to message {message_id}, which is nowhere")
                )
            self.counts[queue] += 1

    def _body(self, message_id: int) -> None:
        if not door.is_file(self.layout.large_dir / f"{message_id}.msg"):
            self.wrong.append((f"large-messages/{message_id}.msg", "no such file, for a large message"))

    # ---- pages ----

    def _pages(self) -> None:
        for folder in door.names_if_there(self.layout.paging_dir):
            path = self.layout.paging_dir / folder
            if door.is_folder(path):
                for name in door.names_if_there(path):
                    number = _PAGE.fullmatch(name)
                    if number is not None:
                        self._page(f"paging/{folder}/{name}", int(number[1]), door.read(path / name))

    def _page(self, name: str, number: int, content: bytes) -> None:
        at = index = 0
        while at < len(content):
            length = int.from_bytes(content[at + 1 : at + 5], "big")
            end = at + 5 + length
            if content[at : at + 1] != b"{" or content[end : end + 1] != b"}":
                self.wrong.append((name, f"no record at byte {at}"))
                return
            tx_id = _i64(content, at + 5)
            queues = _queues_of(content[at + 13 : end])
            if queues is None:
                self.wrong.append((name, f"a record at byte {at} whose queues cannot be told"))
            elif tx_id <= 0 or tx_id in self._sent:
                for queue in queues:
                    if (queue, number) not in self._done and (queue, number, index) not in self._taken:
                        self.counts[queue] += 1
            at, index = end + 1, index + 1


def prove(layout: StoreLayout, books: Mapping[str, Any]) -> None:
    """Read a new store a second time, and compare it with the books. Raises `MadeNotWhole`, OSError."""
    proof = Proof(layout)
    proof.read()
    proof.compare(books)


def _record_at(content: bytes, start: int, rid: int) -> _Record | None:
    """Return the record at an offset; None: there is none."""
    kind, at = content[start], start + 6
    if _i32(content, start + 1) != rid:
        return None
    tx_id = record_id = user_type = count = size = 0
    if kind in _IN_TX:
        tx_id, at = _i64(content, at), at + 8
    if kind in _WITH_ID:
        record_id, at = _i64(content, at), at + 8
    if kind in (RecordKind.PREPARE, RecordKind.COMMIT):
        count, at = _i32(content, at), at + 4
    if kind in _WITH_BODY or kind == RecordKind.PREPARE:
        size, at = _i32(content, at), at + 4
    if kind in _WITH_TYPE:
        user_type, at = content[at] if at < len(content) else 0, at + 1
    end = at + size + 4
    if size < 0 or end > len(content) or _i32(content, end - 4) != end - start:
        return None
    return _Record(kind, record_id, tx_id, user_type, count, content[at : at + size], end)


def _queues_of(record: bytes) -> list[int] | None:
    """Return the queues of a page record, given from its kind on; None: it cannot be told."""
    if record[:1] in (b"\x01", b"\xff"):
        at = 5 + _i32(record, 1)
    elif record[1:2] == bytes((_CORE,)):
        at = 1 + 9
        at += 1 if record[at : at + 1] == b"\0" else 5 + _i32(record, at + 1)
        at += 4 + _i32(record, at)
    else:
        return _queues_at_end(record)
    count = _i32(record, at)
    if count < 0 or at + 4 + 8 * count != len(record):
        return None
    return [_i64(record, at + 4 + 8 * one) for one in range(count)]


def _queues_at_end(record: bytes) -> list[int] | None:
    """The same of a message of another protocol, whose length only its fields say: so many ids of queues lie
    behind their number at the end.
    """
    for count in range((len(record) - 5) // 8 + 1):
        at = len(record) - 8 * count - 4
        ids = [_i64(record, at + 4 + 8 * one) for one in range(count)]
        if _i32(record, at) == count and all(0 < one < 1 << 48 for one in ids):
            return ids
    return None


def _text(content: bytes, at: int) -> tuple[str, int]:
    length = _i32(content, at)
    return content[at + 4 : at + 4 + length].decode("utf-16-le", "surrogatepass"), at + 4 + length


def _i32(content: bytes, at: int = 0) -> int:
    return int.from_bytes(content[at : at + 4], "big", signed=True)


def _i64(content: bytes, at: int = 0) -> int:
    return int.from_bytes(content[at : at + 8], "big", signed=True)
