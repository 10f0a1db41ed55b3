"""What is to be appended to data logs so that a replay of them finds what is there."""

from __future__ import annotations

from collections.abc import Iterator

from journalfs.format.core_message import CoreParts
from journalfs.older import openwire
from journalfs.older import openwire_out as out
from journalfs.older.activemq5 import Content, Place
from journalfs.older.amq_data import DataLog
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


def _of_topic(topic: str, found: Content, wanted: Content, data: DataLog) -> Iterator[bytes]:
    destination = Destination(True, topic)
    there, to_be = found.topics.get(topic, {}), wanted.topics.get(topic, {})
    known = {**there, **to_be}
    for key in to_be.keys() - there.keys():
        one, asked = to_be[key], Destination(True, to_be[key].asked)
        yield out.subscription(destination, one.client, one.name, one.selector, asked)
    places: dict[str, Place] = {}
    for key, one in to_be.items():
        had = there[key].messages if key in there else {}
        places |= {identity: place for identity, place in one.messages.items() if identity not in had}
    for identity, place in sorted(places.items(), key=lambda found: found[1].order):
        if any(identity in one.messages for one in there.values()):
            continue  # some have it: it cannot come once more by the same id
        yield _again(data, place, destination, identity)
        for key, one in known.items():
            if key not in to_be or identity not in to_be[key].messages:
                yield out.topic_ack(destination, out.Identity(identity, 0), one.client, one.name)
    for key, one in there.items():
        left = to_be[key].messages if key in to_be else {}
        for identity in one.messages.keys() - left.keys():
            yield out.topic_ack(destination, out.Identity(identity, 0), one.client, one.name)


def _again(data: DataLog, place: Place, destination: Destination, identity: str) -> bytes:
    """A message that is there, as a command that is in no transaction."""
    message = openwire.decode_message(data.read(place))
    form = core_form(message, topic=destination.topic)
    parts = CoreParts(0, destination.name, form.header, form.body)
    return out.message(parts, out.Form(destination, out.Identity(identity, 0), message.redeliveries))
