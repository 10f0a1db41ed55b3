"""What a history is played to, and what is asked of it; each world does it by its own means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.store.creating import create_store
from tests.model.model import LIMITS, PAGE_BYTES, Kind, Message, QueueSeen, Seen

Framing = Literal["lines", "values", "whole", "envelopes", "staged"]
"""How messages are written. Only envelopes say more than a body."""
SUFFIXES: Mapping[Framing, str] = {
    "lines": ".txt",
    "values": ".json",
    "whole": ".bin",
    "envelopes": ".jsonl",
    "staged": ".txt",
}
QueuePath = tuple[str, str]
"""Names of the address and of the queue."""


class World(Protocol):
    """Whatever returns is done. A message is named by its body."""

    restarts: bool

    def create_address(self, name: str) -> None: ...

    def delete_address(self, name: str) -> None: ...

    def create_queue(self, path: QueuePath, kind: Kind) -> None: ...

    def delete_queue(self, path: QueuePath) -> None: ...

    def publish(
        self, address: str, queue: str | None, framing: Framing, messages: Sequence[Message]
    ) -> None: ...

    def offer(self, address: str, framing: Framing, message: Message) -> bool:
        """Publish to an address with a limit; False: it is refused."""

    def acknowledge(self, path: QueuePath, bodies: Sequence[str]) -> None: ...

    def acknowledge_all(self, path: QueuePath) -> None: ...

    def acknowledge_selected(self, path: QueuePath) -> None: ...

    def move(self, source: QueuePath, bodies: Sequence[str], target: QueuePath) -> None: ...

    def take(self, path: QueuePath, count: int) -> list[str]: ...

    def compete(self, path: QueuePath, count: int) -> tuple[list[str], list[str]]:
        """Two read an exclusive queue at the same time: the first takes so many messages, of which the second
        gets none; when the first has left, the second takes one. What each got.
        """

    def give_back(self, path: QueuePath) -> str: ...

    def pass_time(self, now_ms: int) -> None: ...

    def restart(self) -> None: ...

    def seen(self, path: QueuePath) -> QueueSeen: ...

    def arrived(self, path: QueuePath) -> list[str] | None:
        """Bodies in the order of arrival; None where nobody can see that."""

    def sent_on(self, path: QueuePath) -> dict[str, list[str]]:
        """Bodies in a queue of dead letters or expired messages in the order of delivery, by origin."""


def content_of(framing: Framing, messages: Sequence[Message]) -> bytes:
    """A file that says these messages."""
    if framing == "whole":
        (only,) = messages
        return only.body.encode()
    if framing == "envelopes":
        return "".join(json.dumps(envelope(message)) + "\n" for message in messages).encode()
    return "".join(f"{message.body}\n" for message in messages).encode()


def envelope(message: Message) -> dict[str, Any]:
    stated: dict[str, Any] = {"type": "text", "body": message.body, "priority": message.priority}
    named = {
        "expiration": message.expires_ms,
        "groupId": message.group,
        "duplicateId": message.duplicate_id,
        "properties": properties_of(message),
    }
    return stated | {name: value for name, value in named.items() if value}


def properties_of(message: Message) -> dict[str, Any]:
    named = {"color": message.color, "key": message.key, "_AMQ_SCHED_DELIVERY": message.due_ms}
    return {name: value for name, value in named.items() if value}


def in_order(found: Sequence[Seen], now_ms: int, count: int) -> QueueSeen:
    """From messages in the order of delivery, those that are scheduled anywhere among them."""
    due = [one._replace(due_ms=0) for one in found if one.due_ms <= now_ms]
    later = [one for one in found if one.due_ms > now_ms]
    return QueueSeen(due, sorted(later, key=lambda one: (one.due_ms, one.body)), count)


def new_store(root: Path, scan_ms: int, url: str | None = None) -> Path:
    """An empty store with the settings of every world. `scan_ms`: how often it looks for what has expired.
    `url`: the database that it is in.
    """
    if url is not None:
        root.mkdir()
        (root / "broker.xml").write_text(settings_xml(scan_ms, url))
        return root
    own: dict[str, Value] = {"journal-type": "NIO", "journal-file-size": 102_400}
    create_store(root, own, SystemClock(), warn=pytest.fail)
    (root / "journalfs.toml").write_text(settings_text(scan_ms))
    return root


def settings_xml(scan_ms: int, url: str) -> str:
    """The same of a store in a database."""
    limits = "".join(
        f'<address-setting match="*.*.{word}"><address-full-policy>{limit.policy}</address-full-policy>'
        f"<max-size-messages>{limit.messages}</max-size-messages>"
        f"<page-size-bytes>{PAGE_BYTES}</page-size-bytes></address-setting>"
        for word, limit in LIMITS.items()
    )
    place = url.replace("artemis@", "") + ("" if url.startswith("sqlite") else "?user=artemis")
    return (
        "<configuration><core><store><database-store>"
        f"<jdbc-connection-url>jdbc:{place}</jdbc-connection-url></database-store></store>"
        f"<message-expiry-scan-period>{scan_ms}</message-expiry-scan-period><address-settings>"
        '<address-setting match="#"><dead-letter-address>DLQ</dead-letter-address>'
        "<expiry-address>ExpiryQueue</expiry-address><max-delivery-attempts>3</max-delivery-attempts>"
        f"</address-setting>{limits}</address-settings></core></configuration>"
    )


def settings_text(scan_ms: int) -> str:
    """A journalfs.toml that says what the broker's configuration says."""
    return (
        'journal-type = "NIO"\njournal-file-size = 102400\n'
        f"message-expiry-scan-period = {scan_ms}\n"
        '[address-settings."#"]\ndead-letter-address = "DLQ"\nexpiry-address = "ExpiryQueue"\n'
        "max-delivery-attempts = 3\n"
    ) + "".join(
        f'[address-settings."*.*.{word}"]\naddress-full-policy = "{limit.policy}"\n'
        f"max-size-messages = {limit.messages}\npage-size-bytes = {PAGE_BYTES}\n"
        for word, limit in LIMITS.items()
    )


def kind_settings(kind: Kind, ring_size: int, selector: str) -> dict[str, str]:
    """A queue's settings, by their names in broker.xml."""
    wanted = {"routing-type": "ANYCAST" if kind.anycast else "MULTICAST"}
    if kind.filtered:
        wanted["filter"] = selector
    if kind.last_value:
        wanted |= {"last-value": "true", "last-value-key": "key"}
    if kind.ring:
        wanted["ring-size"] = str(ring_size)
    if kind.exclusive:
        wanted["exclusive"] = "true"
    return wanted
