"""What a queue holds now: runs of messages by arrival, by delivery and by state, and single messages by
id.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from journalfs.bindings.model import Queue as QueueModel
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import line_prefix
from journalfs.engine.page_listing import page_listing, page_schedules
from journalfs.engine.pages import PageScan
from journalfs.ids import MessageId, PageNumber, QueueId
from journalfs.store.runs import JournalRun, PageRun, Run

if TYPE_CHECKING:
    from journalfs.engine.state import LiveState
    from journalfs.engine.state_types import Listing
    from journalfs.journal.files import FileSet
    from journalfs.paging.address import LiveStretch, PagedAddress
    from journalfs.store.core import Core


class QueueContent:
    """One queue's messages in the journal and in pages, looked at as they are now."""

    def __init__(self, core: Core, model: QueueModel) -> None:
        self.core = core
        self.model = model
        self.name = model.name
        self.prefix = line_prefix(model.name)
        self._slot: tuple[int, int] = (-1, -1)
        self._sizes: dict[tuple[int, ...], tuple[object, int]] = {}
        """How long the lines of stretches of pages are, by page, start and end."""

    @property
    def queue_id(self) -> QueueId:
        return self.model.queue_id

    @property
    def state(self) -> LiveState:
        return self.core.loader.state

    @property
    def files(self) -> FileSet:
        return self.core.loader.files

    @property
    def slot(self) -> int:
        epoch, slot = self._slot
        if epoch != self.core.epoch:
            slot = self.state.register_queue(self.queue_id)
            self._slot = (self.core.epoch, slot)
        return slot

    @property
    def now_ms(self) -> int:
        return self.core.clock.now_ms()

    @property
    def paged(self) -> PagedAddress | None:
        return self.core.paged(self.model.address)

    @property
    def version(self) -> tuple[int, int, int]:
        """Changes whenever the queue's messages do."""
        paged = self.paged
        return self.core.epoch, self.state.queue(self.slot).version, paged.version if paged else 0

    def page_scan(self, number: PageNumber) -> PageScan:
        paged = self.paged
        assert paged is not None, "a page run is made from a paged address"
        return paged.scan(number)

    def page_file(self, number: PageNumber) -> MappedFile:
        """A page's bytes, mapped for as long as somebody reads them."""
        paged = self.paged
        assert paged is not None, "a page run is made from a paged address"
        return paged.mapped(number)

    def doubt_pages(self) -> None:
        """A page is not what it was when it was scanned, though it seemed to be the same."""
        if self.paged is not None:
            self.paged.forget_scans()

    def page_columns(self, number: PageNumber, indexes: array[int]) -> Listing:
        return page_listing(self.page_scan(number), indexes)

    def page_runs(self, *, delivering: bool = False) -> list[PageRun]:
        """Live records of all pages, page by page."""
        paged = self.paged
        if paged is None:
            return []
        stretches = [
            paged.stretch(number, self.queue_id, delivering=delivering) for number in paged.numbers()
        ]
        return [PageRun(stretch.number, stretch) for stretch in stretches if len(stretch)]

    def measured(self, stretch: LiveStretch, sealed_ms: int | None, measure: Callable[[], int]) -> int:
        """How long the lines of a stretch of a page are, as they were at `sealed_ms` or are now. They are
        measured again only when something about the page changed.
        """
        if stretch.paged.is_void(stretch):
            return 0
        if sealed_ms is None and self.page_due_ms(stretch.number) > self.now_ms:
            return measure()  # lines get shorter when their messages become due
        key = stretch.standing, self.core.bodies.version, sealed_ms
        place = (stretch.number, stretch.start, stretch.end)
        known = self._sizes.get(place)
        if known is None or known[0] != key:
            if len(self._sizes) > 2 * len(stretch.paged.files) + 64:
                self._sizes = {
                    one: size for one, size in self._sizes.items() if one[0] in stretch.paged.files
                }
            known = self._sizes[place] = key, measure()
        return known[1]

    def live(self) -> list[Run]:
        """Everything live in arrival order: journal, then pages."""
        refs = self.state.refs(self.slot, "arrival", "live")
        return [*([JournalRun(refs)] if refs else []), *self.page_runs()]

    def count(self) -> int:
        return self.state.queue(self.slot).live_count + sum(len(run) for run in self.page_runs())

    def scheduled(self) -> list[Run]:
        """What is not due yet, by time: journal references and records of pages."""
        refs = self.state.scheduled(self.slot, self.now_ms)
        runs: list[tuple[int, Run]] = [
            (self.state.ref(ref).scheduled_ms, JournalRun(array("I", [ref]))) for ref in refs
        ]
        for run in self.page_runs():
            if self.page_due_ms(run.number) <= self.now_ms:
                continue
            times = page_schedules(self.page_scan(run.number), run.indexes, now_ms=self.now_ms)
            runs.extend(
                (time_ms, PageRun(run.number, array("I", [index])))
                for index, time_ms in zip(run.indexes, times, strict=True)
                if time_ms
            )
        runs.sort(key=lambda run: run[0])
        return [run for _, run in runs]

    def page_due_ms(self, number: PageNumber) -> int:
        """The latest time that a message of a page says it is due; 0: none does."""
        paged = self.paged
        return paged.summary(number).last_due_ms if paged is not None else 0

    def due_ms(self) -> dict[int, int]:
        """When those references in the journal are due that are not yet, by message."""
        refs = (self.state.ref(ref) for ref in self.state.scheduled(self.slot, self.now_ms))
        return {ref.message_id: ref.scheduled_ms for ref in refs}

    def delivery(self) -> list[Run]:
        """The order in which a consumer would get them: journal by priority and arrival, pages, then what is
        not due.
        """
        later = self.scheduled()
        return [*self._due(later), *later]

    def due(self) -> tuple[list[Run], int]:
        """What a consumer may get now, in its order, and when there may be more: in milliseconds since 1970,
        0: not by time alone.
        """
        later = self.scheduled()
        first = later[0] if later else None
        if isinstance(first, JournalRun):
            due_ms = self.state.ref(first.refs[0]).scheduled_ms
        elif isinstance(first, PageRun):
            due_ms = page_schedules(self.page_scan(first.number), first.indexes, now_ms=self.now_ms)[0]
        else:
            due_ms = 0
        return self._due(later), due_ms

    def _due(self, later: Sequence[Run]) -> list[Run]:
        refs = self.state.refs(self.slot, "delivery", "live")
        pages = self.page_runs()
        if later:
            held = {ref for run in later if isinstance(run, JournalRun) for ref in run.refs}
            held_pages = {(run.number, i) for run in later if isinstance(run, PageRun) for i in run.indexes}
            numbers = {number for number, _ in held_pages}
            refs = array("I", [ref for ref in refs if ref not in held])
            pages = [
                PageRun(run.number, array("I", [i for i in run.indexes if (run.number, i) not in held_pages]))
                if run.number in numbers
                else run
                for run in pages
            ]
        return [*([JournalRun(refs)] if refs else []), *pages]

    def delivering(self) -> list[Run]:
        refs = self.state.refs(self.slot, "arrival", "delivering")
        return [*([JournalRun(refs)] if refs else []), *self.page_runs(delivering=True)]

    def with_readers(self) -> list[Run]:
        """Messages that are live, and with a reader who has not acknowledged them yet."""
        held = self.core.in_delivery
        found = [self.state.find(self.slot, message_id) for message_id in held.messages(self.queue_id)]
        refs = array("I", [ref for ref in found if ref >= 0])
        paged = [PageRun(number, indexes) for number, indexes in held.paged(self.queue_id).items()]
        return [*([JournalRun(refs)] if refs else []), *(run for run in paged if self.paged is not None)]

    def is_with_reader(self, message_id: MessageId, run: Run) -> bool:
        """Whether a reader has the one message of a run."""
        place = (run.number, run.indexes[0]) if isinstance(run, PageRun) else message_id
        return self.core.in_delivery.has(self.queue_id, place)

    @property
    def gone(self) -> bool:
        """Whether the queue is bound no longer."""
        return not self.core.knows_queue(self.queue_id)

    def find(self, message_id: MessageId) -> Run | None:
        """A run of the one message, delivering ones included."""
        ref = self.state.find(self.slot, message_id)
        if ref >= 0:
            return JournalRun(array("I", [ref]))
        paged = self.paged
        place = paged.find(self.queue_id, message_id) if paged is not None else None
        return PageRun(place[0], array("I", [place[1]])) if place is not None else None


def total_messages(runs: Sequence[Run]) -> int:
    return sum(len(run) for run in runs)
