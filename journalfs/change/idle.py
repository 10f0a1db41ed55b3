"""Remembers since when a queue or an address was not used, which decides whether it is deleted by itself.

Nothing of this is on disk, nor does a broker keep it: a queue counts as unused since the store was opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from journalfs.ids import QueueId
from journalfs.live.core import Core

NEVER = -1


@dataclass(slots=True)
class LastUse:
    """Of a queue by consumers, or of an address by its queues."""

    since_ms: int
    """When it was made, or the store opened. Like all times here, in milliseconds since 1970."""
    consumers: int = 0
    """There now."""
    opened: int = 0
    """There ever."""
    left_ms: int = NEVER
    """When the last of those that went did, consumers or queues."""
    emptied: bool = False
    """Messages were consumed, removed, or expired."""
    swept: int = NEVER
    """How many consumers there had been when a scan found it unused; not used since, if that is `opened`."""


@dataclass(slots=True)
class LastUses:
    core: Core
    opened_ms: int = field(init=False)
    _uses: dict[QueueId | str, LastUse] = field(default_factory=dict)
    """By queue, and by the name of an address."""

    def __post_init__(self) -> None:
        self.opened_ms = self.core.clock.now_ms()

    def of(self, what: QueueId | str) -> LastUse:
        return self._uses.setdefault(what, LastUse(self.opened_ms))

    def queue_made(self, name: str) -> None:
        made = self.core.bindings.queue_named(name)
        if made is not None:
            self.made(made.queue_id)

    def made(self, what: QueueId | str) -> None:
        self._uses[what] = LastUse(self.core.clock.now_ms())

    def consumer_came(self, queue_id: QueueId) -> None:
        use = self.of(queue_id)
        use.consumers += 1
        use.opened += 1

    def consumer_left(self, queue_id: QueueId) -> None:
        self.of(queue_id).consumers -= 1
        self.left(queue_id)

    def left(self, what: QueueId | str) -> None:
        self.of(what).left_ms = self.core.clock.now_ms()

    def gone(self, what: QueueId | str) -> None:
        self._uses.pop(what, None)
