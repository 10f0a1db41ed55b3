"""Many queues that are made at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from journalfs.api import QueuePath


@dataclass(frozen=True)
class NewQueue:
    """A queue that is to be there. `settings`: what it gets if it is made."""

    address: str
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> QueuePath:
        return self.address, self.name


def rounds(wanted: Mapping[QueuePath, NewQueue]) -> Iterator[list[NewQueue]]:
    """Those of each round depend on what the rounds before made, and not on each other: the first queue of an
    address says how it routes, the second may be refused beside the first. All others are like the second. A
    name that is there twice is refused in a later round.
    """
    found: tuple[list[NewQueue], ...] = ([], [], [])
    twice: list[NewQueue] = []
    count: Counter[str] = Counter()
    names: set[str] = set()
    for one in wanted.values():
        if one.name in names:
            twice.append(one)
            continue
        names.add(one.name)
        found[min(count[one.address], 2)].append(one)
        count[one.address] += 1
    yield from filter(None, (*found, twice))


def settings_rounds(made: Sequence[NewQueue], routes: Callable[[NewQueue], str]) -> Iterator[list[NewQueue]]:
    """The same for settings of queues that were made. One that comes to route otherwise changes its address:
    of these there is one an address in each round. `routes`: how a queue does now.
    """
    found: dict[int, list[NewQueue]] = {}
    count: Counter[str] = Counter()
    for one in made:
        changes = one.settings.get("routing-type", "").upper() not in ("", routes(one))
        count[one.address] += changes
        found.setdefault(count[one.address] if changes else 0, []).append(one)
    for number in sorted(found):
        yield found[number]
