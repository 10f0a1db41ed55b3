"""The pages of one address: which of their records are live for which queue.

Pages are scanned when they are first needed and only a few scans are kept, so an address with a million pages
costs no more memory than one with a hundred. What listings ask for most, how many live messages and bytes a
page has for a queue, is remembered per page and valid as long as neither the page nor the queue's position in
it changed.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from journalfs.damage import Damage, FileStamp, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import PageScan, scan_page
from journalfs.errors import Gone
from journalfs.ids import MessageId, PageNumber, QueueId
from journalfs.limits import (
    PAGE_DAMAGES_MAX,
    PAGE_FILE_BYTES_MAX,
    PAGE_HOLE_BYTES_MIN,
    PAGE_SCANS_KEPT_MAX,
)
from journalfs.paging.cursors import Cursors
from journalfs.paging.folders import PageFile, PageFolder


@dataclass(frozen=True, slots=True)
class PageSummary:
    """What one page holds at one moment, by queue: kept by the index so that unchanged pages are not read
    again.
    """

    stamp: FileStamp
    records: int
    damage: tuple[Damage, ...]
    has_transactions: bool
    first_id: int
    last_id: int
    """Smallest and largest message id, for finding a message without looking into every page."""
    queues: frozenset[int]
    first_expiry_ms: int
    """When the first of its messages expires, live or not; 0: none does."""

    @property
    def unreadable(self) -> bool:
        """Something of the page could not be read, which may be otherwise without the page changing."""
        return any(damage.kind == "unreadable" for damage in self.damage)


@dataclass(frozen=True, slots=True)
class _Kept:
    stamp: FileStamp
    mapped: MappedFile
    scan: PageScan


@dataclass(slots=True)
class PagedAddress:
    """Pages by number. `cursors` is replaced whenever the journal's side records changed."""

    path: Path
    relative_to: Path
    prepare: Callable[[PageScan], object]
    """Measures the large messages of a fresh scan: their bodies are not this package's subject."""
    files: dict[PageNumber, PageFile] = field(default_factory=dict)
    summaries: dict[PageNumber, PageSummary] = field(default_factory=dict)
    cursors: Cursors = field(default_factory=Cursors)
    version: int = 0
    bytes_scanned: int = 0
    _refused: dict[PageNumber, str] = field(default_factory=dict)
    """Pages that could not be opened, and why."""
    _scans: OrderedDict[PageNumber, _Kept] = field(default_factory=OrderedDict)

    def numbers(self) -> list[PageNumber]:
        return sorted(self.files)

    def pages_now(self) -> bool:
        """Whether the address is in paging mode as a broker would find it: any page, except a single empty
        one.
        """
        sizes = [page.stamp.size_bytes for page in self.files.values()]
        return bool(sizes) and sizes != [0]

    def update(self, folder: PageFolder) -> bool:
        """Take over a new listing of the folder. Returns whether pages came, went or grew."""
        files = {page.number: page for page in folder.pages}
        if files == self.files:
            return False
        for number in self.files.keys() - files.keys():
            self.summaries.pop(number, None)
            self._refused.pop(number, None)
            self._scans.pop(number, None)
        self.files = files
        self.version += 1
        return True

    def set_cursors(self, cursors: Cursors) -> None:
        self.cursors = cursors
        self.version += 1

    def summary(self, number: PageNumber) -> PageSummary:
        """What the page holds. One that went away since it was listed holds nothing: every queue is done with
        it.
        """
        page = self.files[number]
        summary = self.summaries.get(number)
        if summary is None or summary.stamp != page.stamp:
            try:
                self.scan(number)
            except Gone:
                return PageSummary(page.stamp, 0, (), False, 0, -1, frozenset(), 0)
            summary = self.summaries[number]
        return summary

    def mapped(self, number: PageNumber) -> MappedFile:
        """The page's bytes; they stay readable when the page is deleted. A page that cannot be opened has
        none, and is damage. Raises `Gone` if it was deleted before.
        """
        page = self.files[number]
        kept = self._scans.get(number)
        if kept is not None and kept.stamp == page.stamp:
            return kept.mapped
        try:
            mapped = MappedFile(page.path, bytes_max=PAGE_FILE_BYTES_MAX)
            mapped.note_holes(PAGE_HOLE_BYTES_MIN)
        except FileNotFoundError as error:
            raise Gone(page.path) from error
        except OSError as error:
            self._refused[number] = f"cannot be read: {error.strerror or error}"
            return MappedFile.without_content(page.path)
        self._refused.pop(number, None)
        mapped.detach()
        return mapped

    def scan(self, number: PageNumber) -> PageScan:
        """The page's records. Raises `Gone` when the page went away."""
        page = self.files[number]
        kept = self._scans.get(number)
        if kept is not None and kept.stamp == page.stamp:
            self._scans.move_to_end(number)
            return kept.scan
        mapped = self.mapped(number)
        scan = scan_page(mapped)
        self.prepare(scan)
        self.bytes_scanned += mapped.size_bytes
        while len(self._scans) >= PAGE_SCANS_KEPT_MAX:
            self._scans.popitem(last=False)
        self._scans[number] = _Kept(page.stamp, mapped, scan)
        self.summaries[number] = self._summarise(page, scan, mapped)
        return scan

    def forget_scans(self) -> None:
        """What lines and files of its messages measure is to be found out again."""
        self._scans.clear()
        self.version += 1

    def _summarise(self, page: PageFile, scan: PageScan, mapped: MappedFile) -> PageSummary:
        ids = scan.message_ids()
        return PageSummary(
            stamp=page.stamp,
            records=scan.count,
            damage=tuple(self._damage_of(page, scan, mapped)),
            has_transactions=max(scan.tx_ids(), default=-1) > 0,
            first_id=min(ids, default=0),
            last_id=max(ids, default=-1),
            queues=frozenset(scan.queue_ids()[0]),
            first_expiry_ms=min((time for time in scan.expirations_ms() if time > 0), default=0),
        )

    def _damage_of(self, page: PageFile, scan: PageScan, mapped: MappedFile) -> Iterator[Damage]:
        name = name_of(page.path, self.relative_to)
        refused = self._refused.get(page.number)
        if refused is not None:
            yield Damage(name, 0, page.stamp.size_bytes, "unreadable", refused)
        for hole in mapped.unreadable:
            yield Damage(name, hole.offset, hole.length, "unreadable", f"cannot be read: {hole.reason}")
        undecoded = scan.undecoded()
        for index in undecoded[:PAGE_DAMAGES_MAX]:
            entry = scan.entry(index)
            yield Damage(
                name, entry.offset, entry.record_bytes, "page", "a page record that cannot be decoded"
            )
        rest = len(undecoded) - PAGE_DAMAGES_MAX
        if rest > 0:
            first, last = scan.entry(undecoded[-rest]), scan.entry(undecoded[-1])
            length = last.offset + last.record_bytes - first.offset
            reason = f"{rest} more page records that cannot be decoded, and what is between them"
            yield Damage(name, first.offset, length, "page", reason)
        if scan.damaged_at is not None:
            length = mapped.size_bytes - scan.damaged_at
            yield Damage(
                name, scan.damaged_at, length, "page", scan.reason or "no page record can be read here"
            )
        too_long = page.stamp.size_bytes - PAGE_FILE_BYTES_MAX
        if too_long > 0:
            reason = "further into the page than a broker writes; not looked at"
            yield Damage(name, PAGE_FILE_BYTES_MAX, too_long, "too-long", reason)

    def queues_in(self, number: PageNumber) -> frozenset[QueueId]:
        """The queues to which records of the page were routed."""
        return frozenset(map(QueueId, self.summary(number).queues))

    def live(self, number: PageNumber, queue: QueueId) -> array[int]:
        """Indexes of the page's records that are live for the queue, rising."""
        return self._chosen(number, queue, delivering=False)

    def delivering(self, number: PageNumber, queue: QueueId) -> array[int]:
        """Indexes of records that a prepared transaction has consumed."""
        return self._chosen(number, queue, delivering=True)

    def _chosen(self, number: PageNumber, queue: QueueId, *, delivering: bool) -> array[int]:
        if number not in self.files:
            return array("I")
        try:
            return self._filtered(number, queue, delivering=delivering)
        except Gone:
            # The broker deleted it after the last look: every queue is done with it.
            return array("I")

    def _filtered(self, number: PageNumber, queue: QueueId, *, delivering: bool) -> array[int]:
        place = (int(queue), int(number))
        held = self.cursors.delivering.get(place, set())
        if place in self.cursors.complete or (delivering and not held):
            return array("I")
        summary = self.summary(number)
        if queue not in summary.queues:
            return array("I")
        scan = self.scan(number)
        indexes = scan.of_queue(queue)
        gone = self.cursors.consumed.get(place, set())
        if not (gone or held or delivering or summary.has_transactions):
            return indexes
        tx_ids = scan.tx_ids()
        counts = self.cursors.counts
        return array(
            "I",
            [i for i in indexes if i not in gone and (i in held) == delivering and counts(tx_ids[i])],
        )

    def find(self, queue: QueueId, message_id: MessageId) -> tuple[PageNumber, int] | None:
        """Where a live message of the queue lies."""
        for number in self.numbers():
            summary = self.summary(number)
            if summary.first_id <= message_id <= summary.last_id and queue in summary.queues:
                ids = self.scan(number).message_ids()
                for index in self.live(number, queue):
                    if ids[index] == message_id:
                        return number, index
        return None

    def damage(self) -> list[Damage]:
        return [damage for number in self.numbers() for damage in self.summary(number).damage]

    def resume(self, summaries: Iterable[tuple[PageNumber, PageSummary]]) -> None:
        """Take over what the index knows of pages; entries of changed pages are ignored when they are asked
        for.
        """
        self.summaries.update(summaries)
