"""What an address holds, kept as publishing goes on: looked up in the live state only when it may matter."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from journalfs.store.memory import NOTHING, Held


@dataclass(slots=True)
class Account:
    """What was held at the last look, and what was staged since, which is at most so much."""

    measure: Callable[[], Held]
    """Takes over what is durable, and says what is held then."""
    looks: Callable[[], int]
    """Grows whenever something may have changed what any account says."""
    _held: Held = NOTHING
    _staged: deque[tuple[int, Held]] = field(default_factory=deque)
    """Position behind the records, and what they bring."""
    _together: Held = NOTHING
    _looked: int = -1

    def stage(self, position: int, brought: Held) -> None:
        self._staged.append((position, brought))
        self._together += brought

    def outdate(self) -> None:
        """Something else than what was staged here may have changed it."""
        self._looked = -1

    def at_most(self) -> Held:
        """What is held, or somewhat more; known without a look."""
        return self._held + self._together

    def look(self, reached: int) -> Held:
        """What is held; of what is not durable yet, beyond `reached`, at most so much."""
        self._held = self.measure()
        while self._staged and self._staged[0][0] <= reached:
            self._staged.popleft()
        self._together = sum((brought for _, brought in self._staged), NOTHING)
        self._looked = self.looks()
        return self.at_most()

    @property
    def fresh(self) -> bool:
        return self._looked == self.looks()
