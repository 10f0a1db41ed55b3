"""Stretches of one queue's messages: references in the journal, or records of one page.

Everything a view shows is a sequence of runs. A run knows how long its lines are without reading a message,
gives the columns of a listing, and opens its lines for reading.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakSet

from journalfs.api import ByteSource
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import LineBatch
from journalfs.engine.pages import PageScan, scan_page
from journalfs.engine.state_batch import file_slots, large_messages, message_ids
from journalfs.errors import Gone, StaleView
from journalfs.format.journal_file import read_header
from journalfs.ids import MessageId, PageNumber
from journalfs.limits import EAGER_PART_BYTES_MAX, JOURNAL_HEADER_BYTES
from journalfs.live.large_bodies import LargeBodies
from journalfs.live.opened import OpenStore
from journalfs.live.read_ahead import ReadAheadSource
from journalfs.live.sources import BytesSource, Segment, SegmentedSource
from journalfs.pages.address import LiveStretch
from journalfs.records.files.directory import JournalFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from journalfs.engine.state import LiveState
    from journalfs.engine.state_types import Listing
    from journalfs.pages.address import PagedAddress
    from journalfs.records.files.files import FileSet

Place: TypeAlias = MessageId | tuple[PageNumber, int]
"""Of a message that lies in the journal; else its page, and the record in it."""


class Content(Protocol):
    """A queue as its runs see it; `journalfs.live.content.QueueContent`."""

    name: str
    prefix: bytes

    @property
    def core(self) -> RunsStore: ...

    @property
    def state(self) -> LiveState: ...

    @property
    def files(self) -> FileSet: ...

    @property
    def now_ms(self) -> int: ...

    @property
    def paged(self) -> PagedAddress | None: ...

    def settle(self) -> None: ...

    def page_scan(self, number: PageNumber) -> PageScan: ...

    def page_file(self, number: PageNumber) -> MappedFile: ...

    def page_columns(self, number: PageNumber, indexes: array[int]) -> Listing: ...

    def doubt_page(self, number: PageNumber) -> None: ...

    def measured(self, stretch: LiveStretch, sealed_ms: int | None, measure: Callable[[], int]) -> int: ...


class Run(Protocol):
    """Some messages of a queue, in the order in which their lines stand."""

    def __len__(self) -> int: ...

    def size_bytes(self, content: Content) -> int:
        """Length of the lines."""

    def batch(self, content: Content) -> LineBatch:
        """The lines, ready to be rendered."""

    def segment(self, content: Content, size_bytes: int) -> Segment:
        """Return the lines as a stretch of an open file. Its content stays as it is now,
        whatever changes later.
        """

    def opened(self, content: Content) -> tuple[LineBatch, list[HeldFile]]:
        """The lines, and the files that a broker may overwrite while they are read."""

    def columns(self, content: Content) -> Listing: ...

    def split(self, messages_max: int) -> Sequence[Run]: ...

    @property
    def page(self) -> PageNumber | None:
        """The page that holds the run's messages; None: the journal holds them."""

    @property
    def references(self) -> array[int]:
        """Of its messages in the live state, which has none of those in pages."""

    @property
    def numbers(self) -> array[int]:
        """The numbers that identify the messages: references of the journal, or records of the page."""

    def places(self, content: Content) -> Sequence[Place]: ...

    def of(self, numbers: array[int]) -> Run:
        """The run of some of its messages."""

    def counted(self, attempts: int) -> Run:
        """Return the run of one message with a number of attempts that is not on disk."""

    def ids(self, content: Content) -> array[int]:
        """Of its messages."""

    def headers(self, content: Content) -> tuple[Any, Any, list[HeldFile]]:
        """A `jfs_line[]` without large bodies, what must live as long as it, and the files as of `opened`."""


