"""Messages made of rows: their headers are read in C, many at once; the rest when somebody asks for it.

`own` reads them. A message that outlives its batch has its line rendered when the batch ends, so that who
keeps one message of a million keeps neither the others nor the store's files.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Sequence
from itertools import compress, repeat
from typing import Any, Final

from journalfs.engine.heads import Heads, read_heads
from journalfs.live.stretches import Stretch
from journalfs.python.backend import Batch, LineMessages
from journalfs.python.message import Message, once

MESSAGES_MAX: Final = 8192
"""Of a batch. To ask the store for one costs the time of reading a few hundred."""
LINES_BYTES_MAX: Final = 4 << 20
"""Of the lines of a batch, were they rendered: so much is read from the disk at once."""
WINDOW_LINES_MAX: Final = 256
WINDOW_BYTES_MAX: Final = 256 << 10
"""Of lines that are rendered at once where one after the other is asked for."""
_ALONE: Final = max(map(sys.getrefcount, [object()]))
"""What `getrefcount` says of what only a list has. To count is a tenth of the time of rendering all lines."""


class Rows:
    """A batch: messages [begin, end) of a stretch."""

    def __init__(self, stretch: Stretch, begin: int, heads: Heads, queue: str) -> None:
        self.queue: Final = queue
        self._stretch: Stretch | None = stretch
        self._begin = begin
        self._count = len(heads.ids)
        self._window: tuple[int, Sequence[bytes]] = 0, ()
        """Lines that are rendered, behind the number of the first: one value, since threads may share it."""
        makers = repeat(None), repeat(self), heads.ids, _or_none(heads.timestamps_ms), heads.priorities
        self.messages: Sequence[RowMessage] = list(map(RowMessage, range(self._count), *makers))

    def end(self) -> None:
        """Render the lines of messages that somebody keeps, and let go of the store's files."""
        messages, self.messages = self.messages, ()
        kept = list(map(_ALONE.__lt__, map(sys.getrefcount, messages)))  # first: `compress` has one more
        for message in compress(messages, kept):
            message.line  # noqa: B018 - it is kept by that
        self._stretch, self._window = None, (0, ())

    def line(self, index: int) -> bytes:
        """Render the line of a message, and some of those behind where one after the other is asked for."""
        first, lines = self._window
        if not first <= index < first + len(lines):
            stretch, begin = self._stretch, self._begin + index
            assert stretch is not None, "who is kept had its line rendered"
            ahead = min(2 * len(lines), WINDOW_LINES_MAX) if index == first + len(lines) else 1
            last = min(begin + max(1, ahead), self._begin + self._count)
            end = _end_of(stretch.lines.starts, begin, last, WINDOW_BYTES_MAX)
            first, lines = self._window = index, stretch.lines_between(begin, end)
        return lines[index - first]


def _or_none(times_ms: Sequence[int]) -> Sequence[int | None]:
    return times_ms if 0 not in times_ms else [one or None for one in times_ms]


def _end_of(starts: Sequence[int], begin: int, end: int, bytes_max: int) -> int:
    """How far one may go: [begin, end), at least one message, and not more bytes than that otherwise."""
    return max(begin + 1, min(end, bisect_left(starts, starts[begin] + bytes_max, begin, end)))


def rows_of(stretch: Stretch, begin: int, messages_max: int, queue: str) -> tuple[Batch, int]:
    """Some messages of a stretch from `begin` on, at least one, and where the next one is. Raises what
    reading them raises.
    """
    lines = stretch.lines
    starts = lines.starts
    end = _end_of(starts, begin, min(lines.count, begin + messages_max), LINES_BYTES_MAX)
    lines.prefetch(starts[begin], min(starts[end] + LINES_BYTES_MAX, starts[lines.count]))
    heads = stretch.read(lambda: read_heads(lines.lines, begin, end))
    if heads.are_known:
        return Rows(stretch, begin, heads, queue), end
    return LineMessages(stretch.lines_between(begin, end)), end


class RowMessage(Message, frozen=True, eq=False, gc=False):
    """A message of which some is read already. `_source` is its number in the batch."""

    _source: int  # type: ignore[assignment] # one field, since each makes a message slower to make
    _kept: dict[str, Any] | None
    _rows: Rows
    id: int
    timestamp_ms: int | None
    priority: int

    @once
    def line(self) -> bytes:
        return self._rows.line(self._source)

    @property
    def queue(self) -> str:
        return self._rows.queue
