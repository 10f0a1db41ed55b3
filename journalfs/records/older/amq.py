"""Reads an AMQ Message Store (ActiveMQ 5.0 to 5.8): what its broker would give to its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from journalfs import door
from journalfs.damage import DOUBTFUL, Damage
from journalfs.errors import DecodeError
from journalfs.records.older import kaha, openwire
from journalfs.records.older.activemq5 import Content, Place, Send, Taken, content_of, subscription_key
from journalfs.records.older.activemq5_store import ContentWriter, Places, Told
from journalfs.records.older.amq_log import HEAD_BYTES, TAIL_BYTES, commands, log_files
from journalfs.records.older.derived import DerivedStore
from journalfs.records.older.deriving import Source
from journalfs.records.older.openwire import Destination, Subscription
from journalfs.records.older.rewriting import AMQ, Row

# Replays the data logs of an AMQ Message Store, as its broker does after it was killed.

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

    def apply_usual(self, place: Place, row: Row, data: bytes) -> None:
        """A message or an acknowledgement, taken apart."""
        destination = openwire.destination_in(data[row.destination : row.destination + row.destination_bytes])
        if destination is None:
            return
        transaction = None
        if row.transaction_bytes > 1:
            transaction = openwire.transaction_in(
                data[row.transaction : row.transaction + row.transaction_bytes]
            )
        producer = openwire.producer_in(data[row.id : row.id + row.id_bytes])
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

    def apply(self, place: Place, payload: bytes) -> None:
        content = self._content
        command = payload[0]
        if command in openwire.MESSAGES:
            head = openwire.message_head(payload)
            if head.destination is not None:
                content.do(head.transaction, Send(head.destination, head.id, place))
        elif command == openwire.QUEUE_ACK:
            ack = openwire.decode(payload, openwire.QueueAck)
            if ack.destination is not None:
                content.do(ack.transaction, Taken(ack.destination, ack.message_id))
        elif command == openwire.TOPIC_ACK:
            taken = openwire.decode(payload, openwire.TopicAck)
            if taken.destination is not None:
                key = subscription_key(taken.client, taken.name)
                content.do(taken.transaction, Taken(taken.destination, taken.message_id, key))
        elif command == openwire.SUBSCRIPTION:
            content.subscribe(openwire.decode(payload, Subscription))
        elif command == openwire.TRANSACTION:
            _end(openwire.decode(payload, openwire.Outcome), content)


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


def fill_amq(source: Source, out: DerivedStore) -> None:
    """The reference store where it was closed, else a replay of the data logs, as that broker does."""
    found = read_content(source)
    said = (
        "the reference store (kr-store) was read: it was closed"
        if found.closed
        else "the data logs were replayed: the reference store (kr-store) was not closed"
    )
    out.note("read-from", said)
    write_content(source, found, out)


@dataclass(slots=True)
class AmqContent:
    content: Content
    closed: bool
    """The reference store says so."""
    damage: list[Damage]
    logs: dict[int, Path]
    refused: OSError | None = None
    """Why there are none of the data logs."""
    as_replayed: bool = False
    """True when a broker that replays the data logs alone finds the same."""


def log_folder(source: Source) -> Path:
    """Where the data logs are."""
    return source.root / "journal" if door.exists(source.root / "journal") else source.root


def read_content(source: Source) -> AmqContent:
    """What the broker would give to its clients. Raises OSError where the data logs cannot be listed: nobody
    knows then what is in them.
    """
    damage: list[Damage] = []
    logs: dict[int, Path] = {}
    refused: OSError | None = None
    try:
        logs = log_files(log_folder(source))
    except (FileNotFoundError, NotADirectoryError) as error:
        refused = error
    references = source.root / "kr-store"
    content = _from_references(references, damage)
    closed = content is not None
    as_replayed = False
    if content is None:
        content = replayed(source, logs, damage)
        if not door.exists(references / "state"):
            content, as_replayed = _without_state(references, content, logs, damage)
        else:
            early = _early(references)
            # Later releases have all in the logs: their reference store is not read for nothing.
            as_replayed = not (early and forget_earlier(_Kept(references), early, content, damage))
    return AmqContent(content, closed, damage, logs, refused, as_replayed)


def replayed(source: Source, logs: Mapping[int, Path], damage: list[Damage]) -> Content:
    """What the broker finds in its data logs alone."""
    content = Content()
    for found in _subscriptions(source.root / "kr-store", damage):
        content.subscribe(found)
    replay(logs, content, damage)
    return content


class _Kept:
    """What the data of a reference store says that nobody closed: the content as of its last checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.content = Content()
        self.refused: str | None = None
        """Why it cannot be read."""
        try:
            kaha.read_references(folder, self.content, [])
        except (DecodeError, OSError, IndexError) as error:
            self.refused = str(error)
        if not door.exists(folder / "data"):
            self.refused = "it is not there"


def _early(folder: Path) -> list[Subscription]:
    """Durable subscriptions that the reference store names and no data log (ActiveMQ 5.0 to 5.2)."""
    return [found for found in _subscriptions(folder, []) if found.destination is not None]