@dataclass(frozen=True, slots=True)
class JournalRun:
    refs: array[int]
    sealed: bool = False
    """True: lines are as they were when their part was sealed, without later deliveries and schedules."""
    attempts: int = 0

    def __len__(self) -> int:
        return len(self.refs)

    def size_bytes(self, content: Content) -> int:
        if self.attempts:
            return self.batch(content).size_bytes
        return self._starts(content, content.now_ms)[-1] if self.refs else 0

    def _starts(self, content: Content, now_ms: int) -> array[int]:
        content.settle()
        return content.state.line_starts(self.refs, len(content.prefix), sealed=self.sealed, now_ms=now_ms)

    def slots(self, content: Content) -> list[int]:
        """The journal files in which the messages lie. Raises CoreRefused if one is gone."""
        return file_slots(content.state, self.refs, content.files.slot_limit)

    def _files(self, content: Content) -> dict[int, MappedFile]:
        return {slot: content.files[slot] for slot in self.slots(content)}

    def lines(self, content: Content) -> tuple[Any, list[Any]]:
        """A `jfs_line[]` without large bodies, and the mappings that it points into."""
        return content.state.fill_lines(
            self.refs, self._files(content), sealed=self.sealed, now_ms=content.now_ms
        )

    def batch(self, content: Content) -> LineBatch:
        return self._batch_from(self._files(content), content)

    def _batch_from(self, files: Mapping[int, MappedFile], content: Content) -> LineBatch:
        now_ms = content.now_ms
        lines, keep = content.state.fill_lines(self.refs, files, sealed=self.sealed, now_ms=now_ms)
        starts = self._starts(content, now_ms)
        batch = LineBatch(lines, len(self.refs), queue=content.name, starts=starts, keep=keep)
        content.core.bodies.attach_as_measured(batch, large_messages(content.state, self.refs))
        return _counted(batch, self.attempts)

    def segment(self, content: Content, size_bytes: int) -> JournalSegment:
        return JournalSegment(*self.opened(content))

    def _held(self, content: Content) -> tuple[dict[int, MappedFile], list[HeldFile]]:
        files = self._files(content)
        held = [HeldFile(content.files.read_file(slot).file, mapped) for slot, mapped in files.items()]
        content.core.held.update(held)
        return files, held

    def opened(self, content: Content) -> tuple[LineBatch, list[HeldFile]]:
        files, held = self._held(content)
        return self._batch_from(files, content), held

    def headers(self, content: Content) -> tuple[Any, Any, list[HeldFile]]:
        files, held = self._held(content)
        return *content.state.fill_lines(self.refs, files, sealed=self.sealed), held

    @property
    def page(self) -> None:
        return None

    @property
    def references(self) -> array[int]:
        return self.refs

    numbers = references

    def places(self, content: Content) -> Sequence[Place]:
        return list(map(MessageId, self.ids(content)))

    def of(self, numbers: array[int]) -> JournalRun:
        return replace(self, refs=numbers)

    def counted(self, attempts: int) -> JournalRun:
        return replace(self, attempts=attempts)

    def ids(self, content: Content) -> array[int]:
        return message_ids(content.state, self.refs)

    def columns(self, content: Content) -> Listing:
        content.settle()
        return content.state.listing(self.refs)

    def split(self, messages_max: int) -> Sequence[JournalRun]:
        return [
            JournalRun(self.refs[at : at + messages_max], self.sealed)
            for at in range(0, len(self.refs), messages_max)
        ]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class HeldFile:
    """A journal file that an open file renders from."""

    file: JournalFile
    mapped: MappedFile

    def check(self) -> None:
        """Raise `StaleView` if the broker used the file again. It rewrites the header before anything else,
        so with an unchanged header no record was overwritten.
        """
        if self.file.header_damaged:
            return
        # P-8: a broker that uses a journal file again writes over what a reader has open. Without the look at
        # the header, bytes of other messages are given for those that were asked for.
        if read_header(self.mapped.copy(0, JOURNAL_HEADER_BYTES)).file_id != self.file.file_id:
            raise StaleView(self.file.name)


@dataclass(slots=True, kw_only=True)
class RunsStore(OpenStore):
    """The store as far as rendering lines needs it."""

    bodies: LargeBodies = field(init=False)
    held: WeakSet[HeldFile] = field(default_factory=WeakSet)
    """The journal files that open readers are rendered from: their bytes must not be overwritten."""

    def __post_init__(self) -> None:
        super(RunsStore, self).__post_init__()
        self.bodies = LargeBodies(self)


def check_all(held: Iterable[HeldFile]) -> None:
    for file in held:
        file.check()


@dataclass(frozen=True, slots=True)
class JournalSegment:
    lines: LineBatch
    held: list[HeldFile]

    @property
    def size_bytes(self) -> int:
        return self.lines.size_bytes

    def open(self) -> ByteSource:
        return ReadAheadSource(self.lines, lambda: check_all(self.held))


