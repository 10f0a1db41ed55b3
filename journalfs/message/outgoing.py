"""Messages on their way into the store, and the records that they become (docs/format/messages.md)."""

from __future__ import annotations

import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Final, Self, TypeAlias, overload

from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER, LineBatch
from journalfs.engine.publish import Stretches, TextBodies
from journalfs.format import core_message, primitives
from journalfs.format.bindings import RoutingType
from journalfs.format.core_message import CoreHeader, CoreType
from journalfs.format.primitives import Reader
from journalfs.format.properties import Code, Property, PropertyValue, decode_properties, encode_properties
from journalfs.format.record_types import MessageType
from journalfs.limits import COPY_CHUNK_BYTES
from journalfs.message.envelope import decode_envelope, judged

# User ids for new messages: time-based UUIDs, as the broker's own clients give them.

_ID: Final = struct.Struct(">IHH8s")
_BEFORE_1970: Final = 0x01B21DD213814000
"""From 1582-10-15, where these ids count from, to 1970-01-01, in their steps of 100 ns."""
_STEPS_PER_MS: Final = 10_000


class UserIds:
    """Draws ids that never repeat: the step after the last one, or the present one if that is later."""

    def __init__(self, seed: bytes | None = None) -> None:
        """`seed` (8 bytes) tells this process from all others; random unless given."""
        raw = os.urandom(8) if seed is None else seed
        # The variant's bits, and the multicast bit, which marks a node that is no network card's address.
        self.node = bytes((raw[0] & 0x3F | 0x80, raw[1], raw[2] | 0x01, *raw[3:]))
        self._last = 0

    def draw(self, now_ms: int) -> bytes:
        """The 16 bytes of a new id."""
        step = self.draw_steps(now_ms, 1)
        return _ID.pack(step & 0xFFFFFFFF, step >> 32 & 0xFFFF, step >> 48 & 0x0FFF | 0x1000, self.node)

    @property
    def last(self) -> int:
        """The step of the id drawn last."""
        return self._last

    def drawn(self, last: int) -> None:
        """Ids up to the step `last` were drawn elsewhere."""
        self._last = last

    def draw_steps(self, now_ms: int, count: int) -> int:
        """The first of so many steps, which with `node` are ids that are made elsewhere."""
        first = max(self._last + 1, now_ms * _STEPS_PER_MS + _BEFORE_1970)
        self._last = first + count - 1
        return first


# Bodies of messages on their way into the store: in memory, or in a file that is never read whole.

Buffer: TypeAlias = bytes | memoryview


class FileBody:
    """The content of a file at this moment. It stays mapped, so the file may be removed at once."""

    __slots__ = ("_file",)

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._file = MappedFile(path)
        self._file.detach()

    def __len__(self) -> int:
        return self._file.size_bytes

    def part(self, begin: int, end: int) -> bytes:
        """Raises FileTorn when the file was cut meanwhile."""
        return self._file.copy(begin, end - begin)


Body: TypeAlias = Buffer | FileBody


def whole(body: Body) -> Buffer:
    """Raises FileTorn when a file was cut meanwhile."""
    return body.part(0, len(body)) if isinstance(body, FileBody) else body


def part(body: Body, begin: int, end: int) -> Buffer:
    """The same, of a part."""
    return body.part(begin, end) if isinstance(body, FileBody) else memoryview(body)[begin:end]


def pieces(body: Body, start: int = 0) -> Iterator[Buffer]:
    """The same from `start` on, a piece at a time."""
    for begin in range(start, len(body), COPY_CHUNK_BYTES):
        yield part(body, begin, min(begin + COPY_CHUNK_BYTES, len(body)))


Record: TypeAlias = tuple[int, bytes]
"""User record type and body of a journal record."""

RECORD_SPARE_BYTES: Final = 512
"""Brokers keep so much of a record free when they decide whether a message fits into one."""

PRIORITY_DEFAULT: Final = 4

_ROUTING_TYPES: Final = frozenset(kind.value for kind in RoutingType)

USER_IDS: Final = UserIds()