def _without_state(
    folder: Path, content: Content, logs: Mapping[int, Path], damage: list[Damage]
) -> tuple[Content, bool]:
    """Return the content of a store whose `kr-store/state` is gone, and True when a replay of the data logs
    alone finds the same. That folder alone said which durable subscriptions were removed. The data beside it
    has subscriptions as of its last checkpoint: those that no data log names are taken from there, and what
    it does not know is kept and counted as doubtful.
    """
    kept = _Kept(folder)
    early = [
        Subscription(
            one.client, Destination(True, topic), one.selector, one.name, Destination(True, one.asked)
        )
        for topic, known in kept.content.topics.items()
        for key, one in known.items()
        if key not in content.topics.get(topic, {})
    ]
    if early:
        content = Content()
        for found in early:
            content.subscribe(found)
        replay(logs, content, [])
        forget_earlier(kept, early, content, damage)
    for topic in kept.content.topics:
        content.topic(topic)
    for topic, known in content.topics.items():
        for key, one in known.items():
            if one.messages and key not in kept.content.topics.get(topic, {}):
                why = f"cannot be read: {kept.refused}" if kept.refused else "does not have it"
                count = len(one.messages)
                reason = (
                    f"kr-store/state, which says what was removed, is gone, and the data beside it {why}: "
                    f"subscription {one.client}:{one.name} of {topic} may have been removed, or is newer "
                    f"than that; a broker that starts on this store gives it none of its {count} messages"
                )
                damage.append(Damage(f"{folder.name}/state", 0, 0, DOUBTFUL, reason, messages=count))
    return content, not early


def forget_earlier(kept: _Kept, early: list[Subscription], content: Content, damage: list[Damage]) -> bool:
    """Take from durable subscriptions that no data log tells of (ActiveMQ 5.0 to 5.2) what was sent before
    they began, as far as the reference store tells: it has what each still gets, as of its last checkpoint. A
    broker that replays gives a late subscription all of that. Where it does not tell, `damage` counts what is
    doubtful. Returns True when anything was taken.
    """
    has_taken = False
    for found in early:
        assert found.destination is not None
        topic, key = found.destination.name, subscription_key(found.client, found.name)
        one = content.topic(topic)[key]
        known = kept.content.topics.get(topic, {})
        if kept.refused is None and key in known:
            places = [_at(place) for other in known.values() for place in other.messages.values()]
            checkpoint = max(places, default=(-1, -1))
            for identity, place in list(one.messages.items()):
                if identity not in known[key].messages and _at(place) <= checkpoint:
                    del one.messages[identity]
                    has_taken = True
        elif one.messages:
            why = (
                f"the reference store cannot be read: {kept.refused}"
                if kept.refused
                else "the broker died before"
            )
            reason = (
                f"when subscription {found.client}:{found.name} of {topic} began is not known ({why}): some "
                f"of its {len(one.messages)} messages may have been sent before that"
            )
            damage.append(Damage(f"{kept.name}/data", 0, 0, DOUBTFUL, reason, messages=len(one.messages)))
    return has_taken


def _at(place: Place) -> tuple[int, int]:
    return place.file, place.offset


def write_content(
    source: Source, found: AmqContent, out: DerivedStore, told: Told | None = None
) -> ContentWriter:
    """Fill a derived store."""
    if found.refused is not None:
        out.refused(log_folder(source), source.root, found.refused)
    for one in found.damage:
        out.damage(one.file, one.offset, one.length_bytes, one.kind, one.reason, messages=one.messages)
    places = Places(found.logs, log_folder(source), "data-{}", source.root)
    try:
        load = partial(_command, places)
        writing = ContentWriter(out, load, places, layout=AMQ, hide_taken=False, told=told)
        writing.write(found.content)
    finally:
        places.close()
    return writing


def _from_references(folder: Path, damage: list[Damage]) -> Content | None:
    """None: the broker would not believe it."""
    state = folder / "state"
    try:
        if not door.exists(state) or not kaha.stopped_cleanly(state):
            return None
        content = Content()
        kaha.read_references(folder, content, wrong := list[Damage]())
        damage += wrong
        return content
    except (DecodeError, OSError, IndexError) as error:
        damage.append(Damage(folder.name, 0, 0, "garbage", f"the reference store cannot be read: {error}"))
        return None


def _subscriptions(folder: Path, damage: list[Damage]) -> list[Subscription]:
    """What no data log of ActiveMQ 5.0 to 5.2 says."""
    try:
        return kaha.durable_subscribers(folder / "state") if door.exists(folder / "state") else []
    except (DecodeError, OSError, IndexError) as error:
        reason = f"durable subscriptions cannot be read: {error}"
        damage.append(Damage(f"{folder.name}/state", 0, 0, "garbage", reason))
        return []


def _command(places: Places, place: Place) -> bytes:
    """A message's command. A reference says only where the record lies: its first int is the command's
    length.
    """
    if place.length:
        return places.read(place.file, place.offset, place.length)
    head = places.read(place.file, place.offset - HEAD_BYTES - 4, HEAD_BYTES + 4)
    size = int.from_bytes(head[:4], "big", signed=True)
    if len(head) < HEAD_BYTES + 4 or size < HEAD_BYTES + TAIL_BYTES + 4 or head[26:HEAD_BYTES] != b"SOR":
        raise DecodeError(place.offset, "no record begins where the reference store says")
    length = int.from_bytes(head[HEAD_BYTES:], "big", signed=True)
    if not 0 < length <= size - HEAD_BYTES - TAIL_BYTES - 4:
        raise DecodeError(place.offset, f"a command cannot have {length} bytes in a record of {size}")
    return places.read(place.file, place.offset, length)
