"""The journals of HornetQ 2.2 to 2.4, written: records of today's journal are appended as it has them.

Files, headers and framing are those of today, so the same writer fills, reclaims and compacts them.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from journalfs import door
from journalfs.clock import Clock
from journalfs.damage import name_of
from journalfs.engine.backend import BackendKind
from journalfs.engine.disk import DiskBackend
from journalfs.engine.page_file import PageFile, PageStore
from journalfs.engine.stage import StagedRecord
from journalfs.errors import DecodeError, JournalfsError, RecordRefused
from journalfs.format import core_message
from journalfs.format.journal_file import read_header
from journalfs.format.page_folder import ADDRESS_FILE_NAME
from journalfs.format.primitives import NULL, Reader, i8, i32, i64, nullable_simple_string, simple_string
from journalfs.format.properties import Code, Property, decode_properties, encode_properties
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.ids import RecordId, TxId
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.records.files.directory import as_made
from journalfs.records.files.kept_damage import KeptDamage
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from journalfs.records.older.bindings import QUEUE_PREFIX, TOPIC_PREFIX

# Records of today's message journal and pages as HornetQ has them (docs/format/older.md).

BODY_OFFSET: Final = 17
"""What the end-of-body field counts beside the body."""

_COUNTER_BYTES: Final = {MessageType.PAGE_COUNTER_VALUE: 16, MessageType.PAGE_COUNTER_INCREMENT: 12}
"""Lengths of what counts paged messages: HornetQ does not count their bytes."""

_KNOWN: Final = frozenset(range(MessageType.LARGE_MESSAGE_PENDING, MessageType.PAGE_COUNTER_PENDING + 1))
_MARKS: Final = (core_message.PROPERTY_PREFIX.encode("utf-16-le"), "JMSReplyTo".encode("utf-16-le"))
_DESTINATIONS: Final = {
    "queue://": QUEUE_PREFIX,
    "topic://": TOPIC_PREFIX,
    "temp-queue://": "jms.tempqueue.",
    "temp-topic://": "jms.temptopic.",
}
_ADDRESSES: Final = frozenset({"_HQ_ORIG_ADDRESS", "_HQ_ORIG_QUEUE"})


def _nothing(message_id: int) -> bytes:
    """Return a message that keeps a place in a page. It has an id, as every message has: one without is taken
    for damage by whoever reads the page.
    """
    header = core_message.CoreHeader(None, 0, False, 0, 0, 4, NULL)
    empty = core_message.encode_header(max(1, message_id), NULL, header)
    return i32(BODY_OFFSET) + i32(BODY_OFFSET + 4 + len(empty)) + empty


@dataclass(frozen=True, slots=True)
class HornetqRecords:
    """`address` names an address as that store has it."""

    address: Callable[[str], str] = lambda name: name

    def record(self, user_type: int, body: bytes) -> tuple[int, bytes] | None:
        """User type and body of a record. None: HornetQ has no such record, or does not understand the
        message. Raises `DecodeError`.
        """
        if user_type == MessageType.MESSAGE:
            old = self.message(body)
            return None if old is None else (MessageType.LEGACY_MESSAGE, old)
        if user_type == MessageType.LARGE_MESSAGE:
            return user_type, self.header(core_message.split_header(Reader(body)))
        if user_type == MessageType.DUPLICATE_ID:
            reader = Reader(body)
            return user_type, simple_string(self.address(reader.simple_string())) + reader.rest()
        if user_type in _COUNTER_BYTES:
            return user_type, body[: _COUNTER_BYTES[MessageType(user_type)]]
        return (user_type, body) if user_type in _KNOWN else None

    def message(self, payload: bytes) -> bytes | None:
        """In the older layout; None for one that is no core message."""
        if payload[:1] != bytes((core_message.PERSISTER,)):
            return None
        parts = core_message.split_message(payload)
        header = self.header(parts)
        body_end = BODY_OFFSET + len(parts.body)
        return i32(body_end) + parts.body + i32(body_end + 4 + len(header)) + header

    def header(self, parts: core_message.CoreParts) -> bytes:
        address = None if parts.address is None else self.address(parts.address)
        header = parts.header._replace(properties=self._properties(parts.header.properties))
        return core_message.encode_header(parts.message_id, nullable_simple_string(address), header)

    def _properties(self, encoded: bytes) -> bytes:
        if not any(mark in encoded for mark in _MARKS):
            return encoded
        entries = decode_properties(Reader(encoded))
        return encode_properties(
            self._property(one) for one in entries if one.name != core_message.ROUTING_TYPE
        )

    def _property(self, entry: Property) -> Property:
        name, code, value = entry
        if name.startswith("_AMQ_"):
            name = f"_HQ_{name.removeprefix('_AMQ_')}"
        elif name.startswith("__AMQ_"):
            name = f"__HQ_{name.removeprefix('__AMQ_')}"
        if code is Code.STRING and isinstance(value, str):
            if name in _ADDRESSES:
                value = self.address(value)
            elif name == "JMSReplyTo":
                value = _old_destination(value)
        return Property(name, code, value)


def page_record(
    tx_id: int, message: bytes | None, queues: Sequence[int], *, large: bool, message_id: int = 0
) -> bytes:
    """A record of a page. Without a message it keeps its place, and is in no queue; `message_id` is then that
    of the message that is not there.
    """
    if message is None:
        message, large, queues = _nothing(message_id), False, ()
    content = i64(tx_id) + i8(large) + i32(len(message)) + message + i32(len(queues))
    content += b"".join(map(i64, queues))
    return b"{" + i32(len(content)) + content + b"}"


def _old_destination(name: str) -> str:
    for prefix, old in _DESTINATIONS.items():
        if name.startswith(prefix):
            return old + name.removeprefix(prefix)
    return name


log = logging.getLogger(__name__)

FILES_KEPT: Final = 10
"""More free files are deleted, as HornetQ does with those beyond its minimum."""

FILE_BYTES: Final = 10 << 20
"""Of a message journal in which no file says how long they are."""

_FRONT_BYTES: Final = 5
"""Of a page record: the mark, and the length of what lies between the marks."""


def open_writer(
    directory: Path, prefix: str, extension: str, clock: Clock, *, root: Path, file_bytes: int | None = None
) -> JournalWriter:
    """A journal of the store at `root`, recovered. `file_bytes`: of new files; None: as those that are there.
    `release` it and close its backend. Raises OSError.
    """
    if file_bytes is None:
        found = door.names(directory)
        sizes = Counter(
            as_made(
                [door.status(directory / name).st_size for name in found if name.endswith(f".{extension}")]
            )
        )
        file_bytes = max(sizes, key=lambda size: (sizes[size], size), default=FILE_BYTES)
    settings = WriteSettings(prefix, extension, file_bytes, pool_files=FILES_KEPT)
    backend = DiskBackend(directory, BackendKind.NIO)
    try:
        return JournalWriter.open(backend, settings, clock, kept=KeptDamage(root, name_of(directory, root)))
    except BaseException:
        backend.close()
        raise


def has_files(directory: Path, extension: str) -> bool:
    return any(name.endswith(f".{extension}") for name in door.names(directory))


def of_first_version(directory: Path, extension: str) -> str | None:
    """Why a journal is not written: HornetQ 2.1 has other records. None: it is of a later one."""
    for name in sorted(door.names(directory)):
        if name.endswith(f".{extension}"):
            with open(door.open_file(directory / name), "rb") as file:
                header = file.read(JOURNAL_HEADER_BYTES)
            if len(header) == JOURNAL_HEADER_BYTES and read_header(header).version == 1:
                return f"{name} is a journal file of HornetQ 2.1, which is read only"
    return None


@dataclass(slots=True)
class HornetqLog:
    """The message journal."""

    writer: JournalWriter
    _records: HornetqRecords = field(default_factory=HornetqRecords)
    _files: int = 0

    def commit(self, records: Iterable[StagedRecord]) -> None:
        for record in records:
            self._stage(record)
        self._drain()

    def _drain(self) -> None:
        writer = self.writer
        writer.drain()
        if self._files != len(writer.data):
            # A file was filled: others may have been emptied by what is in it.
            try:
                trio.run(writer.upkeep.tidy)
            except (OSError, JournalfsError) as error:
                log.warning("%s: journal upkeep stopped short: %s", writer.current.name, error)
            writer.release_handles()
            self._files = len(writer.data)

    def _stage(self, one: StagedRecord) -> None:
        writer, record_id, tx = self.writer, RecordId(one.record_id), TxId(one.tx_id)
        match one.kind:
            case RecordKind.DELETE:
                writer.stage_delete(record_id)
            case RecordKind.DELETE_TX:
                writer.stage_delete_in(tx, record_id, one.body)
            case RecordKind.PREPARE:
                writer.stage_prepare(tx, one.body)
            case RecordKind.COMMIT:
                writer.stage_commit(tx)
            case RecordKind.ROLLBACK:
                writer.stage_rollback(tx)
            case RecordKind.ADD | RecordKind.UPDATE | RecordKind.ADD_TX | RecordKind.UPDATE_TX:
                self._stage_body(one, record_id, tx)

    def _stage_body(self, one: StagedRecord, record_id: RecordId, tx: TxId) -> None:
        writer = self.writer
        try:
            old = self._records.record(one.user_type, bytes(one.body))
        except DecodeError as error:
            raise RecordRefused(f"record {record_id} of type {one.user_type}: {error}") from error
        if old is None:
            raise RecordRefused(f"record {record_id} of type {one.user_type}: HornetQ has no such record")
        if one.kind == RecordKind.ADD:
            writer.stage_add(record_id, *old)
        elif one.kind == RecordKind.UPDATE:
            writer.stage_update(record_id, *old)
        elif one.kind == RecordKind.ADD_TX:
            writer.stage_add_in(tx, record_id, *old)
        else:
            writer.stage_update_in(tx, record_id, *old)


@dataclass(slots=True)
class HornetqBindings:
    """The bindings journal, of which only the counter of ids is written."""

    writer: JournalWriter
    _own: set[int] = field(default_factory=set)
    """Records that were added by this process: those of the broker stay, as two may have one id."""

    def commit(self, records: Iterable[StagedRecord]) -> None:
        for one in records:
            record_id = RecordId(one.record_id)
            if one.kind == RecordKind.ADD and one.user_type == BindingType.ID_COUNTER:
                self.writer.stage_add(record_id, one.user_type, bytes(one.body))
                self._own.add(record_id)
            elif one.kind == RecordKind.DELETE and record_id in self._own:
                self.writer.stage_delete(record_id)
                self._own.discard(record_id)
        self.writer.drain()


class HornetqPages(PageStore):
    """Pages: files of the derived store for whoever reads, after those of HornetQ, in folders of one name."""

    def __init__(self, paging_dir: Path) -> None:
        super().__init__(datasync=False)
        self._paging_dir = paging_dir
        self._theirs = PageStore(datasync=True)

    def their(self, path: Path) -> Path:
        """Where HornetQ has a page."""
        return self._paging_dir / path.parent.name / path.name

    def make_folder(self, folder: Path, name: str, address: str) -> None:
        self._theirs.make_folder(self._paging_dir / folder.name, ADDRESS_FILE_NAME, address)
        super().make_folder(folder, name, address)

    def open(self, path: Path) -> PageFile:
        return _HornetqPage(path, self._theirs.open(self.their(path)))

    def remove(self, path: Path, *, instead: Path | None = None) -> None:
        self._theirs.remove(self.their(path), instead=None if instead is None else self.their(instead))
        super().remove(path, instead=instead)

    def remove_folder(self, folder: Path) -> None:
        self._theirs.remove_folder(self._paging_dir / folder.name)
        super().remove_folder(folder)


class _HornetqPage(PageFile):
    """A page, and HornetQ's."""

    def __init__(self, path: Path, their: PageFile) -> None:
        super().__init__(path, datasync=False)
        self._their = their
        end = _records_end(their)
        if end != their.size_bytes:
            their.cut(end)  # what a killed writer left of a record hides all behind it
        self._sizes = {self.size_bytes: end}
        """How long HornetQ's page is where this one is so long."""

    def append(self, data: bytes | bytearray) -> None:
        self._their.append(b"".join(_old_page_records(bytes(data))))
        super().append(data)
        self._sizes[self.size_bytes] = self._their.size_bytes

    def cut(self, size_bytes: int) -> None:
        self._their.cut(self._sizes[size_bytes])
        super().cut(size_bytes)

    def sync(self) -> None:
        self._their.sync()

    def lost(self) -> OSError | None:
        return self._their.lost() or super().lost()

    def close(self) -> None:
        self._their.close()
        super().close()


