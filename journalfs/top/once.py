"""`journalfs top --once` and `--json`: one look at the queues, printed. Needs no terminal, and no Textual."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from journalfs.clock import SystemClock
from journalfs.top.listing import HEADER, QueueList
from journalfs.top.looking import Looking

ASKED_AT_ONCE: Final = 500


class Printed:
    """Two looks at a store, `interval_s` apart: rates need two. `rows` and `facts` ask as they go."""

    def __init__(self, path: Path, *, sort: str, wanted: str, limit: int | None, interval_s: float) -> None:
        self._looking = Looking(path, write=False, now_s=time.monotonic)
        self._interval_s = interval_s
        self._limit = limit
        self.list = QueueList(self._looking, SystemClock().now_ms)
        self.list.sort, self.list.filter = sort, wanted

    def __enter__(self) -> Printed:
        self._looking.look()
        if self._interval_s:
            time.sleep(self._interval_s)
            self._looking.look()
        self.list.show()
        return self

    def __exit__(self, *failure: object) -> None:
        self._looking.close()

    def _indexes(self) -> Iterator[int]:
        """Of the rows that are printed, their details at hand."""
        end = len(self.list) if self._limit is None else min(self._limit, len(self.list))
        for begin in range(0, end, ASKED_AT_ONCE):
            last = min(end, begin + ASKED_AT_ONCE)
            self._looking.ask_details(self.list.names(begin, last))
            yield from range(begin, last)

    def rows(self) -> Iterator[Sequence[object]]:
        return map(self.list.row, self._indexes())

    def facts(self) -> Iterator[dict[str, object]]:
        return map(self.list.facts, self._indexes())


COLUMNS: Final = tuple(name.upper() for name in HEADER)
