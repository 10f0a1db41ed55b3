"""What happened to the store while it was open, for `.journalfs/events.jsonl` and for the log."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

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

    def add(self, identifier: str, message: str, *, level: int = logging.WARNING, **facts: object) -> None:
        """`identifier` is stable for programs, `message` says what happened and what to do about it."""
        message = shown(message)
        self.last_ms = self.clock.now_ms()
        self._kept.append({"time": self.last_ms, "event": identifier, "message": message, **facts})
        logger.log(level, "%s", message)

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)
