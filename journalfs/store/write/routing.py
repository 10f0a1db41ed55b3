"""Which queues a message goes to, by the broker's rules.

Multicast: every queue whose filter accepts it. Anycast: one of those, in turn. A message that says which of
the two it wants goes to queues of that kind only. A message for one queue goes there whatever the queue's
filter says, as one sent to `address::queue` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from journalfs.bindings.model import Queue
from journalfs.errors import NoRoute
from journalfs.format.bindings import RoutingType
from journalfs.ids import QueueId
from journalfs.selector import Selector, compile_selector
from journalfs.store.core import Core
from journalfs.store.outgoing import Outgoing


@dataclass(slots=True)
class Routing:
    core: Core
    _turns: dict[str, int] = field(default_factory=dict)
    """By address: how many messages its anycast queues got, so that they take turns."""
    _selectors: dict[str, Selector] = field(default_factory=dict)

    def to_queue(self, address: str, queue: str) -> QueueId:
        """The one queue of that name. Raises `NoRoute`."""
        for bound in self.core.bindings.queues_of(address):
            if bound.name == queue:
                return bound.queue_id
        raise NoRoute(f"{address}::{queue}", "there is no such queue")

    def by_address(self, address: str, messages: Sequence[Outgoing]) -> list[tuple[QueueId, ...]]:
        """The queues of each message; none where every filter refuses it. Raises `NoRoute` when no queue is
        bound to the address.
        """
        bound = self.core.bindings.queues_of(address)
        if not bound:
            raise NoRoute(address, "no queue is bound to it; make one with mkdir in its directory")
        if len(bound) == 1 and not bound[0].binding.filter:
            only = bound[0]
            return [self._only(only, message) for message in messages]
        return [self._chosen(address, bound, message) for message in messages]

    @staticmethod
    def _only(queue: Queue, message: Outgoing) -> tuple[QueueId, ...]:
        return (queue.queue_id,) if _wanted(queue, message) else ()

    def _chosen(self, address: str, bound: Sequence[Queue], message: Outgoing) -> tuple[QueueId, ...]:
        accepting = [queue for queue in bound if _wanted(queue, message) and self._accepts(queue, message)]
        chosen = [queue for queue in accepting if queue.binding.routing_type is RoutingType.MULTICAST]
        anycast = [queue for queue in accepting if queue.binding.routing_type is RoutingType.ANYCAST]
        if anycast:
            turn = self._turns.get(address, 0)
            self._turns[address] = turn + 1
            chosen.append(anycast[turn % len(anycast)])
        return tuple(queue.queue_id for queue in chosen)

    def _accepts(self, queue: Queue, message: Outgoing) -> bool:
        text = queue.binding.filter
        if not text:
            return True
        selector = self._selectors.get(text)
        if selector is None:
            selector = self._selectors[text] = compile_selector(text)
        envelope: Mapping[str, object] = message.envelope(queue.address)
        return selector.accepts(envelope)


def _wanted(queue: Queue, message: Outgoing) -> bool:
    wanted = message.routing_type
    return wanted is None or queue.binding.routing_type.value == wanted
