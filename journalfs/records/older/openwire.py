"""OpenWire commands as ActiveMQ 5 stores them (docs/format/kahadb.md, "OpenWire"), taken apart and made: one
description of each serves both ways. Loose encoding in the journals; tight encoding, which is only read, in
the reference store. Bytes in, values out, and back.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from functools import cache, lru_cache
from typing import Annotated, Any, Final, NamedTuple, Self, TypeAlias, TypeVar, get_type_hints

from journalfs.errors import DecodeError
from journalfs.format.primitives import decode_utf16

_U8: Final = struct.Struct(">B")
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
_DEFAULT_ACK: Final = 2
CACHED: Final = 1024


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


class Identity(str):
    """A message's id, `CONNECTION:SESSION:PRODUCER:SEQUENCE`, with the broker's number of it: whoever
    acknowledges says both again.
    """

    number: int

    def __new__(cls, text: str, number: int = 0) -> Self:
        made = super().__new__(cls, text)
        made.number = number
        return made


# -- the encodings: a field is taken, or put where a value is given ------------------------------------------


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

    def number(self, form: struct.Struct) -> int:
        return int(form.unpack(self.take(form.size))[0])

    def i8(self, value: Any = None) -> int:
        return self.take(1)[0]

    def i16(self, value: Any = None) -> int:
        return self.number(_I16)

    def i32(self, value: Any = None) -> int:
        return self.number(_I32)

    def sized_utf(self) -> bytes:
        return self.take(self.number(_U16))

    def boolean(self, value: Any = None) -> bool:
        return self.take(1)[0] != 0

    def binary(self, value: Any = None) -> bytes | None:
        return self.take(self.i32()) if self.boolean() else None


class Loose(_Bytes):
    """The encoding of the journals: every field has its own bytes."""

    __slots__ = ()

    def i64(self, value: Any = None) -> int:
        return self.number(_I64)

    def text(self, value: Any = None) -> str | None:
        return modified_utf8(self.sized_utf()) if self.boolean() else None

    def object_type(self, value: Any = None) -> int | None:
        return self.take(1)[0] if self.boolean() else None


class Tight(_Bytes):
    """The encoding of the reference store: what is one bit lies in a stream of bits before the fields."""

    __slots__ = ("_bit", "_bits")

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        """`at`: behind the type of a command, where the bits are."""
        super().__init__(data, at)
        length = self.i8()
        if length in (0xC0, 0x80):
            length = self.i8() if length == 0xC0 else self.i16()
        self._bits = self.take(length)
        self._bit = 0

    def boolean(self, value: Any = None) -> bool:
        index, bit = divmod(self._bit, 8)
        if index >= len(self._bits):
            raise DecodeError(self.at, "a bit is asked for that is not there")
        self._bit += 1
        return bool(self._bits[index] >> bit & 1)

    def i64(self, value: Any = None) -> int:
        high, low = self.boolean(), self.boolean()
        if high:
            return self.number(_I64 if low else _U32)
        return self.number(_U16) if low else 0

    def text(self, value: Any = None) -> str | None:
        if not self.boolean():
            return None
        if self.boolean():
            return self.take(self.i16()).decode("latin-1")
        return modified_utf8(self.sized_utf())

    def object_type(self, value: Any = None) -> int | None:
        if not self.boolean():
            return None
        kind = self.i8()
        if kind in MESSAGES and self.boolean():
            raise DecodeError(self.at, "a message within a command is encoded on its own")
        return kind


class _Written:
    """Loose encoding, made."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def _put(self, *pieces: bytes) -> None:
        self.pieces += pieces

    def boolean(self, value: Any = None) -> bool:
        self._put(b"\1" if value else b"\0")
        return bool(value)

    def number(self, form: struct.Struct, value: Any) -> int:
        self._put(form.pack(value or 0))
        return int(value or 0)

    def i8(self, value: Any = None) -> int:
        return self.number(_U8, value)

    def i16(self, value: Any = None) -> int:
        return self.number(_I16, value)

    def i32(self, value: Any = None) -> int:
        return self.number(_I32, value)

    def i64(self, value: Any = None) -> int:
        return self.number(_I64, value)

    def text(self, value: Any = None) -> str | None:
        self._put(b"\0" if value is None else b"\1" + utf(value))
        return None if value is None else str(value)

    def binary(self, value: Any = None) -> bytes | None:
        self._put(b"\0" if value is None else b"\1" + _I32.pack(len(value)) + value)
        return None if value is None else bytes(value)

    def object_type(self, value: Any = None) -> int | None:
        self._put(b"\0" if value is None else bytes((1, value)))
        return None if value is None else int(value)

    def more(self) -> bool:
        return True


