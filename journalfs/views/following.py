"""Following a queue: the messages that come to it, in the order in which they arrive."""

from __future__ import annotations

import contextlib
from array import array
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from journalfs.ids import PageNumber
from journalfs.limits import WHOLE_LINE_BYTES_MAX
from journalfs.live.content import NOT_AS_MEASURED, OVERTAKEN, CloserLook, looking_again
from journalfs.live.runs import JournalRun, PageRun, Place, Run, open_runs
from journalfs.live.sources import BytesSource, WatchedSource

if TYPE_CHECKING:
    from journalfs.api import ByteSource
    from journalfs.live.content import QueueContent
    from journalfs.views.filters import Filter


class _Known(NamedTuple):
    """How far a queue was looked at."""

    version: object
    next_part: int
    tail: frozenset[int]
    page: tuple[PageNumber, int]
    """The last page, and its last record."""


class ArrivedMessages:
    """The messages that came to a queue since the last call.

    New messages are in the tail first, and each new part has a higher number than those before it: so only
    the tail and the parts sealed since are looked at, however large the queue is.
    """

    def __init__(self, content: QueueContent) -> None:
        self._content = content
        self._known = _Known(None, 0, frozenset(), (PageNumber(-1), -1))
        self.skip()

    def skip(self) -> None:
        """All that is there now is known."""
        content = self._content
        info = content.state.queue(content.slot)
        tail = frozenset(content.state.listing(content.state.tail_refs(content.slot)).ids)
        page, paged = self._known.page, content.paged
        if paged is not None:
            for number in paged.numbers()[-1:]:
                page = (number, paged.summary(number).records - 1)
        self._known = _Known(content.version, info.next_part, tail, page)

    def _journal(self) -> tuple[array[int], int, frozenset[int]]:
        """References that are new, and what is known then: the number of the next part, the tail."""
        content, known = self._content, self._known
        state, slot = content.state, content.slot
        info = state.queue(slot)
        refs = array("I")
        if info.next_part > known.next_part:
            for part in state.parts(slot):
                if part.number >= known.next_part:
                    refs += state.part_refs(slot, part.number)
        tail = state.tail_refs(slot)
        refs += tail
        ids = state.listing(refs).ids
        fresh = array(
            "I",
            [ref for ref, message_id in zip(refs, ids, strict=True) if message_id not in known.tail],
        )
        return fresh, info.next_part, frozenset(ids[len(refs) - len(tail) :])

    def _pages(self) -> tuple[list[PageRun], tuple[PageNumber, int]]:
        """Records of pages that are new, and the last one that is known then."""
        paged = self._content.paged
        found: list[PageRun] = []
        last = page, record = self._known.page
        if paged is None:
            return found, last
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
            last = (number, max(after, paged.summary(number).records - 1))
        return found, last

    def came(self) -> list[Run]:
        """Return the messages that came; they stay new for the next call."""
        if self._content.version == self._known.version:
            return []
        refs = self._journal()[0]
        return [*([JournalRun(refs)] if refs else []), *self._pages()[0]]

    def new(self, choose: Callable[[Run], Run] = lambda run: run) -> list[Run]:
        """Return the messages that `choose` leaves of those that came since the last call or `skip`. If this
        call fails, all that came is new again to the next one.
        """
        version = self._content.version
        if version == self._known.version:
            return []
        refs, next_part, tail = self._journal()
        pages, page = self._pages()
        came: list[Run] = [*([JournalRun(refs)] if refs else []), *pages]
        chosen = [choose(run) for run in came]
        self._known = _Known(version, next_part, tail, page)
        return chosen


class Follower:
    """The position of one reader. It takes nothing, and does not see messages that were consumed before it
    got to them.
    """

    def __init__(self, content: QueueContent, selected: Filter | None) -> None:
        self._content = content
        self._selected = selected
        self._arrivals = ArrivedMessages(content)
        self._waiting: deque[Place] = deque()

    @property
    def ended(self) -> bool:
        """The queue is gone, so nothing will come."""
        return self._content.gone

    def is_found(self) -> bool:
        """Whether it is known which of what came is for it, so that `ready` and `take` need no time."""
        if not self._content.is_settled():
            return False
        return self._selected is None or bool(self._waiting) or not self._arrivals.came()

    async def find(self) -> None:
        """Find that out, while others are served."""
        await self._content.settled()
        if self._selected is not None and not self._waiting and not self.ended:
            for run in self._arrivals.came():
                with contextlib.suppress(*NOT_AS_MEASURED, *OVERTAKEN):  # whoever renders them is told
                    await self._selected.learn(run)

    def ready(self) -> bool:
        """Whether there is a line."""
        with contextlib.suppress(*OVERTAKEN):  # and the next look is told to whoever waits
            self._look()
            return any(place_run(self._content, place) is not None for place in self._waiting)
        return False

    def take(self) -> ByteSource | None:
        """The next line; None when there is none yet."""
        found = self.take_place()
        return None if found is None else found[1]

    def take_place(self) -> tuple[Place, ByteSource] | None:
        """Return the next message and its line; None if there is none, or a broker consumed it first: the
        ones behind it are found later.
        """
        with contextlib.suppress(*OVERTAKEN):
            self._look()
            while self._waiting:
                source = line_of(self._content, self._waiting[0])
                place = self._waiting.popleft()
                if source is not None:
                    return place, source
        return None

    async def next(self) -> ByteSource | None:
        """The next line, waited for; None when the queue is gone."""
        waking = self._content.core.waking
        while True:
            seen = waking.count
            await self.find()
            source = self.take()
            if source is not None or self.ended:
                return source
            await waking.beyond(seen)

    def _look(self) -> None:
        if not self._waiting and not self.ended:
            looking_again(self._content, self._wait_for_new)

    def _wait_for_new(self, look: CloserLook) -> None:
        def chosen(run: Run) -> Run:
            look.at([run])
            return self._selected.apply(run) if self._selected is not None else run

        for run in self._arrivals.new(chosen):
            self._waiting.extend(run.places(self._content))


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
    """The line of one message; None when it is gone, or no look makes it readable. Lines of usual lengths are
    rendered at once. Raises one of `OVERTAKEN` where a broker is faster than one can look.
    """

    def line(look: CloserLook) -> ByteSource | None:
        run = place_run(content, place)
        if run is None:
            return None
        look.at([run])
        run = content.counted(run)
        size_bytes = run.size_bytes(content)
        source = WatchedSource(open_runs([(run, size_bytes)], content), look)
        if size_bytes > WHOLE_LINE_BYTES_MAX:
            return source
        return BytesSource(bytes(source.read(0, size_bytes)))

    try:
        return looking_again(content, line)
    except NOT_AS_MEASURED:
        return None
