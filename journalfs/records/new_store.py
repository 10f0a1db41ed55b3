"""Writes a new store of the current format from its first record to its last.

The adapters of foreign stores, conversions and the view of removed messages write through it. Nothing is
synced unless a size of journal files is given: a derived store is disposable.
"""

from __future__ import annotations

import os
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, Final, Self

import msgspec
import tomli_w

from journalfs import door
from journalfs.damage import Damage, name_of
from journalfs.format import bindings
from journalfs.format.address_settings import SettingValue
from journalfs.format.bindings import encode_address_binding, encode_id_counter, encode_queue_binding
from journalfs.format.core_message import LARGE_SIZE, CoreHeader, encode_header, encode_message
from journalfs.format.primitives import nullable_simple_string, simple_string
from journalfs.format.properties import Code, Property, encode_property
from journalfs.format.record_bodies import (
    acknowledgement,
    delivery_count,
    duplicate_id,
    encode_xid,
    reference,
    scheduled_time,
)
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.format.server_lock import SERVER_LOCK_NAME
from journalfs.format.xid import Xid
from journalfs.ids import QueueId, rid_of
from journalfs.records.files.directory import STEPS_BYTES
from journalfs.records.files.write_settings import round_up

FILE_BYTES: Final = 64 << 20
"""Of a journal that nobody says another size of."""

BINDINGS_FILE_BYTES: Final = 1 << 20
BLOCK_BYTES: Final = 4096
"""Files have a size that a broker accepts."""

PIECE_BYTES: Final = 1 << 20
"""Written at once."""

GIVEN_MAX: Final = 4
"""Pieces that wait to be written."""

_HEADER: Final = struct.Struct(">iiq")
_ADD: Final = struct.Struct(">BiBqiB")
_ADD_TX: Final = struct.Struct(">BiBqqiB")
_DELETE_TX: Final = struct.Struct(">BiBqqi")
_DELETE: Final = struct.Struct(">BiBqi")
_PREPARE: Final = struct.Struct(">BiBqii")
_COMMIT: Final = struct.Struct(">BiBqii")
_CHECK: Final = struct.Struct(">i")
_COUNTER: Final = struct.Struct(">q")
_FRONT_BYTES_MAX: Final = _ADD_TX.size + _CHECK.size
"""What a record has beside its body, at most."""

_IN_TX: Final = {
    RecordKind.ADD: RecordKind.ADD_TX,
    RecordKind.UPDATE: RecordKind.UPDATE_TX,
    RecordKind.DELETE: RecordKind.DELETE_TX,
}


