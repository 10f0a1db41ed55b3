"""Messages taken from records that are there: what is copied as it is, without a look at what it says."""

from __future__ import annotations

from journalfs.errors import DecodeError
from journalfs.format import amqp_message, core_message
from journalfs.format.core_message import CoreParts
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType
from journalfs.store.bodies import Body
from journalfs.store.outgoing import CoreMessage, Outgoing, Properties, Record
from journalfs.store.outgoing_amqp import AmqpMessage


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