Wire: TypeAlias = Loose | Tight | _Written
"""Fields come in the same order in all. Each call returns the field; who reads gives no value."""


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


def java_utf8(value: str) -> bytes:
    """The same back."""
    if value.isascii() and "\0" not in value:
        return value.encode("ascii")
    units = array("H", value.encode("utf-16-le", "surrogatepass"))
    return "".join(map(chr, units)).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def utf(value: str) -> bytes:
    """With its length before it. Raises `DecodeError`."""
    encoded = java_utf8(value)
    if len(encoded) > 0xFFFF:
        raise DecodeError(0, f"a name or header of {len(encoded)} bytes, of at most 65535")
    return _U16.pack(len(encoded)) + encoded


# -- fields that are objects ---------------------------------------------------------------------------------


def _destination(wire: Wire, value: Any = None) -> Destination | None:
    kind = wire.object_type(None if value is None else QUEUE + value.topic + 2 * value.temporary)
    if kind is None:
        return None
    if not QUEUE <= kind <= TEMPORARY_TOPIC:
        raise DecodeError(0, f"no destination has the type {kind}")
    name = wire.text(None if value is None else value.name) or ""
    return Destination(kind in (TOPIC, TEMPORARY_TOPIC), name, kind >= TEMPORARY_QUEUE)


def _transaction(wire: Wire, value: Any = None) -> Transaction | None:
    is_local = isinstance(value, LocalTransaction)
    kind = wire.object_type(None if value is None else LOCAL_TRANSACTION if is_local else XA_TRANSACTION)
    if kind is None:
        return None
    if kind == LOCAL_TRANSACTION:
        number = wire.i64(value and value.value)
        return LocalTransaction(_named(wire, CONNECTION_ID, value and value.connection) or "", number)
    if kind == XA_TRANSACTION:
        given = value or (None, None, None)
        return XaTransaction(wire.i32(given[0]), wire.binary(given[1]) or b"", wire.binary(given[2]) or b"")
    raise DecodeError(0, f"no transaction has the type {kind}")


def _is_there(wire: Wire, expected: int, what: str, value: Any) -> bool:
    """Whether an object is; it can be of one type only."""
    kind = wire.object_type(None if value is None else expected)
    if kind not in (None, expected):
        raise DecodeError(0, f"type {kind} where {what} is expected")
    return kind is not None


def _named(wire: Wire, expected: int, value: Any = None) -> str | None:
    """The id of a connection or broker, which is its name."""
    return wire.text(value) if _is_there(wire, expected, str(expected), value) else None


def _producer(wire: Wire, value: Any = None) -> str | None:
    """`CONNECTION:SESSION:PRODUCER`."""
    if not _is_there(wire, PRODUCER_ID, "the id of a producer", value):
        return None
    given: Any = (None, None, None) if value is None else value.rsplit(":", 2)
    connection = wire.text(given[0])
    number, session = wire.i64(given[2] and int(given[2])), wire.i64(given[1] and int(given[1]))
    return f"{connection}:{session}:{number}"


def _message_id(wire: Wire, value: Any = None) -> str:
    if not _is_there(wire, MESSAGE_ID, "the id of a message", value):
        return ""
    foreign = wire.text() if _has_text(wire) else None
    given = producer_and_sequence(value) if value is not None else (None, None)
    producer, sequence = _producer(wire, given[0]), wire.i64(given[1])
    wire.i64(getattr(value, "number", 0))
    if foreign is not None:
        return foreign if foreign.startswith("ID:") else f"ID:{foreign}"
    return f"{producer}:{sequence}"


def producer_and_sequence(identity: str) -> tuple[str, int]:
    """The producer's id, and its number of the message. What is no id of ActiveMQ 5 is a connection's."""
    parts = identity.rsplit(":", 3)
    try:
        numbers = [int(part) for part in parts[1:]]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or any(abs(number) >= 1 << 63 for number in numbers):
        return f"{identity}:1:1", 1
    return ":".join(parts[:3]), numbers[2]


def _has_text(wire: Wire) -> bool:
    """Whether an id begins with a text, as it does from version 10 of OpenWire on: null, or the id that a
    client of another protocol gave. Nothing in a journal says its version. What begins with a producer has a
    1 and the producer's type, which a text could have only if it were over 31 kB long.
    """
    return isinstance(wire, Loose) and bytes(wire.data[wire.at : wire.at + 2]) != _PRODUCER_PRESENT


def _consumer(wire: Wire, value: Any = None) -> None:
    """A consumer's id, of which nothing is asked."""
    if _is_there(wire, CONSUMER_ID, "the id of a consumer", value):
        wire.text()
        wire.i64()
        wire.i64()


