"""Replays the data logs of an AMQ Message Store, as its broker does after it was killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from journalfs.damage import Damage
from journalfs.errors import DecodeError
from journalfs.older import openwire
from journalfs.older.activemq5 import Content, Send, Taken, content_of, subscription_key
from journalfs.older.amq_log import Frame, frames

COMMIT_XA, ROLLBACK_XA, COMMIT, ROLLBACK, PREPARE = 2, 3, 4, 5, 1


def replay(logs: Mapping[int, Path], content: Content, damage: list[Damage]) -> None:
    """Apply all data logs to `content`, which holds the subscriptions that no log has."""
    for number, path in logs.items():
        name = f"{path.parent.name}/{path.name}"
        for frame in frames(content_of(path, name, damage), number, name, damage):
            try:
                _apply(frame, content)
            except (DecodeError, IndexError) as error:
                place = frame.place
                damage.append(Damage(name, place.offset, place.length, "garbage", f"a command: {error}"))


def _apply(frame: Frame, content: Content) -> None:
    command = frame.payload[0]
    if command in openwire.MESSAGES:
        head = openwire.message_head(frame.payload)
        if head.destination is not None:
            send = Send(head.destination, head.id, frame.place)
            content.do(head.transaction, send)
    elif command == openwire.QUEUE_ACK:
        ack = openwire.decode_queue_ack(frame.payload)
        if ack.destination is not None:
            content.do(ack.transaction, Taken(ack.destination, ack.message_id))
    elif command == openwire.TOPIC_ACK:
        taken = openwire.decode_topic_ack(frame.payload)
        if taken.destination is not None:
            operation = Taken(taken.destination, taken.message_id, subscription_key(taken.client, taken.name))
            content.do(taken.transaction, operation)
    elif command == openwire.SUBSCRIPTION:
        content.subscribe(openwire.decode_subscription(frame.payload))
    elif command == openwire.TRANSACTION:
        _end(openwire.decode_outcome(frame.payload), content)


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