@dataclass(frozen=True, slots=True)
class PageRun:
    number: PageNumber
    chosen: array[int] | LiveStretch
    """Records of the page, or how to find out which."""
    sealed_ms: int | None = None
    """Time at which the part was sealed: lines are as they were then, whatever became due
    since; `None`: as now.
    """
    attempts: int = 0

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def indexes(self) -> array[int]:
        return self.indexes_in(None)

    def indexes_in(self, scan: PageScan | None) -> array[int]:
        """Return the indexes of the run's records in a scan of its page, taken when the run was made."""
        return self.chosen if isinstance(self.chosen, array) else self.chosen.indexes(scan)

    def _moment_ms(self, content: Content) -> int:
        return content.now_ms if self.sealed_ms is None else self.sealed_ms

    def size_bytes(self, content: Content) -> int:
        if isinstance(self.chosen, array):
            return self.batch(content).size_bytes
        return content.measured(self.chosen, self.sealed_ms, lambda: self.batch(content).size_bytes)

    def batch(self, content: Content) -> LineBatch:
        scan = content.page_scan(self.number)
        now_ms = self._moment_ms(content)
        batch = page_batch(content.core, scan, self.indexes, queue=content.name, now_ms=now_ms)
        return _counted(batch, self.attempts)

    def segment(self, content: Content, size_bytes: int) -> Segment:
        if self.attempts:
            return JournalSegment(*self.opened(content))
        mapped = content.page_file(self.number)
        return PageSegment(self, content, mapped, size_bytes, self._moment_ms(content))

    def opened(self, content: Content) -> tuple[LineBatch, list[HeldFile]]:
        return self.batch(content), []

    def headers(self, content: Content) -> tuple[Any, Any, list[HeldFile]]:
        batch = content.page_scan(self.number).fill_lines(self.indexes, queue=None, now_ms=0)
        return batch.lines, batch, []

    @property
    def page(self) -> PageNumber:
        return self.number

    @property
    def references(self) -> array[int]:
        return array("I")

    @property
    def numbers(self) -> array[int]:
        return self.indexes

    def places(self, content: Content) -> Sequence[Place]:
        return [(self.number, index) for index in self.indexes]

    def of(self, numbers: array[int]) -> PageRun:
        return replace(self, chosen=numbers)

    def counted(self, attempts: int) -> PageRun:
        return replace(self, attempts=attempts)

    def ids(self, content: Content) -> array[int]:
        return self.columns(content).ids

    def columns(self, content: Content) -> Listing:
        return content.page_columns(self.number, self.indexes)

    def split(self, messages_max: int) -> Sequence[PageRun]:
        indexes = self.indexes
        return [
            PageRun(self.number, indexes[at : at + messages_max], self.sealed_ms)
            for at in range(0, len(indexes), messages_max)
        ]


def _counted(batch: LineBatch, attempts: int) -> LineBatch:
    if attempts:
        batch.set_delivery_count(0, attempts)
    return batch


def pages_of(runs: Iterable[Run]) -> set[PageNumber]:
    """The pages in which some of the messages lie."""
    return {run.page for run in runs if run.page is not None}


@dataclass(frozen=True, slots=True)
class PageSegment:
    """Records of a page, scanned when they are read: a page is never overwritten, and a deleted one stays
    mapped.
    """

    run: PageRun
    content: Content
    mapped: MappedFile
    size_bytes: int
    now_ms: int

    def open(self) -> ByteSource:
        """Raise `StaleView` if the lines do not have the measured lengths: the reader must look again for
        what is live.
        """
        kept = self._kept_scan()
        scan = scan_page(self.mapped) if kept is None else kept
        if scan is not kept and self.content.core.bodies.measure_page(scan):
            self.content.core.horizon.look_now()
            raise StaleView(self.mapped.path)
        indexes, content = self.run.indexes_in(scan), self.content
        lines = page_batch(content.core, scan, indexes, queue=content.name, now_ms=self.now_ms)
        if lines.size_bytes != self.size_bytes:
            self.content.doubt_page(self.run.number)
            raise StaleView(self.mapped.path)
        return ReadAheadSource(lines)

    def _kept_scan(self) -> PageScan | None:
        """For some messages of a page that nobody else changes, the scan in which they were found."""
        paged = self.content.paged
        if paged is None or not self.content.core.paging.own.alone or not isinstance(self.run.chosen, array):
            return None
        kept = paged.kept_scan(self.run.number, self.mapped)
        return None if kept is None or kept.large() else kept


def page_batch(
    core: RunsStore, scan: PageScan, indexes: Sequence[int], *, queue: str | None, now_ms: int
) -> LineBatch:
    """Lines of some records of a page."""
    batch = scan.fill_lines(indexes, queue=queue, now_ms=now_ms)
    large = {index for index, _ in scan.large()}
    if large:
        core.bodies.attach(batch, [at for at, index in enumerate(indexes) if index in large])
    return batch


def open_runs(runs: Sequence[tuple[Run, int]], content: Content) -> ByteSource:
    """Open the lines of several runs, each with their length, as one file."""
    segments = segments_of(runs, content)
    source = segments[0].open() if len(segments) == 1 else SegmentedSource(segments)
    return at_once(source, content)


def segments_of(runs: Sequence[tuple[Run, int]], content: Content) -> list[Segment]:
    """Return stretches of the lines of several runs, each given with its length."""
    segments: list[Segment] = []
    for run, size_bytes in runs:
        try:
            segments.extend([run.segment(content, size_bytes)] if size_bytes else [])
        except Gone:
            if len(runs) == 1:
                raise
            # All of it was consumed after it was listed, so the rest is what is live now.
    return segments


def at_once(source: ByteSource, content: Content) -> ByteSource:
    """Beside a live broker, what fits in memory is rendered now: the broker may reuse the journal file at any
    moment, and an open file keeps what it had.
    """
    if content.core.live_broker and source.size_bytes <= EAGER_PART_BYTES_MAX:
        return BytesSource(source.read(0, source.size_bytes))
    return source
