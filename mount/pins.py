"""Staged directories that were just used, held open: what is asked of a name in one costs the same however
deep it lies.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Final

PINNED_MAX: Final = 64
"""So many descriptors. The kernel asks for one directory of a path after the other, so that each finds the
one above it among the last."""


class Pins:
    """Descriptors of directories, by the number of their nodes."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: OrderedDict[int, int] = OrderedDict()

    def find(self, inode: int, number: int) -> int | None:
        """The descriptor of a node's directory, whose own number that is. None: there is none, or the
        directory is gone. Good until the next `hold`.
        """
        descriptor = self._held.get(inode)
        if descriptor is None:
            return None
        found = os.fstat(descriptor)
        if found.st_ino != number or not found.st_nlink:
            os.close(self._held.pop(inode))
            return None
        self._held.move_to_end(inode)
        return descriptor

    def hold(self, inode: int, descriptor: int) -> None:
        """Take over a descriptor of that node's directory; the one that was used longest ago may go."""
        before = self._held.pop(inode, None)
        if before is not None:
            os.close(before)
        self._held[inode] = descriptor
        while len(self._held) > PINNED_MAX:
            os.close(self._held.popitem(last=False)[1])

    def close(self) -> None:
        while self._held:
            os.close(self._held.popitem()[1])