def _brokers(wire: Wire, value: Any = None) -> list[str]:
    if not wire.boolean(value):
        return []
    count = max(wire.i16(value and len(value)), 0)
    return [_named(wire, BROKER_ID, value and value[at]) or "" for at in range(count)]


def _no_object(wire: Wire, value: Any = None) -> None:
    if wire.object_type() is not None:
        raise DecodeError(0, "a message holds another command")


def _ack_command(wire: Wire, value: Any = None) -> None:
    if wire.object_type(MESSAGE_ACK) != MESSAGE_ACK:
        raise DecodeError(0, "an acknowledgement without its command")


def _name(wire: Wire, value: Any = None) -> str:
    return wire.text(value) or ""


def _added(wire: Wire, value: Any = None) -> Destination | None:
    """A field that older versions end before."""
    return _destination(wire, value) if wire.more() else None


# -- commands: their fields in the order in which they are encoded -------------------------------------------

_Flag: TypeAlias = Annotated[bool, lambda wire, value: wire.boolean(value)]
_Int8: TypeAlias = Annotated[int, lambda wire, value: wire.i8(value)]
_Int: TypeAlias = Annotated[int, lambda wire, value: wire.i32(value)]
_Long: TypeAlias = Annotated[int, lambda wire, value: wire.i64(value)]
_Text: TypeAlias = Annotated[str | None, lambda wire, value: wire.text(value)]
_Name: TypeAlias = Annotated[str, _name]
_Binary: TypeAlias = Annotated[bytes | None, lambda wire, value: wire.binary(value)]
_Destination: TypeAlias = Annotated[Destination | None, _destination]
_Transaction: TypeAlias = Annotated[Transaction | None, _transaction]
_Producer: TypeAlias = Annotated[str | None, _producer]
_MessageId: TypeAlias = Annotated[str, _message_id]
_Consumer: TypeAlias = Annotated[None, _consumer]
_Brokers: TypeAlias = Annotated[list[str], _brokers]
_NoObject: TypeAlias = Annotated[None, _no_object]


class MessageHead(NamedTuple):
    """What replaying asks of a message: what it begins with."""

    command_id: _Int
    wants_response: _Flag
    producer: _Producer
    destination: _Destination
    transaction: _Transaction
    original_destination: _Destination
    id: _MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWireMessage:
    """All of a message; bodies and properties as they are encoded."""

    kind: Kind
    command_id: _Int
    wants_response: _Flag = True
    producer: _Producer
    destination: _Destination
    transaction: _Transaction = None
    original_destination: _Destination = None
    id: _MessageId
    original_transaction: _Transaction = None
    group: _Text
    group_sequence: _Int
    correlation_id: _Text
    persistent: _Flag = True
    expiration_ms: _Long
    priority: _Int8
    reply_to: _Destination
    timestamp_ms: _Long
    jms_type: _Text
    content: _Binary
    properties: _Binary
    structure: _NoObject = None
    consumer: _Consumer = None
    compressed: _Flag = False
    redeliveries: _Int
    broker_path: _Brokers
    arrival_ms: _Long
    user: _Text
    came_by_old_bridge: _Flag = False
    droppable: _Flag
    cluster: _Brokers
    broker_in_ms: _Long
    broker_out_ms: _Long = 0
    blob_url: str | None = None
    """Where the body of a blob message lies."""


class TopicAck(NamedTuple):
    destination: _Destination
    message_id: _MessageId
    number: _Long
    name: _Name
    client: _Name
    transaction: _Transaction = None


class QueueAck(NamedTuple):
    """An acknowledgement, and within it the client's command for it."""

    destination: _Destination
    command: Annotated[None, _ack_command]
    command_id: _Int
    wants_response: _Flag
    acknowledged_in: _Destination
    transaction: _Transaction
    consumer: _Consumer
    kind: _Int8
    first_id: _MessageId
    message_id: _MessageId


class Outcome(NamedTuple):
    """The command of a transaction: 1 prepare, 2 commit, 3 rollback (XA), 4 commit, 5 rollback (local)."""

    transaction: _Transaction
    kind: _Int8
    was_prepared: _Flag = False


class Subscription(NamedTuple):
    client: _Name
    destination: _Destination
    selector: _Text
    name: _Name
    subscribed: Annotated[Destination | None, _added]
    """What was asked for: another one than `destination` if it has wildcards."""


C = TypeVar("C")
_CODES: Final[dict[type, int]] = {
    TopicAck: TOPIC_ACK, QueueAck: QUEUE_ACK, Outcome: TRANSACTION, Subscription: SUBSCRIPTION,
}  # fmt: skip


