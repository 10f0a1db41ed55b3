"""Files whose lines the front publishes: C makes them durable and answers, while Python waits for requests.

Python has the end of the journal whenever any of its code runs. It lends it to C for as long as it waits, and
learns of all that was published before anything else happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from journalfs.store.api import LinesWay, WritableStore

WAYS_MAX: Final = 32
"""Places that lines are published to in C at a time: each is looked at whenever the end is lent anew."""


class LinesFile(Protocol):
    """An open file that lines are written to."""

    def published(self, size_bytes: int, lines: int) -> None:
        """The front published lines that were written to it."""

    def failed(self, error: Exception) -> None:
        """The front could not, and whoever wrote them was told so."""


class _Way:
    """Where some files are published."""

    __slots__ = ("files", "way")

    def __init__(self, way: LinesWay) -> None:
        self.way = way
        self.files = 0
        """How many are warm."""


class HotFile:
    """An open file. `warm` while nothing of it is under way in Python, `cool` before anything is."""

    __slots__ = ("_hot", "_place", "file", "handle", "owner", "row")

    def __init__(self, hot: HotWrites, file: LinesFile, handle: int, owner: int, row: Any) -> None:
        self._hot = hot
        self.file = file
        self.handle = handle
        self.owner = owner
        self.row = row
        self._place: tuple[str, str | None] | None = None

    def warm(self, place: tuple[str, str | None], size_bytes: int, *, appends: bool) -> None:
        """From here on C publishes lines that are written to it in a place, if it can."""
        if self._place is None:
            way = self._hot.taken(place)
            if way is None:
                return
            self._place, self.row.way = place, self._hot.ffi.cast("void *", way.pointer)
        self.row.bytes, self.row.appends = size_bytes, appends

    def cool(self) -> None:
        """All that is written to it is Python's."""
        if self._place is not None:
            self._hot.given_back(self._place)
            self._place, self.row.way = None, self._hot.ffi.NULL

    def close(self) -> None:
        self.cool()
        self._hot.forget(self)


class HotWrites:
    """All of one mount."""

    def __init__(self, ffi: Any, lib: Any, store: WritableStore, asks: Callable[[int], None]) -> None:
        self.ffi = ffi
        self._lib = lib
        self._lending = store.lending
        self._changes = store.changes
        self._asks = asks
        self._lent: Any = lib.jfs_front_lent_of()
        end = self._lending.end
        self._lent.stage = ffi.cast("int (*)(void *, void *, const uint8_t *, uint64_t)", end.stage)
        self._lent.flush = ffi.cast("int32_t (*)(void *)", end.flush)
        self._lent.full, self._lent.unfit = end.full, end.unfit
        self._tail = ffi.cast("void *", end.tail)
        self._ways: dict[tuple[str, str | None], _Way] = {}
        self._files: dict[int, HotFile] = {}
        self.stale = True
        """Something may be otherwise than when the end was lent."""

    # ---- files ----

    def opened(self, file: LinesFile, handle: int, owner: int) -> HotFile:
        row = self.ffi.new("jfs_front_file *", {"handle": handle})
        found = self._files[handle] = HotFile(self, file, handle, owner, row)
        self._lib.jfs_front_publishes(row)
        return found

    def forget(self, file: HotFile) -> None:
        del self._files[file.handle]
        self._lib.jfs_front_unpublishes(file.row)

    def taken(self, place: tuple[str, str | None]) -> LinesWay | None:
        """None: there are too many others."""
        way = self._ways.get(place)
        if way is None:
            if len(self._ways) >= WAYS_MAX:
                return None
            way = self._ways[place] = _Way(self._lending.way(*place))
            self.stale = True
        way.files += 1
        return way.way

    def given_back(self, place: tuple[str, str | None]) -> None:
        way = self._ways[place]
        way.files -= 1
        if not way.files:
            del self._ways[place]

    # ---- the journal's end ----

    def lend(self) -> None:
        """Before Python waits."""
        if not self._ways:
            self._lent.tail = self.ffi.NULL
            return
        if self.stale:
            self.stale = False
            lent = self._lending.lend([one.way for one in self._ways.values()])
            self._lent.tail = self._tail if lent else self.ffi.NULL
        self._lent.tells = self._changes.awaited

    def take_back(self) -> None:
        """After that."""
        touched = self._lent.touched
        if not touched:
            return
        self._lent.touched = self.ffi.NULL
        self._lending.take_back([one.way for one in self._ways.values()])
        self.stale = True
        while touched:
            row, touched = touched, touched.touched
            found = self._files[row.handle]
            if row.taken:
                found.file.published(int(row.taken), int(row.lines))
                self._asks(found.owner)
            if row.failed:
                found.cool()
                failure = self._lending.failure
                assert failure is not None
                found.file.failed(failure)
            row.taken = row.lines = row.failed = 0