class JournalFiles:
    """Appends records to files of a directory, one after another, none longer than `file_bytes` unless one
    record is. `lasting` ones are written by another thread while what comes next is made, and end durable and
    as long as a broker makes them.
    """

    def __init__(
        self, directory: Path, prefix: str, extension: str, file_bytes: int, *, lasting: bool = False
    ) -> None:
        door.make_folders(directory)
        self._directory = directory
        self._extension = extension
        self._prefix = prefix
        self._file_bytes = file_bytes
        self._file_id = 0
        self._file: BinaryIO | None = None
        self._pieces: list[bytes | bytearray | memoryview] = []
        self._waiting = self._size_bytes = 0
        self._of_tx: Counter[int] = Counter()
        self._whole_bytes = 0
        """What files that are begun have from the beginning."""
        self._path = directory
        """Of the file that is being written."""
        self._thread = ThreadPoolExecutor(1, "writing") if lasting else None
        self._given: deque[Future[None]] = deque()
        """What the thread has to do."""

    @property
    def is_empty(self) -> bool:
        """No record is in the file that is being written."""
        return self._size_bytes <= _HEADER.size

    def begin(self, file_id: int, name: str | None = None) -> None:
        """Go on in a new file."""
        self._end()
        self._file_id, self.rid = file_id, rid_of(file_id)
        stem = name or f"{self._prefix}-{file_id}"
        self._path = self._directory / f"{stem}.{self._extension}"
        self._file = open(door.create(self._path), "wb")  # noqa: SIM115 - `_end` closes it
        self._file.truncate(self._whole_bytes)
        self._of_tx.clear()
        self._size_bytes = 0
        self.put(_HEADER.pack(2, 0, file_id))

    def make_room(self, length_bytes: int) -> None:
        """Go on in another file if this one has no room for a record."""
        if self._file is None or (
            not self.is_empty and self._size_bytes + length_bytes + _FRONT_BYTES_MAX > self._file_bytes
        ):
            self.begin(self._file_id + 1)

    def put(self, record: bytes | bytearray | memoryview) -> None:
        self._pieces.append(record)
        self._waiting += len(record)
        self._size_bytes += len(record)
        if self._waiting >= PIECE_BYTES:
            self._flush()

    def add(self, record_id: int, user_type: int, body: bytes) -> None:
        self.change(RecordKind.ADD, record_id, user_type, body)

    def change(
        self, kind: RecordKind, record_id: int, user_type: int, body: bytes = b"", tx: int | None = None
    ) -> None:
        """An ADD, UPDATE or DELETE, in a transaction if `tx` says which."""
        self.make_room(len(body))
        if tx is None:
            self.put(_record(self.rid, kind, record_id, user_type, body))
        else:
            self._of_tx[tx] += 1
            self.put(_record_tx((_IN_TX[kind], self.rid, 0, tx, record_id), user_type, body))

    def end(self, kind: RecordKind, tx: int, extra: bytes = b"") -> None:
        """A PREPARE, with its xid as `extra`, a COMMIT or a ROLLBACK."""
        self.make_room(len(extra))
        count = self._of_tx[tx]
        if kind is RecordKind.PREPARE:
            self.put(_checked(_PREPARE.pack(kind, self.rid, 0, tx, count, len(extra)) + extra))
        elif kind is RecordKind.COMMIT:
            self.put(_COMMIT.pack(kind, self.rid, 0, tx, count, _COMMIT.size))
        else:
            self.put(_DELETE.pack(kind, self.rid, 0, tx, _DELETE.size))

    def flush(self) -> None:
        """Whoever reads the files finds all that was put."""
        if self._file is not None:
            self._flush()
            self._wait(0)
            self._file.flush()
            if self._size_bytes > self._whole_bytes:
                self.of_one_size()

    def of_one_size(self) -> None:
        """Give all files the size of the longest, which further ones have, too. A file that is shorter than
        its siblings was cut off. What is added takes no room on the disk.
        """
        size_bytes = max((door.status(path).st_size for path in self.files()), default=0)
        size_bytes = max(BINDINGS_FILE_BYTES, -size_bytes % BLOCK_BYTES + size_bytes)
        for path in self.files():
            door.truncate(path, size_bytes)
        self._whole_bytes = self._file_bytes = size_bytes

    def files(self) -> list[Path]:
        """All that are there."""
        return [self._directory / name for name in door.names(self._directory) if name != SERVER_LOCK_NAME]

    def _flush(self, held: object = None) -> None:
        """`held` is what must live until the pieces are written."""
        assert self._file is not None
        self._do(_write, self._file, self._pieces, held)
        self._pieces, self._waiting = [], 0

    def _do(self, work: Callable[..., None], *given: object) -> None:
        """Now, or behind what the thread has to do."""
        if self._thread is None:
            work(*given)
        else:
            self._given.append(self._thread.submit(work, *given))
            self._wait(GIVEN_MAX)

    def _wait(self, left: int) -> None:
        """Until the thread has no more to do than that. Raises what it met with."""
        while len(self._given) > left:
            self._given.popleft().result()

    def _end(self) -> None:
        if self._file is not None:
            self._flush()
            self._do(self._file.close)
            if self._thread is not None:
                self._do(_allocate, self._path, self._file_bytes)
            self._file = None

    def close(self) -> None:
        """Until all is written, and durable where it is to last. Raises OSError."""
        self._end()
        if self._thread is not None:
            self._thread.shutdown()
        self._wait(0)


