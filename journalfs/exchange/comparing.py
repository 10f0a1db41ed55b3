"""What differs between two stores, message by message, in memory that does not grow with them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from journalfs.api import Store, View
from journalfs.exchange.outlines import Outline
from journalfs.exchange.renaming import Renaming
from journalfs.exchange.sorting import Record, in_order
from journalfs.format.core_message import NOTES, ORIGINAL_ADDRESS, ORIGINAL_QUEUE, annotation_of
from journalfs.message.envelope import of_whole_characters
from journalfs.windows import windows

if TYPE_CHECKING:
    from journalfs.api import ByteSource


# The lines of a file, of which one may be longer than memory.

DIGEST_BYTES: Final = 16

KEPT_BYTES_MAX: Final = 16 << 20
"""Of a longer line there is an outline."""


class Line(NamedTuple):
    text: bytes
    """Without its end."""
    digest: bytes | None = None
    """Of the whole line, where `text` is its outline."""


class _Begun:
    """A line that comes in pieces."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size_bytes = 0
        self._outline: Outline | None = None
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def feed(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        self.pieces.append(piece)
        if self.size_bytes <= KEPT_BYTES_MAX:
            return
        if self._outline is None:
            self._outline = Outline()
        for one in self.pieces:
            self._outline.feed(one)
            self._digest.update(one)
        self.pieces.clear()

    def taken(self) -> Line:
        if self._outline is None:
            return Line(b"".join(self.pieces))
        return Line(self._outline.taken(), self._digest.digest())


def lines_of(source: ByteSource) -> Iterator[Line]:
    """All lines of an open file, which is closed in the end."""
    begun = _Begun()
    try:
        for piece in windows(source):
            *whole, last = bytes(piece).split(b"\n")
            for text in whole:
                begun.feed(text)
                yield begun.taken()
                begun = _Begun()
            begun.feed(last)
        if begun.size_bytes:
            yield begun.taken()
    finally:
        source.close()


_OF_PLACE: Final = frozenset(("id", "queue", "address", "deliveryCount", "scheduledTime", "expiration"))
"""What a message may lose or get where it is moved."""

_NOTED: Final = ("properties", "propertyTypes", "extraProperties", "amqp")
"""Where it is noted what it was before."""

_OLD_NAME: Final = re.compile("(__?)HQ_")
_DESTINATIONS: Final = (
    ("jms.queue.", "queue://"), ("jms.topic.", "topic://"), ("jms.tempqueue.", "temp-queue://"),
    ("jms.temptopic.", "temp-topic://"),
)  # fmt: skip
"""Prefixes of JMSReplyTo in HornetQ and Artemis 1.x, and today."""

_ENCODING: Final = ("utf-8", "surrogatepass")
"""Of names as they are sorted."""

_Fields = dict[str, msgspec.Raw]
_decode: Final = msgspec.json.Decoder(_Fields).decode
_digests: Final = msgspec.msgpack.Decoder(dict[str, bytes]).decode


@dataclass(frozen=True, slots=True)
class Difference:
    """`lost`: in the first store only; `added`: in the second only; `changed`: in the same queue of both;
    `moved`: in another queue. Without ids it is a queue that only one of them has.
    """

    what: str
    queue: str
    id: int | None = None
    fields: tuple[str, ...] = ()
    """What changed."""
    toQueue: str | None = None  # noqa: N815 - keys of the JSON
    toId: int | None = None  # noqa: N815

    def json(self) -> Mapping[str, object]:
        found: dict[str, object] = {"what": self.what, "queue": self.queue, "id": self.id}
        if self.fields:
            found["fields"] = self.fields
        if self.toQueue is not None:
            found |= {"toQueue": self.toQueue, "toId": self.toId}
        return found

    def text(self) -> str:
        which = f"{self.what} {self.queue}" + (f" {self.id}" if self.id is not None else "")
        if self.fields:
            return f"{which}: {', '.join(self.fields)}"
        return f"{which} -> {self.toQueue} {self.toId}" if self.toQueue is not None else which


def differences(first: Store, second: Store, renamed: Renaming | None = None) -> Iterator[Difference]:
    """All of them: queues, then messages by their ids, then those that moved. With `renamed`, one store was
    made of the other: names of queues, addresses and broker properties are taken as that says, and a message
    that only got another id in its queue is the same.
    """
    names = [{name for name, _ in _views(store)} for store in (first, second)]
    if renamed is not None:
        of_topics = {new for old, new in renamed.queues.items() if "::" not in old}
        known = {renamed.new(name): name for name in sorted(names[0])}
        names = [
            {new for new in known if "::" in new or _holds(first, known[new])},
            {name for name in names[1] if name not in of_topics or _holds(second, name)},
        ]
    else:
        known = {}
    yield from (Difference("lost", known.get(name, name)) for name in sorted(names[0] - names[1]))
    yield from (Difference("added", name) for name in sorted(names[1] - names[0]))
    ordered = in_order(_ranked(in_order(_apart(first, second, renamed))))
    for _, same in groupby(ordered, key=itemgetter(0, 1)):
        found = _difference(list(same))
        if renamed is None:
            yield found
        elif found.toQueue is None or found.toQueue != found.queue:
            yield (
                found
                if found.what in ("added", "changed")
                else replace(found, queue=known.get(found.queue, found.queue))
            )


def _holds(store: Store, queue: str) -> bool:
    """True if a queue has any message."""
    return any(len(view) for name, view in _views(store) if name == queue)


def _apart(first: Store, second: Store, renamed: Renaming | None) -> Iterator[Record]:
    """What a message says wherever it is, which side has it, queue and id. For what changed it is nothing and
    neither, and the names of the fields follow.
    """
    for side, records in _side_by_side(first, second, renamed):
        _, queue, content, _fields, message_id = records[0]
        if side is None:
            yield b"", b"", queue, message_id, _changed(*records)
        else:
            yield content, side, queue, message_id


def _ranked(records: Iterable[Record]) -> Iterator[Record]:
    """With a number among the equal ones of their side: those of both sides with one number are a pair."""
    for (content, side), same in groupby(records, key=itemgetter(0, 1)):
        for rank, (_, _, *rest) in enumerate(same):
            yield content, rank.to_bytes(8, "big"), side, *rest


def _difference(records: list[Record]) -> Difference:
    """What changed; one message of either side; or one of each."""
    content, _, side, queue, message_id, *fields = records[0]
    which = _text(queue), _number(message_id)
    if not content:
        return Difference("changed", *which, tuple(fields[0].decode().split("\0")))
    if len(records) > 1:
        to_queue, to_id = records[1][3:5]
        return Difference("moved", *which, (), _text(to_queue), _number(to_id))
    return Difference("added" if side == b"\1" else "lost", *which)


def _side_by_side(
    first: Store, second: Store, renamed: Renaming | None
) -> Iterator[tuple[bytes | None, tuple[Record, ...]]]:
    """What is in one store only, with `0` or `1` for which; and pairs that are in both and differ."""
    merged = in_order(
        (message_id + queue, bytes((side,)), *rest)
        for side, store in enumerate((first, second))
        for message_id, queue, *rest in _records(store, renamed, first=store is first)
    )
    for _, same in groupby(merged, key=itemgetter(0)):
        sides: dict[bytes, list[Record]] = {b"\0": [], b"\1": []}
        for key, side, content, fields in same:
            sides[side].append((key, key[8:], content, fields, key[:8]))
        for one, other in zip(*sides.values(), strict=False):
            if one[3] != other[3]:
                yield None, (one, other)
        for side, records in sides.items():
            rest = records[len(sides[b"\1" if side == b"\0" else b"\0"]) :]
            yield from ((side, (record,)) for record in rest)


def _changed(one: Record, other: Record) -> bytes:
    before, after = (_digests(record[3]) for record in (one, other))
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return "\0".join(names).encode()


def _views(store: Store) -> Iterator[tuple[str, View]]:
    for address in store.addresses():
        for queue in address.queues():
            yield f"{address.name}::{queue.name}", queue
            yield f"{address.name}::{queue.name}", queue.delivering()


def _records(store: Store, renamed: Renaming | None, *, first: bool) -> Iterator[Record]:
    """Id, queue, digest of what a message says wherever it is, and digests of all that it says here. What
    the first store says has the names of the second.
    """
    names = renamed if first and renamed is not None else Renaming()
    maps = names.name_maps()
    for name, view in _views(store):
        queue = names.new(name).encode(*_ENCODING)
        for line in lines_of(view.open_all()):
            yield _record(queue, line, None if renamed is None else maps)


_Maps = tuple[Mapping[str, str], Mapping[str, str]]


def _record(queue: bytes, line: Line, maps: _Maps | None) -> Record:
    try:
        fields = _decode(line.text)
    except msgspec.DecodeError:
        fields = _decode(of_whole_characters(line.text))
    message_id = int(msgspec.json.decode(fields.get("id", msgspec.Raw(b"0"))))
    fields.pop("queue", None)
    if maps is not None:
        _translate(fields, *maps)
    digests = {name: _digest(value) for name, value in fields.items()}
    if line.digest is not None:
        digests["body"] = line.digest
    lasting = []
    for name, digest in sorted(digests.items()):
        kept = _without_notes(name, fields[name]) if name in _NOTED else digest
        if kept and name not in _OF_PLACE:
            lasting.append(name.encode() + _digest(kept))
    content = hashlib.blake2b(b"".join(lasting), digest_size=DIGEST_BYTES).digest()
    return message_id.to_bytes(8, "big", signed=True), queue, content, msgspec.msgpack.encode(digests)


def _translate(fields: _Fields, addresses: Mapping[str, str], queues: Mapping[str, str]) -> None:
    """Write names in a line, and the properties of older brokers (`_HQ_…`), as the second store has them.
    Leave out the routing type, which older brokers do not have.
    """
    if addresses and "address" in fields:
        address = msgspec.json.decode(fields["address"])
        fields["address"] = msgspec.Raw(msgspec.json.encode(addresses.get(address, address)))
    for name in ("properties", "propertyTypes"):
        if name in fields:
            of_name: Any = msgspec.json.decode(fields[name])
            kept = {_OLD_NAME.sub(r"\1AMQ_", key, count=1) if _OLD_NAME.match(key) else key: value
                    for key, value in of_name.items()}  # fmt: skip
            reply = kept.get("JMSReplyTo")
            for old, new in _DESTINATIONS if isinstance(reply, str) else ():
                if str(reply).startswith(old):
                    kept["JMSReplyTo"] = new + str(reply).removeprefix(old)
            for note, known in ((ORIGINAL_ADDRESS, addresses), (ORIGINAL_QUEUE, queues)):
                if isinstance(kept.get(note), str):
                    kept[note] = known.get(kept[note], kept[note])
            for left_out in _ROUTING:
                kept.pop(left_out, None)
            if kept:
                fields[name] = msgspec.Raw(msgspec.json.encode(kept))
            else:
                del fields[name]


def _text(name: bytes) -> str:
    return name.decode(*_ENCODING)


def _number(message_id: bytes) -> int:
    return int.from_bytes(message_id, "big", signed=True)


def _digest(content: bytes | msgspec.Raw) -> bytes:
    return hashlib.blake2b(memoryview(content), digest_size=DIGEST_BYTES).digest()


_ROUTING: Final = ("_AMQ_ROUTING_TYPE", "x-opt-routing-type", "_AMQ_AD")
_ANNOTATIONS: Final = (*map(annotation_of, NOTES), *_ROUTING)


def _without_notes(name: str, value: msgspec.Raw) -> bytes:
    found: Any = msgspec.json.decode(value)
    if name == "amqp":
        found.get("properties", {}).pop("to", None)
        found.get("properties", {}).pop("absoluteExpiryTime", None)
        found.get("header", {}).pop("ttl", None)
        annotations = found.get("messageAnnotations", ())
        found["messageAnnotations"] = [pair for pair in annotations if pair[0].get("v") not in _ANNOTATIONS]
        kept = {key: one for key, one in found.items() if one}
    else:
        kept = {key: one for key, one in found.items() if key not in NOTES and key not in _ROUTING}
    return msgspec.json.encode(kept) if kept else b""
