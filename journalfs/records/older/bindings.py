"""The small journals of HornetQ and Artemis 1.x: what took effect, and bindings as they read today."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from journalfs.bindings.interpret import Emitted
from journalfs.bindings.replay import BindingsReplay
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.errors import DecodeError
from journalfs.format.address_settings import SettingValue
from journalfs.format.bindings import RoutingType
from journalfs.format.primitives import Reader
from journalfs.ids import QueueId
from journalfs.records.older.derived import DerivedStore

QUEUE_PREFIX: Final = "jms.queue."
TOPIC_PREFIX: Final = "jms.topic."
PREFIXES: Final = (QUEUE_PREFIX, TOPIC_PREFIX)

MARKER_FILTERS: Final = frozenset({"__HQX=-1", "__AMQX=-1"})
"""Of the queue that stands for a topic: they match nothing."""

_CURRENT_IDENTIFIER: Final = re.compile(
    r"('(?:[^']|'')*')|\bAMQ(UserID|Priority|Timestamp|Durable|Expiration|Size)\b"
)
_IDENTIFIER: Final = re.compile(r"('(?:[^']|'')*')|\bHQ(UserID|Priority|Timestamp|Durable|Expiration|Size)\b")


@dataclass(frozen=True, slots=True)
class OldQueue:
    """A queue binding of the source."""

    queue_id: QueueId
    name: str
    address: str
    filter: str | None
    metadata: str | None

    @property
    def routing_type(self) -> RoutingType:
        """A JMS queue is point to point; every other queue is a subscription of its address."""
        is_queue = self.address.startswith(QUEUE_PREFIX)
        return RoutingType.ANYCAST if is_queue else RoutingType.MULTICAST


ADDRESSES: Final = frozenset({"deadLetterAddress", "expiryAddress"})
"""Settings that name an address."""


def without_prefix(name: str) -> str:
    """What current clients call a JMS destination."""
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name)


class Names:
    """What queues and addresses are called in the current format: without `jms.queue.` and `jms.topic.`.
    A queue whose name another one has keeps it all.
    """

    def __init__(self, queues: Sequence[OldQueue]) -> None:
        self._taken = {one.name for one in queues}
        self._changed: dict[str, str] = {}

    def address(self, name: str) -> str:
        return self._note(name, without_prefix(name))

    def queue(self, queue: OldQueue) -> str:
        short = without_prefix(queue.name)
        return queue.name if short in self._taken - {queue.name} else self._note(queue.name, short)

    def changed(self) -> Iterable[tuple[str, str]]:
        """Old and new, of those that are otherwise now."""
        return sorted(self._changed.items())

    def _note(self, old: str, new: str) -> str:
        if old != new:
            self._changed[old] = new
        return new


def live_records(files: Iterable[tuple[str, MappedFile, Scan]]) -> tuple[list[Emitted], int]:
    """The records of a journal that took effect, in its order, and the highest id in it; each file with its
    name.
    """
    replay = BindingsReplay()
    for name, mapped, scan in files:
        replay.begin_file(name)
        for record in scan:
            replay.apply(record, mapped.copy(record.body_offset, record.body_bytes))
    return replay.live(), replay.max_id


def decode_old_queue(record: Emitted) -> OldQueue:
    """Type 21, which ends behind the filter in HornetQ. Raises `DecodeError`."""
    reader = Reader(record.body)
    name, address = reader.simple_string(), reader.simple_string()
    filter_text = reader.nullable_simple_string()
    metadata = reader.nullable_simple_string() if reader.remaining_bytes else None
    return OldQueue(QueueId(record.record_id), name, address, filter_text, metadata)


def current_filter(text: str | None) -> str | None:
    """A filter with the names that today's brokers have for what is in a header."""
    if text is None:
        return None
    return _IDENTIFIER.sub(lambda found: found[1] or f"AMQ{found[2]}", text)


