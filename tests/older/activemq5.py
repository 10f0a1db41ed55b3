"""Compares what is read of a store of ActiveMQ 5 with what the broker that wrote it gave to its clients."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
from typing import Any

from journalfs.store.store import JournalStore

TYPES = {"message": "default"}
NUMBERS = {"byte": "b", "short": "h", "int": "i", "long": "q", "float": "f", "double": "d"}


def lines_by_queue(store: JournalStore) -> dict[str, list[dict[str, Any]]]:
    """Envelopes of each queue, in the order in which they arrived."""
    found: dict[str, list[dict[str, Any]]] = {}
    for queue in store.queues():
        source = queue.open_all()
        content = bytes(source.read(0, source.size_bytes))
        source.close()
        found[queue.name] = [json.loads(line) for line in content.splitlines()]
    return found


def subscription_queue(client: str, name: str) -> str:
    return ".".join(part.replace("\\", "\\\\").replace(".", "\\.") for part in (client, name))


def wanted(account: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Messages by the queue that they are in here."""
    found = dict(account["queues"])
    for one in account["subscriptions"].values():
        found[subscription_queue(one["client_id"], one["name"])] = one["messages"]
    return found


def differences(line: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    """What an envelope says otherwise than the old consumer."""
    properties = line.get("properties", {})
    types = line.get("propertyTypes", {})
    own = {k: v for k, v in properties.items() if not k.startswith(("__HDR_", "_AMQ_", "JMS"))}
    kind, _, name = truth["destination"].partition("://")
    said = {
        "id": properties["__HDR_MESSAGE_ID"],
        "type": line["type"],
        "durable": line["durable"],
        "priority": line["priority"],
        "timestamp": line["timestamp"],
        "expiration": line.get("expiration", 0),
        "address": line["address"],
        "routing": properties["_AMQ_ROUTING_TYPE"],
        "correlation_id": properties.get("JMSCorrelationID"),
        "jms_type": properties.get("JMSType"),
        "reply_to": properties.get("JMSReplyTo"),
        "group_id": line.get("groupId"),
        "group_sequence": properties["_AMQ_GROUP_SEQUENCE"],
        "compressed": properties.get("__HDR_COMPRESSED", False),
        "property_types": {k: _type(own[k], types.get(k)) for k in own},
    }
    wanted = {key: truth.get(key) for key in said}
    wanted["property_types"] = {k: _core_type(v) for k, v in truth["property_types"].items()}
    wanted |= {"type": TYPES.get(truth["type"], truth["type"]), "address": name}
    wanted["routing"] = int(kind == "queue")
    found = [f"{key}: {said[key]!r} != {wanted[key]!r}" for key in said if said[key] != wanted[key]]
    for key, value in truth["properties"].items():
        if not _same(own.get(key), value, types.get(key)):
            found.append(f"{key}: {own.get(key)!r} != {value!r}")
    return found + _body_differences(line, truth)


def _type(value: object, typed: str | None) -> str:
    if typed is not None:
        return typed
    return {bool: "boolean", type(None): "null"}.get(type(value), "string")


def _core_type(typed: str) -> str:
    """A core message has no map within its properties: it is JSON in a string."""
    return "string" if typed in ("map", "list") else typed


def _same(found: object, wanted: object, typed: str | None = None) -> bool:
    if isinstance(wanted, dict | list):
        return isinstance(found, str) and json.loads(found) == wanted
    if isinstance(wanted, float) or isinstance(found, float):
        if isinstance(wanted, str):
            return str(found) == wanted
        if isinstance(found, str):  # what JSON has no number for
            return repr(float(found)) == repr(wanted)
        assert isinstance(found, int | float)
        assert isinstance(wanted, int | float)
        form = "f" if typed == "float" else "d"
        return struct.pack(form, found) == struct.pack(form, wanted) or (
            math.isnan(found) and math.isnan(wanted)
        )
    return found == wanted


def _body_differences(line: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    body: Any = line.get("body")
    found = []
    if "body" in truth and body != truth["body"]:
        found.append(f"body {body!r} != {truth['body']!r}")
    if "body_text_length" in truth:
        sha = hashlib.sha256(body.encode()).hexdigest()
        if sha != truth["body_text_utf8_sha256"]:
            found.append(f"a text of {len(body)}")
    if "body_sha256" in truth:
        raw = base64.b64decode(line["body_base64"])
        if (len(raw), hashlib.sha256(raw).hexdigest()) != (truth["body_length"], truth["body_sha256"]):
            found.append(f"a body of {len(raw)} bytes")
    elif "body_base64" in truth and line["body_base64"] != truth["body_base64"]:
        found.append("a body of an object")
    if "body_map" in truth:
        found += _map_differences(body, truth["body_map"], truth.get("body_map_types", {}))
    if "body_stream" in truth:
        values = zip(body, truth["body_stream"], strict=True)
        found += [f"{one!r} != {wanted!r}" for one, wanted in values if not _same(one["v"], wanted, one["t"])]
    return found


def _map_differences(body: Any, truth: dict[str, Any], types: dict[str, str]) -> list[str]:
    found = [] if body.keys() == truth.keys() else ["keys of a map"]
    for key, wanted in truth.items():
        value = body[key]
        kind = _core_type(types.get(key, value["t"]))
        if not _same(value["v"], wanted, value["t"]) or kind != value["t"]:
            found.append(f"{key}: {value!r} != {wanted!r} {kind}")
    return found
