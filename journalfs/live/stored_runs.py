"""Messages of a queue as the records that they are, to be copied: of a body there is no more in memory than
the record holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from journalfs.bodies.directory import BodyUnreadable
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_UNREADABLE
from journalfs.errors import Damaged, DecodeError, JournalfsError
from journalfs.format import amqp_message, core_message
from journalfs.format.core_message import CoreParts
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId
from journalfs.live.content import QueueContent
from journalfs.live.core import Core
from journalfs.live.runs import JournalRun, PageRun, Run
from journalfs.message.outgoing import Body, CoreMessage, FileBody, Outgoing, Properties, Record
from journalfs.message.outgoing_amqp import AmqpMessage

# Messages taken from records that are there: what is copied as it is, without a look at what it says.


class StoredCore(CoreMessage):
    """A core message from a record. With its own id and address it becomes that very record again."""

    def __init__(self, record: Record, parts: CoreParts, body: Body) -> None:
        header = parts.header
        super().__init__(header.type, body, Properties(None, header.properties))
        self.user_id = header.user_id
        self._record = record
        self._own = (parts.message_id, parts.address, header.expiration_ms)
        self.sent_to = parts.address
        self.durable = header.durable
        self.priority = header.priority
        self.timestamp_ms = header.timestamp_ms
        self.expiration_ms = header.expiration_ms
        self.large = record[0] == MessageType.LARGE_MESSAGE
        self.large_size_bytes = self.properties.integer(core_message.LARGE_SIZE)

    def record(self, message_id: int, address: str, now_ms: int) -> Record:
        if not self.large and self._own == (message_id, address, self.expiration_ms):
            return self._record
        return super().record(message_id, address, now_ms)

    def large_record(self, message_id: int, address: str, now_ms: int) -> Record:
        if self.large and self._own == (message_id, address, self.expiration_ms):
            return self._record
        return super().large_record(message_id, address, now_ms)


def message_of_record(user_type: int, payload: bytes, body: Body | None) -> Outgoing:
    """The message of a record of type 30 or 45, or of a page entry; `body` is the file of a large one.

    Raises `DecodeError` where not even its header can be told.
    """
    if user_type == MessageType.LARGE_MESSAGE:
        parts = core_message.split_header(Reader(payload))
        return StoredCore((user_type, payload), parts, _there(body))
    persister = payload[0] if payload else None
    if persister == core_message.PERSISTER:
        parts = core_message.split_message(payload)
        return StoredCore((user_type, payload), parts, parts.body)
    if persister == amqp_message.LARGE:
        around, cache = amqp_message.split_large(payload)
        return AmqpMessage(around, _there(body), cache)
    if persister in (amqp_message.STANDARD_V1, amqp_message.STANDARD_V2, amqp_message.STANDARD):
        around, message = amqp_message.split_standard(payload)
        return AmqpMessage(around, message)
    raise DecodeError(0, f"no kind of message has the number {persister}")


def _there(body: Body | None) -> Body:
    if body is None:
        raise DecodeError(0, "the large body's file is missing")
    return body


def stored_messages(content: QueueContent, run: Run) -> Iterator[tuple[MessageId, Outgoing]]:
    """The messages of a run of this queue, in its order.

    Raises `Damaged` at one that cannot be copied whole, `FileTorn` when its file was cut.
    """
    for message_id, found in each_stored(content, run):
        if isinstance(found, JournalfsError):
            raise found
        yield message_id, found


def each_stored(
    content: QueueContent, run: Run
) -> Iterator[tuple[MessageId, Outgoing] | tuple[MessageId, JournalfsError]]:
    """Yield each message of a run with its id, or the error in the place of a message that cannot be copied
    whole. Raises the errors of reading a page.
    """
    for place in each_place(content, run):
        try:
            yield place.message_id, _message(content.core, place)
        except JournalfsError as error:
            yield place.message_id, error


class StoredBytes(NamedTuple):
    """Where the bytes of a message lie, and how they begin (`SOURCE_...`)."""

    message_id: MessageId
    source: int
    file: MappedFile
    offset: int
    size_bytes: int


def each_place(content: QueueContent, run: Run) -> Iterator[StoredBytes]:
    """Of each message of a run."""
    if isinstance(run, JournalRun):
        for ref in run.refs:
            info = content.state.ref(ref)
            file = content.files[info.file_slot]
            yield StoredBytes(MessageId(info.message_id), info.source, file, info.offset, info.body_bytes)
    elif isinstance(run, PageRun):
        scan, page = content.page_scan(run.number), content.page_file(run.number)
        for index in run.indexes:
            entry = scan.entry(index)
            message_id, offset = MessageId(entry.message_id), entry.payload_offset
            yield StoredBytes(message_id, entry.source, page, offset, entry.payload_bytes)


def _message(core: Core, place: StoredBytes) -> Outgoing:
    where, message_id = (place.file.path, place.offset), place.message_id
    payload = place.file.copy(place.offset, place.size_bytes)
    if place.source & SOURCE_UNREADABLE:
        raise Damaged(*where, f"a part of message {message_id} cannot be read")
    try:
        return _decoded(core, message_id, place.source, payload)
    except DecodeError as error:
        raise Damaged(*where, f"message {message_id} cannot be copied: {error.reason}") from error


def _decoded(core: Core, message_id: MessageId, source: int, payload: bytes) -> Outgoing:
    if source == SOURCE_CORE_LARGE:
        body = _body(core, message_id, lambda: origin_of_large(source, payload))
        return message_of_record(MessageType.LARGE_MESSAGE, payload, body)
    large = payload[:1] == bytes((amqp_message.LARGE,))
    body = _body(core, message_id, lambda: None) if large else None
    return message_of_record(MessageType.MESSAGE, payload, body)


def _body(core: Core, message_id: MessageId, origin: Callable[[], MessageId | None]) -> Body | None:
    """The body's file; None where there is none."""
    path = core.large.file(message_id) or core.large.file(origin())
    if path is None:
        return None
    try:
        return FileBody(path)
    except OSError as error:
        raise BodyUnreadable(path, 0, f"cannot be read: {error.strerror or error}") from error


def origin_of_large(source: int, payload: bytes) -> MessageId | None:
    """Return the id of the large message that this one was copied from: a broker that dies while it copies
    leaves only the origin's body. Raises `DecodeError`.
    """
    if source != SOURCE_CORE_LARGE:
        return None
    header = core_message.split_header(Reader(payload)).header
    found = Properties(None, header.properties).integer(core_message.ORIGINAL_MESSAGE_ID)
    return MessageId(found) if found is not None else None
