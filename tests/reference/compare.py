"""Compare what a reader says of a store with the broker's own account of it.

`compare_store(expected, actual)` is the truth test. `expected` is an account, see `tests/stores/README.md`;
`actual` is `{addresses, queues: [{name, address, ..., messages}], preparedTransactions}` with whole envelopes
in delivery order. Differences come back as lines of text; none means the reader tells the truth.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Json = Any

QUEUE_FLAGS = (
    "autoCreated",
    "user",
    "internal",
    "exclusive",
    "lastValue",
    "lastValueKey",
    "nonDestructive",
    "ringSize",
    "maxConsumers",
    "purgeOnNoConsumers",
    "consumersBeforeDispatch",
    "delayBeforeDispatch",
    "groupRebalance",
    "groupBuckets",
    "groupFirstKey",
    "configurationManaged",
    "paused",
)
ADDRESS_FLAGS = ("autoCreated", "paused", "duplicateIdCacheSize")
"""Not `internal`: management does not say it of addresses."""
COUNTS = ("messageCount", "scheduledCount", "deliveringCount")
HASHED_KEYS = {"bodySize", "bodySha256", "textLength", "textSha256"}
REVERSIBLE_KEYS = {"extraProperties", "messageFormat", "persister", "message_base64", "large_base64"}
"""Keys of an envelope that an account has no word for: they only let a message be written back as it was."""
MESSAGE_TYPES = {0: "default", 2: "object", 3: "text", 4: "bytes", 5: "map", 6: "stream"}


def compare_store(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> list[str]:
    """Differences between the broker's account and a reader's, field by field."""
    found = [*_compare_addresses(expected["addresses"], actual["addresses"], expected["queues"])]
    queues = {(queue["address"], queue["name"]): queue for queue in actual["queues"]}
    wanted = {(queue["address"], queue["name"]): queue for queue in expected["queues"]}
    found += _sets("queue", wanted, queues)
    for key in wanted.keys() & queues.keys():
        found += compare_queue(wanted[key], queues[key])
    found += compare_prepared(expected.get("preparedTransactions", []), actual["preparedTransactions"])
    for outcome in ("heuristicallyCommitted", "heuristicallyRolledBack"):
        if outcome in actual and expected.get(outcome, []) != actual[outcome]:
            found.append(f"{outcome}: {expected.get(outcome, [])} != {actual[outcome]}")
    return found


def _sets(what: str, expected: Iterable[Json], actual: Iterable[Json]) -> Iterator[str]:
    left, right = set(expected), set(actual)
    for name in sorted(left - right):
        yield f"{what} {name} is missing"
    for name in sorted(right - left):
        yield f"{what} {name} does not exist"


def _fields(
    place: str, keys: Iterable[str], expected: Mapping[str, Json], actual: Mapping[str, Json]
) -> Iterator[str]:
    """Compare optional fields: absent, null, false and 0 say the same."""
    for key in keys:
        left, right = expected.get(key), actual.get(key)
        if (left or right) and left != right:
            yield f"{place}: {key}: {left!r} != {right!r}"


def _compare_addresses(
    expected: Sequence[Json], actual: Sequence[Json], queues: Sequence[Json]
) -> Iterator[str]:
    left = {address["name"]: address for address in expected}
    right = {address["name"]: address for address in actual}
    yield from _sets("address", left, right)
    for name in left.keys() & right.keys():
        place = f"address {name}"
        yield from _fields(place, ("id", *ADDRESS_FLAGS), left[name], right[name])
        if sorted(left[name]["routingTypes"]) != sorted(right[name]["routingTypes"]):
            yield f"{place}: routingTypes: {left[name]['routingTypes']} != {right[name]['routingTypes']}"
        # Management also lists queues of wildcard addresses that match this one; these live elsewhere.
        own = [queue for queue in left[name]["queues"] if not _of_wildcard(queue, name, queues)]
        if sorted(own) != sorted(right[name]["queues"]):
            yield f"{place}: queues: {own} != {right[name]['queues']}"


def _of_wildcard(queue: str, address: str, queues: Sequence[Json]) -> bool:
    homes = {one["address"] for one in queues if one["name"] == queue}
    return address not in homes and any(home.endswith("#") or "*" in home for home in homes)


def compare_queue(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> Iterator[str]:
    place = f"queue {expected['address']}::{expected['name']}"
    keys = ("routingType", "filter", "durable", "id", *QUEUE_FLAGS, *COUNTS)
    yield from _fields(
        place, (key for key in keys if key in COUNTS or key in actual or key in expected), expected, actual
    )
    yield from compare_messages(place, expected, actual["messages"])


def compare_messages(place: str, expected_queue: Mapping[str, Json], actual: Sequence[Json]) -> Iterator[str]:
    """`actual`: whole envelopes, in delivery order, the scheduled ones last by their time."""
    expected = expected_queue.get("messages", [])
    left, right = [one["id"] for one in expected], [one["id"] for one in actual]
    if left != right:
        yield f"{place}: messages {_differing(left, right)}"
    by_id = {one["id"]: one for one in actual}
    managed = expected_queue.get("contentFrom") == "management"
    for message in expected:
        other = by_id.get(message["id"])
        if other is not None:
            where = f"{place}: message {message['id']}"
            yield from compare_message(where, message, other, expected_queue["address"], managed=managed)


def _differing(left: Sequence[int], right: Sequence[int]) -> str:
    missing = [one for one in left if one not in set(right)]
    extra = [one for one in right if one not in set(left)]
    if missing or extra:
        return f"missing {missing[:10]} ({len(missing)}), extra {extra[:10]} ({len(extra)})"
    first = next(at for at, pair in enumerate(zip(left, right, strict=True)) if pair[0] != pair[1])
    return f"out of order from {first}: {left[first : first + 5]} != {right[first : first + 5]}"


def compare_message(
    place: str,
    expected: Mapping[str, Json],
    actual: Mapping[str, Json],
    queue_address: str,
    *,
    managed: bool = False,
) -> Iterator[str]:
    """Compare one message of an account with a whole envelope.

    `managed`: the account comes from management, so it knows neither user id nor property types.
    """
    line = {key: value for key, value in actual.items() if key not in {"queue", *REVERSIBLE_KEYS}}
    wanted = dict(expected)
    wanted.setdefault("address", queue_address)
    if wanted.get("scheduledTime") == -1:  # the broker says that it is scheduled, not until when
        if line.get("scheduledTime", 0) <= 0:
            yield f"{place}: not scheduled"
        wanted.pop("scheduledTime")
        line.pop("scheduledTime", None)
    if managed:
        for key in {"userId", "propertyTypes"} - wanted.keys():
            line.pop(key, None)
    yield from _compare_body(place, wanted, line)
    yield from _compare_amqp(place, wanted.pop("amqp", None), line.pop("amqp", None))
    types = wanted.get("propertyTypes", {})
    left, right = wanted.pop("properties", {}), line.pop("properties", {})
    yield from _sets(f"{place}: property", left, right)
    for key in left.keys() & right.keys():
        yield from _compare_value(f"{place}: property {key!r}", types.get(key), left[key], right[key])
    for key in sorted(wanted.keys() | line.keys()):
        if key not in wanted or key not in line:
            yield f"{place}: {key} only in the {'account' if key in wanted else 'envelope'}"
        elif _differ(wanted[key], line[key]):
            yield f"{place}: {key}: {wanted[key]!r} != {line[key]!r}"


def _differ(left: Json, right: Json) -> bool:
    return type(left) is not type(right) or bool(left != right)


def _compare_value(place: str, kind: str | None, left: Json, right: Json) -> Iterator[str]:
    """Floats are equal when their bits are: an account may spell the same float with other digits."""
    if kind in ("float", "double") and not isinstance(left, str) and not isinstance(right, str):
        layout = ">f" if kind == "float" else ">d"
        if struct.pack(layout, left) != struct.pack(layout, right):
            yield f"{place}: {left!r} != {right!r}"
    elif _differ(left, right):
        yield f"{place}: {left!r:.200} != {right!r:.200}"


def _compare_typed(place: str, left: Json, right: Json) -> Iterator[str]:
    """Typed values, `{"t": type, "v": value}`, however nested; an account hashes the long ones."""
    if isinstance(left, dict) and isinstance(right, dict) and "t" in left:
        if "textSha256" in left or "sha256" in left:
            yield from _compare_hashed(place, left, right)
            return
        if left.keys() != right.keys() or left["t"] != right["t"]:
            yield f"{place}: {left!r:.200} != {right!r:.200}"
            return
        if "descriptor" in left:
            yield from _compare_typed(f"{place}.descriptor", left["descriptor"], right["descriptor"])
        if isinstance(left["v"], (list, dict)):
            yield from _compare_typed(place, left["v"], right["v"])
        else:
            yield from _compare_value(place, left["t"], left["v"], right["v"])
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for at, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _compare_typed(f"{place}[{at}]", one, other)
    elif isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for key in left:
            yield from _compare_typed(f"{place}.{key}", left[key], right[key])
    elif _differ(left, right):
        yield f"{place}: {left!r:.200} != {right!r:.200}"


def _text_facts(text: str) -> dict[str, Json]:
    encoded = text.encode("utf-16-le", "surrogatepass")
    plain = encoded.decode("utf-16-le", "replace").encode()
    return {"textLength": len(encoded) // 2, "textSha256": hashlib.sha256(plain).hexdigest()}


def _compare_hashed(place: str, left: Mapping[str, Json], right: Mapping[str, Json]) -> Iterator[str]:
    facts: dict[str, Json] = {"t": right["t"]}
    if "textSha256" in left:
        facts |= _text_facts(right["v"])
    else:
        content = base64.b64decode(right["v"])
        facts |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    yield from (
        f"{place}: {key}: {left[key]!r} != {facts.get(key)!r}" for key in left if left[key] != facts.get(key)
    )


def _encoded_text(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    units = text.encode("utf-16-le", "surrogatepass")
    return b"\1" + struct.pack(">i", len(units)) + units


def _encoded_body(line: Mapping[str, Json]) -> bytes:
    """A core body as the broker encodes it, rebuilt from the envelope. Not of maps: their order is lost."""
    if line["type"] == "text":
        return _encoded_text(line["body"])
    content = base64.b64decode(line["body_base64"], validate=True)
    return struct.pack(">i", len(content)) + content if line["type"] == "object" else content


def _compare_body(place: str, wanted: dict[str, Json], line: dict[str, Json]) -> Iterator[str]:
    """Take the bodies out of both and compare them; the account's may be given as size and hash."""
    if "bodySha256" in wanted:
        if "body" not in line and "body_base64" not in line:
            yield f"{place}: no body"
            return
        encoded = _encoded_body(line)
        facts = {"bodySize": len(encoded), "bodySha256": hashlib.sha256(encoded).hexdigest()}
        if wanted["type"] == "text":
            facts |= _text_facts(line["body"])
        for key in HASHED_KEYS & wanted.keys():
            if wanted[key] != facts.get(key):
                yield f"{place}: {key}: {wanted[key]!r} != {facts.get(key)!r}"
            del wanted[key]
        line.pop("body", None)
        line.pop("body_base64", None)
    elif wanted["protocol"] == "AMQP" and not {"body", "body_base64"} & wanted.keys():
        yield from _compare_long_amqp_body(place, wanted["amqp"]["body"], line)
    elif wanted["type"] in ("map", "stream") and "body" in wanted and "body" in line:
        yield from _compare_typed(f"{place}: body", wanted.pop("body"), line.pop("body"))


