"""Chooses the queues of a message by the broker's rules. It stages nothing.

Multicast: every queue whose filter accepts the message. Anycast: one of these queues, in turn (`turns`). A
message that states a routing type goes to queues of that type only. A message for one named queue goes there
whatever the queue's filter says; a broker would silently drop one that is sent to `address::queue`.

Queues of wildcard addresses that match the address get the message, too. The anycast queues of each address
take turns among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from journalfs.bindings.model import BindingsState, Queue
from journalfs.change.address_rules import ExpiryRule
from journalfs.config.wildcards import WildcardSyntax, routes
from journalfs.errors import NoRoute
from journalfs.format.bindings import RoutingType
from journalfs.ids import QueueId
from journalfs.live.core import Core
from journalfs.live.settings import settings_in_force
from journalfs.message.outgoing import Outgoing, Texts
from journalfs.selector import Selector, compile_selector

# The turns that anycast queues of an address take.


@dataclass(slots=True)
class RoundRobin:
    """Whose turn is next, by the address sent to and that of the queues.

    As in a broker, what a queue does not accept is for the next one that does, and the turn goes on behind
    that one; a queue at which a consumer would get the message comes before those that nobody reads.
    """

    _next: dict[tuple[str, str], int] = field(default_factory=dict)
    """Places in the list of all anycast queues of the latter address."""

    def first(self, address: str, of: str, count: int) -> int:
        """Return the place of the queue whose turn is next, among `count` queues. For a list that became
        shorter the turns begin at its first queue again.
        """
        place = self._next.get((address, of), 0)
        return place if place < count else 0

    def took(self, address: str, of: str, count: int, turns: int) -> None:
        """So many turns were taken, one after the other, by `count` queues that accept everything."""
        self._next[address, of] = (self.first(address, of, count) + turns) % count

    def choose(
        self,
        address: str,
        anycast: Sequence[Queue],
        accepts: Callable[[Queue], bool],
        is_awaited: Callable[[Queue], bool],
    ) -> Queue | None:
        """Return the anycast queue of an address that gets a message, and take its turn; None if no queue
        accepts it.
        """
        count, of = len(anycast), anycast[0].address
        first = self.first(address, of, count)
        places = [place % count for place in range(first, first + count) if accepts(anycast[place % count])]
        if not places:
            return None
        place = next((one for one in places if is_awaited(anycast[one])), places[0])
        self._next[address, of] = (place + 1) % count
        return anycast[place]


_OF_NO_QUEUE: Final = (
    "a message states routing type {kind.name} ({kind.value}), and all queues here are {other.name}; "
    "write it into a queue's directory, set routing-type of a queue to {kind.name}, or leave out "
    "_AMQ_ROUTING_TYPE (of AMQP the annotation that says so)"
)


@dataclass(frozen=True, slots=True)
class Routed:
    """A message, and the queues that get it."""

    message: Outgoing
    queues: tuple[QueueId, ...]
    pages_of: str | None = None
    """The address in whose pages the message is stored for these queues; None: it is stored in the journal.
    """
    is_copy: bool = False
    """True for a further copy of the message before it, stored elsewhere for other queues. If that one is
    left out as a duplicate, the copy is left out too.
    """


@dataclass(frozen=True, slots=True)
class AnyRoute:
    """Queues of messages that are all alike to the routing."""

    every: tuple[QueueId, ...]
    """Queues that get every message."""
    in_turn: tuple[QueueId, ...]
    """Each message goes to one of them."""
    turns_of: str = ""
    """The address that those are bound to."""

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
    """To which of the queues in turn the first one goes."""
    rule: ExpiryRule

    @property
    def queues(self) -> tuple[QueueId, ...]:
        """All that may get some."""
        return (*self.route.every, *self.route.in_turn)

    @property
    def pairs(self) -> int:
        """Of messages and queues that get them."""
        return len(self.texts) * self.route.queues_per_message


class Consumers(Protocol):
    def consumers_of(self, queue: QueueId) -> Sequence[Sequence[str]]:
        """The selectors, all of which count, of each consumer of a queue."""


@dataclass(slots=True)
class Routing:
    core: Core
    is_large: Callable[[str, Outgoing], bool]
    """Whether the body of what is sent to an address goes to a file of its own."""
    consumers: Consumers | None = None
    """The consumers of the store's queues; None where nothing delivers. The delivering part sets it."""
    _turns: RoundRobin = field(default_factory=RoundRobin)
    _bindings: BindingsState | None = None
    _syntax: WildcardSyntax = field(default_factory=WildcardSyntax)
    _wild: Sequence[str] = ()
    """Wildcard addresses of these bindings that have queues, by name."""
    _besides: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _together: dict[str, Sequence[Queue]] = field(default_factory=dict)
    """Of these bindings, by address: the queues that get what is sent to it."""
    _routes: dict[str, dict[str | None, AnyRoute | None]] = field(default_factory=dict)
    """Of these bindings, by address and queue."""
    _selectors: dict[str, Selector] = field(default_factory=dict)
    _told: set[QueueId] = field(default_factory=set)
    """Queues that get nothing, as an event says."""

    def consumers_of(self, queue: QueueId) -> Sequence[Sequence[str]]:
        return () if self.consumers is None else self.consumers.consumers_of(queue)

    def to_queue(self, address: str, queue: str) -> Queue:
        """The one queue of that name. Raises `NoRoute`."""
        for bound in self.core.bindings.queues_of(address):
            if bound.name == queue:
                return bound
        raise NoRoute(f"{address}::{queue}", "there is no such queue")

    def takes(self, queue: Queue) -> bool:
        """Whether a queue gets anything at this moment: not while it is disabled, nor, with
        `purge-on-no-consumers`, while nobody consumes it.
        """
        binding = queue.binding
        reason = None
        if not binding.enabled:
            reason = "it is disabled"
        elif binding.purge_on_no_consumers and not self.consumers_of(queue.queue_id):
            reason = "nobody reads it, and purge-on-no-consumers is set"
        if reason is None:
            self._told.discard(queue.queue_id)
        elif queue.queue_id not in self._told:
            self._told.add(queue.queue_id)
            self.core.events.add("not-taken", f"{queue.address}::{queue.name} gets nothing: {reason}")
        return reason is None

    def routed(
        self,
        address: str,
        queue: str | None,
        messages: Sequence[Outgoing],
        pages: Container[str] = (),
    ) -> list[Routed]:
        """Messages with the queues that get them. `queue`: that one; `pages`: addresses whose queues get them
        from pages. Raises `NoRoute`, also where one of them states a routing type of no queue.
        """
        kept, now_ms = [message.kept() for message in messages], self.core.clock.now_ms()
        for message in kept:
            message.arrives(now_ms)
        kept = [message.in_journal(now_ms) for message in kept]
        if queue is None:
            routes = self.by_address(address, kept, pages)
            self._require_types(address, kept, routes)
        else:
            only = self.to_queue(address, queue)
            routes = [(only.queue_id,) if self.takes(only) else ()] * len(kept)
        return [Routed(message, queues) for message, queues in zip(kept, routes, strict=True)]

    def of_any(self, address: str, queue: str | None) -> AnyRoute | None:
        """Where messages go that say nothing of where they want to; None if each has to be looked at, or the
        moment decides. `queue`: to that one. Raises `NoRoute`.
        """
        self._refresh()
        routes = self._routes.setdefault(address, {})
        if queue not in routes:
            routes[queue] = self._route(address, queue)
        route = routes[queue]
        if route is not None and len(route.in_turn) > 1 and any(map(self.consumers_of, route.in_turn)):
            return None
        return route

    def _route(self, address: str, queue: str | None) -> AnyRoute | None:
        bound = self._bound(address) if queue is None else [self.to_queue(address, queue)]
        if any(not each.binding.enabled or each.binding.purge_on_no_consumers for each in bound):
            return None
        if queue is not None:
            return AnyRoute((bound[0].queue_id,), ())
        if any(each.binding.filter for each in bound):
            return None
        groups = {each.address for each in bound if each.binding.routing_type is RoutingType.ANYCAST}
        every, in_turn = (_queues_of(bound, kind) for kind in (RoutingType.MULTICAST, RoutingType.ANYCAST))
        own_is_last = groups <= {address} or all(each.address in groups for each in bound)
        if len(groups) > 1 or not own_is_last:
            return None
        return AnyRoute(every, in_turn, *groups)

    def turn(self, address: str, route: AnyRoute) -> int:
        """To which of the queues in turn the next message goes."""
        return self._turns.first(address, route.turns_of, len(route.in_turn) or 1)

    def took_turns(self, sent: Alike) -> None:
        """Advance the turns of the queues that got the messages."""
        if sent.route.in_turn:
            self.took_so_many(sent.address, sent.route, len(sent.texts))

    def took_so_many(self, address: str, route: AnyRoute, messages: int) -> None:
        """So many messages were sent to queues that take turns."""
        self._turns.took(address, route.turns_of, len(route.in_turn), messages)

    # ---- which queues there are ----

    def _refresh(self) -> None:
        before, bindings = self._bindings, self.core.bindings
        if before is bindings:
            return
        self._bindings, syntax = bindings, settings_in_force(self.core).wildcards
        changed = bindings.changed_since(before) if syntax == self._syntax else None
        self._syntax, bound = syntax, bindings.by_address.keys()
        names = bound if changed is None else changed.addresses
        wild = {name for name in names if syntax.routes and syntax.is_wild(name)}
        if changed is not None and not wild:
            for name in names:
                self._routes.pop(name, None)
                self._together.pop(name, None)
            return
        self._wild = sorted({*wild, *(() if changed is None else self._wild)} & bound)
        for known in (self._routes, self._besides, self._together):
            known.clear()

    def concerns(self, bound: str, address: str) -> bool:
        """Return True if messages sent to `address` may reach queues of `bound`."""
        if bound == address:
            return True
        syntax = settings_in_force(self.core).wildcards
        return syntax.routes and _reaches(bound, address, syntax)

    def besides(self, address: str) -> tuple[str, ...]:
        """Wildcard addresses whose queues get what is sent to an address, beside its own."""
        self._refresh()
        if not self._wild:
            return ()
        found = self._besides.get(address)
        if found is None:
            found = self._besides[address] = tuple(
                wild for wild in self._wild if _reaches(wild, address, self._syntax)
            )
        return found

    def reached_from(self, address: str) -> Sequence[Queue]:
        """Return the queues that a message sent to an address may reach, those of the address itself last:
        the message's memory counts for the address whose queue got it last, and that must be this address.
        Queues of one address stand in the order of their creation, which is the broker's order of turns.
        """
        self._refresh()
        found = self._together.get(address)
        if found is None:
            addresses = (*self.besides(address), address)
            found = [
                queue
                for one in addresses
                for queue in sorted(self.core.bindings.queues_of(one), key=lambda queue: queue.queue_id)
            ]
            self._together[address] = found
        return found

    def address_of(self, queue: QueueId) -> str:
        return self.core.bindings.queues[queue].address

    def _bound(self, address: str) -> Sequence[Queue]:
        bound = self.reached_from(address)
        if not bound:
            raise NoRoute(address, "no queue is bound to it; make one with mkdir in its directory")
        return bound

    def by_address(
        self, address: str, messages: Sequence[Outgoing], pages: Container[str] = ()
    ) -> list[tuple[QueueId, ...]]:
        """The queues of each message; none where every filter refuses it, or none is of the routing type that
        it states. Raises `NoRoute` when no queue is bound to the address.
        """
        bound = self._bound(address)
        if len(bound) == 1 and not bound[0].binding.filter and self.takes(bound[0]):
            only = bound[0]
            return [self._only(only, message) for message in messages]
        return [self._chosen(address, bound, message, pages) for message in messages]

    def of_either_kind(self, address: str, message: Outgoing) -> tuple[QueueId, ...]:
        """Return the queues for a message, ignoring the routing type that it states, as brokers route their
        own copies. Raises `NoRoute`.
        """
        return self._chosen(address, self._bound(address), message, (), either_kind=True)

    def _require_types(
        self, address: str, messages: Sequence[Outgoing], routes: Sequence[tuple[QueueId, ...]]
    ) -> None:
        """Raise `NoRoute` if a message states a routing type that no queue of the address has. A message that
        only filters refuse is dropped without an error.
        """
        stated = {
            message.routing_type for message, queues in zip(messages, routes, strict=True) if not queues
        }
        for value in stated - {None}:
            kind, bound = RoutingType(value), {queue.binding.routing_type for queue in self._bound(address)}
            if kind not in bound:
                (other,) = bound
                raise NoRoute(address, _OF_NO_QUEUE.format(kind=kind, other=other))

    @staticmethod
    def _only(queue: Queue, message: Outgoing) -> tuple[QueueId, ...]:
        return (queue.queue_id,) if _wanted(queue, message) else ()

    def _chosen(
        self,
        address: str,
        bound: Sequence[Queue],
        message: Outgoing,
        pages: Container[str],
        *,
        either_kind: bool = False,
    ) -> tuple[QueueId, ...]:
        judging = _Judging(self, address, message, pages, either_kind)
        groups: dict[str, list[Queue]] = {}
        chosen = []
        for queue in bound:
            if queue.binding.routing_type is RoutingType.ANYCAST:
                groups.setdefault(queue.address, []).append(queue)
            elif judging.accepts(queue):
                chosen.append(queue)
        for anycast in groups.values():
            one = self._turns.choose(address, anycast, judging.accepts, judging.is_awaited)
            if one is not None:
                chosen.append(one)
        chosen.sort(key=lambda queue: queue.address == address)
        return tuple(queue.queue_id for queue in chosen)

    def envelope(self, address: str, message: Outgoing, *, paged: bool, sized: bool) -> Mapping[str, object]:
        """Return the message as filters see it: as it is stored. Filters judge it by its own time."""
        now_ms = self.core.clock.now_ms()
        if message.timestamp_ms is None:
            message.timestamp_ms = now_ms
        large, stored = self.is_large(address, message), message.in_page(now_ms) if paged else message
        return stored.envelope(address, now_ms=now_ms, large=large, sized=sized)

    def selector(self, text: str) -> Selector:
        """The filter of a queue, compiled."""
        selector = self._selectors.get(text)
        if selector is None:
            selector = self._selectors[text] = compile_selector(text, stored=True)
        return selector


