"""User ids for new messages: time-based UUIDs, as the broker's own clients give them."""

from __future__ import annotations

import os
import struct
from typing import Final

_ID: Final = struct.Struct(">IHH8s")
_BEFORE_1970: Final = 0x01B21DD213814000
"""From 1582-10-15, where these ids count from, to 1970-01-01, in their steps of 100 ns."""
_STEPS_PER_MS: Final = 10_000


class UserIds:
    """Draws ids that never repeat: the step after the last one, or the present one if that is later."""

    def __init__(self, seed: bytes | None = None) -> None:
        """`seed` (8 bytes) tells this process from all others; random unless given."""
        raw = os.urandom(8) if seed is None else seed
        # The variant's bits, and the multicast bit, which marks a node that is no network card's address.
        self.node = bytes((raw[0] & 0x3F | 0x80, raw[1], raw[2] | 0x01, *raw[3:]))
        self._last = 0

    def draw(self, now_ms: int) -> bytes:
        """The 16 bytes of a new id."""
        step = self.draw_steps(now_ms, 1)
        return _ID.pack(step & 0xFFFFFFFF, step >> 32 & 0xFFFF, step >> 48 & 0x0FFF | 0x1000, self.node)

    @property
    def last(self) -> int:
        """The step of the id drawn last."""
        return self._last

    def drawn(self, last: int) -> None:
        """Ids up to the step `last` were drawn elsewhere."""
        self._last = last

    def draw_steps(self, now_ms: int, count: int) -> int:
        """The first of so many steps, which with `node` are ids that are made elsewhere."""
        first = max(self._last + 1, now_ms * _STEPS_PER_MS + _BEFORE_1970)
        self._last = first + count - 1
        return first
