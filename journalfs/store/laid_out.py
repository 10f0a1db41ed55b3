"""Parts whose lines were laid out for a reader, kept for the next one.

To lay out 65,536 lines takes some 1.5 ms; what a part holds changes only by messages that leave it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from journalfs.store.runs import JournalSegment, Run

LINES_MAX: Final = 262_144
"""Of all that are kept: 25 MB."""

PARTS_MAX: Final = 64


class LaidOut:
    """By what tells one content from every other. May be cleared in any thread."""

    __slots__ = ("_kept", "_lock")

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Run, JournalSegment]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> tuple[Run, JournalSegment] | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def keep(self, key: Hashable, run: Run, segment: JournalSegment) -> None:
        """Bodies in files of their own are not kept: their space is free once they are deleted."""
        if segment.lines.has_large or len(run) > LINES_MAX:
            return
        with self._lock:
            self._kept[key] = run, segment
            while len(self._kept) > PARTS_MAX or sum(len(run) for run, _ in self._kept.values()) > LINES_MAX:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Let go of the journal files that they are rendered from."""
        with self._lock:
            self._kept.clear()