class NewStore:
    """A new store at `place`, an empty directory. Use it within `with`: the end completes the files."""

    files_type: ClassVar[type[JournalFiles]] = JournalFiles

    RECORD_BYTES_MAX: Final = 256 << 10
    """Longer messages are large ones."""

    def __init__(
        self,
        place: Path,
        advance: Callable[[int], None] = lambda count: None,
        *,
        file_bytes: int | None = None,
    ) -> None:
        """`advance` is called with the bytes of the source that were read. Files of the message journal take
        `file_bytes` and are durable then; None: they have the size that reads fastest.
        """
        self._place = place
        self._file_bytes = file_bytes
        self.progress = advance
        self.damaged: list[Damage] = []
        self.settings: dict[str, object] = {}
        """What the new store's journalfs.toml says."""
        self.notes: list[tuple[str, str]] = []
        self.renamed: dict[str, str] = {}
        """`ADDRESS::QUEUE` in the source -> in this store, of queues with another name here."""
        self.on_disk: dict[int, int] = {}
        """How many messages queues have by their ids, where consumed ones count."""
        self.jms_facts: dict[str, object] = {}
        self.bodies: Path | None = None
        self.addresses: dict[str, int] = {}
        self.queues: dict[str, QueueId] = {}
        """By name."""
        self._in_doubt: dict[Xid, int] = {}
        self._messages: JournalFiles | None = None
        self._bindings: JournalFiles | None = None
        self._next_id = 1
        self._counted = 0
        """Ids up to it are taken by what the source's own counter says."""

    # -- where things are ------------------------------------------------------------------------------------

    @property
    def journal_dir(self) -> Path:
        return self._folder("journal")

    @property
    def bindings_dir(self) -> Path:
        return self._folder("bindings")

    @property
    def paging_dir(self) -> Path:
        return self._folder("paging")

    @property
    def large_dir(self) -> Path:
        return self._folder("large-messages")

    def _folder(self, name: str) -> Path:
        folder = self._place / name
        door.make_folders(folder)
        return folder

    def bodies_in(self, directory: Path) -> None:
        """The files of large messages are there, and stay there."""
        self.bodies = directory

    # -- ids -------------------------------------------------------------------------------------------------

    def next_id(self) -> int:
        """An id that nothing of this store has."""
        self._next_id += 1
        return self._next_id - 1

    def ids_from(self, first: int) -> None:
        """Ids below `first` are the source's own."""
        self._next_id = max(self._next_id, first)

    # -- bindings --------------------------------------------------------------------------------------------

    def address(self, name: str, *routing_types: bindings.RoutingType, address_id: int | None = None) -> int:
        """An address, once; its id."""
        if name not in self.addresses:
            self.addresses[name] = self.next_id() if address_id is None else address_id
            binding = bindings.AddressBinding(name, routing_types, False, False, b"")
            body = encode_address_binding(binding)
            self.binding(self.addresses[name], BindingType.ADDRESS_BINDING, body)
        return self.addresses[name]

    def queue(
        self,
        name: str,
        address: str,
        routing_type: bindings.RoutingType,
        *,
        filter: str | None = None,
        queue_id: QueueId | None = None,
        metadata: str = "",
    ) -> QueueId:
        """A queue, once; its id. Its address is made if need be. `metadata` is empty or `user=NAME;`."""
        if name in self.queues:
            return self.queues[name]
        self.address(address, routing_type)
        found = self.queues[name] = QueueId(self.next_id()) if queue_id is None else queue_id
        binding = plain_queue(name, address, routing_type, filter, metadata)
        self.binding(found, BindingType.QUEUE_BINDING, encode_queue_binding(binding))
        return found

    def address_setting(self, record_id: int, match: str, values: Mapping[str, SettingValue]) -> None:
        """Settings of the addresses that `match` matches, by the keys of the JSON form."""
        body = simple_string(match) + simple_string(msgspec.json.encode(values).decode())
        self.binding(record_id, BindingType.ADDRESS_SETTING_JSON, body)

    def binding(self, record_id: int, user_type: int, body: bytes) -> None:
        """Any other record of the bindings journal."""
        if user_type == BindingType.ID_COUNTER and len(body) >= _COUNTER.size:
            self._counted = max(self._counted, *_COUNTER.unpack_from(body))
        if self._bindings is None:
            self._bindings = JournalFiles(
                self.bindings_dir,
                "activemq-bindings",
                "bindings",
                BINDINGS_FILE_BYTES,
                lasting=self._file_bytes is not None,
            )
        self._bindings.add(record_id, user_type, body)

    def binding_gone(self, record_id: int) -> None:
        """A record of the bindings journal that was put before was deleted."""
        if self._bindings is not None:
            self._bindings.change(RecordKind.DELETE, record_id, 0)

    # -- messages --------------------------------------------------------------------------------------------

    @property
    def _journal(self) -> JournalFiles:
        if self._messages is None:
            self._messages = self._new_files(self._file_bytes or FILE_BYTES)
        return self._messages

    def _new_files(self, file_bytes: int) -> JournalFiles:
        lasting = self._file_bytes is not None
        return self.files_type(self.journal_dir, "activemq-data", "amq", file_bytes, lasting=lasting)

    def record(
        self, kind: RecordKind, record_id: int, user_type: int, body: bytes = b"", *, tx: int | None = None
    ) -> None:
        """An ADD, UPDATE or DELETE of the message journal, in a transaction if `tx` says which."""
        self._journal.change(kind, record_id, user_type, body, tx)

    def message(
        self,
        message_id: int,
        address: str,
        header: CoreHeader,
        body: bytes,
        queues: Iterable[QueueId],
        *,
        tx: int | None = None,
    ) -> None:
        """A message and the queues that it is in."""
        if len(body) > self.RECORD_BYTES_MAX:
            with self.large_body(message_id) as file:
                file.write(body)
            self.large_message(message_id, address, header, len(body), queues, tx=tx)
            return
        encoded = nullable_simple_string(address)
        record = encode_message(message_id, encoded, body, header)
        self.record(RecordKind.ADD, message_id, MessageType.MESSAGE, record, tx=tx)
        self.references(message_id, queues, tx=tx)

    def large_body(self, message_id: int) -> BinaryIO:
        """A new file for the body of a large message; give it with `large_message` afterwards."""
        return open(door.create(self.large_dir / f"{message_id}.msg"), "wb")

    def large_message(
        self,
        message_id: int,
        address: str,
        header: CoreHeader,
        body_bytes: int,
        queues: Iterable[QueueId],
        *,
        tx: int | None = None,
    ) -> None:
        """A message whose body is in its file. Its property that says how long that is is added."""
        size = encode_property(Property(LARGE_SIZE, Code.LONG, body_bytes))
        header = header._replace(properties=_with_property(header.properties, size))
        record = encode_header(message_id, nullable_simple_string(address), header)
        self.record(RecordKind.ADD, message_id, MessageType.LARGE_MESSAGE, record, tx=tx)
        self.references(message_id, queues, tx=tx)

    def references(self, message_id: int, queues: Iterable[QueueId], *, tx: int | None = None) -> None:
        for queue in queues:
            kind, body = RecordKind.UPDATE, reference(queue)
            self.record(kind, message_id, MessageType.ADD_REFERENCE, body, tx=tx)

    def acknowledge(self, message_id: int, queue: QueueId, *, tx: int | None = None) -> None:
        body = acknowledgement(queue)
        self.record(RecordKind.UPDATE, message_id, MessageType.ACKNOWLEDGE_REFERENCE, body, tx=tx)

    def delivery_count(self, message_id: int, queue: QueueId, count: int) -> None:
        body = delivery_count(queue, count)
        self.record(RecordKind.UPDATE, message_id, MessageType.DELIVERY_COUNT, body)

    def schedule(self, message_id: int, queue: QueueId, time_ms: int, *, tx: int | None = None) -> None:
        body = scheduled_time(queue, time_ms)
        self.record(RecordKind.UPDATE, message_id, MessageType.SCHEDULED_TIME, body, tx=tx)

    def duplicate_id(self, address: str, duplicate: bytes) -> None:
        body = duplicate_id(address, duplicate)
        self.record(RecordKind.ADD, self.next_id(), MessageType.DUPLICATE_ID, body)

    # -- transactions ----------------------------------------------------------------------------------------

    def in_doubt(self, xid: Xid) -> int:
        """The transaction to put what this one did into, in one store of the source or in several: it is
        prepared when all is there.
        """
        return self._in_doubt.get(xid) or self._in_doubt.setdefault(xid, self.next_id())

    def prepare_encoded(self, tx: int, extra: bytes) -> None:
        """The record's own bytes are at hand."""
        self._journal.end(RecordKind.PREPARE, tx, extra)

    def commit(self, tx: int) -> None:
        self._journal.end(RecordKind.COMMIT, tx)

    def rollback(self, tx: int) -> None:
        self._journal.end(RecordKind.ROLLBACK, tx)

    # -- what is said beside ---------------------------------------------------------------------------------

    def damage(
        self, file: str, offset: int, length_bytes: int, kind: str, reason: str, *, messages: int = -1
    ) -> None:
        """Note what could not be read, and where in the source. `messages`: how many are doubtful."""
        # What a table is called is a string of SQLAlchemy's own.
        self.damaged.append(Damage(str(file), offset, length_bytes, kind, str(reason), messages=messages))

    def refused(self, path: Path, root: Path, error: OSError) -> None:
        """The same of what could not be opened; `root` is the source's."""
        self.damaged.append(Damage(name_of(path, root), 0, 0, *door.kind_and_reason(error)))

    def note(self, kind: str, text: str) -> None:
        """What has no equal in the current format."""
        if (kind, text) not in self.notes:
            self.notes.append((kind, text))

    def jms(self, name: str, facts: object) -> None:
        """A destination or connection factory, for `.journalfs/jms/`."""
        self.jms_facts[name] = facts

    # -- the end ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Whoever reads the store finds all that was put. It may be called behind the end: what is put then
        goes into further files.
        """
        for journal in (self._messages, self._bindings):
            if journal is not None:
                journal.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for xid, tx in self._in_doubt.items():
                self.prepare_encoded(tx, encode_xid(xid))
            if self._next_id > self._counted + 1:
                counter = encode_id_counter(bindings.IdCounter(self._next_id))
                self.binding(self.next_id(), BindingType.ID_COUNTER, counter)
            self._journal.make_room(0)
            if self.bodies is not None:
                self.settings = {"large-messages-directory": str(self.bodies), **self.settings}
            if self.settings:
                door.write(self._place / "journalfs.toml", tomli_w.dumps(self.settings).encode())
        for journal in (self._messages, self._bindings):
            if journal is not None:
                journal.close()
        if error is not None:
            return
        for journal in (self._messages, self._bindings):
            if journal is not None and self._file_bytes is None:
                journal.of_one_size()


def plain_queue(
    name: str, address: str, routing_type: bindings.RoutingType, filter_text: str | None, metadata: str
) -> bindings.QueueBinding:
    """A durable queue with the settings that a queue has by itself."""
    return bindings.QueueBinding(
        name=name, address=address, filter=filter_text, metadata=metadata, routing_type=routing_type
    )


def _write(file: BinaryIO, pieces: Iterable[bytes | bytearray | memoryview], held: object) -> None:
    for piece in pieces:
        file.write(piece)


def _allocate(path: Path, size_bytes: int) -> None:
    """Make a file as a broker makes it. One that holds a longer record has a size that nobody takes for what
    is left of a file.
    """
    with door.opened(path, door.WRITE) as file:
        made = os.fstat(file).st_size
        os.posix_fallocate(file, 0, size_bytes if made <= size_bytes else round_up(made, STEPS_BYTES[0]))
        os.fsync(file)


def _with_property(properties: bytes, entry: bytes) -> bytes:
    """Encoded properties with one more."""
    if properties[:1] in (b"", b"\0"):
        return b"\1" + _CHECK.pack(1) + entry
    count = _CHECK.unpack_from(properties, 1)[0]
    return b"\1" + _CHECK.pack(count + 1) + properties[5:] + entry


def _record(rid: int, kind: int, record_id: int, user_type: int, body: bytes) -> bytes:
    if kind == RecordKind.DELETE:
        return _DELETE.pack(kind, rid, 0, record_id, _DELETE.size)
    return _checked(_ADD.pack(kind, rid, 0, record_id, len(body), user_type) + body)


def _record_tx(head: tuple[RecordKind, int, int, int, int], user_type: int, body: bytes) -> bytes:
    """`head`: kind, file, compact count, transaction and record."""
    if head[0] == RecordKind.DELETE_TX:
        return _checked(_DELETE_TX.pack(*head, len(body)) + body)
    return _checked(_ADD_TX.pack(*head, len(body), user_type) + body)


def _checked(record: bytes) -> bytes:
    return record + _CHECK.pack(len(record) + _CHECK.size)
