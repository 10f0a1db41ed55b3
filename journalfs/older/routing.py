"""Which queues a paged message of HornetQ 2.1 goes to: its page says nothing, so filters decide."""

from __future__ import annotations

import json
from collections.abc import Mapping

from journalfs.engine.lines import LineBatch
from journalfs.engine.pages import PageScan
from journalfs.errors import SelectorError
from journalfs.ids import QueueId
from journalfs.older.bindings import current_filter
from journalfs.selector import Selector, compile_selector

PIECE = 1024
"""Messages whose lines are made at once."""


def routes_of(page: PageScan, filters: Mapping[QueueId, str | None]) -> list[list[int]]:
    """Of each record of a page, the queues whose filter accepts its message. A filter that nobody can read
    accepts all: twice is better than never.
    """
    chosen = {queue: _compiled(text) for queue, text in filters.items()}
    everyone = [int(queue) for queue, selector in chosen.items() if selector is None]
    judges = {int(queue): selector for queue, selector in chosen.items() if selector is not None}
    if not judges:
        return [list(everyone) for _ in range(page.count)]
    routes: list[list[int]] = []
    for start in range(0, page.count, PIECE):
        indexes = range(start, min(start + PIECE, page.count))
        made = page.fill_lines(indexes, queue=None, now_ms=0)
        batch = LineBatch(made.lines, len(indexes), queue=None, keep=made)
        for index in range(len(indexes)):
            envelope = json.loads(batch.line(index))
            accepting = [queue for queue, selector in judges.items() if selector.accepts(envelope)]
            routes.append(sorted([*everyone, *accepting]))
    return routes


def _compiled(text: str | None) -> Selector | None:
    try:
        return compile_selector(current_filter(text) or "") if text else None
    except SelectorError:
        return None
