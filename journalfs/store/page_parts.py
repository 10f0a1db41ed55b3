"""Parts made of pages: which stretch of which page is which part of a queue.

A page grows while the broker appends to it, a part never does; so a page may become several parts. Numbers of
page parts count from their own base, above any number the journal's parts reach, and are never used again.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field

from journalfs.ids import PageNumber, QueueId
from journalfs.paging.address import PagedAddress
from journalfs.store.runs import PageRun

PAGE_PART_BASE = 5_000_000_000
"""Half of what ten digits hold: journal parts count from 1."""


@dataclass(frozen=True, slots=True)
class PagePart:
    """Records `start` up to `end` of one page."""

    number: int
    page: PageNumber
    start: int
    end: int
    sealed_ms: int


@dataclass(slots=True)
class PageParts:
    """The page parts of one queue, by number."""

    queue: QueueId
    parts: list[PagePart] = field(default_factory=list)
    next_number: int = PAGE_PART_BASE
    _ends: dict[PageNumber, int] = field(default_factory=dict)

    def resume(self, parts: Iterable[PagePart], next_number: int) -> None:
        self.parts = sorted(parts, key=lambda part: part.number)
        self.next_number = next_number
        for part in self.parts:
            self._ends[part.page] = max(part.end, self._ends.get(part.page, 0))

    def sealed_end(self, page: PageNumber) -> int:
        """Records of the page before this index are in parts."""
        return self._ends.get(page, 0)

    def seal(self, paged: PagedAddress, *, now_ms: int) -> bool:
        """Put everything unsealed into parts, a page at a time, and forget pages that are gone. True if any
        was made.
        """
        existing = set(paged.numbers())
        self.parts = [part for part in self.parts if part.page in existing]
        self._ends = {page: end for page, end in self._ends.items() if page in existing}
        made = False
        for number in paged.numbers():
            summary = paged.summary(number)
            start = self.sealed_end(number)
            if summary.records <= start:
                continue
            self._ends[number] = summary.records
            if self.queue in summary.queues:
                self.parts.append(PagePart(self.next_number, number, start, summary.records, now_ms))
                self.next_number += 1
                made = True
        return made

    def run(self, paged: PagedAddress, part: PagePart) -> PageRun:
        """What is live of a part now."""
        indexes = paged.live(part.page, self.queue)
        low = bisect.bisect_left(indexes, part.start)
        high = bisect.bisect_left(indexes, part.end)
        return PageRun(part.page, indexes[low:high])

    def tail(self, paged: PagedAddress) -> list[PageRun]:
        """What is live and in no part yet."""
        runs: list[PageRun] = []
        for number in paged.numbers():
            start = self.sealed_end(number)
            if paged.summary(number).records > start:
                indexes = paged.live(number, self.queue)
                rest = indexes[bisect.bisect_left(indexes, start) :]
                if rest:
                    runs.append(PageRun(number, rest))
        return runs
