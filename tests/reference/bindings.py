"""Addresses and queues from a bindings journal (format page "messages", section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.reference.journal import Replay
from tests.reference.primitives import Cursor

ROUTING_TYPES = {0: "MULTICAST", 1: "ANYCAST"}
QUEUE, QUEUE_STATUS, ADDRESS, ADDRESS_STATUS = 21, 22, 44, 46

# Fields after the routing type: key, reader, the value that says nothing. An older record may end before any.
LATER_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("exclusive", "boolean", False),
    ("lastValue", "boolean", False),
    ("configurationManaged", "boolean", False),
    ("consumersBeforeDispatch", "i32", 0),
    ("delayBeforeDispatch", "i64", -1),
    ("lastValueKey", "nullable_simple_string", None),
    ("nonDestructive", "boolean", False),
    ("groupRebalance", "boolean", False),
    ("groupBuckets", "i32", -1),
    ("autoDelete", "boolean", False),
    ("autoDeleteDelay", "i64", 0),
    ("autoDeleteMessageCount", "i64", 0),
    ("groupFirstKey", "nullable_simple_string", None),
    ("ringSize", "i64", -1),
    ("enabled", "boolean", True),
    ("groupRebalancePauseDispatch", "boolean", False),
    ("internal", "boolean", False),
)


@dataclass
class Bindings:
    addresses: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By record id."""
    queues: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By queue id."""


def _queue(body: bytes) -> dict[str, Any]:
    cursor = Cursor(body)
    queue: dict[str, Any] = {
        "name": cursor.simple_string(),
        "address": cursor.simple_string(),
        "filter": cursor.nullable_simple_string(),
        "durable": True,
    }
    for part in (cursor.nullable_simple_string() or "").split(";"):
        key, _, value = part.partition("=")
        if key == "user":
            queue["user"] = value
    if cursor.boolean():
        queue["autoCreated"] = True
    routing_type = 0
    if cursor.left():
        max_consumers = cursor.i32()
        if max_consumers != -1:
            queue["maxConsumers"] = max_consumers
        if cursor.boolean():
            queue["purgeOnNoConsumers"] = True
        routing_type = cursor.i8()
    queue["routingType"] = ROUTING_TYPES[routing_type]
    for key, reader, silent in LATER_FIELDS:
        if cursor.left() == 0:
            break
        value = getattr(cursor, reader)()
        if value != silent:
            queue[key] = value
    return queue


def _address(body: bytes) -> dict[str, Any]:
    cursor = Cursor(body)
    name = cursor.simple_string()
    routing_types = [ROUTING_TYPES[cursor.i8()] for _ in range(cursor.i32())]
    address: dict[str, Any] = {"name": name, "routingTypes": sorted(routing_types)}
    if cursor.boolean():
        address["autoCreated"] = True
    if cursor.left() and cursor.boolean():
        address["internal"] = True
    return address


def bindings(replay: Replay) -> Bindings:
    found = Bindings()
    for record in replay.records:
        if record.user_type == QUEUE:
            found.queues[record.record_id] = {"id": record.record_id, **_queue(record.body)}
        elif record.user_type == ADDRESS:
            found.addresses[record.record_id] = {"id": record.record_id, **_address(record.body)}
        elif record.user_type in (QUEUE_STATUS, ADDRESS_STATUS):
            # Of what is known of the binding by then: its next record takes the place of that.
            of = found.queues if record.user_type == QUEUE_STATUS else found.addresses
            cursor = Cursor(record.body)
            binding = of.get(cursor.i64())
            if cursor.i16() == 0 and binding is not None:
                binding["paused"] = True
    paused_addresses = {address["name"] for address in found.addresses.values() if address.get("paused")}
    for queue in found.queues.values():
        if queue["address"] in paused_addresses:
            queue["paused"] = True
    return found
