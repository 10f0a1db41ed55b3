"""Records of the bindings journal: addresses, queues and more (docs/format/bindings.md).

Each `decode_...` takes a record's body. Layouts of older brokers are shorter; what they lack takes the
broker's own default. Bytes of a newer broker's fields are kept in `unknown`, so that nothing is lost when a
record is written again. Record ids are not in the body: the caller has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from journalfs.errors import DecodeError
from journalfs.format.address_settings import StoredAddressSetting
from journalfs.format.primitives import (
    Reader,
    boolean,
    i8,
    i16,
    i32,
    i64,
    nullable_simple_string,
    simple_string,
)
from journalfs.ids import AddressId, QueueId

_Value = TypeVar("_Value")


class RoutingType(Enum):
    MULTICAST = 0
    ANYCAST = 1


class DivertRouting(Enum):
    """What becomes of a message's routing type when a divert or bridge forwards it."""

    MULTICAST = 0
    ANYCAST = 1
    STRIP = 2
    PASS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBinding:
    """Type 21; the record id is the queue id. Only durable queues are stored."""

    name: str
    address: str
    filter: str | None = None
    metadata: str | None
    """`user=<name>;` or empty. Never null in a store that a broker can start on."""
    auto_created: bool = False
    max_consumers: int = -1
    """-1: any number."""
    purge_on_no_consumers: bool = False
    routing_type: RoutingType
    exclusive: bool = False
    last_value: bool = False
    configuration_managed: bool = False
    """True when broker.xml defines the queue."""
    consumers_before_dispatch: int = 0
    delay_before_dispatch_ms: int = -1
    last_value_key: str | None = None
    non_destructive: bool = False
    group_rebalance: bool = False
    group_buckets: int = -1
    auto_delete: bool = False
    auto_delete_delay_ms: int = 0
    auto_delete_message_count: int = 0
    group_first_key: str | None = None
    ring_size: int = -1
    """Most messages kept; -1: any number."""
    enabled: bool = True
    group_rebalance_pause_dispatch: bool = False
    internal: bool = False
    unknown: bytes = b""

    @property
    def user(self) -> str | None:
        """Who created the queue, from the metadata."""
        for element in (self.metadata or "").split(";"):
            key, separator, value = element.partition("=")
            if key == "user" and separator and value and "=" not in value:
                return value
        return None


def decode_queue_binding(body: bytes | memoryview) -> QueueBinding:
    """Decode type 21. Fields 6 to 8 came together, each later one in its own release."""
    reader = Reader(body)
    name, address = reader.simple_string(), reader.simple_string()
    filter_text, metadata = reader.nullable_simple_string(), reader.nullable_simple_string()
    at = reader.position
    try:
        settings = _queue_settings(reader.rest())
    except DecodeError as error:
        raise DecodeError(at + error.offset, error.reason) from None
    return QueueBinding(name=name, address=address, filter=filter_text, metadata=metadata, **settings)


@lru_cache(maxsize=256)
def _queue_settings(body: bytes) -> Mapping[str, Any]:
    """All fields behind the metadata. Most queues of a store have the same."""
    reader = Reader(body)
    auto_created = reader.boolean()
    routed = reader.remaining_bytes > 0

    def optional(read: Callable[[], _Value], default: _Value) -> _Value:
        return read() if reader.remaining_bytes else default

    return {
        "auto_created": auto_created,
        "max_consumers": reader.i32() if routed else -1,
        "purge_on_no_consumers": reader.boolean() if routed else False,
        "routing_type": _routing_type(reader) if routed else RoutingType.MULTICAST,
        "exclusive": optional(reader.boolean, False),
        "last_value": optional(reader.boolean, False),
        "configuration_managed": optional(reader.boolean, False),
        "consumers_before_dispatch": optional(reader.i32, 0),
        "delay_before_dispatch_ms": optional(reader.i64, -1),
        "last_value_key": optional(reader.nullable_simple_string, None),
        "non_destructive": optional(reader.boolean, False),
        "group_rebalance": optional(reader.boolean, False),
        "group_buckets": optional(reader.i32, -1),
        "auto_delete": optional(reader.boolean, False),
        "auto_delete_delay_ms": optional(reader.i64, 0),
        "auto_delete_message_count": optional(reader.i64, 0),
        "group_first_key": optional(reader.nullable_simple_string, None),
        "ring_size": optional(reader.i64, -1),
        "enabled": optional(reader.boolean, True),
        "group_rebalance_pause_dispatch": optional(reader.boolean, False),
        "internal": optional(reader.boolean, False),
        "unknown": reader.rest(),
    }


@dataclass(frozen=True, slots=True)
class AddressBinding:
    """Type 44; the record id is the address id."""

    name: str
    routing_types: tuple[RoutingType, ...]
    auto_created: bool
    internal: bool
    unknown: bytes


def decode_address_binding(body: bytes | memoryview) -> AddressBinding:
    reader = Reader(body)
    name = reader.simple_string()
    routing_types = tuple(_routing_type(reader) for _ in range(reader.count()))
    auto_created = reader.boolean()
    internal = reader.boolean() if reader.remaining_bytes else False
    return AddressBinding(name, routing_types, auto_created, internal, reader.rest())


class Status(msgspec.Struct, frozen=True):
    """Type 22 (of a queue) or 46 (of an address)."""

    target: int
    paused: bool


class QueueStatus(Status, frozen=True):
    @property
    def queue_id(self) -> QueueId:
        return QueueId(self.target)


class AddressStatus(Status, frozen=True):
    @property
    def address_id(self) -> AddressId:
        return AddressId(self.target)


_PAUSED = 0