def _compare_long_amqp_body(place: str, section: Mapping[str, Json], line: dict[str, Json]) -> Iterator[str]:
    """An account gives a long string or data section by its hash only, and no body beside it."""
    if section["section"] == "data":
        content = base64.b64decode(line.pop("body_base64", ""), validate=True)
        facts = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        wanted = {"size": section["size"], "sha256": section["sha256"]}
    elif "textSha256" in section.get("value", {}):
        facts = _text_facts(line.pop("body", ""))
        wanted = {key: section["value"][key] for key in facts}
    else:
        return
    if facts != wanted:
        yield f"{place}: body: {wanted} != {facts}"


def _compare_amqp(place: str, left: Json, right: Json) -> Iterator[str]:
    if left is None or right is None:
        if left is not right:
            yield f"{place}: amqp sections: {left!r:.200} != {right!r:.200}"
        return
    # A section that is there but empty says nothing.
    left = {key: section for key, section in left.items() if section}
    right = {key: section for key, section in right.items() if section}
    yield from _compare_typed_body(f"{place}: amqp body", left.pop("body"), right.pop("body"))
    # Delivery annotations are between two peers: the broker does not send on what it stored.
    for key in sorted((left.keys() | right.keys()) - {"deliveryAnnotations"}):
        yield from _compare_typed(f"{place}: amqp {key}", left.get(key), right.get(key))


