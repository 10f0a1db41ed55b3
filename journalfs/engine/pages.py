"""Records of page files, found and measured by the C core. Layout: docs/format/messages.md, "Paging"."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile, struct_list, u32_pointer
from journalfs.engine.lines import LineBatch, Measure, line_prefix, measure_of, uninitialized
from journalfs.engine.message_batch import TextBatch
from journalfs.engine.stage import NO_ROOM
from journalfs.engine.state_types import Listing
from journalfs.engine.status import check


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One record of a page. Offsets count from the start of the file."""

    number: int
    """The place among all records of the file, which acknowledgements name."""
    offset: int
    record_bytes: int
    payload_offset: int
    payload_bytes: int
    tx_id: int
    """Page transaction; not above 0: none."""
    kind: int
    """As stored: 0 small, 1 and -1 core large, 2 other large."""
    source: int
    message_id: int
    queue_ids: tuple[int, ...]
    """All queues the message was routed to, durable or not."""
    undecoded: bool
    """True if the record's frame is right and its content is not; it belongs to no queue."""


class PageScan:
    """The result of scanning a page file."""

    __slots__ = ("_file", "_keep", "_large", "count", "damaged_at", "end", "pointer", "reason")

    def __init__(self, file: MappedFile, pointer: Any) -> None:
        self._file = file
        self._keep = file.pointer
        self._large: list[tuple[int, int]] | None = None
        self.pointer = pointer
        self.count: int = pointer.count
        self.end: int = pointer.end_offset
        """Offset behind the last record."""
        whole = pointer.damaged_at == 2**64 - 1
        self.damaged_at: int | None = None if whole else pointer.damaged_at
        """Offset of the damage that ends the page: records behind it cannot be found. None: the
        page is whole.
        """
        self.reason: str | None = None if pointer.reason == ffi.NULL else ffi.string(pointer.reason).decode()

    def __len__(self) -> int:
        return self.count

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def mapping(self) -> Any:
        """The mapped bytes that the scan's lines point into; keep this object to keep them mapped."""
        return self._keep

    def entry(self, index: int) -> PageEntry:
        """Record `index` of this scan. Raises IndexError."""
        self._check(index)
        found = self.pointer.entries[index]
        ids = self.pointer.queue_ids
        return PageEntry(
            number=index,
            offset=found.offset,
            record_bytes=found.record_bytes,
            payload_offset=found.payload_offset,
            payload_bytes=found.payload_bytes,
            tx_id=found.tx_id,
            kind=found.kind,
            source=found.source,
            message_id=self.pointer.measures[index].message_id,
            queue_ids=tuple(ids[found.queue_index + at] for at in range(found.queue_count)),
            undecoded=bool(found.flags & lib.JFS_PAGE_UNDECODED),
        )

    def __iter__(self) -> Iterator[PageEntry]:
        return map(self.entry, range(self.count))

    def _check(self, index: int) -> None:
        if not 0 <= index < self.count:
            raise IndexError(f"record {index} of {self.count}")

    def _column(self, code: str, column: int) -> array[int]:
        out = array(code, bytes(array(code).itemsize * self.count))
        if self.count:
            check(lib.jfs_page_column(self.pointer, column, ffi.from_buffer(out)), "reading a page's columns")
        return out

    def tx_ids(self) -> array[int]:
        """Page transaction of each record (int64)."""
        return self._column("q", lib.JFS_PAGE_TX_IDS)

    def expirations_ms(self) -> array[int]:
        """When the message of each record expires (int64), in epoch milliseconds; 0: never."""
        return self._column("q", lib.JFS_PAGE_EXPIRATIONS)

    def message_ids(self) -> array[int]:
        """Message id of each record (int64); 0 where it could not be decoded."""
        return self._column("q", lib.JFS_PAGE_MESSAGE_IDS)

    def queue_ids(self) -> tuple[array[int], array[int]]:
        """All queue ids, record after record (int64), and where each record's begin (uint32, count + 1)."""
        ids = array("q")
        total = self.pointer.queue_count
        if total:
            ids.frombytes(ffi.buffer(self.pointer.queue_ids, 8 * total))
        starts = self._column("I", lib.JFS_PAGE_QUEUE_STARTS)
        starts.append(total)
        return ids, starts

    def of_queue(self, queue_id: int) -> array[int]:
        """Indexes of the records that were routed to a queue (uint32), in order."""
        out = array("I", bytes(4 * self.count))
        if not self.count:
            return out
        found = lib.jfs_page_of_queue(self.pointer, queue_id, ffi.from_buffer("uint32_t[]", out))
        return out[:found]

    def undecoded(self) -> list[int]:
        """Indexes of the records whose content is not what a record holds."""
        flags = self._column("B", lib.JFS_PAGE_ALL_FLAGS)
        return [index for index, flag in enumerate(flags) if flag & lib.JFS_PAGE_UNDECODED]

    def damaged(self) -> list[int]:
        """Indexes of the records whose message cannot be read whole, large ones as they were measured."""
        flags = self._column("B", lib.JFS_PAGE_MEASURE_FLAGS)
        undecoded = set(self.undecoded())
        return [i for i, flag in enumerate(flags) if flag & lib.JFS_MESSAGE_DAMAGED and i not in undecoded]

    def measure(self, index: int) -> Measure:
        """Measure of a record's message. A large one's sizes are right once `set_measure` was called."""
        self._check(index)
        return measure_of(ffi.new("jfs_measure *", self.pointer.measures[index]))

    def large(self) -> list[tuple[int, int]]:
        """(index, message id) of the messages whose bodies are in large-message files."""
        if self._large is None:
            flags = self._column("B", lib.JFS_PAGE_MEASURE_FLAGS)
            ids = self.message_ids()
            self._large = [
                (index, ids[index]) for index, flag in enumerate(flags) if flag & lib.JFS_MESSAGE_LARGE
            ]
        return self._large

    def set_measure(self, index: int, measure: Measure) -> None:
        """Keep the measure of a large message that was taken with its body."""
        self._check(index)
        self.pointer.measures[index] = measure.pointer[0]
        self._large = None

    def mark_unreadable(self, start: int, end: int) -> None:
        """Messages that hold any of the file's bytes from `start` to before `end` are damaged."""
        for index in range(self.count):
            entry = self.pointer.entries[index]
            inside = entry.payload_offset < end and entry.payload_offset + entry.payload_bytes > start
            if inside and not entry.flags & lib.JFS_PAGE_UNDECODED:
                entry.source |= lib.JFS_SOURCE_UNREADABLE
                self.set_measure(index, self.fill_lines([index], queue=None, now_ms=0).measure(0))

    def fill_lines(self, indexes: Sequence[int], *, queue: str | None, now_ms: int) -> LineBatch:
        """Make the lines of these records. A message's own schedule is named while it is later than `now_ms`.

        The caller must set large bodies (`LineBatch.set_large`), after `set_measure`.
        """
        numbers = array("I", indexes)
        lines = ffi.new("jfs_line[]", len(numbers))
        starts = array("Q", bytes(8 * (len(numbers) + 1)))
        check(
            lib.jfs_page_lines(
                self.pointer,
                self._keep,
                ffi.from_buffer("uint32_t[]", numbers) if numbers else ffi.NULL,
                len(numbers),
                len(line_prefix(queue)),
                now_ms,
                lines,
                ffi.from_buffer("uint64_t[]", starts),
            ),
            f"choosing records of {self._file.path}",
        )
        return LineBatch(lines, len(numbers), queue=queue, starts=starts, keep=self._keep)