class Outgoing(ABC):
    """A message without an id. The facts that a queue adds to it (delivery count, schedule) come along."""

    durable: bool = True
    priority: int = PRIORITY_DEFAULT
    timestamp_ms: int | None = None
    """When it was sent; None: when it is recorded."""
    expiration_ms: int = 0
    """0: never. May be changed."""
    delivery_count: int = 0
    queue_schedule_ms: int | None = None
    """When it is due in the queue it comes from, 0: at once; None: as it says itself."""
    large: bool = False
    """True if its body belongs in a file of its own, however small it is."""
    sent_to: str | None = None
    """The address that the record it was taken from names."""
    keeps_address: bool = False
    """True if its record goes on naming its own address, whichever address it goes to."""

    @property
    @abstractmethod
    def body_bytes(self) -> int:
        """Size of the encoded body; of AMQP, of the whole encoded message."""

    @property
    @abstractmethod
    def routing_type(self) -> int | None:
        """The routing type that its sender wants: 0 multicast, 1 anycast, None for either, also for a value
        that no broker knows.
        """

    @property
    @abstractmethod
    def duplicate_id(self) -> bytes | None: ...

    @property
    @abstractmethod
    def own_schedule_ms(self) -> int:
        """When it says itself that it is due; 0: at once. May be over."""

    @property
    def scheduled_ms(self) -> int:
        """When it is due; 0: at once. May be over."""
        known = self.queue_schedule_ms
        return self.own_schedule_ms if known is None else known

    @abstractmethod
    def record_bytes(self, address: str) -> int:
        """Length of the body of `record`."""

    @abstractmethod
    def record(self, message_id: int, address: str, now_ms: int) -> Record:
        """The record of a small message."""

    @abstractmethod
    def large_record(self, message_id: int, address: str, now_ms: int) -> Record:
        """The record of a large message, whose body goes to a file of its own."""

    @property
    def body_file(self) -> Path | None:
        """A file that holds what `large_body` gives, and that nobody changes any more."""
        return None

    @abstractmethod
    def large_body(self) -> Iterator[Buffer]:
        """Yield the content of the body's file in pieces. Raises FileTorn if a spooled body was
        cut meanwhile.
        """

    @abstractmethod
    def with_properties(self, extra: Mapping[str, tuple[Code, PropertyValue]]) -> Self:
        """Return a copy with these broker's properties, in place of those of the same names. It is for the
        broker's own copies (dead letters, moves): a small AMQP one is addressed again.
        """

    @abstractmethod
    def without_properties(self, names: Collection[str]) -> Self:
        """Return a copy without these broker's properties. A small AMQP one is addressed again."""

    @abstractmethod
    def integer(self, name: str) -> int | None:
        """A whole number among its broker's properties."""

    @abstractmethod
    def is_text(self, name: str) -> bool:
        """Return True if brokers read the property as a text, or the message has none of that name. Where
        they expect a text, they fail at other types.
        """

    @abstractmethod
    def text(self, name: str) -> str | None:
        """A property that its sender gave it, as text; None where there is none, or it cannot be text."""

    def expires_ms(self, now_ms: int) -> int:
        """When it expires if it is sent at that time, 0: never."""
        return self.expiration_ms

    @abstractmethod
    def expiring_at(self, expiration_ms: int) -> Self:
        """Return a copy that expires at that time, 0: never. A small AMQP one is addressed again."""

    @abstractmethod
    def wanting(self, routing_type: int | None) -> Self:
        """A copy that wants queues of that kind, None: of either."""

    @abstractmethod
    def arrives(self, now_ms: int) -> None:
        """Note the time of sending, from which relative times of the message count."""

    @abstractmethod
    def due_at(self, due_ms: int) -> Self:
        """A copy that says itself when it is due, 0: at once."""

    def in_page(self, now_ms: int) -> Self:
        """Return the message as pages hold it: they have no place for facts of a queue, so the schedule
        becomes the message's own.
        """
        if self.queue_schedule_ms is None:
            return self
        due_ms, own_ms = (ms if ms > now_ms else 0 for ms in (self.queue_schedule_ms, self.own_schedule_ms))
        return self if due_ms == own_ms else self.due_at(due_ms)

    def in_journal(self, now_ms: int) -> Self:
        """Itself, or a copy as journals hold it, where a record says when it is due in a queue."""
        return self

    @abstractmethod
    def kept(self) -> Self:
        """Itself, or a copy that is durable if it is not. A broker takes for granted that a journal holds
        durable messages only: it records no acknowledgement of others, and they come again at its next start.
        """

    def _with(self, **changes: object) -> Self:
        """A copy with other attributes."""
        changed = copy(self)
        vars(changed).update(changes)
        return changed

    def named(self, address: str) -> str:
        """Return the address that its record names when it goes to this address."""
        return self.sent_to if self.keeps_address and self.sent_to is not None else address

    def is_large(self, address: str, *, min_large_bytes: int, record_bytes_max: int) -> bool:
        """Whether `large_record` is to be used: for bodies from `min_large_bytes` on, and for what fits no
        record.
        """
        return (
            self.large
            or self.body_bytes >= min_large_bytes
            or self.record_bytes(self.named(address)) + RECORD_SPARE_BYTES > record_bytes_max
        )

    def envelope(
        self, address: str, *, now_ms: int, large: bool, sized: bool = False
    ) -> Mapping[str, object]:
        """Return the envelope that a selector sees, with the size if that is asked; without the body of a
        `large` message, which no selector reads.
        """
        record = self.large_record if large else self.record
        user_type, payload = record(0, address, now_ms)
        source = SOURCE_CORE_LARGE if user_type == MessageType.LARGE_MESSAGE else SOURCE_PERSISTER
        batch = LineBatch.of_payloads([payload], queue=None, sources=[source])
        return judged(batch, 0) if sized else decode_envelope(batch.line(0))


