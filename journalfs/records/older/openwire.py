"""OpenWire commands as ActiveMQ 5 stores them (docs/format/kahadb.md, "OpenWire"): loose encoding in the
journals, tight encoding in the reference store. Bytes in, values out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Final, NamedTuple, Protocol, TypeAlias

from journalfs.errors import DecodeError
from journalfs.format.primitives import decode_utf16

_I16: Final = struct.Struct(">h")
_U16: Final = struct.Struct(">H")
_I32: Final = struct.Struct(">i")
_U32: Final = struct.Struct(">I")
_I64: Final = struct.Struct(">q")

MESSAGE_ACK: Final = 22
TOPIC_ACK: Final = 50
QUEUE_ACK: Final = 52
TRACE: Final = 53
TRANSACTION: Final = 54
SUBSCRIPTION: Final = 55
QUEUE: Final = 100
TOPIC: Final = 101
TEMPORARY_QUEUE: Final = 102
TEMPORARY_TOPIC: Final = 103
MESSAGE_ID: Final = 110
LOCAL_TRANSACTION: Final = 111
XA_TRANSACTION: Final = 112
CONNECTION_ID: Final = 120
CONSUMER_ID: Final = 122
PRODUCER_ID: Final = 123
_PRODUCER_PRESENT: Final = bytes((1, PRODUCER_ID))
BROKER_ID: Final = 124


@unique
class Kind(IntEnum):
    """The command of a message says what its body is."""

    MESSAGE = 23
    BYTES = 24
    MAP = 25
    OBJECT = 26
    STREAM = 27
    TEXT = 28
    BLOB = 29


MESSAGES: Final = frozenset(Kind)


class Destination(NamedTuple):
    topic: bool
    name: str
    temporary: bool = False

    @property
    def qualified(self) -> str:
        """As JMS clients spell it: `queue://orders`."""
        return f"{'temp-' if self.temporary else ''}{'topic' if self.topic else 'queue'}://{self.name}"


class LocalTransaction(NamedTuple):
    connection: str
    value: int


class XaTransaction(NamedTuple):
    format_id: int
    global_id: bytes
    branch: bytes


Transaction: TypeAlias = LocalTransaction | XaTransaction


class MessageHead(NamedTuple):
    """What replaying asks of a message."""

    id: str
    destination: Destination | None
    transaction: Transaction | None


@dataclass(frozen=True, slots=True)
class OpenWireMessage:
    """All of a message; bodies and properties as they are encoded."""

    kind: Kind
    command_id: int
    producer: str | None
    destination: Destination | None
    transaction: Transaction | None
    original_destination: Destination | None
    id: str
    group: str | None
    group_sequence: int
    correlation_id: str | None
    persistent: bool
    expiration_ms: int
    priority: int
    reply_to: Destination | None
    timestamp_ms: int
    jms_type: str | None
    content: bytes | None
    properties: bytes | None
    compressed: bool
    redeliveries: int
    broker_path: list[str]
    arrival_ms: int
    user: str | None
    droppable: bool
    cluster: list[str]
    broker_in_ms: int
    blob_url: str | None
    """Where the body of a blob message lies."""


class TopicAck(NamedTuple):
    destination: Destination | None
    message_id: str
    name: str
    client: str
    transaction: Transaction | None


class QueueAck(NamedTuple):
    destination: Destination | None
    message_id: str
    transaction: Transaction | None


class Outcome(NamedTuple):
    """The command of a transaction: 1 prepare, 2 commit, 3 rollback (XA), 4 commit, 5 rollback (local)."""

    transaction: Transaction | None
    kind: int
    was_prepared: bool


class Subscription(NamedTuple):
    client: str
    destination: Destination | None
    selector: str | None
    name: str
    subscribed: Destination | None
    """What was asked for: another one than `destination` if it has wildcards."""


def modified_utf8(raw: bytes) -> str:
    """Java's own UTF-8: surrogates one by one, NUL as two bytes. What is none is shown as U+FFFD."""
    if raw.isascii():
        return raw.decode("ascii")
    if b"\xc0" in raw:
        raw = raw.replace(b"\xc0\x80", b"\0")
    try:
        text = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")
    if any("\ud800" <= char <= "\udfff" for char in text):
        return decode_utf16(text.encode("utf-16-le", "surrogatepass"), "little")
    return text


