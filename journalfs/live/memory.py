"""Estimates the memory that messages would take in a broker, which the limits of addresses count.

A broker holds every message of its journal in memory and estimates its size; messages in pages take none.
Records tell all of that estimate except the parts of a message that the broker happened to decode. So the
result is exact for core messages whose properties were not looked at, and for large ones; an AMQP message
counts with its whole record, up to some hundred bytes more than in a broker.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from journalfs.bindings.model import BindingsState, Queue
from journalfs.engine.waiting import Slices
from journalfs.ids import QueueId
from journalfs.live.opened import OpenStore

if TYPE_CHECKING:
    from journalfs.live.lost_bindings import LostBindings
    from journalfs.message.outgoing import Outgoing


MESSAGE_BYTES: Final = 352
"""A message, beside its encoded form."""

LARGE_MESSAGE_BYTES: Final = 213
"""Bytes that a large message counts beside twice its header. Its body stays on disk."""

REFERENCE_BYTES: Final = 72
"""A message being in a queue."""

_IN_FRONT_BYTES: Final = 18
"""Bytes of a core message's record before its encoded form, without the characters of the address."""

_RECORD_BYTES_MAX: Final = 512 * 1024
"""Upper bound of a record: a longer message becomes a large one, whose record is far smaller."""

_HEADER_BYTES_MAX: Final = 128
"""Most that a header takes beside address and properties."""


class Footprint(NamedTuple):
    """The memory of some messages, and their number."""

    size_bytes: int = 0
    messages: int = 0

    def __add__(self, other: object) -> Footprint:
        if not isinstance(other, Footprint):
            return NotImplemented
        return Footprint(self.size_bytes + other.size_bytes, self.messages + other.messages)


NOTHING: Final = Footprint()


class ActingLimit(NamedTuple):
    """The limit that acts on publications to an address, and what it does."""

    limit: str | None
    """The setting that acts; None: there is room."""
    action: str | None
    """The fate of a publication: `page`, `drop`, `fail` or `block`."""
    since_ms: int | None
    blocked_writers: int
    dropped_messages: int
    """Since the store was opened."""


class Limiting(Protocol):
    def acting(self, address: str) -> ActingLimit:
        """Return the limit that acts on an address now; None: there is none."""


def held_in_queues(core: OpenStore, address: str, queues: Iterable[QueueId]) -> Footprint:
    """Return the memory of the messages in the queues of one address: every message once, and each of its
    references.
    """
    ids = array("q", queues)
    weights = array("i", [weight_of(address)]) * len(ids)
    return held_of(core.loader.state.sums(ids, weights))


def weight_of(address: str) -> int:
    """Return a lower bound of what a message for an address takes beside its record."""
    return MESSAGE_BYTES - _IN_FRONT_BYTES - _utf16_bytes(address)


def held_of(sums: Any) -> Footprint:
    """Return the memory that a `jfs_queue_sums` counts, with the weights of addresses."""
    size_bytes = sums.owned_bytes + sums.weight + sums.owned_large * LARGE_MESSAGE_BYTES
    size_bytes += REFERENCE_BYTES * (sums.live_count + sums.delivering_count)
    return Footprint(int(size_bytes), int(sums.owned))


def each_at_most(address: str, references: int) -> int:
    """Return the most that a message takes beside its body."""
    return MESSAGE_BYTES + _HEADER_BYTES_MAX + _utf16_bytes(address) + references * REFERENCE_BYTES


def held_at_most(address: str, messages: Sequence[Outgoing], references: int) -> Footprint:
    """Return an upper bound for messages that are about to be published, each with so many references."""
    each = each_at_most(address, references)
    from journalfs.message.outgoing import Texts  # noqa: PLC0415 - only who publishes asks

    if isinstance(messages, Texts):
        bodies = 2 * messages.stretches.span_bytes
    else:
        bodies = sum(min(message.record_bytes(address), _RECORD_BYTES_MAX) for message in messages)
    return Footprint(len(messages) * each + bodies, len(messages))


def is_exempt(address: str) -> bool:
    """Whether no limit applies to an address: messages for a broker's management are never held up."""
    return address.startswith(MANAGEMENT_ADDRESS)