class Properties:
    """A message's properties: encoded, decoded, or both. Never changed."""

    __slots__ = ("_by_name", "_encoded", "_entries")

    def __init__(self, entries: tuple[Property, ...] | None, encoded: bytes | None = None) -> None:
        self._entries = entries
        self._encoded = encoded
        self._by_name: dict[str, Property] | None = None

    @property
    def entries(self) -> tuple[Property, ...]:
        """Raises `DecodeError` where only encoded ones were given and they are none."""
        if self._entries is None:
            self._entries = tuple(decode_properties(Reader(self.encoded)))
        return self._entries

    @property
    def encoded(self) -> bytes:
        if self._encoded is None:
            assert self._entries is not None
            self._encoded = encode_properties(self._entries)
        return self._encoded

    def get(self, name: str) -> Property | None:
        """Of a name that is there twice the last one counts, as in a map that is filled one by one."""
        if self._by_name is None:
            self._by_name = {entry.name: entry for entry in self.entries}
        return self._by_name.get(name)

    def integer(self, name: str) -> int | None:
        """A whole number of that name."""
        found = self.get(name)
        is_integer = found is not None and isinstance(found.value, int) and found.code is not Code.BOOLEAN
        return found.value if is_integer else None  # type: ignore[union-attr,return-value]

    def without(self, *names: str) -> Properties:
        """Itself, or all others where there is one of these names."""
        if all(self.get(name) is None for name in names):
            return self
        return Properties(tuple(entry for entry in self.entries if entry.name not in names))

    def with_(self, extra: Mapping[str, tuple[Code, PropertyValue]]) -> Properties:
        """With these as well: in the place of what has their name, new ones at the end."""
        kept = [
            Property(entry.name, *extra[entry.name]) if entry.name in extra else entry
            for entry in self.entries
        ]
        added = [Property(name, *typed) for name, typed in extra.items() if self.get(name) is None]
        return Properties((*kept, *added))


NO_PROPERTIES: Final = Properties((), primitives.NULL)