def _compare_typed_body(place: str, left: Json, right: Json) -> Iterator[str]:
    if left.get("section") == "data":
        # The bytes themselves stand once in an envelope, as body_base64.
        for key in ("section", "sections", "size"):
            if left[key] != right.get(key):
                yield f"{place}: {key}: {left[key]!r} != {right.get(key)!r}"
        return
    yield from _compare_typed(place, left, right)


def compare_prepared(expected: Sequence[Json], actual: Sequence[Json]) -> Iterator[str]:
    """`actual`: `{xid, formatId, globalTransactionId, branchQualifier, operations}`, see `_managed`."""
    left, right = {tx["xid"]: tx for tx in expected}, {tx["xid"]: tx for tx in actual}
    yield from _sets("prepared transaction", left, right)
    for xid in left.keys() & right.keys():
        place = f"prepared transaction {left[xid]['globalTransactionId']}"
        yield from _fields(
            place, ("formatId", "globalTransactionId", "branchQualifier"), left[xid], right[xid]
        )
        wanted = sorted(json.dumps(_operation(one), sort_keys=True) for one in left[xid]["operations"])
        found = sorted(json.dumps(_managed(one), sort_keys=True) for one in right[xid]["operations"])
        yield from (f"{place}: only in the account: {one}" for one in wanted if one not in found)
        yield from (f"{place}: not in the account: {one}" for one in found if one not in wanted)
        if len(wanted) != len(found):
            yield f"{place}: {len(wanted)} operations != {len(found)}"


def _operation(operation: Mapping[str, Json]) -> Json:
    return {key: operation[key] for key in ("operation", "id", "address", "message")}


def _managed(operation: Mapping[str, Json]) -> Json:
    """An operation as management lists it, made from the envelope of its message."""
    line = operation["envelope"]
    codes = {name: code for code, name in MESSAGE_TYPES.items()}
    message = {
        "durable": line["durable"],
        "expiration": line.get("expiration", 0),
        "priority": line["priority"],
        "timestamp": line["timestamp"],
        "type": codes[line["type"]],
        **line.get("properties", {}),
    }
    if "userId" in line:
        message["userID"] = f"ID:{line['userId']}"
    return {
        "operation": operation["operation"],
        "id": operation["id"],
        "address": line["address"],
        "message": message,
    }
