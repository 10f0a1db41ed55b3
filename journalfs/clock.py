"""The only source of time, so that tests can own it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Protocol

NS_PER_MS: Final = 1_000_000


class Clock(Protocol):
    """Wall time for what users and stores see, monotonic time for measuring how long things take."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z, the unit of every time in a store."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary moment; never goes back."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


@dataclass(frozen=True, slots=True)
class StoppedClock:
    """One moment: for what is shown as it was then."""

    at_ms: int

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ns(self) -> int:
        return 0


@dataclass(slots=True)
class FakeClock:
    """A clock that moves only when told."""

    wall_ms: int = 0
    elapsed_ns: int = 0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ns(self) -> int:
        return self.elapsed_ns

    def advance(self, *, by_ms: int) -> None:
        """Move both clocks forward. Raises `ValueError` on a negative step: monotonic time cannot go back."""
        if by_ms < 0:
            raise ValueError(f"a clock cannot be moved back by {-by_ms} ms")
        self.wall_ms += by_ms
        self.elapsed_ns += by_ms * 1_000_000
