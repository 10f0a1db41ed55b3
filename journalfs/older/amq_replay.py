"""Replays the data logs of an AMQ Message Store, as its broker does after it was killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from journalfs.damage import Damage
from journalfs.engine.replay import Row
from journalfs.errors import DecodeError
from journalfs.older import openwire
from journalfs.older.activemq5 import Content, Place, Send, Taken, content_of, subscription_key
from journalfs.older.amq_log import commands

COMMIT_XA, ROLLBACK_XA, COMMIT, ROLLBACK, PREPARE = 2, 3, 4, 5, 1


def replay(logs: Mapping[int, Path], content: Content, damage: list[Damage]) -> None:
    """Apply all data logs to `content`, which holds the subscriptions that no log has."""
    replay = _Replay(content)
    for number, path in logs.items():
        name = f"{path.parent.name}/{path.name}"
        data = content_of(path, name, damage)
        for one in commands(data, number, name, damage):
            place = Place(number, one.offset, one.length) if isinstance(one, Row) else one
            try:
                if isinstance(one, Row) and one.usual:
                    replay.apply_usual(place, one, data)
                else:
                    replay.apply(place, data[place.offset : place.offset + place.length])
            except (DecodeError, IndexError) as error:
                damage.append(Damage(name, place.offset, place.length, "garbage", f"a command: {error}"))


class _Replay:
    """Applies commands, one after another."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._destinations: dict[bytes, openwire.Destination | None] = {}
        self._producers: dict[bytes, str | None] = {}
        """As they are encoded; few of either send everything."""
        self._last_transaction: tuple[bytes, openwire.Transaction | None] = (b"", None)
        """The same: what one did lies together."""

    def apply_usual(self, place: Place, row: Row, data: bytes) -> None:
        """A message or an acknowledgement, taken apart."""
        destination = self._destination(data[row.destination : row.destination + row.destination_bytes])
        if destination is None:
            return
        transaction = None
        if row.transaction_bytes > 1:
            said = data[row.transaction : row.transaction + row.transaction_bytes]
            if said != self._last_transaction[0]:
                self._last_transaction = said, openwire.transaction_in(said)
            transaction = self._last_transaction[1]
        producer = self._producer(data[row.id : row.id + row.id_bytes])
        identity = f"{producer}:{row.sequence}"
        if row.command in openwire.MESSAGES:
            if transaction is None:
                self._content.send(destination, identity, place)
            else:
                self._content.note(transaction, Send(destination, identity, place))
            return
        key = None
        if row.command == openwire.TOPIC_ACK:
            named = openwire.Loose(data[row.extra : row.extra + row.extra_bytes])
            name, client = named.text() or "", named.text() or ""
            key = subscription_key(client, name)
        self._content.do(transaction, Taken(destination, identity, key))

    def _destination(self, encoded: bytes) -> openwire.Destination | None:
        if encoded not in self._destinations:
            self._destinations[encoded] = openwire.destination_in(encoded)
        return self._destinations[encoded]

    def _producer(self, encoded: bytes) -> str | None:
        if encoded not in self._producers:
            self._producers[encoded] = openwire.producer_in(encoded)
        return self._producers[encoded]

    def apply(self, place: Place, payload: bytes) -> None:
        content = self._content
        command = payload[0]
        if command in openwire.MESSAGES:
            head = openwire.message_head(payload)
            if head.destination is not None:
                content.do(head.transaction, Send(head.destination, head.id, place))
        elif command == openwire.QUEUE_ACK:
            ack = openwire.decode_queue_ack(payload)
            if ack.destination is not None:
                content.do(ack.transaction, Taken(ack.destination, ack.message_id))
        elif command == openwire.TOPIC_ACK:
            taken = openwire.decode_topic_ack(payload)
            if taken.destination is not None:
                key = subscription_key(taken.client, taken.name)
                content.do(taken.transaction, Taken(taken.destination, taken.message_id, key))
        elif command == openwire.SUBSCRIPTION:
            content.subscribe(openwire.decode_subscription(payload))
        elif command == openwire.TRANSACTION:
            _end(openwire.decode_outcome(payload), content)


def _end(outcome: openwire.Outcome, content: Content) -> None:
    transaction = outcome.transaction
    if transaction is None:
        return
    if outcome.kind == PREPARE:
        content.prepare(transaction)
    elif outcome.kind in (COMMIT, COMMIT_XA):
        found = content.end(transaction)
        if found is not None:
            content.run(found.operations)
    elif outcome.kind in (ROLLBACK, ROLLBACK_XA):
        content.open.pop(transaction, None)