def decode_queue_status(body: bytes | memoryview) -> QueueStatus:
    reader = Reader(body)
    return QueueStatus(reader.i64(), reader.i16() == _PAUSED)


def decode_address_status(body: bytes | memoryview) -> AddressStatus:
    reader = Reader(body)
    return AddressStatus(reader.i64(), reader.i16() == _PAUSED)


class IdCounter(msgspec.Struct, frozen=True):
    """Type 24: the counter that feeds every id. After a crash ids continue from here."""

    value: int


def decode_id_counter(body: bytes | memoryview) -> IdCounter:
    return IdCounter(Reader(body).i64())


class Group(msgspec.Struct, frozen=True):
    """Type 20: a message group that one cluster node holds."""

    group_id: str
    cluster: str


def decode_group(body: bytes | memoryview) -> Group:
    reader = Reader(body)
    return Group(reader.simple_string(), reader.simple_string())


PERMISSIONS = (
    "send",
    "consume",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "manage",
    "browse",
    "createAddress",
    "deleteAddress",
    "view",
    "edit",
)
"""Of a security setting (type 26), in the order of the record; the last ones are missing in older records."""


class Transformer(msgspec.Struct, frozen=True):
    """A class that rewrites forwarded messages, with its parameters."""

    class_name: str
    properties: dict[str | None, str | None]


def read_transformer(reader: Reader) -> Transformer | None:
    class_name = reader.nullable_string()
    if class_name is None:
        return None
    return Transformer(
        class_name, {reader.nullable_string(): reader.nullable_string() for _ in range(reader.count())}
    )


class Divert(msgspec.Struct, frozen=True):
    """Type 27: copies or redirects what is sent to `address`."""

    name: str | None
    address: str | None
    forwarding_address: str | None
    routing_name: str | None
    exclusive: bool
    filter: str | None
    routing_type: DivertRouting
    transformer: Transformer | None


def decode_divert(body: bytes | memoryview) -> Divert:
    reader = Reader(body)
    return Divert(
        name=reader.nullable_string(),
        address=reader.nullable_string(),
        forwarding_address=reader.nullable_string(),
        routing_name=reader.nullable_string(),
        exclusive=reader.boolean(),
        filter=reader.nullable_string(),
        routing_type=read_divert_routing(reader),
        transformer=read_transformer(reader),
    )


def read_divert_routing(reader: Reader) -> DivertRouting:
    at = reader.position
    code = reader.i8()
    try:
        return DivertRouting(code)
    except ValueError:
        raise DecodeError(at, f"no routing type has the number {code}") from None


class User(msgspec.Struct, frozen=True):
    """Type 47. The password is a hash, and left out of the text form: no view of a store shows it."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"User(name={self.name!r})"


def decode_user(body: bytes | memoryview) -> User:
    reader = Reader(body)
    return User(reader.string(), reader.string())


class Roles(msgspec.Struct, frozen=True):
    """Type 48: the roles of one user."""

    user: str
    roles: tuple[str, ...]


def decode_roles(body: bytes | memoryview) -> Roles:
    reader = Reader(body)
    return Roles(reader.string(), tuple(reader.string() for _ in range(reader.count())))


def _routing_type(reader: Reader) -> RoutingType:
    at = reader.position
    code = reader.i8()
    try:
        return RoutingType(code)
    except ValueError:
        raise DecodeError(at, f"no routing type has the number {code}") from None


# Records of the bindings journal, written in the layout of the current format (docs/format/bindings.md).


def encode_queue_binding(binding: QueueBinding) -> bytes:
    """Type 21. A metadata of None would keep brokers from starting, so it is written as an empty one."""
    return b"".join(
        (
            simple_string(binding.name),
            simple_string(binding.address),
            nullable_simple_string(binding.filter),
            nullable_simple_string(binding.metadata or ""),
            boolean(binding.auto_created),
            i32(binding.max_consumers),
            boolean(binding.purge_on_no_consumers),
            i8(binding.routing_type.value),
            boolean(binding.exclusive),
            boolean(binding.last_value),
            boolean(binding.configuration_managed),
            i32(binding.consumers_before_dispatch),
            i64(binding.delay_before_dispatch_ms),
            nullable_simple_string(binding.last_value_key),
            boolean(binding.non_destructive),
            boolean(binding.group_rebalance),
            i32(binding.group_buckets),
            boolean(binding.auto_delete),
            i64(binding.auto_delete_delay_ms),
            i64(binding.auto_delete_message_count),
            nullable_simple_string(binding.group_first_key),
            i64(binding.ring_size),
            boolean(binding.enabled),
            boolean(binding.group_rebalance_pause_dispatch),
            boolean(binding.internal),
            binding.unknown,
        )
    )


def encode_address_binding(binding: AddressBinding) -> bytes:
    """Type 44."""
    types = b"".join(i8(routing_type.value) for routing_type in binding.routing_types)
    flags = boolean(binding.auto_created) + boolean(binding.internal)
    return simple_string(binding.name) + i32(len(types)) + types + flags + binding.unknown


def encode_status(status: Status) -> bytes:
    """Type 22 or 46."""
    return i64(status.target) + i16(0 if status.paused else 1)


def encode_id_counter(counter: IdCounter) -> bytes:
    """Type 24."""
    return i64(counter.value)


def encode_address_setting_json(setting: StoredAddressSetting) -> bytes:
    """Type 52. The text is written as it is: settings of the older binary form have none, and are written
    by giving them one.
    """
    if setting.text is None:
        raise ValueError(f"the settings of {setting.match!r} have no JSON text")
    return simple_string(setting.match) + simple_string(setting.text)
