"""What old brokers delivered from a store (`NAME.expected.json`), compared with envelopes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from journalfs.api import Queue
from journalfs.message.envelope import decode_envelope
from journalfs.windows import windows
from tests.frozen import archive_of, load_expected

SAME = ("address", "type", "durable", "priority", "timestamp")
WRITTEN_PLAIN = ("string", "boolean", "null")


@lru_cache
def _account(archive: str) -> dict[str, Any]:
    return load_expected(archive)


def expected(store: str) -> dict[str, Any]:
    """The truth about one store."""
    found: dict[str, Any] = _account(archive_of(store))["stores"][store]
    return found


def envelopes(queue: Queue) -> list[dict[str, Any]]:
    """Every live message of a queue."""
    source = queue.open_all()
    try:
        content = b"".join(bytes(piece) for piece in windows(source))
    finally:
        source.close()
    return [dict(decode_envelope(line)) for line in content.splitlines()]


def differences(truth: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the messages of a queue differ from what its consumer got, in words; none: they are the same."""
    due = [one for one in found if "scheduledTime" not in one]
    delivered = sorted(due, key=lambda one: -one["priority"])
    paged_last = [one["id"] for one in truth["messages"]]
    says = []
    if [one["id"] for one in delivered] != paged_last:
        says.append(f"order: {[one['id'] for one in delivered]} instead of {paged_last}")
    by_id = {one["id"]: one for one in found}
    wanted = [*truth["messages"], *(truth.get("scheduled") or ())]
    if set(by_id) != {one["id"] for one in wanted}:
        says.append(f"messages {sorted(by_id)}")
    counts = truth.get("delivery_counts") or {}
    for one in wanted:
        got = by_id.get(one["id"])
        if got is not None:
            says += [f"{one['id']}: {what}" for what in _differs(one, got, counts.get(str(one["id"]), 0))]
    return says


def _differs(wanted: Mapping[str, Any], got: Mapping[str, Any], deliveries: int) -> list[str]:
    pairs = {name: (wanted[name], got.get(name)) for name in SAME}
    pairs["expiration"] = wanted["expiration"], got.get("expiration", 0)
    pairs["deliveryCount"] = deliveries, got.get("deliveryCount", 0)
    pairs["scheduledTime"] = wanted.get("scheduled_time"), got.get("scheduledTime")
    pairs["properties"] = wanted["properties"], got.get("properties", {})
    types = {name: kind for name, kind in wanted["property_types"].items() if kind not in WRITTEN_PLAIN}
    pairs["propertyTypes"] = types, got.get("propertyTypes", {})
    pairs["large"] = bool(wanted.get("large")), got.get("largeMessage", False)
    if wanted.get("user_id") is not None:
        pairs["userId"] = wanted["user_id"].removeprefix("ID:"), got.get("userId")
    pairs["body"] = _body(wanted, got)
    says = [f"{name}: {a!r} became {b!r}" for name, (a, b) in pairs.items() if a != b]
    return says + [f"{name}: {got[name]!r}" for name in ("damage", "message_base64") if name in got]


def _body(wanted: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[Any, Any]:
    if "body_map" in wanted:
        return wanted["body_map"], {name: value["v"] for name, value in got["body"].items()}
    if "body_text_utf8_sha256" in wanted:
        return wanted["body_text_utf8_sha256"], hashlib.sha256(got["body"].encode()).hexdigest()
    if wanted["type"] == "text":
        return wanted["body"], got["body"]
    if wanted["type"] == "stream":
        return True, isinstance(got["body"], list)
    raw = base64.b64decode(got["body_base64"])
    if wanted["type"] == "object":
        raw = len(raw).to_bytes(4, "big") + raw
    return wanted["body_sha256"], hashlib.sha256(raw).hexdigest()
