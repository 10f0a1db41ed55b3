"""Writes an AMQ Message Store of ActiveMQ 5 of a store of the current format: `convert --to amq`.

Data logs hold all of it: subscriptions, then messages, then what transactions in doubt did. A broker replays
them when it starts, since the reference store beside them says that it was not closed.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, cast

from journalfs import door
from journalfs.broker.publish.envelope_message import read_envelope
from journalfs.errors import BadEnvelope, DecodeError
from journalfs.format.bindings import RoutingType
from journalfs.format.core_message import split_message
from journalfs.message.outgoing import CoreMessage
from journalfs.records.older import openwire
from journalfs.records.older import openwire_out as out
from journalfs.records.older.amq import PREPARE
from journalfs.records.older.amq_data import DataLog, mark_unclosed
from journalfs.records.older.openwire import (
    Destination,
    Identity,
    Outcome,
    Subscription,
    Transaction,
    XaTransaction,
)
from journalfs.records.older.openwire_core import HEADER_PREFIX, subscription_queue
from journalfs.selector.identifiers import JMS_TO_BROKER
from journalfs.store import open_store
from journalfs.store.store import JournalStore
from journalfs.views.queues import StoreQueue
from journalfs.views.transactions import StoredTransaction, prepared_transactions
from journalfs.windows import whole_lines

# Durable subscriptions of ActiveMQ 5, and the queues that they are here.

_TO_JMS: Final = {broker: jms for jms, broker in JMS_TO_BROKER.items()}
_BROKER_NAMES: Final = re.compile(rf"(?<![\w$.])(?:{'|'.join(_TO_JMS)})(?![\w$.])")
_OWN_NAMES: Final = re.compile(r"(?<![\w$.])AMQ[A-Z]\w*")
"""Of what only brokers of today know."""
_MODES: Final = {"DURABLE": "PERSISTENT", "NON_DURABLE": "NON_PERSISTENT"}
_PARTS: Final = re.compile(r"((?:[^.\\]|\\.)+)\.((?:[^\\]|\\.)+)", re.DOTALL)


class Named(NamedTuple):
    """A durable subscription."""

    client: str
    name: str
    topic: str
    """What was asked for, with that broker's wildcards."""
    selector: str | None
    is_new: bool
    """The queue's name is none that a subscription has here."""

    @property
    def has_wildcards(self) -> bool:
        return any(part in (">", "*") for part in self.topic.split("."))


def subscription_of(queue: str, address: str, accepted: str | None) -> Named:
    """Which subscription a queue of a multicast address is; `accepted` is its filter."""
    topic = ".".join(">" if part == "#" else part for part in address.split("."))
    found = _PARTS.fullmatch(queue)
    if found is not None:
        client, name = (re.sub(r"\\(.)", r"\1", part) for part in found.groups())
        if subscription_queue(client, name) == queue:
            return Named(client, name, topic, jms_selector(accepted), is_new=False)
    return Named(queue, queue, topic, jms_selector(accepted), is_new=True)


def jms_selector(accepted: str | None) -> str | None:
    """A filter as the selector of JMS that it came of; None: there is none, as it asks what clients of JMS
    cannot.
    """
    if not accepted:
        return None
    pieces = accepted.split("'")
    for at in range(0, len(pieces), 2):
        pieces[at] = _BROKER_NAMES.sub(lambda found: _TO_JMS[found[0]], pieces[at])
    if _OWN_NAMES.search("'".join(pieces[::2])):
        return None
    if "AMQDurable" in accepted:
        pieces[1::2] = [_MODES.get(word, word) for word in pieces[1::2]]
    return "'".join(pieces)


WRITTEN_BYTES: Final = 8 << 20
"""Of commands, appended at once."""


class _Line(NamedTuple):
    """A message, as the queues of a topic are merged."""

    message_id: int
    order: int
    content: bytes


