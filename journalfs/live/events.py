"""Events of the open store, for `.journalfs/events.jsonl` and for the log."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from journalfs.api import Answering
from journalfs.clock import Clock
from journalfs.limits import EVENTS_KEPT_MAX
from journalfs.showing import shown

logger = logging.getLogger("journalfs")


@dataclass(slots=True)
class Events:
    """The newest events, oldest first; each is also logged."""

    clock: Clock
    _kept: deque[dict[str, object]] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT_MAX))
    last_ms: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """How many there were of each kind, also of those that are kept no more."""

    def add(self, identifier: str, message: str, *, level: int = logging.WARNING, **facts: object) -> None:
        """`identifier` is stable for programs, `message` says what happened and what to do about it."""
        message = shown(message)
        self.last_ms = self.clock.now_ms()
        self.counts[identifier] += 1
        self._kept.append({"time": self.last_ms, "event": identifier, "message": message, **facts})
        logger.log(level, "%s", message)

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)


# How long single turns of the event loop take: while one lasts, nobody else is served.

NOTED_S: Final = 0.001
"""Shorter turns are counted only."""

SLOW_S: Final = 0.05
"""Seconds from which a turn of the event loop is an event: no request should wait longer than this for
another one.
"""

EVENT_INTERVAL_MS: Final = 1_000
"""Between two such events; turns between them are counted."""

TURNS_KEPT: Final = 65_536
"""Turns of which percentiles are made, or half as many."""


@dataclass(slots=True)
class _Window:
    turns: int = 0
    noted: deque[float] = field(default_factory=lambda: deque(maxlen=4096))


@dataclass(slots=True)
class LoopLag:
    """How long the turns of the event loop take that serves requests. Empty in a process that serves none."""

    clock: Clock
    events: Events
    longest_s: float = 0.0
    slow: int = 0
    front: Answering | None = None
    _now: _Window = field(default_factory=_Window)
    _before: _Window = field(default_factory=_Window)
    _said_ms: int | None = None
    _unsaid: int = 0

    def turn(self, took_s: float) -> bool:
        """A turn is over. Whether it was so long that `was_slow` should be told what it was."""
        window = self._now
        window.turns += 1
        if window.turns >= TURNS_KEPT // 2:
            self._before, self._now = window, _Window()
        if took_s < NOTED_S:
            return False
        window.noted.append(took_s)
        self.longest_s = max(self.longest_s, took_s)
        return took_s >= SLOW_S

    def was_slow(self, took_s: float, busy_s: float, what: str) -> None:
        """`busy_s`: how much of it the processor worked on it, and not on other processes."""
        self.slow += 1
        now_ms = self.clock.now_ms()
        if self._said_ms is not None and 0 <= now_ms - self._said_ms < EVENT_INTERVAL_MS:
            self._unsaid += 1
            return
        took_ms, busy_ms = round(took_s * 1000), round(busy_s * 1000)
        more = f"; {self._unsaid} more were slow since the last such event" if self._unsaid else ""
        message = f"{what} kept all others waiting for {took_ms} ms, busy for {busy_ms} ms of it{more}"
        self.events.add("slow", message, level=20, what=what, ms=took_ms, busyMs=busy_ms, more=self._unsaid)
        self._said_ms, self._unsaid = now_ms, 0

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile over the last turns; turns shorter than `NOTED_S` count as 0."""
        turns = self._now.turns + self._before.turns
        noted = sorted([*self._before.noted, *self._now.noted], reverse=True)
        rank = int(turns * (100 - percent) / 100)
        return round(noted[rank] * 1000, 3) if rank < len(noted) else 0.0

    def status(self) -> Mapping[str, float]:
        """Milliseconds."""
        return {
            "max": round(self.longest_s * 1000, 3),
            "p50": self.percentile_ms(50),
            "p99": self.percentile_ms(99),
            "p99.9": self.percentile_ms(99.9),
            "slow": self.slow,
        }
