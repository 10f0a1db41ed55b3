"""Which queues a message goes to, by the broker's rules.

Multicast: every queue whose filter accepts it. Anycast: one of those, in turn. A message that says which of
the two it wants goes to queues of that kind only. A message for one queue goes there whatever the queue's
filter says, where a broker would silently drop one that is sent to `address::queue`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from journalfs.bindings.model import BindingsState, Queue
from journalfs.errors import NoRoute
from journalfs.format.bindings import RoutingType
from journalfs.ids import QueueId
from journalfs.selector import Selector, compile_selector
from journalfs.store.core import Core
from journalfs.store.outgoing import Outgoing
from journalfs.store.texts import Texts
from journalfs.store.write.address_rules import ExpiryRule


@dataclass(frozen=True, slots=True)
class Routed:
    """A message, and the queues that get it."""

    message: Outgoing
    queues: tuple[QueueId, ...]


@dataclass(frozen=True, slots=True)
class AnyRoute:
    """Queues of messages that are all alike to the routing."""

    every: tuple[QueueId, ...]
    """They get each message."""
    in_turn: tuple[QueueId, ...]
    """Each message goes to one of them."""

    @property
    def queues_per_message(self) -> int:
        return len(self.every) + bool(self.in_turn)


@dataclass(frozen=True, slots=True)
class Alike:
    """Texts that nothing tells apart: all go where the route says, and expire by one rule."""

    address: str
    texts: Texts
    route: AnyRoute
    turn: int
    """To which of the queues in turn the first one goes, modulo their number."""
    rule: ExpiryRule

    @property
    def queues(self) -> tuple[QueueId, ...]:
        """All that may get some."""
        return (*self.route.every, *self.route.in_turn)

    @property
    def pairs(self) -> int:
        """Of messages and queues that get them."""
        return len(self.texts) * self.route.queues_per_message


@dataclass(slots=True)
class Routing:
    core: Core
    _turns: dict[str, int] = field(default_factory=dict)
    """By address: how many messages its anycast queues got, so that they take turns."""
    _bindings: BindingsState | None = None
    _routes: dict[tuple[str, str | None], AnyRoute | None] = field(default_factory=dict)
    """Of these bindings, by address and queue."""
    _selectors: dict[str, Selector] = field(default_factory=dict)

    def to_queue(self, address: str, queue: str) -> QueueId:
        """The one queue of that name. Raises `NoRoute`."""
        for bound in self.core.bindings.queues_of(address):
            if bound.name == queue:
                return bound.queue_id
        raise NoRoute(f"{address}::{queue}", "there is no such queue")

    def routed(self, address: str, queue: str | None, messages: Sequence[Outgoing]) -> list[Routed]:
        """Messages with the queues that get them. `queue`: that one. Raises `NoRoute`."""
        if queue is None:
            routes = self.by_address(address, messages)
        else:
            routes = [(self.to_queue(address, queue),)] * len(messages)
        return [Routed(message.kept(), queues) for message, queues in zip(messages, routes, strict=True)]

    def of_any(self, address: str, queue: str | None) -> AnyRoute | None:
        """Where messages go that say nothing of where they want to, None if filters decide. `queue`: to that
        one. Raises `NoRoute`.
        """
        if self._bindings is not self.core.bindings:
            self._bindings = self.core.bindings
            self._routes.clear()
        key = address, queue
        if key not in self._routes:
            self._routes[key] = self._route(address, queue)
        return self._routes[key]

    def _route(self, address: str, queue: str | None) -> AnyRoute | None:
        if queue is not None:
            return AnyRoute((self.to_queue(address, queue),), ())
        bound = self._bound(address)
        if any(each.binding.filter for each in bound):
            return None
        return AnyRoute(_queues_of(bound, RoutingType.MULTICAST), _queues_of(bound, RoutingType.ANYCAST))

    def turn(self, address: str) -> int:
        """To which of the queues in turn the next message goes, modulo their number."""
        return self._turns.get(address, 0)

    def took_turns(self, sent: Alike) -> None:
        """They were sent."""
        if sent.route.in_turn:
            self._turns[sent.address] = self.turn(sent.address) + len(sent.texts)

    def _bound(self, address: str) -> Sequence[Queue]:
        bound = self.core.bindings.queues_of(address)
        if not bound:
            raise NoRoute(address, "no queue is bound to it; make one with mkdir in its directory")
        return bound

    def by_address(self, address: str, messages: Sequence[Outgoing]) -> list[tuple[QueueId, ...]]:
        """The queues of each message; none where every filter refuses it. Raises `NoRoute` when no queue is
        bound to the address.
        """
        bound = self._bound(address)
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


def _queues_of(bound: Sequence[Queue], kind: RoutingType) -> tuple[QueueId, ...]:
    return tuple(queue.queue_id for queue in bound if queue.binding.routing_type is kind)


def _wanted(queue: Queue, message: Outgoing) -> bool:
    wanted = message.routing_type
    return wanted is None or queue.binding.routing_type.value == wanted