MANAGEMENT_ADDRESS: Final = "activemq.management"
"""Where a broker's management listens, unless it was told otherwise."""


def _utf16_bytes(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass"))


# What all queues of a store hold together, added up in one call: there may be a hundred thousand.


class _Some:
    """Queues, and what each message that counts in one weighs beside its record."""

    __slots__ = ("_places", "ids", "weights")

    def __init__(self, queues: Iterable[Queue] = ()) -> None:
        self.ids, self.weights = array("q"), array("i")
        self._places: dict[QueueId, int] = {}
        queues = list(queues)
        self.ids.extend([queue.queue_id for queue in queues])
        self.weights.extend([weight_of(queue.address) for queue in queues])
        self._places.update((queue.queue_id, place) for place, queue in enumerate(queues))

    def put(self, queue: Queue) -> None:
        self.drop(queue.queue_id)
        self._places[queue.queue_id] = len(self.ids)
        self.ids.append(queue.queue_id)
        self.weights.append(weight_of(queue.address))

    def drop(self, queue_id: QueueId) -> None:
        """The last one takes its place."""
        place = self._places.pop(queue_id, None)
        last_id, last_weight = (self.ids.pop(), self.weights.pop()) if place is not None else (0, 0)
        if place is not None and last_id != queue_id:
            self.ids[place], self.weights[place] = last_id, last_weight
            self._places[QueueId(last_id)] = place


@dataclass(slots=True)
class Totals:
    core: OpenStore
    lost: LostBindings
    _bindings: BindingsState | None = None
    _limited: _Some = field(default_factory=_Some)
    """Bound queues of addresses that limits apply to."""
    _exempt: _Some = field(default_factory=_Some)

    async def learn(self) -> None:
        """Look at every queue while others go on, before somebody asks: from then on only at changed ones."""
        if self._bindings is not None:
            return
        slices, bindings = Slices(), self.core.bindings
        limited, exempt = _Some(), _Some()
        for queue in list(bindings.queues.values()):
            await slices.pause()
            (exempt if is_exempt(queue.address) else limited).put(queue)
        if self._bindings is None:  # else somebody asked meanwhile
            self._bindings, self._limited, self._exempt = bindings, limited, exempt

    def live(self) -> int:
        """Messages in queues that are shown."""
        return self._in_journal() + sum(self._in_pages())

    def held(self) -> Footprint:
        """Return the memory of all messages in the journal that limits count. Each message belongs to one
        address.
        """
        self._refresh()
        return held_of(self._sums(self._limited))

    def orphans(self) -> int:
        """References to queues that no binding names: a broker drops them, so they are counted and not
        shown.
        """
        return int(self.core.loader.state.sums(None).live_count) - self._in_journal()

    def _in_journal(self) -> int:
        self._refresh()
        lost = _Some(self.lost.queues.values())
        return sum(int(self._sums(some).live_count) for some in (self._limited, self._exempt, lost))

    def _refresh(self) -> None:
        before, bindings = self._bindings, self.core.bindings
        if bindings is before:
            return
        self._bindings, changed = bindings, bindings.changed_since(before)
        if changed is None:
            exempt = [one for one in bindings.queues.values() if is_exempt(one.address)]
            rest = (
                bindings.queues.values()
                if not exempt
                else (one for one in bindings.queues.values() if not is_exempt(one.address))
            )
            self._limited, self._exempt = _Some(rest), _Some(exempt)
            return
        for queue_id in changed.queues:
            queue = bindings.queues.get(queue_id)
            for some in (self._limited, self._exempt):
                some.drop(queue_id)
            if queue is not None:
                (self._exempt if is_exempt(queue.address) else self._limited).put(queue)

    def _sums(self, some: _Some) -> Any:
        return self.core.loader.state.sums(some.ids, some.weights)

    def _in_pages(self) -> Iterable[int]:
        """Live messages of each page and queue."""
        lost = self.lost.queues.values()
        for address, paged in self.core.pages.items():
            queues = [
                *self.core.bindings.queues_of(address),
                *(one for one in lost if one.address == address),
            ]
            for number in paged.numbers():
                yield from (paged.count(number, queue.queue_id) for queue in queues)
