"""What each process did last, for as long as it matters."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

import trio

PROCESSES_MAX: Final = 256
"""Processes that are remembered, those that did something last."""

T = TypeVar("T")


class Recent(Generic[T]):
    """The last thing that each process, or thread, did. Forgotten after `seconds`."""

    __slots__ = ("_last", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last: dict[Hashable, tuple[T, float]] = {}

    def did(self, process: Hashable, what: T) -> None:
        self._last.pop(process, None)
        self._last[process] = (what, trio.current_time() + self._seconds)
        if len(self._last) > PROCESSES_MAX:
            del self._last[next(iter(self._last))]

    def of(self, process: Hashable) -> T | None:
        last = self._last.get(process)
        return last[0] if last is not None and trio.current_time() < last[1] else None

    def __iter__(self) -> Iterator[T]:
        """What is remembered of all of them."""
        now = trio.current_time()
        return (what for what, until in self._last.values() if now < until)

    def forget(self, process: Hashable) -> None:
        self._last.pop(process, None)
