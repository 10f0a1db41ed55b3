"""Since when nobody has used a queue or an address: what decides whether it is deleted by itself.

Nothing of this is on disk, as a broker keeps none of it either: whatever was there when the store was opened
has not been used yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from journalfs.ids import QueueId
from journalfs.live.core import Core

NEVER = -1


@dataclass(slots=True)
class QueueUse:
    since_ms: int
    """When it was made, or the store opened. Like all times here, in milliseconds since 1970."""
    consumers: int = 0
    """There now."""
    opened: int = 0
    """There ever."""
    left_ms: int = NEVER
    """When the last of those that went did."""
    emptied: bool = False
    """Messages were consumed, removed, or expired."""
    swept: int = NEVER
    """How many consumers there had been when a scan found it unused; not used since, if that is `opened`."""


@dataclass(slots=True)
class AddressUse:
    since_ms: int
    unbound_ms: int = NEVER
    """When a queue of it was deleted."""
    swept: bool = False
    """The last scan found it unused."""


@dataclass(slots=True)
class Uses:
    core: Core
    opened_ms: int = field(init=False)
    _queues: dict[QueueId, QueueUse] = field(default_factory=dict)
    _addresses: dict[str, AddressUse] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.opened_ms = self.core.clock.now_ms()

    def queue(self, queue_id: QueueId) -> QueueUse:
        return self._queues.setdefault(queue_id, QueueUse(self.opened_ms))

    def address(self, address: str) -> AddressUse:
        return self._addresses.setdefault(address, AddressUse(self.opened_ms))

    def queue_made(self, name: str) -> None:
        made = self.core.bindings.queue_named(name)
        if made is not None:
            self._queues[made.queue_id] = QueueUse(self.core.clock.now_ms())

    def address_made(self, address: str) -> None:
        self._addresses[address] = AddressUse(self.core.clock.now_ms())

    def consumer_came(self, queue_id: QueueId) -> None:
        use = self.queue(queue_id)
        use.consumers += 1
        use.opened += 1

    def consumer_left(self, queue_id: QueueId) -> None:
        use = self.queue(queue_id)
        use.consumers -= 1
        use.left_ms = self.core.clock.now_ms()

    def queue_gone(self, queue_id: QueueId, address: str) -> None:
        self._queues.pop(queue_id, None)
        self.address(address).unbound_ms = self.core.clock.now_ms()

    def address_gone(self, address: str) -> None:
        self._addresses.pop(address, None)
