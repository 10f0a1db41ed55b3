"""Which messages on a disk are copies of others: what a move, a dead-letter address or a redrive leaves.

`recover` brings back whatever was acknowledged, and would bring a message that was moved twice back in three
queues. A move is one transaction that acknowledges a message and adds it again: under another id with a note
of the first, or with the same content, or the same record in another queue. Called by the adapters of
journals of files, before they write anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.errors import DecodeError
from journalfs.format import core_message
from journalfs.format.properties import Code
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import QueueId

_MESSAGES: Final = frozenset({MessageType.MESSAGE, MessageType.LEGACY_MESSAGE, MessageType.LARGE_MESSAGE})
_CORE_NOTES: Final = tuple(
    name.encode("utf-16-le") + bytes((Code.LONG,)) for name in ("_AMQ_ORIG_MESSAGE_ID", "_HQ_ORIG_MESSAGE_ID")
)
_AMQP_NOTE: Final = b"x-opt-ORIG-MESSAGE-ID"
_AMQP_LONGS: Final = {0x81: 8, 0x80: 8, 0x55: 1, 0x53: 1}
"""Constructors of whole numbers of AMQP, and how many bytes follow."""

Place = tuple[int, int, int]
"""Number of a file, offset and length."""


@dataclass(slots=True)
class _Transaction:
    added: dict[int, tuple[int, Place]] = field(default_factory=dict)
    """User type and place of each message by its id."""
    references: list[tuple[int, int]] = field(default_factory=list)
    acknowledged: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Moves:
    """Feed it all files of a journal in their order, then `settle`."""

    queues: Collection[int]
    """Those that the new store has: what went to another is not where it was moved to."""
    origins: set[tuple[int, int]] = field(default_factory=set)
    """Message and queue: references of which the message is in another queue, since it was moved there."""
    copies: set[int] = field(default_factory=set)
    """Messages that a move would have added that did not come to count."""
    _files: list[MappedFile] = field(default_factory=list)
    _open: dict[int, _Transaction] = field(default_factory=dict)
    _places: dict[int, tuple[int, Place]] = field(default_factory=dict)

    def feed(self, mapped: MappedFile, scan: Scan) -> None:
        """Take the records of one file. It has to stay open until `settle`."""
        number = len(self._files)
        self._files.append(mapped)
        for record in scan:
            place = number, record.body_offset, record.body_bytes
            match record.kind:
                case RecordKind.ADD | RecordKind.ADD_TX if record.user_type in _MESSAGES:
                    self._places.setdefault(record.record_id, (record.user_type, place))
                    if record.kind == RecordKind.ADD_TX:
                        self._of(record.tx_id).added[record.record_id] = record.user_type, place
                case RecordKind.UPDATE_TX if record.user_type == MessageType.ADD_REFERENCE:
                    self._of(record.tx_id).references.append((record.record_id, self._queue(mapped, place)))
                case RecordKind.UPDATE_TX if record.user_type == MessageType.ACKNOWLEDGE_REFERENCE:
                    self._of(record.tx_id).acknowledged.append((record.record_id, self._queue(mapped, place)))
                case RecordKind.COMMIT:
                    self._ended(record.tx_id, committed=True)
                case RecordKind.ROLLBACK:
                    self._ended(record.tx_id, committed=False)
                case _:
                    pass

    def settle(self) -> None:
        """Take what never ended as rolled back, and let go of the files."""
        for tx_id in list(self._open):
            self._ended(tx_id, committed=False)
        for mapped in self._files:
            mapped.close()
        self._files.clear()
        self._places.clear()

    def _of(self, tx_id: int) -> _Transaction:
        return self._open.setdefault(tx_id, _Transaction())

    @staticmethod
    def _queue(mapped: MappedFile, place: Place) -> int:
        return int.from_bytes(mapped.copy(place[1], min(8, place[2])), "big", signed=True)

    def _ended(self, tx_id: int, *, committed: bool) -> None:
        done = self._open.pop(tx_id, None)
        if done is None or not done.acknowledged:
            return
        references = [(one, queue) for one, queue in done.references if queue in self.queues]
        there = {one for one, _ in references}
        acknowledged = dict(done.acknowledged)
        for copy, origin in self._copied(done, acknowledged):
            if not committed:
                self.copies.add(copy)
            elif copy in there:
                self.origins.add((origin, acknowledged[origin]))
        if committed:  # the same record, in another queue
            self.origins |= {(one, acknowledged[one]) for one in there & acknowledged.keys()} - set(
                references
            )

    def _copied(self, done: _Transaction, acknowledged: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Yield each message that a transaction adds, and the acknowledged one that it is a copy of."""
        left = dict.fromkeys(acknowledged)
        unnoted: list[tuple[int, bytes | None]] = []
        for message_id, (user_type, place) in done.added.items():
            payload = self._payload(place)
            origin = _noted(payload)
            if origin in left:
                del left[origin]
                yield message_id, origin
            elif left:
                unnoted.append((message_id, _content(user_type, payload)))
        if not unnoted:
            return
        by_content: dict[bytes, list[int]] = {}
        for origin in left:
            known = self._places.get(origin)
            content = None if known is None else _content(known[0], self._payload(known[1]))
            if content is not None:
                by_content.setdefault(content, []).append(origin)
        for message_id, content in unnoted:
            origins = by_content.get(content) if content is not None else None
            if origins:
                yield message_id, origins.pop(0)

    def _payload(self, place: Place) -> bytes:
        mapped = self._files[place[0]]
        return mapped.reading(lambda: mapped.copy(place[1], place[2]))


def queues_of(queues: Collection[QueueId]) -> frozenset[int]:
    return frozenset(map(int, queues))


def _noted(payload: bytes) -> int | None:
    """Return the id of the message that a record says it is a copy of."""
    for note in _CORE_NOTES:
        at = payload.find(note)
        if at >= 0:
            at += len(note)
            return int.from_bytes(payload[at : at + 8], "big", signed=True)
    at = payload.find(_AMQP_NOTE)
    if at < 0:
        return None
    at += len(_AMQP_NOTE)
    length = _AMQP_LONGS.get(payload[at] if at < len(payload) else 0)
    return None if length is None else int.from_bytes(payload[at + 1 : at + 1 + length], "big")


def _content(user_type: int, payload: bytes) -> bytes | None:
    """Return what a copy has of its original: who sent it, when, and its body; None: it cannot be told."""
    if user_type != MessageType.MESSAGE or payload[:1] != bytes((core_message.PERSISTER,)):
        return None
    try:
        parts = core_message.split_message(payload)
    except DecodeError:
        return None
    header = parts.header
    if header.user_id is None and not parts.body:
        return None  # all of these look alike
    return b"%b %d %d %b" % (header.user_id or b"", header.timestamp_ms, header.type, parts.body)
