"""What journalfs shows, put together under the keys of a broker's account, so that both can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]

INTEGERS = {
    "max-consumers": -1,
    "consumers-before-dispatch": 0,
    "delay-before-dispatch": -1,
    "group-buckets": -1,
    "ring-size": -1,
}
"""Settings that are numbers, and the one that says nothing."""
BOOLEANS = (
    "auto-created",
    "internal",
    "exclusive",
    "last-value",
    "non-destructive",
    "purge-on-no-consumers",
    "group-rebalance",
    "configuration-managed",
    "paused",
)
TEXTS = ("user", "last-value-key", "group-first-key")
PREFIX = "user.journalfs."


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(part.capitalize() for part in rest)


def queue_account(
    status: Facts, attributes: Mapping[str, bytes], messages: Sequence[Facts]
) -> dict[str, Any]:
    """One queue. `messages`: its envelopes in delivery order."""
    queue: dict[str, Any] = {
        "name": status["queue"],
        "durable": True,
        "messages": list(messages),
    }
    for key in (
        "address",
        "routingType",
        "filter",
        "id",
        "messageCount",
        "scheduledCount",
        "deliveringCount",
    ):
        queue[key] = status[key]
    for name in BOOLEANS:
        queue[_camel(name)] = {b"true": True, b"false": False}[attributes[PREFIX + name]]
    for name, silent in INTEGERS.items():
        value = int(attributes.get(PREFIX + name, b"%d" % silent))
        if value != silent:
            queue[_camel(name)] = value
    for name in TEXTS:
        if PREFIX + name in attributes:
            queue[_camel(name)] = attributes[PREFIX + name].decode()
    return queue


def address_account(status: Facts, queues: Iterable[str]) -> dict[str, Any]:
    keys = ("id", "routingTypes", "autoCreated", "internal", "paused", "paging", "duplicateIdCacheSize")
    return {"name": status["address"], "queues": sorted(queues), **{key: status[key] for key in keys}}


def prepared_account(status: Facts, operations: Iterable[Facts]) -> dict[str, Any]:
    keys = ("xid", "formatId", "globalTransactionId", "branchQualifier")
    return {
        **{key: status[key] for key in keys},
        "operations": [
            {"operation": one["operation"], "id": one["id"], "envelope": one["message"]} for one in operations
        ],
    }
