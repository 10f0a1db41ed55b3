"""How much memory messages would take in a broker: what the limits of addresses count.

A broker holds every message of its journal in memory and estimates what that takes; messages in pages take
none. Of its estimate everything is known from the records but what it decoded of a message, which it counts
too. So this is exact for core messages of which no property was looked at, and for large ones; an AMQP
message counts with all of its record, up to some hundred bytes more than with a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from journalfs.engine.state_types import QueueInfo
    from journalfs.ids import QueueId
    from journalfs.store.core import Core
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


def held_in_queues(core: Core, address: str, queues: Iterable[QueueId]) -> Held:
    """What the messages in queues of one address take: every message once, and its references besides."""
    state = core.loader.state
    return _held(address, [state.queue(state.register_queue(queue)) for queue in queues])


def held_in_all(core: Core) -> Held:
    """The same of all messages in the journal, of which each belongs to one address."""
    addresses = {queue_id: queue.address for queue_id, queue in core.bindings.queues.items()}
    found = NOTHING
    for info in core.loader.state.queues():
        address = addresses.get(info.queue_id)  # type: ignore[call-overload]
        if address is not None and not is_exempt(address):
            found += _held(address, [info])
    return found


def _held(address: str, infos: Sequence[QueueInfo]) -> Held:
    messages = sum(info.owned for info in infos)
    large = sum(info.owned_large for info in infos)
    beside = MESSAGE_BYTES - _IN_FRONT_BYTES - _utf16_bytes(address)
    size_bytes = sum(info.owned_bytes for info in infos)
    size_bytes += (messages - large) * beside + large * LARGE_MESSAGE_BYTES
    size_bytes += REFERENCE_BYTES * sum(info.live_count + info.delivering_count for info in infos)
    return Held(size_bytes, messages)


def held_at_most(address: str, messages: Sequence[Outgoing], references: int) -> Held:
    """What messages that are about to be published will take, or somewhat more; each in so many queues."""
    each = MESSAGE_BYTES + _HEADER_BYTES_MAX + _utf16_bytes(address) + references * REFERENCE_BYTES
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
