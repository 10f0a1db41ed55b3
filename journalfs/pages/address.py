"""The pages of one address: which of their records are live for which queue.

Pages are scanned when they are first needed and only a few scans are kept, so an address with a million pages
takes no more memory than one with a hundred. The counts that listings ask for most, live messages and bytes
of a page for a queue, are remembered per page; they are valid until the page or the queue's position in it
changes.
"""

from __future__ import annotations

import bisect
import contextlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from journalfs.damage import Damage, FileStamp, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import PageScan, PageShare, page_schedules, page_shares, scan_page
from journalfs.errors import Gone
from journalfs.format.page_folder import format_page_name
from journalfs.ids import MessageId, PageNumber, QueueId
from journalfs.limits import (
    PAGE_DAMAGES_MAX,
    PAGE_FILE_BYTES_MAX,
    PAGE_HOLE_BYTES_MIN,
    PAGE_RECORDS_KEPT_MAX,
)
from journalfs.pages.cursors import Cursors, Moved, Standing
from journalfs.pages.folders import ListedPage, PageFolder


class PageSummary(msgspec.Struct, frozen=True):
    """The content of one page at one moment, by queue. The index keeps it, so that unchanged pages are not
    read again.
    """

    stamp: FileStamp
    records: int
    damage: tuple[Damage, ...]
    first_id: int
    last_id: int
    """Smallest and largest message id, for finding a message without looking into every page."""
    tx_ids: list[int]
    """Ids of its page transactions, in rising order."""
    last_due_ms: int
    """Latest time at which one of the messages is due, 0 where none says."""
    queues: dict[int, PageShare]
    """The share of each queue."""
    first_expiry_ms: int
    """When the first of its messages expires, live or not; 0: none does."""
    large: bool
    """Bodies of its messages are in files of their own, on which their lines depend."""
    damaged: list[int]
    """Indexes of the records whose message cannot be read whole, without those whose bodies are elsewhere."""

    @property
    def has_transactions(self) -> bool:
        return bool(self.tx_ids)

    @property
    def unreadable(self) -> bool:
        """Something of the page could not be read, which may be otherwise without the page changing."""
        return any(damage.kind == "unreadable" for damage in self.damage)


ALL = 2**32 - 1
"""Behind the last record of any page."""


@dataclass(frozen=True, slots=True)
class LiveStretch:
    """Which records of a stretch of a page are live for a queue, as the journal said at one moment: found out
    when they are needed, so that holding many takes no memory for their messages.
    """

    paged: PagedAddress
    standing: Standing
    number: PageNumber
    queue: QueueId
    start: int
    end: int
    delivering: bool = False

    def __len__(self) -> int:
        return self.paged.kept_count(self)

    def indexes(self, scan: PageScan | None = None) -> array[int]:
        """Of the page's records, rising. `scan` is of the page, for when it may be deleted by now."""
        standing = self.standing
        gone, held, dead = standing.gone, standing.held, standing.dead
        if standing.complete or (self.delivering and not held):
            return array("I")
        if scan is None:
            scan = self._scan()
        if scan is None:
            return array("I")
        indexes = scan.of_queue(self.queue)
        if self.start or self.end < ALL:
            low = bisect.bisect_left(indexes, self.start)
            indexes = indexes[low : bisect.bisect_left(indexes, self.end)]
        if not (gone or held or dead):
            return indexes
        chosen = (i for i in indexes if i not in gone and (i in held) == self.delivering)
        if not dead:
            return array("I", chosen)
        tx_ids = scan.tx_ids()
        return array("I", [i for i in chosen if tx_ids[i] not in dead])

    def _scan(self) -> PageScan | None:
        """`None`: nothing of the page is for the queue, or a broker deleted it since the last look."""
        if self.number not in self.paged.files:
            return None
        try:
            if self.queue not in self.paged.summary(self.number).queues:
                return None
            return self.paged.scan(self.number)
        except Gone:
            return None


@dataclass(frozen=True, slots=True)
class _Kept:
    stamp: FileStamp
    mapped: MappedFile
    scan: PageScan


