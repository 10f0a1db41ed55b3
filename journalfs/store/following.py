"""Following a queue: the messages that come to it, in the order in which they arrive."""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from journalfs.ids import MessageId, PageNumber
from journalfs.limits import LOOKS_AGAIN_MAX, WHOLE_LINE_BYTES_MAX
from journalfs.store.closer_look import NOT_AS_MEASURED, CloserLook
from journalfs.store.runs import JournalRun, PageRun, Run, open_runs
from journalfs.store.sources import BytesSource, WatchedSource

if TYPE_CHECKING:
    from journalfs.store.api import ByteSource
    from journalfs.store.content import QueueContent
    from journalfs.store.filters import Filter

Place: TypeAlias = MessageId | tuple[PageNumber, int]
"""What stays the name of a message of a queue: its id, or the page and the record that it lies in."""


class Arrivals:
    """What came to a queue since the last call.

    New messages are in the tail first, and every part that is made has a higher number than those before it:
    so only the tail and what was sealed since is looked at, however large the queue is.
    """

    def __init__(self, content: QueueContent) -> None:
        self._content = content
        self._version: object = None
        self._next_part = 0
        self._tail: frozenset[int] = frozenset()
        self._page = (PageNumber(-1), -1)
        self.skip()

    def skip(self) -> None:
        """All that is there now is known."""
        content = self._content
        info = content.state.queue(content.slot)
        self._next_part = info.next_part
        self._tail = frozenset(content.state.listing(content.state.tail_refs(content.slot)).ids)
        self._version = content.version
        paged = content.paged
        if paged is not None:
            for number in paged.numbers()[-1:]:
                self._page = (number, paged.summary(number).records - 1)

    def journal(self) -> array[int]:
        """References that are new."""
        content = self._content
        state, slot = content.state, content.slot
        info = state.queue(slot)
        refs = array("I")
        if info.next_part > self._next_part:
            for part in state.parts(slot):
                if part.number >= self._next_part:
                    refs += state.part_refs(slot, part.number)
        tail = state.tail_refs(slot)
        refs += tail
        ids = state.listing(refs).ids
        fresh = array(
            "I",
            [ref for ref, message_id in zip(refs, ids, strict=True) if message_id not in self._tail],
        )
        self._next_part = info.next_part
        self._tail = frozenset(ids[len(refs) - len(tail) :])
        return fresh

    def pages(self) -> list[PageRun]:
        """Records of pages that are new."""
        paged = self._content.paged
        found: list[PageRun] = []
        if paged is None:
            return found
        page, record = self._page
        for number in paged.numbers():
            if number < page:
                continue
            after = record if number == page else -1
            if paged.summary(number).records <= after + 1:
                continue
            indexes = array(
                "I", [index for index in paged.live(number, self._content.queue_id) if index > after]
            )
            if indexes:
                found.append(PageRun(number, indexes))
            self._page = (number, max(after, paged.summary(number).records - 1))
        return found

    def new(self) -> list[Run]:
        """What came since the last call or `skip`."""
        version = self._content.version
        if version == self._version:
            return []
        self._version = version
        refs = self.journal()
        return [*([JournalRun(refs)] if refs else []), *self.pages()]


class Follower:
    """One reader's position. It takes nothing; what was consumed before it got there it does not see."""

    def __init__(self, content: QueueContent, selected: Filter | None) -> None:
        self._content = content
        self._selected = selected
        self._arrivals = Arrivals(content)
        self._waiting: deque[Place] = deque()

    @property
    def ended(self) -> bool:
        """The queue is gone, so nothing will come."""
        return self._content.gone

    def ready(self) -> bool:
        """Whether there is a line."""
        self._look()
        return any(place_run(self._content, place) is not None for place in self._waiting)

    def take(self) -> ByteSource | None:
        """The next line; None when there is none yet."""
        found = self.take_place()
        return None if found is None else found[1]

    def take_place(self) -> tuple[Place, ByteSource] | None:
        """The next message and its line."""
        self._look()
        while self._waiting:
            place = self._waiting.popleft()
            source = line_of(self._content, place)
            if source is not None:
                return place, source
        return None

    async def next(self) -> ByteSource | None:
        """The next line, waited for; None when the queue is gone."""
        changes = self._content.core.changes
        while True:
            seen = changes.count
            source = self.take()
            if source is not None or self.ended:
                return source
            await changes.beyond(seen)

    def _look(self) -> None:
        if self._waiting or self.ended:
            return
        for run in self._arrivals.new():
            kept = self._selected.apply(run) if self._selected is not None else run
            self._waiting.extend(places(self._content, kept))


def places(content: QueueContent, run: Run) -> list[Place]:
    """Those of the messages of a run."""
    if isinstance(run, PageRun):
        return [(run.number, index) for index in run.indexes]
    return [MessageId(message_id) for message_id in run.columns(content).ids]


def place_run(content: QueueContent, place: Place) -> Run | None:
    """The message at a place, if it is live."""
    if isinstance(place, tuple):
        paged = content.paged
        live = paged is not None and paged.is_live(place[0], content.queue_id, place[1])
        return PageRun(place[0], array("I", [place[1]])) if live else None
    ref = content.state.find(content.slot, place)
    if ref < 0 or content.state.ref(ref).delivering:
        return None
    return JournalRun(array("I", [ref]))


def line_of(content: QueueContent, place: Place) -> ByteSource | None:
    """The line of one message; None when it is gone. Lines of usual lengths are rendered at once."""
    for _ in range(LOOKS_AGAIN_MAX):
        run = place_run(content, place)
        if run is None:
            return None
        failed = CloserLook(content, [run])
        run = content.counted(run)
        try:
            size_bytes = run.size_bytes(content)
            source = WatchedSource(open_runs([(run, size_bytes)], content), failed)
            if size_bytes > WHOLE_LINE_BYTES_MAX:
                return source
            return BytesSource(bytes(source.read(0, size_bytes)))
        except NOT_AS_MEASURED as error:
            failed(error)
    return None