class _Reader(Protocol):
    """What the two encodings have in common; fields come in the same order in both."""

    def boolean(self) -> bool: ...
    def i8(self) -> int: ...
    def i16(self) -> int: ...
    def i32(self) -> int: ...
    def i64(self) -> int: ...
    def text(self) -> str | None: ...
    def binary(self) -> bytes | None: ...
    def object_type(self) -> int | None: ...
    def more(self) -> bool: ...


class _Bytes:
    """A position in `data`, checked."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self.data = data
        self.at = at

    def more(self) -> bool:
        """Whether fields follow that older versions do not have."""
        return self.at < len(self.data)

    def take(self, length: int) -> bytes:
        at = self.at
        if length < 0 or at + length > len(self.data):
            raise DecodeError(at, f"{length} bytes expected, {len(self.data) - at} are left")
        self.at = at + length
        return bytes(self.data[at : at + length])

    def i8(self) -> int:
        return self.take(1)[0]

    def number(self, form: struct.Struct) -> int:
        at = self.at
        if at + form.size > len(self.data):
            raise DecodeError(at, f"{form.size} bytes expected, {len(self.data) - at} are left")
        self.at = at + form.size
        return int(form.unpack_from(self.data, at)[0])

    def i16(self) -> int:
        return self.number(_I16)

    def i32(self) -> int:
        return self.number(_I32)

    def sized_utf(self) -> bytes:
        return self.take(self.number(_U16))


class Loose(_Bytes):
    """The encoding of the journals: every field has its own bytes."""

    __slots__ = ()

    def boolean(self) -> bool:
        return self.take(1)[0] != 0

    def i64(self) -> int:
        return self.number(_I64)

    def text(self) -> str | None:
        return modified_utf8(self.sized_utf()) if self.boolean() else None

    def binary(self) -> bytes | None:
        return self.take(self.i32()) if self.boolean() else None

    def object_type(self) -> int | None:
        return self.take(1)[0] if self.boolean() else None


class Tight(_Bytes):
    """The encoding of the reference store: what is one bit lies in a stream of bits before the fields."""

    __slots__ = ("_bit", "_bits")

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        super().__init__(data, at)
        self._bits = b""
        self._bit = 0

    def start(self) -> None:
        """Take the bits, which follow the type of a command."""
        length = self.i8()
        if length == 0xC0:
            length = self.i8()
        elif length == 0x80:
            length = self.i16()
        self._bits = self.take(length)
        self._bit = 0

    def boolean(self) -> bool:
        index, bit = divmod(self._bit, 8)
        if index >= len(self._bits):
            raise DecodeError(self.at, "a bit is asked for that is not there")
        self._bit += 1
        return bool(self._bits[index] >> bit & 1)

    def i64(self) -> int:
        high, low = self.boolean(), self.boolean()
        if high:
            return int(_I64.unpack(self.take(8))[0]) if low else int(_U32.unpack(self.take(4))[0])
        return int(_U16.unpack(self.take(2))[0]) if low else 0

    def text(self) -> str | None:
        if not self.boolean():
            return None
        if self.boolean():
            return self.take(self.i16()).decode("latin-1")
        return modified_utf8(self.sized_utf())

    def binary(self) -> bytes | None:
        return self.take(self.i32()) if self.boolean() else None

    def object_type(self) -> int | None:
        if not self.boolean():
            return None
        kind = self.i8()
        if kind in MESSAGES and self.boolean():
            raise DecodeError(self.at, "a message within a command is encoded on its own")
        return kind


def _destination(reader: _Reader) -> Destination | None:
    kind = reader.object_type()
    if kind is None:
        return None
    if not QUEUE <= kind <= TEMPORARY_TOPIC:
        raise DecodeError(0, f"no destination has the type {kind}")
    name = reader.text() or ""
    return Destination(kind in (TOPIC, TEMPORARY_TOPIC), name, kind >= TEMPORARY_QUEUE)


def _transaction(reader: _Reader) -> Transaction | None:
    kind = reader.object_type()
    if kind is None:
        return None
    if kind == LOCAL_TRANSACTION:
        value = reader.i64()
        return LocalTransaction(_named(reader, CONNECTION_ID) or "", value)
    if kind == XA_TRANSACTION:
        return XaTransaction(reader.i32(), reader.binary() or b"", reader.binary() or b"")
    raise DecodeError(0, f"no transaction has the type {kind}")


def _named(reader: _Reader, expected: int) -> str | None:
    """The id of a connection or broker, which is its name."""
    kind = reader.object_type()
    if kind is None:
        return None
    if kind != expected:
        raise DecodeError(0, f"type {kind} where {expected} is expected")
    return reader.text()


def _producer(reader: _Reader) -> str | None:
    kind = reader.object_type()
    if kind is None:
        return None
    if kind != PRODUCER_ID:
        raise DecodeError(0, f"type {kind} where the id of a producer is expected")
    connection, value, session = reader.text(), reader.i64(), reader.i64()
    return f"{connection}:{session}:{value}"


def _message_id(reader: _Reader) -> str:
    kind = reader.object_type()
    if kind is None:
        return ""
    if kind != MESSAGE_ID:
        raise DecodeError(0, f"type {kind} where the id of a message is expected")
    foreign = reader.text() if _has_text(reader) else None
    producer, sequence = _producer(reader), reader.i64()
    reader.i64()
    if foreign is not None:
        return foreign if foreign.startswith("ID:") else f"ID:{foreign}"
    return f"{producer}:{sequence}"


def _has_text(reader: _Reader) -> bool:
    """Whether an id begins with a text, as it does from version 10 of OpenWire on: null, or the id that a
    client of another protocol gave. Nothing in a journal says its version. What begins with a producer has a
    1 and the producer's type, which a text could have only if it were over 31 kB long.
    """
    return isinstance(reader, Loose) and bytes(reader.data[reader.at : reader.at + 2]) != _PRODUCER_PRESENT


def _skip_consumer(reader: _Reader) -> None:
    """A consumer's id, of which nothing is asked."""
    kind = reader.object_type()
    if kind is None:
        return
    if kind != CONSUMER_ID:
        raise DecodeError(0, f"type {kind} where the id of a consumer is expected")
    reader.text()
    reader.i64()
    reader.i64()


