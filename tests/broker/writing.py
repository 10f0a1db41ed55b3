"""Stores that journalfs writes and a broker opens: both sides of it, and what each says is there."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from journalfs.store.write.opening import change
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from tests.broker.amqp_client import browse_by_amqp
from tests.broker.client import ClientError, CoreClient
from tests.broker.instance import TOLD_TO_STOP, Broker
from tests.broker.polling import eventually
from tests.cli.running import journalfs
from tests.reference.journal import EVENT, read_folder
from tests.store.publishing import publish_file

CHECKSUM = 99
T = TypeVar("T")
Seen = dict[str, Any]
"""A message as the client program describes it."""

QUEUES_MAX = 5000
NO_FILTER = '{"field":"","operation":"","value":""}'
COUNTERS = (
    "consumerCount",
    "messagesAdded",
    "messagesAcked",
    "messagesExpired",
    "messagesKilled",
    "directDeliver",
)
"""What a broker counts since its start."""


# ---- journalfs ----


def write_in(root: Path, work: Callable[[WritingStore], Awaitable[T]]) -> T:
    """Open the store for writing, do `work` while the store does its own, and close it."""
    return change(root, work)


async def make_queues(store: WritingStore, *names: str) -> None:
    """Each with an address of its name."""
    for name in names:
        await store.create_address(name)
        await store.create_queue(name, name)


publish = publish_file


def queue_in(store: WritingStore, name: str) -> StoreQueue:
    (found,) = (
        queue
        for address in store.addresses()
        for queue in address.queues()
        if queue.name == name and isinstance(queue, StoreQueue)
    )
    return found


def lines_in(store: WritingStore, name: str) -> list[dict[str, Any]]:
    """The envelopes of a queue in arrival order."""
    source = queue_in(store, name).open_all()
    try:
        return [json.loads(line) for line in bytes(source.read(0, source.size_bytes)).splitlines()]
    finally:
        source.close()


def delivery_order(store: WritingStore, name: str) -> list[int]:
    """Ids as `.messages` lists them."""
    listing = queue_in(store, name).listing()
    return [int(listing.message_id(index)) for index in range(len(listing))]


# ---- the broker ----


@dataclass
class Account:
    """What a running broker says that it has."""

    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    addresses: dict[str, dict[str, str]] = field(default_factory=dict)
    messages: dict[str, list[Seen]] = field(default_factory=dict)
    """By queue, as a browser lists them."""
    scheduled: dict[str, list[int]] = field(default_factory=dict)
    prepared: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Warnings and errors that it logged from its start on."""


def _listed(client: CoreClient) -> list[dict[str, Any]]:
    """All queues. None of them where one went while the broker listed them, which it stumbles over."""
    try:
        told = client.operation("broker", "listQueues", NO_FILTER, 1, QUEUES_MAX)
    except ClientError as error:
        if 'because "q" is null' in str(error):
            return []
        raise
    listed: list[dict[str, Any]] = json.loads(told)["data"]
    return listed


def account_of(client: CoreClient, *, leave_out: Sequence[str] = (), amqp_port: int | None = None) -> Account:
    """Everything there is. Queues in `leave_out` are not browsed.

    With the port of the broker, queues that AMQP clients use, as their names say, are browsed by one; then a
    hash of what it gets is all there is of a message. A core client does not get some of those messages, and
    of others whatever the broker converted last.
    """
    account = Account()
    for queue in eventually(partial(_listed, client), deadline_s=60, what="the broker lists its queues"):
        if queue["temporary"] == "true" or queue["name"].startswith("activemq.management"):
            continue
        name = queue["name"]
        account.queues[name] = {key: value for key, value in queue.items() if key not in COUNTERS}
        held = int(queue["scheduledCount"]) + int(queue["deliveringCount"])
        count = int(queue["messageCount"]) - held
        if name in leave_out or not count:
            pass
        elif amqp_port is not None and "amqp" in name:
            encoded = browse_by_amqp(amqp_port, queue["address"], name, count)
            account.messages[name] = [{"amqp": hashlib.sha256(one).hexdigest()} for one in encoded]
        else:
            account.messages[name] = client.do("messages-browse", queue=name, count=count)["messages"]
        if int(queue["scheduledCount"]):
            due = json.loads(client.operation(f"queue.{name}", "listScheduledMessagesAsJSON"))
            account.scheduled[name] = [int(one["messageID"]) for one in due]
    for address in json.loads(client.operation("broker", "listAddresses", NO_FILTER, 1, QUEUES_MAX))["data"]:
        if address["temporary"] != "true" and not address["name"].startswith("activemq."):
            kept = ("name", "id", "routingTypes", "queueCount", "autoCreated", "paused", "paging")
            account.addresses[address["name"]] = {key: address[key] for key in kept}
    account.prepared = sorted(client.do("xa-recover", session="recover")["prepared"])
    client.do("end", session="recover")
    return account