def old_filter(text: str | None) -> str | None:
    """A filter with the names that HornetQ has for what is in a header."""
    if text is None:
        return None
    return _CURRENT_IDENTIFIER.sub(lambda found: found[1] or f"HQ{found[2]}", text)


# S text, L i64, I i32, B boolean, D f64, all nullable. A name is the key of today's JSON form.
_BEGINNING: Final = (
    "addressFullMessagePolicy:S maxSizeBytes:L pageSizeBytes:L pageCacheMaxSize:I dropMessagesWhenFull:B "
    "maxDeliveryAttempts:I messageCounterHistoryDayLimit:I redeliveryDelay:L"
)
_MULTIPLIED: Final = " redeliveryMultiplier:D maxRedeliveryDelay:L"
_ENDING: Final = " defaultLastValueQueue:B redistributionDelay:L sendToDLAOnNoRoute:B"
_DELAYED: Final = " deadLetterAddress:S expiryAddress:S expiryDelay:L"
_SLOW: Final = " slowConsumerThreshold:L slowConsumerCheckPeriod:L slowConsumerPolicy:S"
_JMS: Final = " autoCreateQueues:B autoDeleteQueues:B"
_LATER: Final = (
    " autoCreateJmsTopics:B autoDeleteJmsTopics:B managementBrowsePageSize:I maxSizeBytesRejectThreshold:L"
)
_LAYOUTS: Final = tuple(
    tuple(layout.split())
    for layout in (
        _BEGINNING + _MULTIPLIED + _DELAYED + _ENDING + _SLOW + _JMS + _LATER,
        _BEGINNING + _MULTIPLIED + _DELAYED + _ENDING + _SLOW + _JMS,
        _BEGINNING + _MULTIPLIED + _DELAYED + _ENDING + _SLOW,
        _BEGINNING + _MULTIPLIED + _DELAYED + _ENDING,
        _BEGINNING + " deadLetterAddress:S expiryAddress:S expiryDelay:L" + _ENDING,
        _BEGINNING + " deadLetterAddress:S expiryAddress:S" + _ENDING,
    )
)
"""By release, the latest first: one fits when it ends where the record ends."""

HORNETQ_SETTINGS: Final = tuple((key, kind) for key, _, kind in (one.partition(":") for one in _LAYOUTS[2]))
"""Settings of HornetQ 2.4, in the order of its record, each with its kind."""

WITHOUT_EQUAL: Final = frozenset({"autoCreateJmsTopics", "autoDeleteJmsTopics"})
"""Settings that today's brokers do not have."""


def decode_old_setting(body: bytes) -> tuple[str, dict[str, SettingValue]]:
    """Type 25: what it matches, and the settings that are given. Raises `DecodeError`."""
    reader = Reader(body)
    match = reader.simple_string()
    for layout in _LAYOUTS:
        values = _by_layout(Reader(body, position=reader.position), layout)
        if values is not None:
            return match, values
    raise DecodeError(reader.position, f"the settings of {match!r} have no layout that is known")


def _by_layout(reader: Reader, layout: tuple[str, ...]) -> dict[str, SettingValue] | None:
    values: dict[str, SettingValue] = {}
    readers: dict[str, Callable[[], SettingValue]] = {
        "S": reader.simple_string, "L": reader.i64, "I": reader.i32, "B": reader.boolean, "D": reader.f64,
    }  # fmt: skip
    try:
        for field in layout:
            key, _, kind = field.partition(":")
            value = reader.nullable(readers[kind])
            if value is not None:
                values[key] = value
    except DecodeError:
        return None
    return None if reader.remaining_bytes else values


# The JMS journal: destinations, connection factories, and the names they are found by.

FACTORY: Final = 1
DESTINATION: Final = 2
BINDINGS: Final = 3
_TYPES: Final = ("ConnectionFactory", "Topic", "Queue")
_FILE_WORDS: Final = {"ConnectionFactory": "connection-factory", "Topic": "topic", "Queue": "queue"}

