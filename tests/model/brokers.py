"""The world of a real broker: its clients send and consume, and its management does the rest.

Time is said to it: messages that are due are delivered, and those whose time is over expire, when the history
says so; by the broker's own clock neither is for years.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tests.broker.client import ClientError, CoreClient
from tests.broker.instance import Broker
from tests.broker.polling import eventually
from tests.model.model import LIMITS, PAGE_BYTES, RING_SIZE, SELECTOR, Kind, Message, QueueSeen, Seen
from tests.model.world import Framing, QueuePath, in_order, properties_of

DEADLINE_S = 60
TEXT = 3


class Brokers:
    restarts = False

    def __init__(self, broker: Broker, now_ms: int) -> None:
        self._now_ms = now_ms
        self._client = CoreClient(broker.port)
        for word, limit in LIMITS.items():
            settings = {
                "addressFullMessagePolicy": limit.policy,
                "maxSizeMessages": limit.messages,
                "pageSizeBytes": PAGE_BYTES,
            }
            self._client.operation("broker", "addAddressSettings", f"*.*.{word}", json.dumps(settings))

    def close(self) -> None:
        self._client.close()

    def _operation(self, path: QueuePath, name: str, *arguments: object) -> Any:
        return self._client.operation(f"queue.{path[1]}", name, *arguments)

    def _browse(self, path: QueuePath) -> list[dict[str, Any]]:
        """All that are due, in the order of delivery."""
        count = self._number(path, "messageCount") - self._number(path, "scheduledCount")
        found: list[dict[str, Any]] = self._client.do("messages-browse", queue=path[1], count=count)[
            "messages"
        ]
        assert len(found) == count
        return found

    def _number(self, path: QueuePath, attribute: str) -> int:
        return int(self._client.attribute(f"queue.{path[1]}", attribute))

    def _scheduled(self, path: QueuePath) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._operation(path, "listScheduledMessagesAsJSON"))
        return found

    def _ids(self, path: QueuePath, bodies: Sequence[str]) -> list[int]:
        ids = {_body(one): int(one["id"]) for one in self._browse(path)}
        ids |= {one["name"]: int(one["messageID"]) for one in self._scheduled(path)}
        return [ids[body] for body in bodies]

    # ---- changes ----

    def create_address(self, name: str) -> None:
        self._client.operation("broker", "createAddress", name, "MULTICAST,ANYCAST")

    def delete_address(self, name: str) -> None:
        self._client.operation("broker", "deleteAddress", name)

    def create_queue(self, path: QueuePath, kind: Kind) -> None:
        wanted: dict[str, object] = {"address": path[0], "name": path[1], "durable": True}
        wanted["routing-type"] = "ANYCAST" if kind.anycast else "MULTICAST"
        if kind.filtered:
            wanted["filter-string"] = SELECTOR
        if kind.last_value:
            wanted |= {"last-value": True, "last-value-key": "key"}
        if kind.ring:
            wanted["ring-size"] = RING_SIZE
        if kind.exclusive:
            wanted["exclusive"] = True
        self._client.operation("broker", "createQueue", json.dumps(wanted))

    def delete_queue(self, path: QueuePath) -> None:
        self._client.operation("broker", "destroyQueue", path[1])

    def publish(self, address: str, queue: str | None, framing: Framing, messages: Sequence[Message]) -> None:
        target = address if queue is None else f"{address}::{queue}"
        for message in messages:
            properties = {**properties_of(message), "name": message.body}
            stated: dict[str, object] = {"priority": message.priority, "body": message.body}
            if framing == "whole":
                body = base64.b64encode(message.body.encode()).decode()
                stated |= {"type": "bytes", "body": body}
            if message.expires_ms:
                stated["expires_at_ms"] = message.expires_ms
            if message.group:
                properties["_AMQ_GROUP_ID"] = message.group
            if message.duplicate_id:
                stated["duplicate_id"] = message.duplicate_id
            self._client.send(target, properties=properties, **stated)

    def offer(self, address: str, framing: Framing, message: Message) -> bool:
        try:
            self.publish(address, None, framing, [message])
        except ClientError as error:
            if "AMQ229102" not in str(error):
                raise
            return False
        return True

    def acknowledge(self, path: QueuePath, bodies: Sequence[str]) -> None:
        for message_id in self._ids(path, bodies):
            assert self._operation(path, "removeMessage", message_id)

    def acknowledge_all(self, path: QueuePath) -> None:
        self._operation(path, "removeAllMessages")

    def acknowledge_selected(self, path: QueuePath) -> None:
        self._operation(path, "removeMessages", SELECTOR)

    def move(self, source: QueuePath, bodies: Sequence[str], target: QueuePath) -> None:
        for message_id in self._ids(source, bodies):
            assert self._operation(source, "moveMessage", message_id, target[1])

    # ---- consuming ----

    def take(self, path: QueuePath, count: int) -> list[str]:
        bodies = {int(one["id"]): _body(one) for one in self._browse(path)}
        return [bodies[message_id] for message_id in self._client.consume(path[1], count)]

    def compete(self, path: QueuePath, count: int) -> tuple[list[str], list[str]]:
        bodies = {int(one["id"]): _body(one) for one in self._browse(path)}
        answer = self._client.do("compete", queue=path[1], count=count)
        first, second = answer["first"], answer["second"]
        return [bodies[one] for one in first], [bodies[one] for one in second]

    def give_back(self, path: QueuePath) -> str:
        bodies = {int(one["id"]): _body(one) for one in self._browse(path)}
        self._client.do("begin", session="failing")
        (message_id,) = self._client.consume(path[1], 1, session="failing")
        self._client.do("rollback", session="failing")
        self._client.do("end", session="failing")
        eventually(
            lambda: self._number(path, "deliveringCount") == 0, deadline_s=DEADLINE_S, what="given back"
        )
        return bodies[message_id]

    # ---- time ----

    def pass_time(self, now_ms: int) -> None:
        self._now_ms = now_ms
        for path in self._paths():
            for one in self._scheduled(path):
                if one["_AMQ_SCHED_DELIVERY"] <= now_ms:
                    self._operation(path, "deliverScheduledMessage", int(one["messageID"]))
            eventually(partial(self._none_is_due, path), deadline_s=DEADLINE_S, what="delivered when due")
            eventually(partial(self._none_is_over, path), deadline_s=DEADLINE_S, what="expired when over")

    def _none_is_due(self, path: QueuePath) -> bool:
        return all(one["_AMQ_SCHED_DELIVERY"] > self._now_ms for one in self._scheduled(path))

    def _none_is_over(self, path: QueuePath) -> bool:
        """What was due a moment ago may still be on its way into the queue."""
        self._operation(path, "expireMessages", f"AMQExpiration > 0 AND AMQExpiration <= {self._now_ms}")
        return all(not 0 < one["expiration"] <= self._now_ms for one in self._browse(path))

    def _paths(self) -> list[QueuePath]:
        query = json.dumps({"field": "", "operation": "", "value": ""})
        listed = json.loads(self._client.operation("broker", "listQueues", query, 1, 5000))["data"]
        return [
            (one["address"], one["name"]) for one in listed if "." in one["name"] and one["name"][0] == "h"
        ]

    def restart(self) -> None:
        raise AssertionError("its own clock would schedule again what was due by the history's")

    # ---- what is there ----

    def seen(self, path: QueuePath) -> QueueSeen:
        found = [
            Seen(
                _body(one),
                one["priority"],
                one["expiration"],
                _property(one, "_AMQ_GROUP_ID"),
                one["deliveryCount"],
                0,
            )
            for one in self._browse(path)
        ]
        for one in self._scheduled(path):
            group = one.get("_AMQ_GROUP_ID", one.get("groupID", ""))
            found.append(
                Seen(one["name"], one["priority"], one["expiration"], group, 0, one["_AMQ_SCHED_DELIVERY"])
            )
        return in_order(found, self._now_ms, self._number(path, "messageCount"))

    def arrived(self, path: QueuePath) -> list[str] | None:
        return None

    def sent_on(self, path: QueuePath) -> dict[str, list[str]]:
        letters = [
            (one["priority"], int(one["id"]), _property(one, "_AMQ_ORIG_QUEUE"), _body(one))
            for one in self._browse(path)
        ]
        # A copy of what was due already is scheduled again, by the broker's own clock.
        letters += [
            (one["priority"], int(one["messageID"]), one["_AMQ_ORIG_QUEUE"], one["name"])
            for one in self._scheduled(path)
        ]
        found: dict[str, list[str]] = {}
        for _, _, origin, body in sorted(letters, key=lambda letter: (-letter[0], letter[1])):
            found.setdefault(origin, []).append(body)
        return found


def _property(seen: Mapping[str, Any], name: str) -> str:
    return str(seen["properties"].get(name, {"v": ""})["v"])


def _body(seen: Mapping[str, Any]) -> str:
    body = base64.b64decode(seen["body"])
    # A text is a byte that says that there is one, its length, and UTF-16.
    return body[5:].decode("utf-16-le") if seen["type"] == TEXT else body.decode()
