"""Positions of a stream: exactly which messages have been taken, in a few kilobytes.

Ids of messages rise, and none is used twice. But a message may become live after others with higher ids:
those of a transaction that commits late, and, by moments, those of clients that send at the same time. So a
position is the highest id taken, which of the ids shortly before it are taken, and which older ones may still
come because a transaction that is not decided holds them.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from journalfs.engine.columns import Array
from journalfs.errors import WrongCall

WINDOW_IDS: Final = 65_536
"""How many ids before the highest one are remembered one by one. Ids are drawn when a message is sent; while
one is on its way into the journal, not nearly as many others are.
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which store a position is of: ids mean nothing in another. A copy or a backup is the same one."""

    node: str | None
    """The broker's id of its node; None before its first start."""
    path: str
    """Says which it is where there is no such id."""

    def as_json(self) -> dict[str, Any]:
        return {"node": self.node, "path": self.path}

    def check(self, said: Mapping[str, Any]) -> None:
        """Raise `WrongCall` if an offset is of another store. Older ones do not tell."""
        other = said.get("store")
        if not isinstance(other, Mapping):
            return
        node, path = other.get("node"), other.get("path")
        same = node == self.node if node is not None and self.node is not None else path == self.path
        if not same:
            raise WrongCall(
                f"this checkpoint is of another store, {path} (node {node}), and not of {self.path} (node "
                f"{self.node}): give the query a checkpointLocation of its own"
            )


@dataclass(frozen=True, slots=True)
class Position:
    """Everything that a stream has taken."""

    highest: int = -1
    """No higher id was taken."""
    taken: bytes = b""
    """A bit for each id of the window, which ends with the highest: whether it was taken."""
    awaited: tuple[int, ...] = ()
    """Ids before the window that are not taken and may come. All others there are taken, or never come."""
    skipped: int = -1
    """Up to this id nothing belongs to the stream: it began with what came later."""

    @property
    def floor(self) -> int:
        """First id of the window."""
        return self.highest + 1 - 8 * len(self.taken)

    def has(self, ids: Array) -> Array:
        """Of each id, whether it was taken."""
        bits = np.unpackbits(np.frombuffer(self.taken, "u1")).astype("?")
        within = (ids >= self.floor) & (ids <= self.highest)
        found = ids < self.floor
        if len(bits):
            found |= within & bits[np.clip(ids - self.floor, 0, len(bits) - 1)]
        if self.awaited:
            found &= ~np.isin(ids, np.array(self.awaited, "i8"))
        return np.asarray(found)

    def with_ids(self, ids: Array, may_come: Collection[int]) -> Self:
        """The position once `ids` were taken too. `may_come` are those that are not taken now and may be
        later: those that are not decided, and those that are left for another time.
        """
        highest = max(self.highest, int(ids.max(initial=-1)))
        size = (min(WINDOW_IDS, highest + 1) + 7) // 8 * 8
        floor = highest + 1 - size
        window = np.arange(floor, highest + 1, dtype="i8")
        taken = self.has(window) & (window >= 0)
        taken[ids[ids >= floor] - floor] = True
        missed = {one for one in may_come if one < floor and not self._took(one)} - set(ids.tolist())
        return type(self)(highest, np.packbits(taken).tobytes(), tuple(sorted(missed)), self.skipped)

    def _took(self, one: int) -> bool:
        return bool(self.has(np.array([one], "i8"))[0])

    # ---- as Spark keeps it ----

    def as_json(self) -> dict[str, Any]:
        packed = base64.b64encode(zlib.compress(self.taken, 9)).decode()
        return {
            "highest": self.highest,
            "taken": packed,
            "awaited": list(self.awaited),
            "skipped": self.skipped,
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Self:
        """Raises `WrongCall` for what is no position."""
        try:
            taken = zlib.decompress(base64.b64decode(said["taken"], validate=True))
            awaited = tuple(map(int, said["awaited"]))
            return cls(int(said["highest"]), taken, awaited, int(said["skipped"]))
        except (KeyError, ValueError, TypeError, zlib.error):
            raise WrongCall(f"a checkpoint that no stream of format journalfs wrote: {said!r:.200}") from None
