"""The turns that anycast queues of an address take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from journalfs.bindings.model import Queue


@dataclass(slots=True)
class Turns:
    """Whose turn is next, by the address sent to and that of the queues.

    As in a broker, what a queue does not accept is for the next one that does, and the turn goes on behind
    that one; a queue at which a consumer would get the message comes before those that nobody reads.
    """

    _next: dict[tuple[str, str], int] = field(default_factory=dict)
    """Places in the list of all anycast queues of the latter address."""

    def first(self, address: str, of: str, count: int) -> int:
        """The place of the queue among `count` whose turn is next. A list that became shorter begins anew."""
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
        """Which anycast queue of one address gets a message; it took its turn. None: none accepts it."""
        count, of = len(anycast), anycast[0].address
        first = self.first(address, of, count)
        places = [place % count for place in range(first, first + count) if accepts(anycast[place % count])]
        if not places:
            return None
        place = next((one for one in places if is_awaited(anycast[one])), places[0])
        self._next[address, of] = (place + 1) % count
        return anycast[place]
