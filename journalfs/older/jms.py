"""The JMS journal: destinations, connection factories, and the names they are found by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from journalfs.bindings.interpret import Emitted
from journalfs.errors import DecodeError
from journalfs.format.primitives import Reader
from journalfs.older.derived import DerivedStore

FACTORY: Final = 1
DESTINATION: Final = 2
BINDINGS: Final = 3
_TYPES: Final = ("ConnectionFactory", "Topic", "Queue")
_FILE_WORDS: Final = {"ConnectionFactory": "connection-factory", "Topic": "topic", "Queue": "queue"}

# S text, L i64, I i32, B boolean, D f64; a small letter: it may be null. C connectors.
_FACTORY_FIELDS: Final = [
    "discovery_group:s",
    "connectors:C",
    "ha:B",
    "client_id:s",
    "client_failure_check_period:L",
    "connection_ttl:L",
    "call_timeout:L",
    "cache_large_messages:B",
    "min_large_message_size:I",
    "consumer_window_size:I",
    "consumer_max_rate:I",
    "confirmation_window_size:I",
    "producer_window_size:I",
    "producer_max_rate:I",
    "block_on_acknowledge:B",
    "block_on_durable_send:B",
    "block_on_non_durable_send:B",
    "auto_group:B",
    "pre_acknowledge:B",
    "load_balancing_policy:S",
    "transaction_batch_size:I",
    "dups_ok_batch_size:I",
    "initial_wait_timeout:L",
    "use_global_pools:B",
    "scheduled_thread_pool_max_size:I",
    "thread_pool_max_size:I",
    "retry_interval:L",
    "retry_interval_multiplier:D",
    "max_retry_interval:L",
    "reconnect_attempts:I",
    "failover_on_initial_connection:B",
    "compress_large_messages:B",
    "group_id:s",
    "factory_type:I",
    "protocol_manager_factory:s",
    "deserialization_black_list:s",
    "deserialization_white_list:s",
]


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
