"""How much more an address that pages may take, by the limits on what it has in pages.

What is known of pages is as of the last look. What was written to them since, and what is about to be, counts
at most so much; only where that could come to a limit somebody looks. Where it then depends on what becomes
of a publication that is under way, whoever comes after it waits until that is known: so publications of one
message each come to the limit exactly, however many publish at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from journalfs.bindings.model import Queue
from journalfs.paging.address import PagedAddress
from journalfs.store.core import Core
from journalfs.store.write.address_limits import AddressLimits
from journalfs.store.write.paging import Paging


class PagesReached(NamedTuple):
    limit: str
    """The setting that is reached."""
    surely: bool
    """False: unless a publication that is under way comes to nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class _Most:
    """How many messages the queue has in pages that has most of them there, and of what that is true."""

    paged: PagedAddress
    version: int
    queues: Sequence[Queue]
    messages: int

    def is_of(self, paged: PagedAddress, queues: Sequence[Queue]) -> bool:
        return self.paged is paged and self.version == paged.version and self.queues is queues


class PageRoom:
    """Use from one event loop."""

    def __init__(self, core: Core, paging: Paging, takes_pages: Callable[[str], bool]) -> None:
        self.pages_now = paging.pages_now
        """Whether what lies in pages of an address is not consumed yet."""
        self.takes_pages = takes_pages
        """Whether an address goes on paging, or can begin to."""
        self._core = core
        self._paging = paging
        self._entering: Counter[str] = Counter()
        """Publications that were taken and are not staged yet, by address."""
        self._most: dict[str, _Most] = {}

    def enters(self, address: str) -> None:
        """A publication was taken, of at least one message; `entered` once it is staged, or will not be."""
        self._entering[address] += 1

    def entered(self, address: str) -> None:
        self._entering[address] -= 1
        if not self._entering[address]:
            del self._entering[address]

    def reached(self, address: str, limits: AddressLimits) -> PagesReached | None:
        """Which limit on its pages an address has come to."""
        limit = self._by(address, limits, self._unknown(address))
        if limit is None:
            return None
        self._paging.current()
        limit = self._by(address, limits, 0)
        if limit is not None:
            return PagesReached(limit, True)
        limit = self._by(address, limits, self._unknown(address))
        return None if limit is None else PagesReached(limit, False)

    def _by(self, address: str, limits: AddressLimits, more: int) -> str | None:
        messages = self._most_known(address) + more if limits.page_limit_messages >= 0 else 0
        return limits.pages_reached(self._paging.page_count(address), messages)

    def _unknown(self, address: str) -> int:
        """Messages of which it is not known yet whether they count."""
        return self._paging.messages_unknown(address) + self._entering[address]

    def _most_known(self, address: str) -> int:
        """How many messages the queue has in pages that has most of them there, as of the last look."""
        paged = self._core.pages.get(address)
        if paged is None:
            return 0
        known, queues = self._most.get(address), self._core.bindings.queues_of(address)
        if known is None or not known.is_of(paged, queues):
            counts = (
                sum(paged.count(number, queue.queue_id) for number in paged.numbers()) for queue in queues
            )
            known = _Most(paged, paged.version, queues, max(counts, default=0))
            self._most[address] = known
        return known.messages
