"""What addresses and queues were before they were deleted, so that one that is made again is what it was.

Who writes a queue over deletes it and makes it anew (Spark's `overwrite`, Hadoop's committers, `rsync
--delete`), and means its messages, not its settings.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from journalfs.bindings.model import Address, Queue
from journalfs.clock import Clock
from journalfs.format.bindings import AddressBinding, QueueBinding

NAMES_MAX: Final = 16_384
"""How many of each are remembered: the newest."""

_NS_PER_S: Final = 1_000_000_000

KeyT = TypeVar("KeyT", bound=Hashable)
BindingT = TypeVar("BindingT")


@dataclass(frozen=True, slots=True)
class Was(Generic[BindingT]):
    """What was deleted."""

    binding: BindingT
    paused: bool


class _Lately(Generic[KeyT, BindingT]):
    """What was deleted under each name, for a while. `keep_s`: seconds, asked each time."""

    def __init__(self, clock: Clock, keep_s: Callable[[], int]) -> None:
        self._clock, self._keep_s = clock, keep_s
        self._found: OrderedDict[KeyT, tuple[int, Was[BindingT]]] = OrderedDict()

    def add(self, key: KeyT, was: Was[BindingT]) -> None:
        self._found.pop(key, None)
        self._found[key] = self._clock.monotonic_ns(), was
        if len(self._found) > NAMES_MAX:
            self._found.popitem(last=False)

    def get(self, key: KeyT) -> Was[BindingT] | None:
        deleted_ns, was = self._found.get(key, (0, None))
        if was is None or self._clock.monotonic_ns() - deleted_ns <= self._keep_s() * _NS_PER_S:
            return was
        del self._found[key]
        return None


class Deleted:
    """Addresses by name, and queues by the names of their address and their own."""

    def __init__(self, clock: Clock, keep_s: Callable[[], int]) -> None:
        self._addresses = _Lately[str, AddressBinding](clock, keep_s)
        self._queues = _Lately[tuple[str, str], QueueBinding](clock, keep_s)

    def was_deleted(self, address: Address) -> None:
        self._addresses.add(address.name, Was(address.binding, address.paused))

    def queue_was_deleted(self, queue: Queue) -> None:
        self._queues.add((queue.address, queue.name), Was(queue.binding, queue.paused_itself))

    def remember(self, queue: Queue) -> None:
        """It is about to be made again, however long ago it was deleted."""
        if self.queue(queue.address, queue.name) is None:
            self.queue_was_deleted(queue)

    def address(self, name: str) -> Was[AddressBinding] | None:
        """What an address of this name was that was deleted lately."""
        return self._addresses.get(name)

    def queue(self, address: str, name: str) -> Was[QueueBinding] | None:
        return self._queues.get((address, name))
