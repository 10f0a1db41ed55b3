"""The content of a bindings journal after its replay: addresses, queues and all that is stored with them."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from journalfs.format.address_settings import StoredAddressSetting
from journalfs.format.bindings import (
    AddressBinding,
    Divert,
    QueueBinding,
)
from journalfs.ids import AddressId, QueueId


@dataclass(frozen=True, slots=True)
class Address:
    address_id: AddressId | None
    """None for an address that no record names but that a queue is bound to; the broker would create it."""
    binding: AddressBinding
    paused: bool

    @property
    def name(self) -> str:
        return self.binding.name


@dataclass(frozen=True, slots=True)
class Queue:
    queue_id: QueueId
    name: str
    """Unique in the broker: the second queue of a name is shown as `<name>-0`, the third as `<name>-1`."""
    binding: QueueBinding
    paused: bool
    """True also while only the address is paused."""
    paused_itself: bool
    lost: bool = False
    """No binding names it; it is known by messages that refer to it."""

    @property
    def address(self) -> str:
        return self.binding.address


class FullNames(Mapping[int, str]):
    """Of queues, by id: made when they are asked for, since few are."""

    def __init__(self, queues: Mapping[QueueId, Queue]) -> None:
        self._queues = queues

    def __getitem__(self, queue_id: int) -> str:
        queue = self._queues[QueueId(queue_id)]
        return f"{queue.address}::{queue.name}"

    def __iter__(self) -> Iterator[int]:
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something in the journal that is damaged, incomplete or not understood. Nothing else is lost by it."""

    kind: str
    """`undecodable`, `unknown-type`, `incomplete-transaction`, `unfinished-transaction`,
    `prepared-transaction`, `duplicate-address`, `duplicate-queue`, `status-of-unknown` or
    `queue-without-address`.
    """
    reason: str
    file: str
    offset: int
    record_id: int


CHANGES_KEPT_MAX: Final = 4096
"""Changes that are kept: a reader that missed more of them must look at everything."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The differences between two states."""

    queues: frozenset[QueueId] = frozenset()
    """Made, changed or gone."""
    addresses: frozenset[str] = frozenset()
    """The changed addresses, and those to which another queue is bound."""

    def __or__(self, other: Changed) -> Changed:
        return Changed(self.queues | other.queues, self.addresses | other.addresses)


@dataclass(slots=True)
class ChangeLog:
    """The last changes of what one replay says."""

    count: int = 0
    """How many there ever were."""
    kept: deque[Changed] = field(default_factory=lambda: deque(maxlen=CHANGES_KEPT_MAX))

    def add(self, changed: Changed) -> None:
        self.count += 1
        self.kept.append(changed)

    def since(self, count: int) -> Changed | None:
        """None: it is not known any more."""
        more = self.count - count
        if more > len(self.kept):
            return None
        last = (self.kept[-1 - n] for n in range(more))
        return reduce(operator.or_, last, Changed())


@dataclass(frozen=True, slots=True)
class BindingsState:
    """The state of the bindings. The next state of the same replay shares its mappings, which are updated in
    place: a change costs the same however many queues there are. A new object tells that there was a change.
    """

    addresses: Mapping[str, Address]
    queues: Mapping[QueueId, Queue]
    address_settings: Mapping[str, StoredAddressSetting]
    """By match. Another mapping when one of them is another."""
    diverts: Mapping[str, Divert]
    id_counter: int | None
    """Value of the last id counter record; None when there is none (a new store)."""
    record_ids: Mapping[tuple[int, str | int | None], tuple[int, ...]]
    """Ids of the records that stand for a thing, oldest first, by user record type and what it is about: a
    match for settings, an address or queue id for statuses, None for id counters. A change deletes them.
    """
    max_id: int = field(compare=False)
    """Largest record or transaction id in the journal, deleted ones included; -1 when it is empty."""
    anomalies: tuple[Anomaly, ...]
    by_address: Mapping[str, tuple[Queue, ...]]
    """All queues by their address, each address's by name."""
    by_name: Mapping[str, Queue]
    deleted: Set[int] = field(compare=False)
    """Every record id that a delete names, whether it came to count or not."""
    log: ChangeLog = field(compare=False, repr=False)
    changes: int = field(compare=False, repr=False)
    """How many there had been of those in the log."""
    history_whole: bool = False
    """The journal still has every record that was ever written to it."""

    def changed_since(self, before: BindingsState | None) -> Changed | None:
        """None: everything may be otherwise."""
        if before is None or before.log is not self.log:
            return None
        return self.log.since(before.changes)

    def surely_bound(self, queue_id: QueueId, *, may_be_newer: bool) -> bool:
        """Whether a queue that messages are in must be bound: nothing deleted it, and it is no newer than
        what was read. A binding that is not there is lost then.
        """
        is_known = not may_be_newer or queue_id <= self.max_id
        return self.history_whole and is_known and queue_id not in self.deleted

    def queues_of(self, address: str) -> tuple[Queue, ...]:
        """The queues bound to `address`, by name."""
        return self.by_address.get(address, ())

    def queue_named(self, name: str) -> Queue | None:
        return self.by_name.get(name)
