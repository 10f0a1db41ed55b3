"""What a store must hold after a crash: all that was done, and of what was under way all or nothing.

A message is known by its text, which is used once. No two changes of one text are under way at once, so each
text is in the queues that its finished changes left it in, and an unfinished change happened whole or not at
all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Place = tuple[str, str]
"""(queue, text)."""


@dataclass(frozen=True)
class Change:
    """One call of a user: texts that come to queues and go from others."""

    number: int
    adds: frozenset[Place]
    removes: frozenset[Place]

    def line(self, word: str) -> str:
        places = [sorted(self.adds), sorted(self.removes)]
        return json.dumps([word, self.number, *places]) + "\n"


@dataclass
class History:
    """Fed with a worker's lines: `begun`, `done` or `failed`, each with a change."""

    there: set[Place] = field(default_factory=set)
    under_way: dict[int, Change] = field(default_factory=dict)
    done: int = 0
    failed: int = 0

    def take(self, line: str) -> None:
        word, number, adds, removes = json.loads(line)
        change = Change(number, frozenset(map(tuple, adds)), frozenset(map(tuple, removes)))
        if word == "begun":
            self.under_way[number] = change
            return
        self.under_way.pop(number, None)
        if word == "done":
            self.done += 1
            self._apply(change)
        else:
            self.failed += 1

    def _apply(self, change: Change) -> None:
        self.there |= change.adds
        self.there -= change.removes

    def settle(self, found: Mapping[str, Iterable[str]]) -> list[str]:
        """Compare with what an independent reader found, by queue, and go on from there; what is wrong."""
        wrong: list[str] = []
        places = Counter((queue, text) for queue, texts in found.items() for text in texts)
        wrong += [f"{place} is there {count} times" for place, count in places.items() if count > 1]
        actual = set(places)
        for change in self.under_way.values():
            wrong += self._settle(change, actual)
        self.under_way.clear()
        wrong += [f"lost: {place}" for place in sorted(self.there - actual)]
        wrong += [f"came from nowhere: {place}" for place in sorted(actual - self.there)]
        self.there = actual
        return wrong

    def _settle(self, change: Change, actual: set[Place]) -> list[str]:
        """What is there of a change that was under way: all of it or nothing."""
        happened = {place: place in actual for place in change.adds}
        happened |= {place: place not in actual for place in change.removes}
        if len(set(happened.values())) > 1:
            return [f"half done: {change}: {happened}"]
        if all(happened.values()):
            self._apply(change)
        return []
