"""The messages of a queue: asked for a page at a time, as they are seen, and a few pages kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Final

from journalfs.showing import printable
from journalfs.top import figures

if TYPE_CHECKING:
    from journalfs.python.glimpses import Glimpse
    from journalfs.python.message import Message
    from journalfs.python.store import Glimpses, Queue

HEADER: Final = ("Id", "Sent (UTC)", "Prio", "Type", "Tries", "Size", "Body")
PAGE: Final = 64
"""Messages that are asked for at once."""
PAGES_KEPT: Final = 16
BODY_CHARS: Final = 200
"""Of a body that a row has."""


class MessagePages:
    """Of one queue, or of what a selector leaves. Threads may share one; `row` and `at` wait for nobody."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.count = 0
        self._turn = Lock()
        self._closed = False
        self._glimpses: Glimpses | None = None
        self._pages: OrderedDict[int, Sequence[Glimpse]] = OrderedDict()
        self._known: Mapping[int, Sequence[Glimpse]] = {}
        """Those of the look before, shown until there are newer ones."""

    def look(self) -> int:
        """How many there are now; pages are asked for again. Raises `JournalfsError`."""
        with self._turn:
            if self._closed:
                return 0
            if self._glimpses is None:
                self._glimpses = self.queue.glimpses()
            self.count = self._glimpses.count()
            self._known, self._pages = self._pages, OrderedDict()
            return self.count

    def ask(self, begin: int, end: int) -> None:
        """Have the messages [begin, end) at hand, and no more than a few pages in all."""
        with self._turn:
            if self._glimpses is None:
                return  # it was closed meanwhile
            for number in _numbers(begin, end):
                if number not in self._pages:
                    self._pages[number] = self._glimpses.page(number * PAGE, PAGE)
                self._pages.move_to_end(number)
            while len(self._pages) > PAGES_KEPT:
                self._pages.popitem(last=False)

    def has(self, begin: int, end: int) -> bool:
        """Whether `ask` has nothing to do."""
        return all(number in self._pages for number in _numbers(begin, min(end, self.count)))

    def at(self, index: int) -> Glimpse | None:
        """None: it is not at hand."""
        page = self._pages.get(index // PAGE) or self._known.get(index // PAGE, ())
        return page[index % PAGE] if index % PAGE < len(page) else None

    def whole(self, glimpse: Glimpse) -> Message:
        """Raises `NoMessage` where it is gone."""
        with self._turn:
            assert self._glimpses is not None, "it was looked at"
            return glimpse.message or self._glimpses.whole(glimpse)

    def row(self, index: int) -> tuple[str, ...]:
        found = self.at(index)
        return ("…", *[""] * (len(HEADER) - 1)) if found is None else row_of(found)

    def close(self) -> None:
        with self._turn:
            if self._glimpses is not None:
                self._glimpses.close()
                self._glimpses = None
            self._closed = True


def _numbers(begin: int, end: int) -> range:
    """The pages in which messages [begin, end) are."""
    return range(max(0, begin) // PAGE, max(0, end - 1) // PAGE + 1)


def row_of(found: Glimpse) -> tuple[str, ...]:
    message = found.message
    if message is None:
        return str(found.place), "", "", "", "", figures.size(found.size_bytes), "(long: Enter shows it)"
    return (
        str(message.id if message.id is not None else "-"),
        time_text(message.timestamp),
        str(message.priority),
        str(message.type),
        str(message.delivery_count),
        figures.size(found.size_bytes),
        message.damage or one_line(message.body),
    )


def time_text(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def one_line(body: object) -> str:
    """The beginning of a body."""
    if isinstance(body, bytes):
        return body[: BODY_CHARS // 3].hex(" ")
    text = body if isinstance(body, str) else "" if body is None else repr(body)
    return printable(" ".join(text[: 2 * BODY_CHARS].split()))[:BODY_CHARS]
