"""A message as Python sees it: an envelope line, decoded as far as somebody asks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

from journalfs.message.envelope import decode_envelope

FoundT = TypeVar("FoundT")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT_MS: Final = 4_000_000_000_000
"""Before this a float of seconds has every millisecond exactly, and becomes a datetime in half the time."""
_BODY_SHOWN: Final = 48
_BYTES: Final = ("bytes", "binary")
_FLOATS: Final = ("float", "double")
_PLAIN: Final = MappingProxyType[str, object]({})


class _Head(msgspec.Struct):
    """What stands in an envelope beside properties and body."""

    queue: str | None = None
    address: str | None = None
    id: int | None = None
    userId: str | None = None  # noqa: N815 - as it is named in the envelope, as those below
    protocol: str | None = None
    type: str | None = None
    durable: bool | None = None
    priority: int | None = None
    timestamp: int | None = None
    expiration: int | None = None
    deliveryCount: int = 0  # noqa: N815
    scheduledTime: int | None = None  # noqa: N815
    groupId: str | None = None  # noqa: N815
    duplicateId: str | None = None  # noqa: N815
    largeMessage: bool = False  # noqa: N815
    damage: str | None = None


class _Properties(msgspec.Struct):
    """What an envelope has of properties: to skip the body takes a fraction of decoding it."""

    properties: dict[str, Any] | None = None
    propertyTypes: dict[str, Any] | None = None  # noqa: N815


_decode_properties: Final = msgspec.json.Decoder(_Properties).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


class once(Generic[FoundT]):  # noqa: N801 - used as `property` is
    """A property of a message that is found out when it is first asked for.

    `functools.cached_property` needs a `__dict__` for each message, and the collector of garbage to look at
    each: that takes longer than to read it.
    """

    def __init__(self, find: Callable[[Any], FoundT]) -> None:
        self._find = find
        self._name: Final = find.__name__
        self.__doc__ = find.__doc__

    def __get__(self, message: Message | None, owner: type[Message]) -> FoundT:
        if message is None:
            return self  # type: ignore[return-value] # for who reads the documentation
        kept = message._kept
        if kept is None:
            kept = {}
            force_setattr(message, "_kept", kept)
        if self._name not in kept:
            kept[self._name] = self._find(message)
        found: FoundT = kept[self._name]
        return found


class Message(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One message. Nothing of it changes, whatever becomes of it in its queue.

    >>> m = Message(b'{"queue":"billing","address":"orders","id":7,"type":"text","priority":9,'
    ...             b'"timestamp":1764000000000,"properties":{"region":"EU"},"body":"seven"}')
    >>> m.id, m.body, m.properties["region"], m.priority
    (7, 'seven', 'EU', 9)
    >>> m
    <Message 7 in orders::billing, text, priority 9, 2025-11-24T16:00:00Z: 'seven'>
    """

    _source: bytes
    """The line that it is made of (docs/reference/envelope.md)."""
    _kept: dict[str, Any] | None = None
    """What was decoded, by name."""

    @property
    def line(self) -> bytes:
        """The envelope line, as a mount shows it."""
        return self._source

    @once
    def _head(self) -> _Head:
        try:
            return _decode_head(self.line)
        except msgspec.DecodeError:
            # Lone surrogates, legal in the broker's strings, are taken by the standard library only.
            found = json.loads(self.line)
            return _Head(**{name: found[name] for name in _Head.__struct_fields__ if name in found})

    @once
    def envelope(self) -> Mapping[str, Any]:
        """The decoded envelope line: every key that the store has of the message."""
        return decode_envelope(self.line)

    @property
    def id(self) -> int | None:
        """The id of its record; None where a damaged page does not say it."""
        return self._head.id

    @property
    def queue(self) -> str | None:
        """Name of the queue."""
        return self._head.queue

    @property
    def address(self) -> str | None:
        """The address that it was sent to."""
        return self._head.address

    @property
    def type(self) -> str | None:
        """`text`, `bytes`, `map`, `stream`, `object`, `default`, or `amqp-data`, `amqp-value` and others."""
        return self._head.type

    @property
    def protocol(self) -> str | None:
        """`CORE` or `AMQP`."""
        return self._head.protocol

    @property
    def durable(self) -> bool | None:
        return self._head.durable

    @property
    def priority(self) -> int | None:
        """0 to 9; 4 unless somebody said otherwise."""
        return self._head.priority

    @property
    def timestamp_ms(self) -> int | None:
        """When it was sent, in milliseconds since 1970; None: nobody says."""
        return self._head.timestamp or None

    @property
    def timestamp(self) -> datetime | None:
        """The same in UTC; None where no calendar has it."""
        return _moment(self.timestamp_ms)

    @property
    def expiration_ms(self) -> int | None:
        """When its time is over, in milliseconds since 1970; None: never."""
        return self._head.expiration or None

    @property
    def expiration(self) -> datetime | None:
        return _moment(self.expiration_ms)

    @property
    def scheduled_ms(self) -> int | None:
        """When it is due, in milliseconds since 1970; None: it is due."""
        return self._head.scheduledTime

    @property
    def scheduled(self) -> datetime | None:
        return _moment(self.scheduled_ms)

    @property
    def delivery_count(self) -> int:
        """Attempts to deliver it so far."""
        return self._head.deliveryCount

    @property
    def user_id(self) -> str | None:
        """The id that its sender gave it: JMSMessageID, or the message-id of AMQP."""
        return self._head.userId

    @property
    def group_id(self) -> str | None:
        return self._head.groupId

    @property
    def duplicate_id(self) -> str | None:
        return self._head.duplicateId

    @property
    def large(self) -> bool:
        """True: its body has a file of its own."""
        return self._head.largeMessage

    @property
    def damage(self) -> str | None:
        """What of it cannot be read; None: it is whole."""
        return self._head.damage

    @once
    def properties(self) -> Mapping[str, Any]:
        """Its properties. Those of bytes are `bytes`."""
        try:
            shown = _decode_properties(self.line)
        except msgspec.DecodeError:  # as of `_head`
            envelope = self.envelope
            shown = _Properties(envelope.get("properties"), envelope.get("propertyTypes"))
        found, types = shown.properties or _PLAIN, shown.propertyTypes or _PLAIN
        return MappingProxyType({name: _value(types.get(name), value) for name, value in found.items()})

    @once
    def body(self) -> Any:
        """`str` of a text, `bytes`, `dict` of a map, `list` of a stream, any value of an AMQP value; None: no
        body. `json` decodes a text.
        """
        envelope = self.envelope
        if "body_base64" in envelope:
            return base64.b64decode(envelope["body_base64"])
        if "body" not in envelope:
            return _amqp_body(envelope)
        body = envelope["body"]
        if isinstance(body, dict):
            return {name: _typed(value) for name, value in body.items()}
        return [_typed(value) for value in body] if isinstance(body, list) else body

    def json(self) -> Any:
        """Decode a body that is JSON, as text or bytes. Raises ValueError where it is none.

        >>> Message(b'{"id":1,"type":"text","body":"{\\\\"total\\\\": 12.5}"}').json()
        {'total': 12.5}
        """
        return json.loads(self.body)

    def __repr__(self) -> str:
        place = "::".join(one for one in (self.address, self.queue) if one is not None)
        facts = [str(self.type)]
        if self.priority not in (None, 4):
            facts.append(f"priority {self.priority}")
        if self.delivery_count:
            facts.append(f"delivery count {self.delivery_count}")
        if self.timestamp is not None:
            facts.append(f"{self.timestamp:%Y-%m-%dT%H:%M:%SZ}")
        body = repr(self.body)
        shown = body if len(body) <= _BODY_SHOWN else f"{body[: _BODY_SHOWN - 3]}..."
        return f"<Message {self.id} in {place}, {', '.join(facts)}: {shown}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.line == other.line

    def __hash__(self) -> int:
        return hash(self.line)

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        return Message, (self.line,)

    def __copy__(self) -> Message:
        return self