OF_ITS_CLIENTS = ("AMQ222230", "AMQ222061", "AMQ222107")
"""Warned of by a broker that stops while a client is connected, as it happens: whom it would tell that the
client's session ends has stopped before; or it finds the connection failed, and clears up the session.
"""
_CHANGING = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+ ")
"""The time before each line of a log."""


def complaints(log: str) -> list[str]:
    """What a broker warns of, without the times."""
    running, _, stopping = log.partition(TOLD_TO_STOP)
    of_its_end = [one for one in stopping.splitlines() if not any(code in one for code in OF_ITS_CLIENTS)]
    lines = [*running.splitlines(), *of_its_end]
    return [_CHANGING.sub("", line) for line in lines if " WARN " in line or " ERROR " in line]


def take(client: CoreClient, queue: str, count: int) -> list[Seen]:
    """Take exactly so many messages, which have to be all there are."""
    messages: list[Seen] = client.do("messages-take", queue=queue, count=count)["messages"]
    return messages


def lay_store(store: Path, root: Path, journal_type: str | None) -> Broker:
    """A copy of an unpacked store as a broker's instance, with another journal type if one is given."""
    shutil.copytree(store / "data", root / "data", ignore=shutil.ignore_patterns("journalfs"))
    config = (store / "broker.xml").read_text()
    if journal_type is not None:
        config = _replaced(config, "journal-type", journal_type)
    # Nothing happens by itself.
    config = _replaced(config, "message-expiry-scan-period", "-1")
    broker = Broker(root, config=config)
    broker.lay_out()
    return broker


def with_new_store(broker: Broker) -> Broker:
    """A broker that never ran, over a store that journalfs makes for its settings."""
    broker.lay_out()
    done = journalfs("create", broker.root)
    assert done.returncode == 0, done.stderr
    return broker


def _replaced(config: str, name: str, value: str) -> str:
    text, count = re.subn(rf"<{name}>[^<]*</{name}>", f"<{name}>{value}</{name}>", config)
    assert count == 1, name
    return text


# ---- what is expected of a message ----


def difference(seen: Sequence[Seen], wanted: Sequence[Mapping[str, Any]]) -> list[str]:
    """How messages differ from those wanted; of each, the keys that are wanted count."""
    found = []
    if len(seen) != len(wanted):
        found.append(f"{len(seen)} messages instead of {len(wanted)}")
    for index, (one, other) in enumerate(zip(seen, wanted, strict=False)):
        for key, value in other.items():
            if one.get(key) != value:
                found.append(f"message {index}: {key} is {one.get(key)!r:.300}, not {value!r:.300}")
    return found


def body_text(text: str | None) -> bytes:
    """The body of a core text message."""
    if text is None:
        return b"\0"
    encoded = text.encode("utf-16-le", "surrogatepass")
    return b"\1" + len(encoded).to_bytes(4) + encoded


def plain_body(seen: Seen) -> bytes:
    return base64.b64decode(seen["body"])


def checksums(folder: Path) -> int:
    """How many records of a journal are checksums of others."""
    return sum(
        record.kind == EVENT and record.user_type == CHECKSUM
        for file in read_folder(folder)
        for record in file.scan.records
    )
