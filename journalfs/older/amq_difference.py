"""What is to be appended to data logs so that a replay of them finds what is there."""

from __future__ import annotations

from collections.abc import Iterator

from journalfs.damage import Damage
from journalfs.format.core_message import CoreParts
from journalfs.older import openwire
from journalfs.older import openwire_out as out
from journalfs.older.activemq5 import Content, Place, content_of, subscription_key
from journalfs.older.amq_data import DataLog
from journalfs.older.amq_log import commands, log_files
from journalfs.older.openwire import Destination
from journalfs.older.openwire_core import core_form


def difference(found: Content, wanted: Content, data: DataLog) -> Iterator[bytes]:
    """Commands that make of `found`, what a replay finds, `wanted`. Raises `DecodeError` and OSError."""
    for one in found.dangling:
        known = found.topics.get(one.destination.name, {}).get(one.subscription or "")
        if known is not None:
            yield out.topic_ack(one.destination, out.Identity(one.id, 0), known.client, known.name)
    for name, messages in found.queues.items():
        for identity in messages.keys() - wanted.queues.get(name, {}).keys():
            yield out.queue_ack(Destination(False, name), out.Identity(identity, 0))
    for name, messages in wanted.queues.items():
        there = found.queues.get(name, {})
        for identity, place in messages.items():
            if identity not in there:
                yield _again(data, place, Destination(False, name), identity)
    for topic in found.topics.keys() | wanted.topics.keys():
        yield from _of_topic(topic, found, wanted, data)


def forget_unsubscribed(found: Content, wanted: Content, data: DataLog, damage: list[Damage]) -> None:
    """That brokers write no end of a subscription brings it back in a replay: where one is not wanted, what
    says so becomes a note of the same length. Raises OSError.
    """
    gone = {
        (topic, key)
        for topic, known in found.topics.items()
        for key in known.keys() - wanted.topics.get(topic, {}).keys()
    }
    if not gone:
        return
    for number, path in log_files(data.folder).items():
        content = content_of(path, path.name, damage)
        for one in commands(content, number, path.name, damage):
            said = content[one.offset : one.offset + one.length]
            if said[0] != openwire.SUBSCRIPTION:
                continue
            known = openwire.decode_subscription(said)
            key = subscription_key(known.client, known.name)
            if known.destination is not None and (known.destination.name, key) in gone:
                data.overwrite(number, one.offset, out.trace("UNSUBSCRIBED", len(said)))


def _of_topic(topic: str, found: Content, wanted: Content, data: DataLog) -> Iterator[bytes]:
    destination = Destination(True, topic)
    there, to_be = found.topics.get(topic, {}), wanted.topics.get(topic, {})
    for key in to_be.keys() - there.keys():
        one, asked = to_be[key], Destination(True, to_be[key].asked)
        yield out.subscription(destination, one.client, one.name, one.selector, asked)
    places: dict[str, Place] = {}
    for key, one in to_be.items():
        had = there[key].messages if key in there else {}
        places |= {identity: place for identity, place in one.messages.items() if identity not in had}
    for identity, place in sorted(places.items(), key=lambda found: found[1].order):
        if any(identity in one.messages for key, one in there.items() if key in to_be):
            continue  # some have it: it cannot come once more by the same id
        yield _again(data, place, destination, identity)
        for one in to_be.values():
            if identity not in one.messages:
                yield out.topic_ack(destination, out.Identity(identity, 0), one.client, one.name)
    for key, one in there.items():
        if key not in to_be:
            continue
        for identity in one.messages.keys() - to_be[key].messages.keys():
            yield out.topic_ack(destination, out.Identity(identity, 0), one.client, one.name)


def _again(data: DataLog, place: Place, destination: Destination, identity: str) -> bytes:
    """A message that is there, as a command that is in no transaction."""
    message = openwire.decode_message(data.read(place))
    form = core_form(message, topic=destination.topic)
    parts = CoreParts(0, destination.name, form.header, form.body)
    return out.message(parts, out.Form(destination, out.Identity(identity, 0), message.redeliveries))
