"""Things with names, in the order of these: one more, or one less, costs the same however many there are."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Generic, TypeVar

_Thing = TypeVar("_Thing")


class ByName(Generic[_Thing]):
    __slots__ = ("_all", "_names", "_things")

    def __init__(self) -> None:
        self._names: list[str] = []
        self._things: dict[str, _Thing] = {}
        self._all: Sequence[_Thing] | None = None

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def get(self, name: str) -> _Thing | None:
        return self._things.get(name)

    def put(self, name: str, thing: _Thing) -> None:
        if name not in self._things:
            insort(self._names, name)
        self._things[name] = thing
        self._all = None

    def drop(self, name: str) -> None:
        if self._things.pop(name, None) is not None:
            del self._names[bisect_left(self._names, name)]
            self._all = None

    def all(self) -> Sequence[_Thing]:
        """As they are now."""
        if self._all is None:
            self._all = tuple(map(self._things.__getitem__, self._names))
        return self._all
