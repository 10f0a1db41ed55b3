"""Who takes what away: a message that one caller has claimed is not given to another."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Final

from journalfs.engine.id_set import IdSet

FEW: Final = 16
"""Claims of so many ids and less, of which there may be any number, lie in one set together."""


class Claim:
    """What one caller got. 8 bytes each, and some 16 more once others ask for things of the same place."""

    __slots__ = ("_set", "ids", "place")

    def __init__(self, place: Hashable, ids: array[int]) -> None:
        self.place = place
        self.ids = ids
        self._set: IdSet | None = None

    def without(self, ids: array[int]) -> array[int]:
        """Those that are not claimed by this."""
        if self._set is None:
            self._set = IdSet(self.ids)
        return self._set.without(ids)


class Claims:
    """Claims by place: ids in one place have nothing to do with those of another."""

    __slots__ = ("_few", "_many")

    def __init__(self) -> None:
        self._few: dict[Hashable, set[int]] = {}
        """Ids of all small claims."""
        self._many: dict[Hashable, list[Claim]] = {}

    def has(self, place: Hashable, one: int) -> bool:
        """Whether anybody claimed it."""
        if one in self._few.get(place, ()):
            return True
        many = self._many.get(place)
        return many is not None and not all(len(claim.without(array("q", [one]))) for claim in many)

    def take(self, place: Hashable, ids: array[int], *, ours: Sequence[Claim] = ()) -> Claim:
        """Claim those of `ids`, all different, that nobody else has. None of them is in `ours`."""
        few = self._few.get(place)
        if few:
            if len(ids) <= FEW:
                ids = array("q", (one for one in ids if one not in few))
            else:
                ids = IdSet(array("q", few)).without(ids)
        for other in self._many.get(place, ()):
            if other not in ours:
                ids = other.without(ids)
        claim = Claim(place, ids)
        if len(ids) <= FEW:
            if len(ids):
                self._few.setdefault(place, set()).update(ids)
        else:
            self._many.setdefault(place, []).append(claim)
        return claim

    def let_go(self, claim: Claim) -> None:
        if len(claim.ids) > FEW:
            many = self._many[claim.place]
            many.remove(claim)
            if not many:
                del self._many[claim.place]
        elif len(claim.ids):
            few = self._few[claim.place]
            few.difference_update(claim.ids)
            if not few:
                del self._few[claim.place]
