"""A cache whose entries expire after a few seconds, shared by all callers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

import trio

REMEMBERED_MAX: Final = 256
"""So many are remembered, those that came last."""

T = TypeVar("T")


class Remembered(Generic[T]):
    """Values by their keys. Each is forgotten after `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: dict[Hashable, tuple[T, float]] = {}

    def put(self, key: Hashable, value: T) -> None:
        self._values.pop(key, None)
        self._values[key] = (value, trio.current_time() + self._seconds)
        if len(self._values) > REMEMBERED_MAX:
            del self._values[next(iter(self._values))]

    def get(self, key: Hashable) -> T | None:
        found = self._values.get(key)
        return found[0] if found is not None and trio.current_time() < found[1] else None

    def __bool__(self) -> bool:
        return any(True for _ in self._live())

    def __iter__(self) -> Iterator[T]:
        return (value for value, _ in self._live())

    def _live(self) -> Iterator[tuple[T, float]]:
        now = trio.current_time()
        return (found for found in self._values.values() if now < found[1])

    def forget(self, key: Hashable) -> None:
        self._values.pop(key, None)