@dataclass(slots=True)
class _Scans:
    """The scans that were used last, of not too many records together."""

    _kept: OrderedDict[PageNumber, _Kept] = field(default_factory=OrderedDict)
    _records: int = 0

    def get(self, number: PageNumber) -> _Kept | None:
        return self._kept.get(number)

    def touch(self, number: PageNumber) -> None:
        self._kept.move_to_end(number)

    def keep(self, number: PageNumber, kept: _Kept) -> None:
        self.drop(number)
        self._records += kept.scan.count
        while self._kept and self._records > PAGE_RECORDS_KEPT_MAX:
            self._records -= self._kept.popitem(last=False)[1].scan.count
        self._kept[number] = kept

    def drop(self, number: PageNumber) -> None:
        kept = self._kept.pop(number, None)
        if kept is not None:
            self._records -= kept.scan.count

    def clear(self) -> None:
        self._kept.clear()
        self._records = 0


@dataclass(slots=True)
class PagedAddress:
    """Pages by number. The owner updates `cursors` from the journal and reports the changes."""

    path: Path
    relative_to: Path
    prepare: Callable[[PageScan], object]
    """Measures the large messages of a new scan: this package does not know their bodies."""
    files: dict[PageNumber, ListedPage] = field(default_factory=dict)
    summaries: dict[PageNumber, PageSummary] = field(default_factory=dict)
    cursors: Cursors = field(default_factory=Cursors)
    version: int = 0
    finished: set[PageNumber] = field(default_factory=set)
    """Pages that nobody needs any more, which are about to be deleted."""
    bytes_scanned: int = 0
    _refused: dict[PageNumber, str] = field(default_factory=dict)
    """Pages that could not be opened, and why."""
    _scans: _Scans = field(default_factory=_Scans)
    _counts: dict[tuple[int, ...], tuple[Standing, int]] = field(default_factory=dict)
    """Lengths of stretches, each with what was true then."""
    _standings: dict[PageNumber, dict[QueueId, Standing]] = field(default_factory=dict)
    """The statements about pages that were asked for: the same object until the statement changes."""
    _some_live: dict[tuple[PageNumber, QueueId], int] = field(default_factory=dict)
    """A record of a page that was live for a queue when somebody looked."""
    _numbers: list[PageNumber] | None = None
    _folder: PageFolder | None = None

    def numbers(self) -> Sequence[PageNumber]:
        """Of its pages, rising."""
        if self._numbers is None:
            self._numbers = sorted(self.files)
        return self._numbers

    @property
    def set_aside(self) -> Set[PageNumber]:
        """Pages that were renamed instead of deleted, and may be had back from a copy."""
        return self._folder.set_aside if self._folder is not None else frozenset()

    def pages_now(self) -> bool:
        """Whether the address is in paging mode as a broker would find it: any page, except a single empty
        one.
        """
        sizes = [page.stamp.size_bytes for page in self.files.values()]
        return bool(sizes) and sizes != [0]

    def update(self, folder: PageFolder) -> bool:
        """Take over a new listing of the folder. Returns whether pages came, went or grew."""
        if folder is self._folder:
            return False
        self._folder = folder
        files = {page.number: page for page in folder.pages}
        if files == self.files:
            return False
        gone = self.files.keys() - files.keys()
        self.finished -= gone
        for number in gone:
            self.summaries.pop(number, None)
            self._refused.pop(number, None)
            self._scans.drop(number)
        if gone:
            self._counts = {place: known for place, known in self._counts.items() if place[0] in files}
            self._some_live = {place: one for place, one in self._some_live.items() if place[0] in files}
        for number in list(self._standings):
            page = files.get(number)
            if page is not self.files[number] and page != self.files[number]:
                del self._standings[number]
        self.files, self._numbers = files, None
        self.version += 1
        return True

    def set_cursors(self, cursors: Cursors, moved: Moved) -> None:
        """The journal says something else than before."""
        self.cursors = cursors
        self.version += 1
        for queue, page in moved.places:
            self._standings.get(PageNumber(page), {}).pop(QueueId(queue), None)
        if moved.transactions:
            low, high = min(moved.transactions), max(moved.transactions)
            for number in [number for number in self._standings if self._holds_some(number, low, high)]:
                del self._standings[number]

    def _holds_some(self, number: PageNumber, low_tx: int, high_tx: int) -> bool:
        """Whether transactions of a page lie in a range; also where that is not known."""
        summary = self.summaries.get(number)
        if summary is None:
            return True
        tx_ids = summary.tx_ids
        return bool(tx_ids) and tx_ids[0] <= high_tx and low_tx <= tx_ids[-1]

    def holds_transaction(self, tx_id: int) -> bool:
        """Whether a page has records of a page transaction, live or not."""
        return any(
            self._holds_some(number, tx_id, tx_id) and tx_id in self.summary(number).tx_ids
            for number in self.numbers()
        )

    def standing(self, number: PageNumber, queue: QueueId) -> Standing:
        """Return the journal's current statement about a page for a queue."""
        of_page = self._standings.get(number)
        known = of_page.get(queue) if of_page is not None else None
        if known is None:
            there = number in self.files
            tx_ids = self.summary(number).tx_ids if there else ()
            known = self.cursors.standing((int(queue), int(number)), tx_ids)
            if there:
                self._standings.setdefault(number, {})[queue] = known
        return known

    def _file(self, number: PageNumber) -> ListedPage:
        """Return a page's file. Raises `Gone`: a task that waited since it saw the number may find the page
        deleted.
        """
        try:
            return self.files[number]
        except KeyError:
            raise Gone(self.path / format_page_name(number)) from None

    def summary(self, number: PageNumber) -> PageSummary:
        """Return the summary of a page. A page that a broker deleted since the folder was listed has an empty
        one, since every queue has completed it. Raises `Gone` for a page that is known to be deleted.
        """
        page = self._file(number)
        summary = self.summaries.get(number)
        if summary is None or summary.stamp != page.stamp:
            try:
                self.scan(number)
            except Gone:
                return PageSummary(page.stamp, 0, (), 0, -1, [], 0, {}, 0, large=False, damaged=[])
            summary = self.summaries[number]
        return summary

    def mapped(self, number: PageNumber) -> MappedFile:
        """Return the page's bytes, which stay readable after the page is deleted. A page that cannot be
        opened has none, and counts as damage. Raises `Gone` if it is deleted already.
        """
        page = self._file(number)
        kept = self._scans.get(number)
        if kept is not None and kept.stamp == page.stamp:
            return kept.mapped
        try:
            mapped = MappedFile(page.path, bytes_max=min(page.stamp.size_bytes, PAGE_FILE_BYTES_MAX))
            mapped.note_holes(PAGE_HOLE_BYTES_MIN)
        except FileNotFoundError as error:
            raise Gone(page.path) from error
        except OSError as error:
            self._refused[number] = f"cannot be read: {error.strerror or error}"
            return MappedFile.without_content(page.path)
        self._refused.pop(number, None)
        mapped.detach()
        return mapped

    def kept_scan(self, number: PageNumber, mapped: MappedFile) -> PageScan | None:
        """The scan of just these bytes of a page, if it is one of the few that are kept."""
        kept = self._scans.get(number)
        return kept.scan if kept is not None and kept.mapped is mapped else None

    def scan(self, number: PageNumber) -> PageScan:
        """The page's records. Raises `Gone` when the page went away."""
        page = self._file(number)
        kept = self._scans.get(number)
        if kept is not None and kept.stamp == page.stamp:
            self._scans.touch(number)
            return kept.scan
        mapped = self.mapped(number)
        scan = scan_page(mapped)
        self.prepare(scan)
        self.bytes_scanned += mapped.size_bytes
        mapped.release()
        self._scans.keep(number, _Kept(page.stamp, mapped, scan))
        self.summaries[number] = self._summarise(page, scan, mapped)
        return scan

    def forget_scans(self) -> None:
        """Forget the scans, so that lines and files of large messages are measured again."""
        self._scans.clear()
        self._standings.clear()
        self.version += 1

    def doubt(self, number: PageNumber) -> None:
        """A page is not what it was when it was scanned, though it seemed to be the same."""
        self._scans.drop(number)
        self.summaries.pop(number, None)
        self._standings.pop(number, None)
        self.version += 1

    def _summarise(self, page: ListedPage, scan: PageScan, mapped: MappedFile) -> PageSummary:
        ids = scan.message_ids()
        return PageSummary(
            stamp=page.stamp,
            records=scan.count,
            damage=tuple(self._damage_of(page, scan, mapped)),
            first_id=min(ids, default=0),
            last_id=max(ids, default=-1),
            tx_ids=sorted({tx_id for tx_id in scan.tx_ids() if tx_id > 0}),
            last_due_ms=max(page_schedules(scan, array("I", range(scan.count)), now_ms=0), default=0),
            queues=page_shares(scan),
            first_expiry_ms=min((time for time in scan.expirations_ms() if time > 0), default=0),
            large=bool(scan.large()),
            damaged=sorted({*scan.damaged()} - {index for index, _ in scan.large()}),
        )

    def _damage_of(self, page: ListedPage, scan: PageScan, mapped: MappedFile) -> Iterator[Damage]:
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
            reason = f"{rest} more page records that cannot be decoded, and the bytes between them"
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
        return self.stretch(number, queue).indexes()

    def delivering(self, number: PageNumber, queue: QueueId) -> array[int]:
        """Indexes of records that a prepared transaction has consumed."""
        return self.stretch(number, queue, delivering=True).indexes()

    def is_live(self, number: PageNumber, queue: QueueId, index: int) -> bool:
        """Whether one record, which was live for the queue once, still is."""
        return number in self.files and self.standing(number, queue).has(index)

    def stretch(
        self, number: PageNumber, queue: QueueId, start: int = 0, end: int = ALL, *, delivering: bool = False
    ) -> LiveStretch:
        """Return the live part of the page's records from `start` to before `end`, for the queue."""
        return LiveStretch(self, self.standing(number, queue), number, queue, start, end, delivering)

    def count(self, number: PageNumber, queue: QueueId) -> int:
        """How many of the page's records are live for the queue."""
        return len(self.stretch(number, queue))

    def kept_count(self, stretch: LiveStretch) -> int:
        """The length of a stretch, which is looked at again only when something about its page changed."""
        if self.is_void(stretch):
            return 0
        share = self._share(stretch)
        if share is not None:
            return share.records
        end = stretch.end if stretch.end < self.summary(stretch.number).records else ALL
        place = (stretch.number, stretch.queue, stretch.start, end, stretch.delivering)
        known = self._counts.get(place)
        if known is None or known[0] is not stretch.standing:
            indexes = stretch.indexes()
            known = self._counts[place] = stretch.standing, len(indexes)
            if indexes and not stretch.delivering:
                self._some_live[stretch.number, stretch.queue] = indexes[-1]
        return known[1]

    def is_void(self, stretch: LiveStretch) -> bool:
        """Whether nothing of a stretch is live, as can be said without a look at its page."""
        if stretch.standing.complete or stretch.number not in self.files:
            return True
        if stretch.delivering and not stretch.standing.held:
            return True
        return stretch.queue not in self.summary(stretch.number).queues

    def line_bytes(self, stretch: LiveStretch, *, prefix_bytes: int, moment_ms: int) -> int | None:
        """Return the length of the lines of a stretch that is not empty, at a moment; `None` if its page must
        be read for it.
        """
        summary, share = self.summary(stretch.number), self._share(stretch)
        if share is None or summary.large or summary.unreadable or summary.last_due_ms > moment_ms:
            return None
        return share.line_bytes + share.records * prefix_bytes

    def _share(self, stretch: LiveStretch) -> PageShare | None:
        """Return the content of a stretch, if it is all that the page has for the queue and all
        of that is live.
        """
        standing, summary = stretch.standing, self.summary(stretch.number)
        if standing.gone or standing.held or standing.dead or stretch.delivering:
            return None
        if stretch.start > 0 or stretch.end < summary.records:
            return None
        return summary.queues.get(stretch.queue)

    def is_consumed(self, number: PageNumber, queue: QueueId) -> bool:
        """Whether the queue needs nothing of the page any more, and nothing will come of what is prepared."""
        standing = self.standing(number, queue)
        if standing.complete:
            return True
        if standing.held or self._has_some_live(number, queue, standing):
            return False
        is_for_it = queue in self.summary(number).queues
        if is_for_it and not (standing.gone or standing.dead):
            return False  # and what it holds need not be looked at
        return self.count(number, queue) == 0 and (not is_for_it or self.is_decided(number, queue))

    def is_decided(self, number: PageNumber, queue: QueueId) -> bool:
        """Return True if no more of the page can become live for the queue: by a prepared transaction, or
        when it becomes readable again.
        """
        summary = self.summary(number)
        if self.standing(number, queue).held or summary.unreadable:
            return False
        return self.cursors.undecided.isdisjoint(summary.tx_ids)

    def is_all(self, number: PageNumber, queue: QueueId, indexes: Sequence[int]) -> bool:
        """Whether these, which are live for the queue and of which there are some, are all that is."""
        some_live = self._has_some_live(number, queue, self.standing(number, queue))
        if some_live and self._some_live[number, queue] > max(indexes):
            return False
        return self.count(number, queue) == len(indexes)

    def _has_some_live(self, number: PageNumber, queue: QueueId, standing: Standing) -> bool:
        """Return True if a record that was live at the last look still is: a consumer does not look at the
        whole page each time.
        """
        one = self._some_live.get((number, queue))
        return one is not None and not standing.dead and standing.has(one)

    def find(self, queue: QueueId, message_id: MessageId) -> tuple[PageNumber, int] | None:
        """Where a live message of the queue lies."""
        return next(((number, found[0]) for number, found in self.find_all(queue, [message_id])), None)

    def find_all(self, queue: QueueId, message_ids: Iterable[int]) -> Iterator[tuple[PageNumber, array[int]]]:
        """Where live messages of the queue lie, by page. Each page is looked at once at most."""
        left = set(message_ids)
        rising = sorted(left)
        for number in self.numbers():
            summary = self.summary(number)
            first = bisect.bisect_left(rising, summary.first_id)
            if first == len(rising) or rising[first] > summary.last_id or queue not in summary.queues:
                continue
            ids, found = self.scan(number).message_ids(), array("I")
            for index in self.live(number, queue):
                if ids[index] in left:
                    left.remove(ids[index])
                    found.append(index)
            if found:
                yield number, found

    def needed(self, message_ids: Iterable[MessageId]) -> dict[MessageId, bool]:
        """Return, for those of the messages that are in pages, whether a queue has them or may get them.
        Records of a transaction that did not commit, and consumed ones, do not count.
        """
        asked = frozenset(message_ids)
        found: dict[MessageId, bool] = {}
        for number in self.numbers():
            summary = self.summary(number)
            if any(summary.first_id <= message_id <= summary.last_id for message_id in asked):
                with contextlib.suppress(Gone):  # it is consumed, then
                    for index, message_id in enumerate(map(MessageId, self.scan(number).message_ids())):
                        if message_id in asked and not found.get(message_id, False):
                            found[message_id] = self._is_needed(number, index)
        return found

    def _is_needed(self, number: PageNumber, index: int) -> bool:
        entry = self.scan(number).entry(index)
        if not (self.cursors.counts(entry.tx_id) or entry.tx_id in self.cursors.undecided):
            return False
        standings = (self.standing(number, QueueId(queue)) for queue in entry.queue_ids)
        return any(not standing.complete and index not in standing.gone for standing in standings)

    @property
    def lacks_some(self) -> bool:
        """Whether there may have been more in its pages than can be read now."""
        return bool(self.set_aside or self.damage())

    def damage(self) -> list[Damage]:
        found = [damage for number in self.numbers() for damage in self.summary(number).damage]
        return [*found, *self._emptied()]

    def is_emptied(self, number: PageNumber) -> bool:
        """Whether a page lost all that was in it: a page is begun behind one that has something in it."""
        return number < self.numbers()[-1] and self.files[number].stamp.size_bytes == 0

    def _emptied(self) -> Iterator[Damage]:
        for number in filter(self.is_emptied, self.numbers()):
            reason = "empty, and there are later pages: all that was in it is lost"
            yield Damage(name_of(self.files[number].path, self.relative_to), 0, 0, "short-file", reason)

    def resume(self, summaries: Iterable[tuple[PageNumber, PageSummary]]) -> None:
        """Take over what the index knows of pages that are there; entries of changed ones are ignored when
        they are asked for.
        """
        self.summaries.update((number, summary) for number, summary in summaries if number in self.files)
