"""Whether a flush waits until others have staged what they have, to share it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

IN_VAIN_MIN: Final = 4
"""So many times in a row nobody came: the next flushes wait for nobody."""

LEFT_OUT_MAX: Final = 16
"""So many of them, before it is tried again: a crowd loses that many shared flushes at most."""


class Gathering:
    """Who is about to flush asks `is_needless`, and awaits `gather` where it is not.

    What waits to be read by the program need not bring anything: a kernel tells of names that it forgot
    beside the requests of a lone writer, and each time the scheduler would be gone through for that.
    """

    __slots__ = ("_in_vain", "_left_out", "gather", "nobody_waits")

    def __init__(self) -> None:
        self.gather: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        """Lets others stage what they have."""
        self.nobody_waits: Callable[[], bool] | None = None
        """Whether `gather` would find nobody. None: it is always awaited."""
        self._in_vain = 0
        self._left_out = 0

    def is_needless(self) -> bool:
        if self.nobody_waits is None:
            return False
        if self.nobody_waits():
            return True
        if self._in_vain < IN_VAIN_MIN or self._left_out >= LEFT_OUT_MAX:
            self._left_out = 0
            return False
        self._left_out += 1
        return True

    def brought(self, others: int) -> None:
        """So many came while it was awaited."""
        self._in_vain = 0 if others else self._in_vain + 1
