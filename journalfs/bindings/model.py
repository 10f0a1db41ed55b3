"""What a bindings journal says once it is replayed: addresses, queues and all that is stored with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from journalfs.format.address_settings import StoredAddressSetting
from journalfs.format.bindings import (
    AddressBinding,
    Connector,
    Divert,
    Group,
    QueueBinding,
    SecuritySetting,
)
from journalfs.format.bridges import Bridge
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


@dataclass(frozen=True, slots=True)
class BindingsState:
    """A snapshot. Mappings keep the order of the journal."""

    addresses: Mapping[str, Address]
    queues: Mapping[QueueId, Queue]
    address_settings: Mapping[str, StoredAddressSetting]
    """By match."""
    security_settings: Mapping[str, SecuritySetting]
    """By match."""
    diverts: Mapping[str, Divert]
    bridges: Mapping[str, Bridge]
    connectors: Mapping[str, Connector]
    users: tuple[str, ...]
    """Names only: the stored passwords stay where they are."""
    roles: Mapping[str, tuple[str, ...]]
    """By user."""
    groups: tuple[Group, ...]
    key_values: Mapping[str, Mapping[str, str]]
    """By map id, then key."""
    id_counter: int | None
    """Value of the last id counter record; None when there is none (a new store)."""
    record_ids: Mapping[tuple[int, str | int | None], tuple[int, ...]]
    """Ids of the records that stand for a thing, oldest first, by user record type and what it is about: a
    match for settings, an address or queue id for statuses, None for id counters. A change deletes them.
    """
    max_id: int
    """Largest record or transaction id in the journal, deleted ones included; -1 when it is empty."""
    anomalies: tuple[Anomaly, ...]
    deleted: frozenset[int] = frozenset()
    """Every record id that a delete names, whether it came to count or not."""
    history_whole: bool = False
    """The journal still has every record that was ever written to it."""
    _by_address: dict[str, tuple[Queue, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Filled when somebody asks: there may be thousands of queues, and each publication asks."""

    def surely_bound(self, queue_id: QueueId, *, may_be_newer: bool) -> bool:
        """Whether a queue that messages are in must be bound: nothing deleted it, and it is no newer than
        what was read. A binding that is not there is lost then.
        """
        is_known = not may_be_newer or queue_id <= self.max_id
        return self.history_whole and is_known and queue_id not in self.deleted

    def queues_by_address(self) -> Mapping[str, tuple[Queue, ...]]:
        """All queues by their address, each address's by name."""
        if self.queues and not self._by_address:
            grouped: dict[str, list[Queue]] = {}
            for queue in sorted(self.queues.values(), key=lambda queue: queue.name):
                grouped.setdefault(queue.address, []).append(queue)
            self._by_address.update({address: tuple(queues) for address, queues in grouped.items()})
        return self._by_address

    def queues_of(self, address: str) -> tuple[Queue, ...]:
        """The queues bound to `address`, by name."""
        return self.queues_by_address().get(address, ())

    def queue_named(self, name: str) -> Queue | None:
        return next((queue for queue in self.queues.values() if queue.name == name), None)
