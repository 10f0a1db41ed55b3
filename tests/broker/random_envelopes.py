"""Random envelopes: all that says when a message goes where, in what order and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.broker.sent import FAR_MS

Envelope = dict[str, Any]
PAST_MS = 1_700_000_000_000
LONG_MS = 4_000_000_000
UUID = "12345678-1234-1234-8234-123456789abc"
MESSAGE_IDS = ("m1", {"t": "ulong", "v": 5}, {"t": "uuid", "v": UUID}, {"t": "binary", "v": "AAEC"})
WORDS = ("a", "abc", "", "1", "true")
AMQP_ONLY = (
    {"t": "float", "v": 2.5},
    {"t": "ubyte", "v": 3},
    {"t": "ulong", "v": 4},
    {"t": "char", "v": "a"},
    {"t": "symbol", "v": "a"},
    {"t": "binary", "v": "YQ=="},
    {"t": "timestamp", "v": 5},
)
CORE_TYPES = (("double", 2.5), ("float", 2.5), ("byte", 3), ("short", 4), ("long", 4), ("char", "a"))


def picked(chance: Random, odds: dict[str, tuple[float, Sequence[Any]]]) -> dict[str, Any]:
    """Of each name, with the probability that stands there, one of its values."""
    found = {}
    for name, (probability, values) in odds.items():
        if chance.random() < probability:
            found[name] = chance.choice(values)
    return found


def amqp_envelope(chance: Random, number: int, *, times: bool = True, jms: bool = False) -> Envelope:
    """With the property `i` that number. Not `times`: nothing expires soon or is due later. `jms`: some say
    that they were sent to a JMS queue or topic.
    """
    header = picked(
        chance,
        {
            "durable": (0.8, (True, False)),
            "priority": (0.5 if times else 0, (0, 3, 4, 9, 12, 255)),
            "ttl": (0.3 if times else 0, (0, LONG_MS, 5)),
            "firstAcquirer": (0.2, (True,)),
            "deliveryCount": (0.2, (0, 3)),
        },
    )
    properties = picked(
        chance,
        {
            "messageId": (0.4, MESSAGE_IDS),
            "userId": (0.3, ("bWU=",)),
            "to": (0.3, ("elsewhere",)),
            "subject": (0.3, ("s",)),
            "replyTo": (0.3, ("r",)),
            "correlationId": (0.3, ("c", {"t": "ulong", "v": 5})),
            "contentType": (0.3, ("text/plain",)),
            "absoluteExpiryTime": (0.3, (0, FAR_MS, 1) if times else (FAR_MS,)),
            "creationTime": (0.3, (0, PAST_MS)),
            "groupId": (0.3, ("g",)),
            "groupSequence": (0.3, (7,)),
        },
    )
    annotations = picked(
        chance,
        {
            "x-opt-delivery-time": (0.2 if times else 0, (FAR_MS, 1, 0)),
            # 0 without a creation time is anew from each start of a broker on.
            "x-opt-delivery-delay": (0.2 if times else 0, (1, LONG_MS)),
            "x-opt-routing-type": (0.2 if times else 0, ({"t": "byte", "v": 1},)),
            "x-opt-jms-dest": (0.3 if jms else 0, [{"t": "byte", "v": kind} for kind in range(4)]),
            "x-opt-jms-msg-type": (0.2, ({"t": "byte", "v": 5},)),
            "x-opt-last-value": (0.2, ("a", "b")),
        },
    )
    own = {"i": number, "n": chance.randrange(9)} | picked(
        chance,
        {
            "_AMQ_GROUP_ID": (0.2, ("gg",)),
            "JMSXGroupID": (0.2, ("jj",)),
            "_AMQ_LVQ_NAME": (0.3, ("a", "b")),
            "k": (0.9, ("a", "b", "c", 1, 2, 5, True, 2.5)),
            "s": (0.8, WORDS),
            "d": (0.3, AMQP_ONLY),
            "by": (0.3, ({"t": "byte", "v": 3},)),
        },
    )
    sections: Envelope = {
        "header": header,
        "properties": properties,
        "messageAnnotations": [list(entry) for entry in annotations.items()],
        "applicationProperties": [list(entry) for entry in own.items()],
        "body": {"section": "value", "value": f"{number}"},
    }
    return {"amqp": {name: content for name, content in sections.items() if content}}


def core_envelope(chance: Random, number: int, *, times: bool = True) -> Envelope:
    """The same of a core message."""
    headers = picked(
        chance,
        {
            "priority": (0.3 if times else 0, (0, 9)),
            "expiration": (0.3, (0, 1, FAR_MS, -1) if times else (0, FAR_MS)),
            "timestamp": (0.3, (0, PAST_MS)),
            "durable": (0.3, (True, False)),
            "userId": (0.3, (UUID,)),
            "groupId": (0.2, ("g",)),
            "largeMessage": (0.1, (True,)),
        },
    )
    properties = {"i": number, "n": chance.randrange(9)} | picked(
        chance,
        {
            "_AMQ_SCHED_DELIVERY": (0.2 if times else 0, (FAR_MS, 1, 0, -1)),
            "JMSXGroupID": (0.2, ("j",)),
            "JMSCorrelationID": (0.2, ("c",)),
            "_AMQ_GROUP_SEQUENCE": (0.2, (5,)),
            "_AMQ_LVQ_NAME": (0.3, ("a", "b")),
            "x": (0.2, (None,)),
            "k": (0.9, ("a", "b", "c", 1, 2, 5, True, 2.5)),
            "s": (0.8, WORDS),
            "b": (0.7, (True, False, "true")),
        },
    )
    types = {}
    if chance.random() < 0.3:
        types["d"], properties["d"] = chance.choice(CORE_TYPES)
    return {"body": f"{number}", "properties": properties, "propertyTypes": types, **headers}


def number_of(line: Envelope) -> int:
    """The property `i` of a line."""
    return int(line["properties"]["i"])
