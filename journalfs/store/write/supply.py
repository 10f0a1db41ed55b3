"""The messages of a queue in the order in which consumers get them, without going through it for each."""

from __future__ import annotations

import contextlib
from collections import deque

from journalfs.limits import SUPPLY_MESSAGES_MAX
from journalfs.store.closer_look import NOT_AS_MEASURED, OVERTAKEN
from journalfs.store.content import QueueContent
from journalfs.store.filters import Filter
from journalfs.store.following import Arrivals, Place, place_run, places
from journalfs.store.runs import JournalRun, Run

SCANNED_AT_ONCE = 4096
"""Messages that a selector judges in one go."""


class Supply:
    """What a queue, or a selector, has for its consumers: the first thousands of messages are found at once.

    It is looked for anew when these are used up, when a message came that is delivered before the last of
    them, when the time of a scheduled one comes, and when one was given back.
    """

    def __init__(self, content: QueueContent, selected: Filter | None) -> None:
        self._content = content
        self._selected = selected
        self._arrivals = Arrivals(content)
        self._window: deque[Place] = deque()
        self._last_priority = 0
        self._version: object = None
        self._stale = True
        self._due_ms = 0

    def forget(self) -> None:
        """What was passed over may be to be had again."""
        self._stale = True

    @property
    def due_ms(self) -> int:
        """When a scheduled message is due next, in milliseconds since 1970; 0: none is."""
        return self._due_ms

    def is_found(self) -> bool:
        """Whether it is known which messages `next` chooses from, so that it needs no time."""
        return self._content.is_settled() and self._chosen()

    def _chosen(self) -> bool:
        return self._selected is None or not (
            self._stale or self._is_due() or (not self._window and self._version != self._content.version)
        )

    async def find(self) -> None:
        """Find that out, while others are served."""
        await self._content.settled()
        if self._selected is None or self._chosen():
            return
        found = 0
        for run in self._content.due()[0]:
            for piece in run.split(SCANNED_AT_ONCE):
                with contextlib.suppress(*NOT_AS_MEASURED, *OVERTAKEN):  # whoever renders them is told
                    await self._selected.learn(piece)
                    found += len(self._selected.apply(piece))
                if found >= SUPPLY_MESSAGES_MAX:
                    return

    def accepts(self, place: Place) -> bool:
        run = place_run(self._content, place)
        return run is not None and (self._selected is None or bool(len(self._selected.apply(run))))

    def next(self) -> tuple[Place, Run] | None:
        """The next message that is there and due; whether it may be had is the caller's business."""
        if self._stale or self._is_due() or self._overtaken():
            self._fill()
        while True:
            while self._window:
                place = self._window.popleft()
                run = due_run(self._content, place)
                if run is not None:
                    return place, run
            if self._version == self._content.version:
                return None
            self._fill()

    def _is_due(self) -> bool:
        return 0 < self._due_ms <= self._content.now_ms

    def _overtaken(self) -> bool:
        """Whether something came that goes before the last of the window. What goes behind it is found when
        the window is used up.
        """
        state = self._content.state
        overtaken = False
        for run in self._arrivals.new():
            if not self._window or not isinstance(run, JournalRun):
                continue
            for info in map(state.ref, run.refs):
                overtaken = overtaken or info.priority > self._last_priority
                if info.scheduled_ms > self._content.now_ms:
                    self._due_ms = min(self._due_ms or info.scheduled_ms, info.scheduled_ms)
        return overtaken

    def _fill(self) -> None:
        content = self._content
        self._version = content.version
        self._stale = False
        self._arrivals.skip()
        self._window.clear()
        runs, self._due_ms = content.due()
        for run in runs:
            for piece in run.split(SCANNED_AT_ONCE):
                kept = self._selected.apply(piece) if self._selected is not None else piece
                self._window.extend(places(content, kept))
                if isinstance(kept, JournalRun):
                    if kept.refs:
                        self._last_priority = content.state.ref(kept.refs[-1]).priority
                else:
                    # Pages come after all that the journal has: whatever comes to it goes before them.
                    self._last_priority = -1
                if len(self._window) >= SUPPLY_MESSAGES_MAX:
                    return


def due_run(content: QueueContent, place: Place) -> Run | None:
    """The message at a place, if it is live and due."""
    run = place_run(content, place)
    if isinstance(run, JournalRun) and content.state.ref(run.refs[0]).scheduled_ms > content.now_ms:
        return None
    return run