# S text, L i64, I i32, B boolean, D f64; a small letter: it may be null. C connectors.
_FACTORY_FIELDS: Final = [
    "discovery_group:s", "connectors:C", "ha:B", "client_id:s", "client_failure_check_period:L",
    "connection_ttl:L", "call_timeout:L", "cache_large_messages:B", "min_large_message_size:I",
    "consumer_window_size:I", "consumer_max_rate:I", "confirmation_window_size:I", "producer_window_size:I",
    "producer_max_rate:I", "block_on_acknowledge:B", "block_on_durable_send:B", "block_on_non_durable_send:B",
    "auto_group:B", "pre_acknowledge:B", "load_balancing_policy:S", "transaction_batch_size:I",
    "dups_ok_batch_size:I", "initial_wait_timeout:L", "use_global_pools:B",
    "scheduled_thread_pool_max_size:I", "thread_pool_max_size:I", "retry_interval:L",
    "retry_interval_multiplier:D", "max_retry_interval:L", "reconnect_attempts:I",
    "failover_on_initial_connection:B", "compress_large_messages:B", "group_id:s", "factory_type:I",
    "protocol_manager_factory:s", "deserialization_black_list:s", "deserialization_white_list:s",
]  # fmt: skip


def describe_jms(records: Iterable[Emitted], out: DerivedStore) -> None:
    """Tell `out` of each resource, with the names that it is bound to."""
    found: dict[tuple[str, str], dict[str, object]] = {}
    for record in records:
        try:
            facts = _facts(record)
        except DecodeError as error:
            reason = f"record {record.record_id} of type {record.user_type} in the JMS journal: {error}"
            out.damage(record.file, record.offset, 0, "undecodable", reason)
            continue
        if facts is not None:
            known = found.setdefault((str(facts["type"]), str(facts["name"])), {})
            found[str(facts["type"]), str(facts["name"])] = (
                {**facts, **known} if "id" not in facts else {**known, **facts}
            )
    for (kind, name), facts in found.items():
        out.jms(f"{_FILE_WORDS[kind]}.{name}", facts)
        said = f"JMS {kind} {name!r} of the JMS journal: current brokers have no such journal"
        remedy = "clients make their own" if kind == "ConnectionFactory" else "clients find it by its name"
        out.note("jms", f"{said}; {remedy}")


def _facts(record: Emitted) -> dict[str, object] | None:
    reader = Reader(record.body)
    if record.user_type == FACTORY:
        return {"type": _TYPES[0], "name": reader.simple_string(), "id": record.record_id, **_factory(reader)}
    if record.user_type not in (DESTINATION, BINDINGS):
        return None
    at = reader.position
    kind = reader.i8()
    if not 0 <= kind < len(_TYPES):
        raise DecodeError(at, f"no kind of resource has the number {kind}")
    name = reader.simple_string()
    if record.user_type == BINDINGS:
        return {
            "type": _TYPES[kind],
            "name": name,
            "bindings": [reader.simple_string() for _ in range(reader.count())],
        }
    selector = reader.nullable_simple_string()
    return {
        "type": _TYPES[kind],
        "name": name,
        "id": record.record_id,
        "selector": selector,
        "durable": reader.boolean(),
    }


def _factory(reader: Reader) -> dict[str, object]:
    """What is there of the fields: each release has some more at the end."""
    readers: dict[str, Callable[[], object]] = {
        "S": reader.simple_string,
        "s": reader.nullable_simple_string,
        "L": reader.i64,
        "I": reader.i32,
        "B": reader.boolean,
        "D": reader.f64,
        "C": lambda: [reader.simple_string() for _ in range(reader.count())],
    }
    facts: dict[str, object] = {}
    for one in _FACTORY_FIELDS:
        if not reader.remaining_bytes:
            break
        name, _, kind = one.partition(":")
        facts[name] = readers[kind]()
    return facts