def scan_page(file: MappedFile) -> PageScan:
    """Find the records. None is looked for in the file's holes that were noted.

    Damage is not an exception: see `PageScan.damaged_at` and `PageScan.undecoded`. Where the file cannot be
    read, zeros are scanned (`MappedFile.mend`), and a message with such a place in it is damaged.
    """

    def scan() -> PageScan:
        out = ffi.gc(ffi.new("jfs_page *"), lib.jfs_page_free)
        holes = ffi.new("jfs_hole[]", list(file.holes))
        check(
            lib.jfs_scan_page(file.pointer, file.size_bytes, 0, holes, len(file.holes), out),
            f"scanning {file.path}",
        )
        return PageScan(file, out)

    found = file.reading(scan)
    for place in file.unreadable:
        found.mark_unreadable(place.offset, place.end)
    return found


# Columns of a listing and schedules of a page's records, many at once.


def page_listing(scan: PageScan, indexes: array[int]) -> Listing:
    """Return the columns of a directory listing for these records."""
    count, numbers = len(indexes), u32_pointer(indexes)
    return Listing.filled(
        count, lambda columns: lib.jfs_page_listing(scan.pointer, numbers, count, columns), "listing a page"
    )


def page_schedules(scan: PageScan, indexes: array[int], *, now_ms: int) -> array[int]:
    """For each record the delivery time it has of its own if that is after `now_ms`, in epoch milliseconds;
    else 0.
    """
    times = array("q", bytes(8 * len(indexes)))
    if indexes:
        numbers = ffi.from_buffer("uint32_t[]", indexes)
        out = ffi.from_buffer("int64_t[]", times)
        check(
            lib.jfs_page_schedules(scan.pointer, numbers, len(indexes), now_ms, out),
            "reading schedules of a page",
        )
    return times