def as_text(value: object, *, single: bool = False) -> str | None:
    """As brokers turn a value of another type into text, for those that they do turn into it. `single`: a
    number is a float.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        from journalfs.selector import values  # noqa: PLC0415 - few have one where text is looked for

        return values.as_text(values.Single(value) if single else value)
    return str(value) if isinstance(value, str | int) else None


def known_routing_type(value: int | None) -> int | None:
    """None for what no broker knows."""
    return value if value in _ROUTING_TYPES else None


@lru_cache(maxsize=256)
def address_field(address: str) -> bytes:
    return primitives.nullable_simple_string(address)


class CoreMessage(Outgoing):
    """A message stored as core: all that was not sent by AMQP."""

    user_id: bytes | None = None
    draws_user_id: bool = False
    """A user id is made when it is recorded."""
    large_size_bytes: int | None = None
    """The size that the property of a large message states; None: the size of its body."""

    def __init__(self, core_type: int, body: Body, properties: Properties = NO_PROPERTIES) -> None:
        """`body` is as it is stored: compressed where the properties say so."""
        self.core_type = core_type
        self.body = body
        self.properties = properties

    @property
    def body_bytes(self) -> int:
        return len(self.body)

    @property
    def routing_type(self) -> int | None:
        return known_routing_type(self.properties.integer(core_message.ROUTING_TYPE))

    @property
    def duplicate_id(self) -> bytes | None:
        found = self.properties.get(core_message.DUPLICATE_ID)
        if found is None:
            return None
        if isinstance(found.value, str):
            return found.value.encode("utf-16-le", "surrogatepass")
        return found.value if isinstance(found.value, bytes) else None

    @property
    def own_schedule_ms(self) -> int:
        return self.properties.integer(core_message.SCHEDULED) or 0

    def record_bytes(self, address: str) -> int:
        return core_message.message_bytes(
            len(address_field(address)),
            len(self.body),
            user_id=self.draws_user_id or self.user_id is not None,
            properties_bytes=len(self.properties.encoded),
        )

    def record(self, message_id: int, address: str, now_ms: int) -> Record:
        field, header = address_field(address), self._header(now_ms, self.properties)
        return MessageType.MESSAGE, core_message.encode_message(message_id, field, whole(self.body), header)

    def large_record(self, message_id: int, address: str, now_ms: int) -> Record:
        size = len(self.body) if self.large_size_bytes is None else self.large_size_bytes
        properties = self.properties
        found = properties.get(core_message.LARGE_SIZE)
        if found is None or found[1:] != (Code.LONG, size):
            properties = properties.with_({core_message.LARGE_SIZE: (Code.LONG, size)})
        field, header = address_field(address), self._header(now_ms, properties)
        return MessageType.LARGE_MESSAGE, core_message.encode_header(message_id, field, header)

    def large_body(self) -> Iterator[Buffer]:
        return pieces(self.body)

    def with_properties(self, extra: Mapping[str, tuple[Code, PropertyValue]]) -> Self:
        return self._with(properties=self.properties.with_(extra))

    def without_properties(self, names: Collection[str]) -> Self:
        return self._with(properties=self.properties.without(*names))

    def integer(self, name: str) -> int | None:
        return self.properties.integer(name)

    def is_text(self, name: str) -> bool:
        found = self.properties.get(name)
        return found is None or found.code is not Code.BYTES

    def text(self, name: str) -> str | None:
        found = self.properties.get(name)
        return as_text(found.value, single=found.code is Code.FLOAT) if found is not None else None

    def expiring_at(self, expiration_ms: int) -> Self:
        return self._with(expiration_ms=expiration_ms)

    def wanting(self, routing_type: int | None) -> Self:
        if routing_type is None:
            return self.without_properties([core_message.ROUTING_TYPE])
        return self.with_properties({core_message.ROUTING_TYPE: (Code.BYTE, routing_type)})

    def arrives(self, now_ms: int) -> None:
        """Nothing that it says does."""

    def due_at(self, due_ms: int) -> Self:
        if due_ms:
            return self.with_properties({core_message.SCHEDULED: (Code.LONG, due_ms)})
        return self.without_properties([core_message.SCHEDULED])

    def kept(self) -> Self:
        return self if self.durable else self._with(durable=True)

    def _header(self, now_ms: int, properties: Properties) -> CoreHeader:
        if self.user_id is None and self.draws_user_id:
            self.user_id = USER_IDS.draw(now_ms)
        return CoreHeader(
            self.user_id,
            self.core_type,
            self.durable,
            self.expiration_ms,
            now_ms if self.timestamp_ms is None else self.timestamp_ms,
            self.priority,
            properties.encoded,
        )


class TextMessage(CoreMessage):
    """A text. Bytes that are no UTF-8 become a message of bytes, so that nothing is lost."""

    draws_user_id = True

    def __init__(self, body: Buffer, *, plain: bool, properties: Properties = NO_PROPERTIES) -> None:
        """`body` is encoded; `plain` says that it is none but bytes as they came (`TextBodies`)."""
        self.core_type = CoreType.BYTES if plain else CoreType.TEXT
        self.body = body
        self.properties = properties


class WholeFile(CoreMessage):
    """A file as one message of bytes."""

    draws_user_id = True

    def __init__(
        self, content: bytes | Path, properties: Properties = NO_PROPERTIES, *, finished: bool = False
    ) -> None:
        """A path is opened and mapped here, never read whole. Raises OSError. `finished`: it is ours, and
        nobody has it open who might change it.
        """
        body = FileBody(content) if isinstance(content, Path) else content
        super().__init__(CoreType.BYTES, body, properties)
        self._finished = content if finished and isinstance(content, Path) else None

    @property
    def body_file(self) -> Path | None:
        return self._finished


# Lines on their way into the store, together: most of them never become objects of their own.


class Texts(Sequence[Outgoing]):
    """Text messages that differ in their text alone; made one by one only where somebody looks at them."""

    __slots__ = ("_messages", "properties", "stretches")

    def __init__(self, stretches: Stretches, properties: Properties) -> None:
        self.stretches = stretches
        self.properties = properties
        self._messages: list[Outgoing] | None = None

    def pieces(self, length: int) -> Iterator[Texts]:
        """All of them, at most so many at a time."""
        for begin in range(0, len(self), length):
            yield Texts(self.stretches.some(begin, begin + length), self.properties)

    def __len__(self) -> int:
        return self.stretches.count

    @overload
    def __getitem__(self, index: int) -> Outgoing: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Outgoing]: ...

    def __getitem__(self, index: int | slice) -> Outgoing | Sequence[Outgoing]:
        if self._messages is None:
            bodies = TextBodies(self.stretches)
            self._messages = [
                TextMessage(body, plain=plain, properties=self.properties) for body, plain in bodies
            ]
        return self._messages[index]
