"""Tells what happened to the messages of a history: when they left which queue, and as which copies they went
on.

A record of an acknowledgement states no time: it lies between messages that do. An expired, failed or moved
message went on as another message, which names it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from journalfs.engine import history
from journalfs.engine.buffers import MappedFile
from journalfs.engine.history import ACKNOWLEDGED, CAME, REMOVED, End
from journalfs.engine.lines import SOURCE_CORE_LARGE, SOURCE_PERSISTER, LineBatch
from journalfs.engine.scan import Scan, scan_journal
from journalfs.engine.status import FileTorn
from journalfs.format.core_message import ACTUAL_EXPIRY, ORIGINAL_MESSAGE_ID
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.ids import MessageId
from journalfs.records.files.files import ReadFile
from journalfs.views.message import HEADER_PREFIX, StoreMessage
from journalfs.views.origins import decode_notes, note_of

if TYPE_CHECKING:
    from journalfs.live.content import QueueContent
    from journalfs.live.core import Core
    from journalfs.live.runs import Run
    from journalfs.records.files.history import HistoryLoader

_ADDS: Final = frozenset((RecordKind.ADD, RecordKind.ADD_TX, RecordKind.EVENT))
_MESSAGES: Final = frozenset((MessageType.MESSAGE, MessageType.LARGE_MESSAGE))


@dataclass(frozen=True, slots=True)
class Copy:
    """The message that a message went on as."""

    message_id: int
    address: str
    expired_ms: int | None
    """When its time was found to be over; None: it was moved, or failed."""


@dataclass(slots=True)
class Ends:
    """Of one range, as far as its files say and some behind them."""

    core: Core
    loader: HistoryLoader
    _by_message: dict[int, list[End]] = field(default_factory=dict)
    _copies: dict[int, list[Copy]] = field(default_factory=dict)
    _clocks: dict[int, tuple[array[int], array[int]]] = field(default_factory=dict)
    """By slot: where messages lie in the file, and when they were sent."""

    def find(self) -> None:
        """Takes as long as reading the files does."""
        for one in history.ends(self.loader.state):
            self._by_message.setdefault(one.message_id, []).append(one)
        for read in self.loader.files.read_files():
            for message_id, copy in self._copies_in(read):
                self._copies.setdefault(message_id, []).append(copy)

    def of(self, message_id: MessageId, queue_id: int) -> dict[str, object]:
        """Return what records tell of a message's end, by names like those of headers. Times in milliseconds
        since 1970.
        """
        found = self._by_message.get(message_id, ())
        left = [one for one in found if one.kind == ACKNOWLEDGED and one.queue_id == queue_id]
        left = left or [one for one in found if one.kind == REMOVED]
        facts: dict[str, object] = {}
        if left:
            after_ms, before_ms = self._between(left[0])
            facts["acknowledged"] = True
            facts |= {"acknowledgedAfter": after_ms} if after_ms else {}
            facts |= {"acknowledgedBefore": before_ms} if before_ms else {}
        names = self.core.queue_names()
        came = [names.get(one.queue_id, str(one.queue_id)) for one in found if one.kind == CAME]
        copies = self._copies.get(message_id, ())
        expired = [one.expired_ms for one in copies if one.expired_ms is not None]
        if expired:
            facts["expired"] = expired[0]
        if came or copies:
            facts["movedTo"] = ", ".join([*came, *(one.address for one in copies)])
            facts["movedAs"] = ", ".join(str(one.message_id) for one in copies) or str(message_id)
        return facts

    def _between(self, end: End) -> tuple[int | None, int | None]:
        """Messages around it were sent before and after."""
        offsets, times = self._clock(end.file_slot)
        at = bisect_left(offsets, end.offset) if end.offset else 0
        later = bisect_right(offsets, end.offset) if end.offset else len(offsets)
        read = self.loader.files.read_file(end.file_slot)
        choice = self.loader.choice
        copied = next(
            (one.copied_ms for one in (*choice.taken, *choice.later) if one.file.path == read.file.path), None
        )
        return times[at - 1] if at else None, times[later] if later < len(times) else copied

    def _clock(self, slot: int) -> tuple[array[int], array[int]]:
        known = self._clocks.get(slot)
        if known is None:
            known = self._clocks[slot] = self._sent_in(self.loader.files.read_file(slot))
        return known

    def _sent_in(self, read: ReadFile) -> tuple[array[int], array[int]]:
        """Where messages lie in a file, and the latest time that one up to there says."""
        offsets, times = array("q"), array("q")
        try:
            mapped, scan = self._scan(read)
            places = list(_messages(scan))
            measures = _batch(mapped, places).measures()
        except FileTorn:
            return offsets, times
        latest = 0
        for (_, offset, _, _), measure in zip(places, measures, strict=True):
            latest = max(latest, measure.timestamp_ms)
            if latest > 0:
                offsets.append(offset)
                times.append(latest)
        return offsets, times

    def _scan(self, read: ReadFile) -> tuple[MappedFile, Scan]:
        mapped = self.loader.files[read.slot]
        return mapped, scan_journal(mapped, rid=read.file.rid, version=read.file.version, stop=read.position)

    def _copies_in(self, read: ReadFile) -> Iterator[tuple[int, Copy]]:
        try:
            mapped, scan = self._scan(read)
            found = history.copies(mapped, scan)
            if not found:
                return
            records = scan.pointer.records
            places = [_place(records[index]) for index in found]
            batch = _batch(mapped, places)
            lines = batch.read(0, batch.size_bytes).splitlines()
        except FileTorn:
            return
        for (message_id, _, _, _), line in zip(places, lines, strict=True):
            envelope: Mapping[str, Any] = decode_notes(line)
            was, expired = note_of(envelope, ORIGINAL_MESSAGE_ID), note_of(envelope, ACTUAL_EXPIRY)
            if isinstance(was, int):
                address = envelope.get("address")
                expired_ms = expired if isinstance(expired, int) else None
                yield was, Copy(message_id, str(address), expired_ms)


_Place = tuple[int, int, int, int]
"""Id, offset and length of a body, and what it is."""


def _place(record: Any) -> _Place:
    large = record.user_type == MessageType.LARGE_MESSAGE
    source = SOURCE_CORE_LARGE if large else SOURCE_PERSISTER
    return record.record_id, record.body_offset, record.body_bytes, source


def _messages(scan: Scan) -> Iterator[_Place]:
    records = scan.pointer.records
    for index in range(scan.count):
        record = records[index]
        if record.kind in _ADDS and record.user_type in _MESSAGES:
            yield _place(record)


def _batch(mapped: MappedFile, places: Sequence[_Place]) -> LineBatch:
    return LineBatch.of_payloads(
        [mapped.copy(offset, length) for _, offset, length, _ in places],
        queue=None,
        sources=[source for *_, source in places],
        record_ids=[message_id for message_id, *_ in places],
    )


class HistoryMessage(StoreMessage):
    def __init__(self, content: QueueContent, run: Run, ends: Ends) -> None:
        super().__init__(content, run)
        self._ends = ends

    def attributes(self) -> Mapping[str, bytes]:
        facts = {"published": self._mtime_ms, **self._ends.of(self._id, self._content.queue_id)}
        said = {HEADER_PREFIX + name: _text(value) for name, value in facts.items()}
        return {**super().attributes(), **said}


def _text(value: object) -> bytes:
    return (str(value).lower() if isinstance(value, bool) else str(value)).encode()