def _records_end(page: PageFile) -> int:
    """Behind the last whole record of HornetQ's page."""
    at = 0
    with open(door.open_file(page.path), "rb") as file:
        while True:
            file.seek(at)
            front = file.read(_FRONT_BYTES)
            length = int.from_bytes(front[1:], "big", signed=True)
            end = at + _FRONT_BYTES + length + 1
            if len(front) < _FRONT_BYTES or front[:1] != b"{" or length < 0 or end > page.size_bytes:
                return at
            file.seek(end - 1)
            if file.read(1) != b"}":
                return at
            at = end


def _old_page_records(data: bytes) -> Iterable[bytes]:
    """Whole records of today's pages, as HornetQ has them."""
    records, at = HornetqRecords(), 0
    while at < len(data):
        length = int.from_bytes(data[at + 1 : at + _FRONT_BYTES], "big")
        content = Reader(data[at + _FRONT_BYTES : at + _FRONT_BYTES + length])
        at += _FRONT_BYTES + length + 1
        tx_id, kind = content.i64(), content.i8()
        if abs(kind) == 1:
            user_type, payload = MessageType.LARGE_MESSAGE, content.byte_array()
        else:
            user_type, payload = MessageType.MESSAGE, _message_payload(content)
        old = records.record(user_type, payload)
        if old is None:
            raise OSError(os.strerror(1), "HornetQ has only core messages")
        queues = [content.i64() for _ in range(content.count())]
        yield page_record(tx_id, old[1], queues, large=user_type == MessageType.LARGE_MESSAGE)


def _message_payload(content: Reader) -> bytes:
    """A core message: its id, its address, and a buffer whose length stands before it."""
    rest = bytes(content.peek())
    one = Reader(rest)
    one.i8()
    one.i64()
    one.nullable_simple_string()
    one.byte_array()
    return content.raw(len(rest) - one.remaining_bytes)