def _brokers(reader: _Reader) -> list[str]:
    if not reader.boolean():
        return []
    return [_named(reader, BROKER_ID) or "" for _ in range(max(reader.i16(), 0))]


def _message(reader: _Reader, kind: Kind) -> OpenWireMessage:
    command_id = reader.i32()
    reader.boolean()  # whether a response was asked for
    producer, destination, transaction = _producer(reader), _destination(reader), _transaction(reader)
    original, identity = _destination(reader), _message_id(reader)
    _transaction(reader)
    group, group_sequence, correlation_id = reader.text(), reader.i32(), reader.text()
    persistent, expiration_ms, priority = reader.boolean(), reader.i64(), reader.i8()
    reply_to, timestamp_ms, jms_type = _destination(reader), reader.i64(), reader.text()
    content, properties = reader.binary(), reader.binary()
    if reader.object_type() is not None:
        raise DecodeError(0, "a message holds another command")
    _skip_consumer(reader)
    compressed, redeliveries, broker_path = reader.boolean(), reader.i32(), _brokers(reader)
    arrival_ms, user = reader.i64(), reader.text()
    reader.boolean()  # whether it came through an old bridge
    droppable, cluster, broker_in_ms = reader.boolean(), _brokers(reader), reader.i64()
    reader.i64()  # when it left a broker
    blob_url = _blob_url(reader) if kind is Kind.BLOB else None
    return OpenWireMessage(
        kind=kind,
        command_id=command_id,
        producer=producer,
        destination=destination,
        transaction=transaction,
        original_destination=original,
        id=identity,
        group=group,
        group_sequence=group_sequence,
        correlation_id=correlation_id,
        persistent=persistent,
        expiration_ms=expiration_ms,
        priority=priority,
        reply_to=reply_to,
        timestamp_ms=timestamp_ms,
        jms_type=jms_type,
        content=content,
        properties=properties,
        compressed=compressed,
        redeliveries=redeliveries,
        broker_path=broker_path,
        arrival_ms=arrival_ms,
        user=user,
        droppable=droppable,
        cluster=cluster,
        broker_in_ms=broker_in_ms,
        blob_url=blob_url,
    )


