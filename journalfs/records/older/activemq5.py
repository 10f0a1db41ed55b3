"""What a store of ActiveMQ 5 holds, whichever files it was found in: queues, durable subscriptions with what
each still gets, transactions in doubt. Messages are known by where they lie.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from journalfs import door
from journalfs.damage import Damage
from journalfs.records.older.openwire import Destination, OpenWireMessage, Subscription, Transaction


class Place(NamedTuple):
    """Where a message lies in a file of the journal: its OpenWire command from its type on."""

    file: int
    offset: int
    length: int
    """0 where only the record before it says so."""
    order: int = 0
    """Of arrival, in what it lies in."""


FILE_BYTES_MAX: Final = 2**31 - 1
"""Offsets in a store are ints: a longer file is none of it, and would not fit into memory."""


def numbered_files(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """The files of a folder whose whole names match, by the number that is the pattern's group, in order."""
    named = {name: pattern.fullmatch(name) for name in door.names_if_there(folder)}
    return dict(sorted((int(found[1]), folder / name) for name, found in named.items() if found))


def read_file(path: Path) -> bytes:
    """Raises OSError."""
    with open(door.open_file(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > FILE_BYTES_MAX:
            raise OSError(errno.EFBIG, "longer than any file of such a store", str(path))
        return file.read()


def content_of(path: Path, name: str, damage: list[Damage]) -> bytes:
    """A file's content; none of one that cannot be read, which is damage under this name."""
    try:
        return read_file(path)
    except OSError as error:
        damage.append(Damage(name, 0, 0, *door.kind_and_reason(error)))
        return b""


Messages = dict[str, Place]
"""By the id that acknowledgements name, in the order of delivery."""


def subscription_key(client: str, name: str) -> str:
    """How these brokers tell durable subscriptions of a topic apart."""
    return f"{client or 'NOT_SET'}:{name}"


@dataclass(slots=True)
class Subscribed:
    """A durable subscription, and what it still gets before its selector is asked."""

    topic: str
    client: str
    name: str
    selector: str | None
    asked: str
    """The topic that was asked for, which may have wildcards."""
    messages: Messages = field(default_factory=dict)


@dataclass(slots=True)
class Send:
    destination: Destination
    id: str
    place: Place | None
    """None: it does not lie in the journal; `message` is it."""
    message: OpenWireMessage | None = None


@dataclass(slots=True)
class Taken:
    """An acknowledgement, of a queue or, without a subscription, of all those of a topic."""

    destination: Destination
    id: str
    subscription: str | None = None
    """Its key."""


@dataclass(slots=True)
class InDoubt:
    """What a transaction did, in order."""

    transaction: Transaction
    operations: list[Send | Taken] = field(default_factory=list)


class Content:
    """The live content while it is replayed or read, and then."""

    def __init__(self) -> None:
        self.queues: dict[str, Messages] = {}
        self.topics: dict[str, dict[str, Subscribed]] = {}
        self.open: dict[Transaction, InDoubt] = {}
        self.prepared: dict[Transaction, InDoubt] = {}
        self.dangling: list[Taken] = []
        """What was taken from all subscriptions of a topic at once, for each that had it: brokers that replay
        that keep a reference in the subscription, and stop at it."""
        self._sent = 0

    def messages(self) -> int:
        """How many there are, those of subscriptions as often as they are in one."""
        subscribed = (one.messages for known in self.topics.values() for one in known.values())
        return sum(map(len, self.queues.values())) + sum(map(len, subscribed))

    def files(self) -> set[int]:
        """Numbers of those in which messages lie."""
        subscribed = [one.messages for known in self.topics.values() for one in known.values()]
        return {place.file for one in (*self.queues.values(), *subscribed) for place in one.values()}

    def queue(self, name: str) -> Messages:
        return self.queues.setdefault(name, {})

    def topic(self, name: str) -> dict[str, Subscribed]:
        return self.topics.setdefault(name, {})

    def subscribe(self, found: Subscription) -> Subscribed | None:
        """A repeated one keeps its messages. None: it is known, or it says no topic."""
        if found.destination is None:
            return None
        known = self.topic(found.destination.name)
        key = subscription_key(found.client, found.name)
        if key in known:
            known[key].selector = found.selector
            return None
        asked = (found.subscribed or found.destination).name
        known[key] = Subscribed(found.destination.name, found.client, found.name, found.selector, asked)
        return known[key]

    def send(self, destination: Destination, identity: str, place: Place) -> None:
        self._sent += 1
        place = Place(place.file, place.offset, place.length, self._sent)
        if not destination.topic:
            self.queue(destination.name).setdefault(identity, place)
            return
        subscribed = self.topic(destination.name).values()
        if not any(identity in one.messages for one in subscribed):
            for one in subscribed:
                one.messages[identity] = place

    def take(self, taken: Taken) -> None:
        destination = taken.destination
        if not destination.topic:
            self.queue(destination.name).pop(taken.id, None)
            return
        known = self.topic(destination.name)
        if taken.subscription is None:
            for key, one in known.items():
                if one.messages.pop(taken.id, None) is not None:
                    self.dangling.append(Taken(destination, taken.id, key))
        elif taken.subscription in known:
            known[taken.subscription].messages.pop(taken.id, None)

    def run(self, operations: list[Send | Taken]) -> None:
        for one in operations:
            if isinstance(one, Taken):
                self.take(one)
            elif one.place is not None:
                self.send(one.destination, one.id, one.place)

    def note(self, transaction: Transaction, operation: Send | Taken) -> None:
        """An operation of a transaction that has not ended."""
        found = self.open.get(transaction)
        if found is None:
            found = self.open[transaction] = InDoubt(transaction)
        found.operations.append(operation)

    def do(self, transaction: Transaction | None, operation: Send | Taken) -> None:
        if transaction is None:
            self.run([operation])
        else:
            self.note(transaction, operation)

    def prepare(self, transaction: Transaction) -> None:
        found = self.open.pop(transaction, None)
        if found is not None:
            self.prepared[transaction] = found

    def end(self, transaction: Transaction) -> InDoubt | None:
        """Take out what a transaction did, prepared or not."""
        return self.open.pop(transaction, None) or self.prepared.pop(transaction, None)