@dataclass(slots=True)
class AmqStore:
    """Made at `place` of the store at `made`."""

    made: Path
    place: Path
    notes: list[tuple[str, str]] = field(default_factory=list)
    """What has no equal there: a stable word, and a sentence."""
    renamed: dict[str, str] = field(default_factory=dict)
    """`ADDRESS::QUEUE` in the store at `made` -> there, of queues with another name there."""
    _log: DataLog = field(init=False)
    _commands: list[bytes] = field(default_factory=list)
    _waiting_bytes: int = 0
    _number: int = 0
    _identities: dict[int, Identity] = field(default_factory=dict)
    """Of messages that transactions in doubt acknowledge."""
    _wanted: set[int] = field(default_factory=set)
    _subscriptions: list[bytes] = field(default_factory=list)
    _left: dict[str, int] = field(default_factory=dict)
    left_out: set[int] = field(default_factory=set)
    """Messages that have no equal there."""

    def write(self) -> None:
        folder = self.place / "journal"
        door.make_folders(folder)
        self._log = DataLog(folder)
        with closing(self._log), closing(open_store(self.made, index=False)) as store:
            self._write(store)
            self._flush()
        mark_unclosed(self.place, self._subscriptions)
        for reason, count in self._left.items():
            self._note("message", f"{count} messages are left out: {reason}")

    def _note(self, kind: str, text: str) -> None:
        if (kind, text) not in self.notes:
            self.notes.append((kind, text))

    def _put(self, command: bytes) -> None:
        self._commands.append(command)
        self._waiting_bytes += len(command)
        if self._waiting_bytes >= WRITTEN_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._log.append(self._commands)
        self._commands, self._waiting_bytes = [], 0

    def _write(self, store: JournalStore) -> None:
        in_doubt = list(prepared_transactions(store.core))
        self._wanted = {
            int(str(one["id"]))
            for found in in_doubt
            for one in found.operations()
            if one["operation"] == "ack" and "id" in one
        }
        subscribed: list[tuple[StoreQueue, Named]] = []
        for queue in store.queues():
            binding = queue.model.binding
            if binding.routing_type is RoutingType.ANYCAST:
                self._queue(queue)
            else:
                named = subscription_of(queue.name, queue.model.address, binding.filter)
                subscribed.append((queue, named))
        self._topics(subscribed)
        for transaction in in_doubt:
            self._in_doubt(transaction, {queue.name: named for queue, named in subscribed})

    # -- queues and topics -----------------------------------------------------------------------------------

    def _queue(self, queue: StoreQueue) -> None:
        if queue.model.binding.filter:
            self._note("filter", f"queue {queue.name!r} gets everything: queues have no filter there")
        if queue.name != queue.model.address:
            said = f"queue {queue.name!r} of {queue.model.address!r} is the queue {queue.name!r}"
            self._note("name", said)
            self.renamed[f"{queue.model.address}::{queue.name}"] = f"{queue.name}::{queue.name}"
        destination = Destination(False, queue.name)
        for line in _lines_of(queue):
            self._message(line.content, destination)

    def _subscribe(self, queue: StoreQueue, named: Named, topic: str) -> None:
        if queue.model.binding.filter and named.selector is None:
            self._note("filter", f"queue {queue.name!r} gets everything from now on: its filter has no equal")
        if named.is_new:
            self._note(
                "subscription",
                f"queue {queue.name!r} of {queue.model.address!r} is the durable subscription {named.name!r} "
                f"of client {named.client!r}",
            )
            there = subscription_queue(named.client, named.name)
            self.renamed[f"{queue.model.address}::{queue.name}"] = f"{queue.model.address}::{there}"
        asked = Destination(True, named.topic)
        command = openwire.encode(
            Subscription(named.client, Destination(True, topic), named.selector, named.name, asked)
        )
        self._subscriptions.append(command)
        self._put(command)

    def _topics(self, subscribed: list[tuple[StoreQueue, Named]]) -> None:
        """Each message of a topic once, and acknowledgements for the subscriptions that do not get it."""
        held: dict[int, list[int]] = {}
        of_topic: dict[str, list[int]] = {}
        for at, (queue, named) in enumerate(subscribed):
            of_topic.setdefault(named.topic, []).append(at)
            self._subscribe(queue, named, named.topic)
            for view in (queue, queue.delivering()):
                listing = view.listing()
                for index in range(len(listing)):
                    held.setdefault(listing.message_id(index), []).append(at)
        lines = heapq.merge(*(_lines_of(queue) for queue, _ in subscribed), key=lambda one: one[:2])
        for line in lines:
            holders = held.pop(line.message_id, None)
            if holders is None:
                continue  # it was met in another queue
            for topic, getting in _by_topic(line, holders, subscribed).items():
                known = of_topic.setdefault(topic, [])
                for at in getting:
                    if at not in known:
                        known.append(at)
                        self._subscribe(*subscribed[at], topic)
                destination = Destination(True, topic)
                identity = self._message(line.content, destination)
                for _, other in (subscribed[at] for at in known if at not in getting):
                    if identity is not None:
                        self._put(openwire.topic_ack(destination, identity, other.client, other.name))

    # -- messages --------------------------------------------------------------------------------------------

    def _message(
        self, line: bytes, destination: Destination, transaction: Transaction | None = None
    ) -> Identity | None:
        """None for one that has no equal there."""
        envelope = json.loads(line)
        try:
            message = read_envelope(line)
            if not isinstance(message, CoreMessage):
                self._leave(int(envelope["id"]), "they are of AMQP")
                return None
            message_id = int(envelope["id"])
            parts = out.inflated_parts(split_message(message.record(message_id, envelope["address"], 0)[1]))
            self._number += 1
            identity = self._identity(message_id, envelope)
            form = out.Form(destination, identity, message.delivery_count, transaction)
            self._put(out.message(parts, form))
        except (BadEnvelope, DecodeError) as error:
            self._leave(int(envelope["id"]), str(error))
            return None
        if envelope.get("scheduledTime"):
            self._note("schedule", f"{destination.qualified}: what was due later is due at once")
        if message_id in self._wanted:
            self._identities[message_id] = identity
        return identity

    def _leave(self, message_id: int, reason: str) -> None:
        self.left_out.add(message_id)
        self._left[reason] = self._left.get(reason, 0) + 1

    def _identity(self, message_id: int, envelope: dict[str, object]) -> Identity:
        properties = envelope.get("properties")
        said = properties.get(f"{HEADER_PREFIX}MESSAGE_ID") if isinstance(properties, dict) else None
        if isinstance(said, str) and out.is_whole_identity(said):
            return Identity(said, self._number)
        return Identity(out.new_identity(message_id), self._number)

    # -- transactions in doubt -------------------------------------------------------------------------------

    def _in_doubt(self, found: StoredTransaction, subscribed: dict[str, Named]) -> None:
        if found.xid is None:
            self._note("transaction", f"the transaction {found.name}, whose name cannot be read, is left out")
            return
        xid = found.xid
        transaction = XaTransaction(xid.format_id, xid.global_transaction_id, xid.branch_qualifier)
        sent: set[tuple[int, Destination]] = set()
        for one in found.operations():
            queue, message_id = str(one.get("queue")), int(str(one.get("id", 0)))
            named = subscribed.get(queue)
            destination = Destination(False, queue) if named is None else Destination(True, named.topic)
            if one["operation"] == "send" and (message_id, destination) not in sent:
                sent.add((message_id, destination))
                envelope = {**cast("Mapping[str, object]", one.get("message", {})), "id": message_id}
                line = json.dumps({"address": one.get("address"), **envelope}).encode()
                self._message(line, destination, transaction)
            elif one["operation"] == "ack" and message_id in self._identities:
                self._acknowledge(named, destination, self._identities[message_id], transaction)
        self._put(openwire.encode(Outcome(transaction, PREPARE)))

    def _acknowledge(
        self, named: Named | None, to: Destination, identity: Identity, transaction: Transaction
    ) -> None:
        self._note("acknowledgement-in-doubt", "what a transaction in doubt acknowledged is delivered again")
        if named is None:
            self._put(openwire.queue_ack(to, identity, transaction))
        else:
            self._put(openwire.topic_ack(to, identity, named.client, named.name, transaction))


def _by_topic(
    line: _Line, holders: list[int], subscribed: list[tuple[StoreQueue, Named]]
) -> dict[str, list[int]]:
    """Subscriptions that have a message by the topic that they have it of: with wildcards by its address."""
    found: dict[str, list[int]] = {}
    for at in holders:
        _, named = subscribed[at]
        topic = str(json.loads(line.content)["address"]) if named.has_wildcards else named.topic
        found.setdefault(topic, []).append(at)
    return found


def _lines_of(queue: StoreQueue) -> Iterator[_Line]:
    """Every message of a queue in the order of arrival, with those that transactions in doubt have."""
    order = 0
    for view in (queue, queue.delivering()):
        for lines in whole_lines(view.open_all()):
            for content in lines.splitlines():
                order += 1
                yield _Line(int(json.loads(content)["id"]), order, content)
