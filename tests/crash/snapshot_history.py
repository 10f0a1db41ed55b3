"""What snapshots must hold after a crash: all that was done before they were begun, nothing that was begun
after they were made, and of what was under way meanwhile each change or not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum

from tests.crash.history import Change, History, Place


class Word(StrEnum):
    """What a worker says of a snapshot."""

    MAKING = "making"
    MADE = "made"
    REMOVING = "removing"
    REMOVED = "removed"


@dataclass
class Making:
    """What there was when a snapshot was begun, and what was changed while it was made, in this order."""

    there: frozenset[Place]
    changes: list[Change]

    def wrong(self, found: Set[Place]) -> list[str]:
        """What a snapshot has too much or too little."""
        touching = Counter(place for change in self.changes for place in change.adds | change.removes)
        added = frozenset[Place]().union(*(change.adds for change in self.changes))
        removed = frozenset[Place]().union(*(change.removes for change in self.changes))
        wrong = [f"lost: {place}" for place in sorted(self.there - removed - found)]
        wrong += [f"came from nowhere: {place}" for place in sorted(found - self.there - added)]
        for change in self.changes:
            # Where another change follows, whether this one was there cannot be seen.
            adds = {place in found for place in change.adds if touching[place] == 1}
            removes = {place not in found for place in change.removes if touching[place] == 1}
            if len(adds | removes) > 1:
                wrong.append(f"half done: {change}")
        return wrong


@dataclass
class SnapshotHistory(History):
    """A `History` that is told of snapshots too."""

    making: dict[str, Making] = field(default_factory=dict)
    made: dict[str, Making | frozenset[Place]] = field(default_factory=dict)
    """What each may hold, or was found to hold after a crash: from then on that and nothing else."""
    removing: set[str] = field(default_factory=set)
    snapshots: int = 0

    def take(self, line: str) -> None:
        word, name, adds, removes = json.loads(line)
        if word not in set(Word):
            if word == "begun":
                change = Change(name, frozenset(map(tuple, adds)), frozenset(map(tuple, removes)))
                for one in self.making.values():
                    one.changes.append(change)
            super().take(line)
        elif word == Word.MAKING:
            self.making[name] = Making(frozenset(self.there), list(self.under_way.values()))
        elif word == Word.MADE:
            self.made[name] = self.making.pop(name)
            self.snapshots += 1
        elif word == Word.REMOVING:
            self.removing.add(name)
        else:
            self.removing.remove(name)
            del self.made[name]

    def settle_snapshots(self, found: Mapping[str, Sequence[Place]]) -> list[str]:
        """Compare with what all snapshots hold, and go on from there; what is wrong."""
        wrong = [f"snapshot {name} is gone" for name in self.made.keys() - found.keys() - self.removing]
        may = {**self.making, **self.made}
        for name, places in found.items():
            held = frozenset(places)
            if len(held) < len(places):
                wrong.append(f"snapshot {name} holds something twice")
            if name not in may:
                wrong.append(f"snapshot {name} came from nowhere")
                continue
            expected = may[name]
            if isinstance(expected, Making):
                wrong += [f"snapshot {name}: {one}" for one in expected.wrong(held)]
            elif held != expected:
                wrong.append(f"snapshot {name} changed")
        self.made = {name: frozenset(places) for name, places in found.items()}
        self.making.clear()
        self.removing.clear()
        return wrong
