"""Stretches of one queue's messages: references in the journal, or records of one page.

Everything a view shows is a sequence of runs. A run knows how long its lines are without reading a message, gives the
columns of a listing, and opens its lines for reading.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from journalfs.engine.lines import LineBatch
from journalfs.engine.state_batch import file_slots, large_positions
from journalfs.errors import Damaged
from journalfs.ids import PageNumber
from journalfs.limits import EAGER_PART_BYTES_MAX, LINES_OPEN_MAX
from journalfs.store.api import ByteSource
from journalfs.store.sources import BytesSource, SegmentedSource, WindowSource

if TYPE_CHECKING:
    from journalfs.engine.state_types import Listing
    from journalfs.store.content import QueueContent


class Run(Protocol):
    """Some messages of a queue, in the order in which their lines stand."""

    def __len__(self) -> int: ...

    def size_bytes(self, content: QueueContent) -> int:
        """Length of the lines."""

    def batch(self, content: QueueContent) -> LineBatch: ...

    def columns(self, content: QueueContent) -> Listing: ...

    def split(self, messages_max: int) -> Sequence[Run]: ...

    def check(self, content: QueueContent) -> None:
        """Raise `Damaged` if what `batch` gave was overwritten meanwhile."""


@dataclass(frozen=True, slots=True)
class JournalRun:
    refs: array[int]
    sealed: bool = False
    """Lines are as they were when their part was sealed, whatever was redelivered or rescheduled since."""

    def __len__(self) -> int:
        return len(self.refs)

    def size_bytes(self, content: QueueContent) -> int:
        if not self.refs:
            return 0
        return self._starts(content)[-1]

    def _starts(self, content: QueueContent) -> array[int]:
        return content.state.line_starts(
            self.refs, len(content.prefix), sealed=self.sealed, now_ms=content.now_ms
        )

    def batch(self, content: QueueContent) -> LineBatch:
        files = {slot: content.files[slot] for slot in self._file_slots(content)}
        lines, keep = content.state.fill_lines(self.refs, files, sealed=self.sealed, now_ms=content.now_ms)
        batch = LineBatch(lines, len(self.refs), queue=content.name, starts=self._starts(content), keep=keep)
        content.core.bodies.attach(batch, large_positions(content.state, self.refs))
        return batch

    def _file_slots(self, content: QueueContent) -> list[int]:
        return file_slots(content.state, self.refs, content.files.slot_limit)

    def columns(self, content: QueueContent) -> Listing:
        return content.state.listing(self.refs)

    def split(self, messages_max: int) -> Sequence[JournalRun]:
        return [
            JournalRun(self.refs[at : at + messages_max], self.sealed)
            for at in range(0, len(self.refs), messages_max)
        ]

    def check(self, content: QueueContent) -> None:
        for slot in self._file_slots(content):
            if not content.files.still_holds(slot):
                name = content.files.read_file(slot).file.name
                raise Damaged(name, 0, "the broker used this journal file again while it was being read")


@dataclass(frozen=True, slots=True)
class PageRun:
    number: PageNumber
    indexes: array[int]

    def __len__(self) -> int:
        return len(self.indexes)

    def size_bytes(self, content: QueueContent) -> int:
        return content.page_scan(self.number).size_bytes(
            self.indexes, prefix_bytes=len(content.prefix), now_ms=content.now_ms
        )

    def batch(self, content: QueueContent) -> LineBatch:
        scan = content.page_scan(self.number)
        batch = scan.fill_lines(self.indexes, prefix=content.prefix, now_ms=content.now_ms)
        content.core.bodies.attach(batch, scan.columns(self.indexes).ids)
        return batch

    def columns(self, content: QueueContent) -> Listing:
        return content.page_scan(self.number).columns(self.indexes)

    def split(self, messages_max: int) -> Sequence[PageRun]:
        return [
            PageRun(self.number, self.indexes[at : at + messages_max])
            for at in range(0, len(self.indexes), messages_max)
        ]

    def check(self, content: QueueContent) -> None:
        """A page is never overwritten, and a deleted one stays mapped."""


@dataclass(frozen=True, slots=True)
class RunSegment:
    """One run as a stretch of a file, opened when it is read."""

    run: Run
    content: QueueContent
    size_bytes: int

    def open(self) -> ByteSource:
        batch = self.run.batch(self.content)
        if batch.size_bytes != self.size_bytes:
            raise Damaged(
                self.content.name, 0, f"lines are {batch.size_bytes} bytes where the index says {self.size_bytes}"
            )
        return WindowSource(batch, lambda: self.run.check(self.content))


def open_runs(runs: Sequence[Run], content: QueueContent) -> ByteSource:
    """Open the lines of several runs as one file.

    Beside a live broker, what fits in memory is rendered now: the broker may reuse the journal file at any moment,
    and an open file keeps what it had.
    """
    segments = [
        RunSegment(piece, content, piece.size_bytes(content)) for run in runs for piece in run.split(LINES_OPEN_MAX)
    ]
    if len(segments) == 1:
        source = segments[0].open()
    else:
        source = SegmentedSource(segments)
    if content.core.live_broker and source.size_bytes <= EAGER_PART_BYTES_MAX:
        return BytesSource(source.read(0, source.size_bytes))
    return source