def _blob_url(reader: _Reader) -> str | None:
    """The last field but two. From version 10 of OpenWire a boolean lies before it; a journal does not say
    which version it has.
    """
    if not isinstance(reader, Loose):
        return reader.text()
    for skipped in (0, 1):
        trial = Loose(reader.data, reader.at + skipped)
        try:
            url, _, _ = trial.text(), trial.text(), trial.boolean()
        except DecodeError:
            continue
        if not trial.more():
            return url
    return None


def _subscription(reader: _Reader) -> Subscription:
    client, destination = reader.text() or "", _destination(reader)
    selector, name = reader.text(), reader.text() or ""
    subscribed = _destination(reader) if reader.more() else None
    return Subscription(client, destination, selector, name, subscribed)


def message_kind(payload: bytes | memoryview) -> Kind:
    """Raises `DecodeError` when the command is no message."""
    try:
        return Kind(payload[0])
    except (ValueError, IndexError):
        raise DecodeError(0, "the command is no message") from None


def decode_message(payload: bytes | memoryview) -> OpenWireMessage:
    """A message in loose encoding, from its type on, without the length before it. What newer versions
    add behind the fields of version 3 is not looked at. Raises `DecodeError`.
    """
    return _message(Loose(payload, 1), message_kind(payload))


def decode_tight_message(payload: bytes) -> OpenWireMessage:
    """The same in tight encoding."""
    reader = Tight(payload, 1)
    reader.start()
    return _message(reader, message_kind(payload))


def decode_subscription(payload: bytes | memoryview, *, tight: bool = False) -> Subscription:
    """A durable subscription, from its type on. Raises `DecodeError`."""
    if not len(payload) or payload[0] != SUBSCRIPTION:
        raise DecodeError(0, "the command is no durable subscription")
    if not tight:
        return _subscription(Loose(payload, 1))
    reader = Tight(payload, 1)
    reader.start()
    return _subscription(reader)


def decode_tight_destination(payload: bytes) -> Destination:
    """A destination as a command of its own."""
    reader = Tight(payload, 1)
    reader.start()
    kind = payload[0]
    return Destination(kind in (TOPIC, TEMPORARY_TOPIC), reader.text() or "", kind >= TEMPORARY_QUEUE)


def decode_transaction_id(payload: bytes | memoryview) -> Transaction:
    """The id of a transaction as a command of its own, in loose encoding."""
    found = transaction_in(b"\1" + bytes(payload))
    assert found is not None  # it is marked as present
    return found


def destination_in(encoded: bytes) -> Destination | None:
    """A field of a command in loose encoding, from the mark of presence on. Raises `DecodeError`."""
    return _destination(Loose(encoded))


def transaction_in(encoded: bytes) -> Transaction | None:
    """The same."""
    return _transaction(Loose(encoded))


def producer_in(encoded: bytes) -> str | None:
    """The same."""
    return _producer(Loose(encoded))


def message_head(payload: bytes | memoryview) -> MessageHead:
    """What replaying asks of a message in loose encoding. Raises `DecodeError`."""
    reader = Loose(payload, 6)
    _producer(reader)
    destination, transaction = _destination(reader), _transaction(reader)
    _destination(reader)
    return MessageHead(_message_id(reader), destination, transaction)


def decode_topic_ack(payload: bytes | memoryview) -> TopicAck:
    reader = Loose(payload, 1)
    destination, identity = _destination(reader), _message_id(reader)
    reader.i64()
    name, client = reader.text() or "", reader.text() or ""
    return TopicAck(destination, identity, name, client, _transaction(reader))


def decode_queue_ack(payload: bytes | memoryview) -> QueueAck:
    reader = Loose(payload, 1)
    destination = _destination(reader)
    if reader.object_type() != MESSAGE_ACK:
        raise DecodeError(reader.at, "an acknowledgement without its command")
    reader.i32()
    reader.boolean()
    _destination(reader)
    transaction = _transaction(reader)
    _skip_consumer(reader)
    reader.i8()
    _message_id(reader)
    return QueueAck(destination, _message_id(reader), transaction)


def decode_outcome(payload: bytes | memoryview) -> Outcome:
    reader = Loose(payload, 1)
    return Outcome(_transaction(reader), reader.i8(), reader.boolean())