@dataclass(slots=True)
class _Judging:
    """The queues and consumers found for one message so far."""

    routing: Routing
    address: str
    message: Outgoing
    pages: Container[str]
    either_kind: bool
    """True: the message's routing type is ignored."""
    _envelopes: dict[tuple[bool, bool], Mapping[str, object]] = field(default_factory=dict)
    """As pages hold it, and as the journal does; with its size, and without."""

    def accepts(self, queue: Queue) -> bool:
        """Whether a queue takes it at this moment."""
        wanted = self.either_kind or _wanted(queue, self.message)
        if not (wanted and self.routing.takes(queue)):
            return False
        text = queue.binding.filter
        return not text or self._selects(self.routing.selector(text), queue)

    def is_awaited(self, queue: Queue) -> bool:
        """Whether a consumer of a queue would get it."""
        return any(
            all(self._selects(compile_selector(text), queue) for text in selectors)
            for selectors in self.routing.consumers_of(queue.queue_id)
        )

    def _selects(self, selector: Selector, queue: Queue) -> bool:
        paged, sized = key = queue.address in self.pages, selector.asks_size
        if key not in self._envelopes:
            found = self.routing.envelope(self.address, self.message, paged=paged, sized=sized)
            self._envelopes[key] = found
        return selector.accepts(self._envelopes[key])


def _reaches(bound: str, address: str, syntax: WildcardSyntax) -> bool:
    """Return True if queues of another address get messages that are sent to this one. As in a broker,
    messages sent to a wildcard address stay there.
    """
    return syntax.is_wild(bound) and not syntax.is_wild(address) and routes(bound, address, syntax)


def _queues_of(bound: Sequence[Queue], kind: RoutingType) -> tuple[QueueId, ...]:
    return tuple(queue.queue_id for queue in bound if queue.binding.routing_type is kind)


def _wanted(queue: Queue, message: Outgoing) -> bool:
    wanted = message.routing_type
    return wanted is None or queue.binding.routing_type.value == wanted