@cache
def _fields(command: type) -> tuple[tuple[str, Callable[[Wire, Any], Any]], ...]:
    """Names, and what takes or puts each."""
    hints = get_type_hints(command, include_extras=True).items()
    return tuple((name, hint.__metadata__[0]) for name, hint in hints if hasattr(hint, "__metadata__"))


def _taken(wire: Wire, command: type[C], **given: Any) -> C:
    fields = _fields(command)  # type: ignore[arg-type]  # mypy asks whether its objects can be hashed
    return command(**{name: codec(wire, None) for name, codec in fields}, **given)


# -- reading -------------------------------------------------------------------------------------------------


def message_kind(payload: bytes | memoryview) -> Kind:
    """Raises `DecodeError` when the command is no message."""
    try:
        return Kind(payload[0])
    except (ValueError, IndexError):
        raise DecodeError(0, "the command is no message") from None


def decode_message(payload: bytes | memoryview, encoding: type[Loose | Tight] = Loose) -> OpenWireMessage:
    """A message from its type on, without the length before it. What newer versions add behind the fields of
    version 3 is not looked at. Raises `DecodeError`.
    """
    kind, wire = message_kind(payload), encoding(payload, 1)
    found = _taken(wire, OpenWireMessage, kind=kind)
    return replace(found, blob_url=_blob_url(wire)) if kind is Kind.BLOB else found


def _blob_url(wire: Loose | Tight) -> str | None:
    """The last field but two. From version 10 of OpenWire a boolean lies before it; a journal does not say
    which version it has.
    """
    if not isinstance(wire, Loose):
        return wire.text()
    for skipped in (0, 1):
        trial = Loose(wire.data, wire.at + skipped)
        try:
            url, _, _ = trial.text(), trial.text(), trial.boolean()
        except DecodeError:
            continue
        if not trial.more():
            return url
    return None


def decode(payload: bytes | memoryview, command: type[C], encoding: type[Loose | Tight] = Loose) -> C:
    """A command that is no message, from its type on. Raises `DecodeError`."""
    if not len(payload) or payload[0] != _CODES[command]:
        raise DecodeError(0, f"the command is no {command.__name__}")
    return _taken(encoding(payload, 1), command)


def message_head(payload: bytes | memoryview) -> MessageHead:
    """Of a message in loose encoding. Raises `DecodeError`."""
    return _taken(Loose(payload, 1), MessageHead)


def decode_tight_destination(payload: bytes) -> Destination:
    """A destination as a command of its own."""
    name, kind = Tight(payload, 1).text() or "", payload[0]
    return Destination(kind in (TOPIC, TEMPORARY_TOPIC), name, kind >= TEMPORARY_QUEUE)


# What replaying asks again and again: few destinations and producers send everything, and what a transaction
# did lies together.


@lru_cache(CACHED)
def destination_in(encoded: bytes) -> Destination | None:
    """A field of a command in loose encoding, from the mark of presence on. Raises `DecodeError`."""
    return _destination(Loose(encoded))


@lru_cache(CACHED)
def transaction_in(encoded: bytes) -> Transaction | None:
    """The same."""
    return _transaction(Loose(encoded))


@lru_cache(CACHED)
def producer_in(encoded: bytes) -> str | None:
    """The same."""
    return _producer(Loose(encoded))


# -- writing -------------------------------------------------------------------------------------------------


def encode(command: OpenWireMessage | TopicAck | QueueAck | Outcome | Subscription) -> bytes:
    """A command from its type on, in loose encoding. Raises `DecodeError` where a text of it is too long."""
    wire = _Written()
    wire.i8(command.kind if isinstance(command, OpenWireMessage) else _CODES[type(command)])
    for name, codec in _fields(type(command)):  # type: ignore[arg-type]  # as above
        codec(wire, getattr(command, name))
    return b"".join(wire.pieces)


def queue_ack(to: Destination, identity: Identity, transaction: Transaction | None = None) -> bytes:
    """Of one message."""
    ids = identity, identity
    ack = QueueAck(to, None, 0, False, to, transaction, None, _DEFAULT_ACK, *ids)
    return encode(ack) + _I32.pack(1)


def topic_ack(
    to: Destination, identity: Identity, client: str, name: str, transaction: Transaction | None = None
) -> bytes:
    return encode(TopicAck(to, identity, identity.number, name, client, transaction))


def trace(said: str, length: int) -> bytes:
    """A note that nobody acts on, of so many bytes."""
    return bytes((TRACE, 1)) + utf(said[: length - 4].ljust(length - 4))