# What a page holds for each queue, added up by the C core.


@dataclass(frozen=True, slots=True)
class PageShare:
    """The part of a page that belongs to one queue."""

    records: int
    line_bytes: int
    """Bytes of the lines without the queue's prefix, when all messages are due. Lines of large messages count
    right only if these were measured with their bodies.
    """


def page_shares(scan: PageScan) -> dict[int, PageShare]:
    """By queue id, rising."""

    def fill(out: Any, room: int, count: Any) -> int:
        return int(lib.jfs_page_queues(scan.pointer, out, room, count))

    # Mostly all queues have the same, which is kept once then: an address may have a thousand of them.
    equal: dict[PageShare, PageShare] = {}
    shares: dict[int, PageShare] = {}
    for found in struct_list("jfs_page_queue", fill, "adding up a page's queues"):
        share = PageShare(found.records, found.line_bytes)
        shares[found.queue_id] = equal.setdefault(share, share)
    return dict(sorted(shares.items()))


# Text messages, many at once, from the UTF-8 that was written to the records of pages (in C).


class PageTexts:
    """A buffer in which batches become records, a piece at a time. The caller must be done with a piece
    before it makes the next one.
    """

    __slots__ = ("_keep", "_room")

    def __init__(self, piece_bytes: int) -> None:
        """`piece_bytes`: length of a piece at most, unless one record alone is longer."""
        self._room: Any = ffi.new("jfs_page_room *")
        self._take(piece_bytes)

    def _take(self, buffer_bytes: int) -> None:
        self._keep = uninitialized("uint8_t[]", buffer_bytes)
        self._room.buffer, self._room.buffer_bytes = self._keep, buffer_bytes

    def next(
        self, batch: TextBatch, *, page_bytes: int, page_records: int, page_bytes_max: int
    ) -> tuple[memoryview, int]:
        """Records of the next messages of a batch, as many as go into a piece and into a page that has so
        many bytes and records already, and how many records they are: none where the page is full.
        """
        room, used = self._room, ffi.new("uint64_t *")
        room.page_bytes, room.page_records, room.page_bytes_max = page_bytes, page_records, page_bytes_max
        status = batch.page(room, used)
        if status == NO_ROOM and not batch.staged_records and batch.needed_bytes:
            self._take(batch.needed_bytes)
            status = batch.page(room, used)
        if status != NO_ROOM:
            check(status, "making records of a page")
        return memoryview(ffi.buffer(self._keep, used[0])), batch.staged_records