def _moment(time_ms: int | None) -> datetime | None:
    if time_ms is None:
        return None
    if 0 <= time_ms < _EXACT_MS:
        return datetime.fromtimestamp(time_ms / 1000, UTC)
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:  # a client may write any 64-bit number as a time
        return None


def _value(kind: object, value: Any) -> Any:
    """A value as Python has it; `kind`: the type that the envelope names, if it names one."""
    if kind in _BYTES and isinstance(value, str):
        return base64.b64decode(value)
    if kind in _FLOATS and value is not None:
        return float(value)
    return value


def _typed(value: Any) -> Any:
    """`{"t": type, "v": value}` as Python has it."""
    if not isinstance(value, dict) or "v" not in value:
        return value
    kind, inner = value.get("t"), value["v"]
    match kind:
        case "list" | "array":
            return [_typed(one) for one in inner]
        case "map":
            pairs = [(_typed(key), _typed(one)) for key, one in inner]
            return {_as_key(key): one for key, one in pairs}
        case "described":
            return _typed(inner)
    return _value(kind, inner)


def _as_key(key: Any) -> Any:
    return key if not isinstance(key, list | dict) else repr(key)


def _amqp_body(envelope: Mapping[str, Any]) -> Any:
    body = (envelope.get("amqp") or {}).get("body") or {}
    if "value" in body:
        return _typed(body["value"])
    sequences = body.get("sequences")
    if sequences is None:
        return None
    return [
        [_typed(one) for one in (part if isinstance(part, list) else part.get("v", []))] for part in sequences
    ]
