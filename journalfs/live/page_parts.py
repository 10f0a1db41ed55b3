"""Parts made of pages: which stretch of which page is which part of a queue; and which number the next part
of a queue is to get, once a tail was listed by it.

A page grows while the broker appends to it, a part never does; so a page may become several parts. Numbers of
page parts are those of `part_names` on a base of their own, above any number the journal's parts reach.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from journalfs.ids import PageNumber, QueueId
from journalfs.live.part_names import PagePart, PartNames
from journalfs.live.runs import PageRun
from journalfs.pages.address import PagedAddress

PAGE_PART_BASE = 5_000_000_000
"""Half of what ten digits hold: journal parts count from 1."""


@dataclass(slots=True)
class PageParts:
    """The page parts of one queue, by number."""

    queue: QueueId
    numbers_from: int = 0
    """Numbers of all parts of the queue are at least this: a queue of the same name may have used others."""
    parts: list[PagePart] = field(default_factory=list)
    next_number: int = PAGE_PART_BASE
    """Above the number of any page part that it had, or was promised."""
    version: int = 0
    """Another one when something became a part."""
    _ends: dict[PageNumber, int] = field(default_factory=dict)
    promised: int | None = None
    """The number of the next part of the journal's messages, under which they are listed already; None: no
    name was given.
    """
    _promised: dict[PageNumber, int] = field(default_factory=dict)
    """The numbers of the next parts of each page's messages."""

    def promise(self, names: PartNames, next_number: int) -> int | None:
        """The number of the next part of the journal's, by whose name its messages are listed from now on.
        None: no number is left.
        """
        if self.promised is None or self.promised < next_number:
            self.promised = names.next_from(max(next_number, self.numbers_from))
        return self.promised

    def promise_page(self, names: PartNames, paged: PagedAddress, page: PageNumber) -> int | None:
        """Return the number of the next part of a page. Pages before it get theirs first, since names rise
        with pages.
        """
        for number in self._unsealed(paged):
            if number <= page and number not in self._promised:
                promised = names.next_from(max(self.next_number - PAGE_PART_BASE, self.numbers_from))
                if promised is None:
                    return None
                self._promised[number] = PAGE_PART_BASE + promised
                self.next_number = PAGE_PART_BASE + promised + 1
        return self._promised.get(page)

    def _unsealed(self, paged: PagedAddress) -> list[PageNumber]:
        """Pages of which not all is in parts, in order."""
        return [page for page in paged.numbers() if paged.summary(page).records > self.sealed_end(page)]

    def resume(self, parts: Iterable[PagePart], next_number: int) -> None:
        self.parts = sorted(parts, key=lambda part: part.number)
        self.next_number = next_number
        for part in self.parts:
            self._ends[part.page] = max(part.end, self._ends.get(part.page, 0))

    def keep(self, part: PagePart) -> None:
        """Take a part that was made later than those it was resumed with; none that it knows."""
        if part.number >= self.next_number:
            self.parts.append(part)
            self.next_number = part.number + 1
            self._ends[part.page] = max(part.end, self._ends.get(part.page, 0))

    def numbered(self, number: int) -> PagePart | None:
        place = bisect.bisect_left(self.parts, number, key=lambda part: part.number)
        return self.parts[place] if place < len(self.parts) and self.parts[place].number == number else None

    def sealed_end(self, page: PageNumber) -> int:
        """Records of the page before this index are in parts."""
        return self._ends.get(page, 0)

    def seal(
        self, paged: PagedAddress, *, now_ms: int, numbers: range, undecided: Set[PageNumber] = frozenset()
    ) -> bool:
        """Put all messages into parts, a page at a time, and forget pages that are gone. Pages that are
        `undecided`, and those behind them, wait: messages that come to count later would make a part grow.
        Returns False if `numbers` did not suffice.
        """
        existing = set(paged.numbers())
        self.parts = [part for part in self.parts if part.page in existing]
        self._ends = {page: end for page, end in self._ends.items() if page in existing}
        self._promised = {page: number for page, number in self._promised.items() if page in existing}
        for page in self._unsealed(paged):
            if page in undecided:
                break
            summary = paged.summary(page)
            if self.queue in summary.queues:
                number = self._promised.get(page) or max(self.next_number, PAGE_PART_BASE + numbers.start)
                if page not in self._promised and number >= PAGE_PART_BASE + numbers.stop:
                    return False
                self.parts.append(PagePart(number, page, self.sealed_end(page), summary.records, now_ms))
                self.next_number = max(self.next_number, number + 1)
                self.version += 1
            self._promised.pop(page, None)
            self._ends[page] = summary.records
        return True

    def run(self, paged: PagedAddress, part: PagePart) -> PageRun:
        """Return the live messages of a part."""
        stretch = paged.stretch(part.page, self.queue, part.start, part.end)
        return PageRun(part.page, stretch, part.sealed_ms)

    def tail(self, paged: PagedAddress) -> list[PageRun]:
        """Return the live messages that are in no part yet."""
        runs: list[PageRun] = []
        for number in reversed(paged.numbers()):
            start, records = self.sealed_end(number), paged.summary(number).records
            if 0 < records <= start:
                break  # what lies before was put into parts before
            if records > start:
                stretch = paged.stretch(number, self.queue, start)
                if len(stretch):
                    runs.append(PageRun(number, stretch))
        runs.reverse()
        return runs
