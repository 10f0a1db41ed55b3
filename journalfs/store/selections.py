"""The selections of a process: how much memory they have, and which of them goes when there are too many."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol
from weakref import ref

SELECTION_BYTES = 16_384
"""What a selection takes beside what it knows of messages: its steps and functions, and names."""

PART_BYTES = 640
"""What it keeps of a part."""


class Selection(Protocol):
    @property
    def kept_bytes(self) -> int: ...

    @property
    def awaited(self) -> int:
        """How many wait for it."""

    def forget(self) -> None:
        """Give the memory back."""


class Selections:
    """Those that are there, the one that was used last at the end. Whoever made them owns them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[ref[Selection], int]] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def used(self, selection: Selection, bytes_max: int) -> None:
        """Somebody uses it: count it anew, and let those go that were used longest ago, if need be."""
        key, size_bytes = id(selection), selection.kept_bytes
        self._drop(key)
        self._kept[key] = ref(selection, lambda _: self._drop(key)), size_bytes
        self.size_bytes += size_bytes
        for other, (known, _) in list(self._kept.items()) if self.size_bytes > bytes_max else ():
            oldest = known()
            if oldest is not None and oldest is not selection and not oldest.awaited:
                self._drop(other)
                oldest.forget()
            if self.size_bytes <= bytes_max:
                break

    def _drop(self, key: int) -> None:
        _, size_bytes = self._kept.pop(key, (None, 0))
        self.size_bytes -= size_bytes


SELECTIONS = Selections()
"""One budget for all stores that a process has open: a mount's snapshots are stores of their own."""
