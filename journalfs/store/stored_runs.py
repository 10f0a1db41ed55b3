"""Messages of a queue as the records that they are, to be copied: of a body there is no more in memory than
the record holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_UNREADABLE
from journalfs.errors import Damaged, DecodeError
from journalfs.format import amqp_message, core_message
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId
from journalfs.large.directory import BodyUnreadable
from journalfs.store.bodies import Body, FileBody
from journalfs.store.content import QueueContent
from journalfs.store.core import Core
from journalfs.store.outgoing import Outgoing, Properties
from journalfs.store.runs import JournalRun, PageRun, Run
from journalfs.store.stored_message import message_of_record


def stored_messages(content: QueueContent, run: Run) -> Iterator[tuple[MessageId, Outgoing]]:
    """The messages of a run of this queue, in its order.

    Raises `Damaged` at one that cannot be copied whole, `FileTorn` when its file was cut.
    """
    if isinstance(run, JournalRun):
        for ref in run.refs:
            info = content.state.ref(ref)
            file = content.files[info.file_slot]
            payload = file.copy(info.offset, info.body_bytes)
            message_id, place = MessageId(info.message_id), (file.path, info.offset)
            yield message_id, _message(content.core, message_id, info.source, payload, place)
    elif isinstance(run, PageRun):
        scan, file = content.page_scan(run.number), content.page_file(run.number)
        for index in run.indexes:
            entry = scan.entry(index)
            payload = file.copy(entry.payload_offset, entry.payload_bytes)
            message_id = MessageId(entry.message_id)
            place = (file.path, entry.payload_offset)
            yield message_id, _message(content.core, message_id, entry.source, payload, place)


def _message(
    core: Core, message_id: MessageId, source: int, payload: bytes, place: tuple[Path, int]
) -> Outgoing:
    if source & SOURCE_UNREADABLE:
        raise Damaged(*place, f"a part of message {message_id} cannot be read")
    try:
        return _decoded(core, message_id, source, payload)
    except DecodeError as error:
        raise Damaged(*place, f"message {message_id} cannot be copied: {error.reason}") from error


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
    """What a large message was copied from: a broker that dies while it copies leaves the origin's body only.
    Raises `DecodeError`.
    """
    if source != SOURCE_CORE_LARGE:
        return None
    header = core_message.split_header(Reader(payload)).header
    found = Properties(None, header.properties).integer(core_message.ORIGINAL_MESSAGE_ID)
    return MessageId(found) if found is not None else None
