"""How much memory messages would take in a broker: what the limits of addresses count.

A broker holds every message of its journal in memory and estimates what that takes; messages in pages take
none. Of its estimate everything is known from the records but what it decoded of a message, which it counts
too. So this is exact for core messages of which no property was looked at, and for large ones; an AMQP
message counts with all of its record, up to some hundred bytes more than with a broker.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from journalfs.ids import QueueId
    from journalfs.store.opened import OpenStore
    from journalfs.store.outgoing import Outgoing

MESSAGE_BYTES: Final = 352
"""A message, beside its encoded form."""

LARGE_MESSAGE_BYTES: Final = 213
"""A large message, beside twice its header. Its body stays on disk."""

REFERENCE_BYTES: Final = 72
"""A message being in a queue."""

_IN_FRONT_BYTES: Final = 18
"""What the record of a core message has before its encoded form, beside the characters of the address."""

_RECORD_BYTES_MAX: Final = 512 * 1024
"""What is longer becomes a large message, whose record is far below that."""

_HEADER_BYTES_MAX: Final = 128
"""Most that a header takes beside address and properties."""


class Held(NamedTuple):
    """What some messages take."""

    size_bytes: int = 0
    messages: int = 0

    def __add__(self, other: object) -> Held:
        if not isinstance(other, Held):
            return NotImplemented
        return Held(self.size_bytes + other.size_bytes, self.messages + other.messages)


NOTHING: Final = Held()


class ActingLimit(NamedTuple):
    """What limits do to those who publish to an address."""

    limit: str | None
    """The setting that acts; None: there is room."""
    action: str | None
    """What becomes of what is published: `page`, `drop`, `fail` or `block`."""
    since_ms: int | None
    blocked_writers: int
    dropped_messages: int
    """Since the store was opened."""


def held_in_queues(core: OpenStore, address: str, queues: Iterable[QueueId]) -> Held:
    """What the messages in queues of one address take: every message once, and its references besides."""
    ids = array("q", queues)
    weights = array("i", [weight_of(address)]) * len(ids)
    return held_of(core.loader.state.sums(ids, weights))


def weight_of(address: str) -> int:
    """What a message for an address takes beside its record; it may be less."""
    return MESSAGE_BYTES - _IN_FRONT_BYTES - _utf16_bytes(address)


def held_of(sums: Any) -> Held:
    """What a `jfs_queue_sums` says, with the weights of addresses."""
    size_bytes = sums.owned_bytes + sums.weight + sums.owned_large * LARGE_MESSAGE_BYTES
    size_bytes += REFERENCE_BYTES * (sums.live_count + sums.delivering_count)
    return Held(int(size_bytes), int(sums.owned))


def each_at_most(address: str, references: int) -> int:
    """What one of them takes beside its body."""
    return MESSAGE_BYTES + _HEADER_BYTES_MAX + _utf16_bytes(address) + references * REFERENCE_BYTES


def held_at_most(address: str, messages: Sequence[Outgoing], references: int) -> Held:
    """What messages that are about to be published will take, or somewhat more; each in so many queues."""
    each = each_at_most(address, references)
    from journalfs.store.texts import Texts  # noqa: PLC0415 - only who publishes asks

    if isinstance(messages, Texts):
        bodies = 2 * messages.stretches.span_bytes
    else:
        bodies = sum(min(message.record_bytes(address), _RECORD_BYTES_MAX) for message in messages)
    return Held(len(messages) * each + bodies, len(messages))


def is_exempt(address: str) -> bool:
    """Whether no limit applies to an address: messages for a broker's management are never held up."""
    return address.startswith(MANAGEMENT_ADDRESS)


MANAGEMENT_ADDRESS: Final = "activemq.management"
"""Where a broker's management listens, unless it was told otherwise."""


def _utf16_bytes(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass"))
