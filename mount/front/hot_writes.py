"""Files whose lines the front publishes: C makes them durable and answers, while Python waits for requests.

Python has the end of the journal whenever its own code runs. It lends it to C while it waits, and takes over
all publications of C before anything else. A file that C created becomes a file of Python before a request
asks Python about it, and before any change.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import trio

from journalfs.api import LinesWay, WritableStore
from journalfs.errors import JournalfsError
from journalfs.ids import Inode

WAYS_MAX: Final = 32
"""Most places to which C publishes lines at a time: each is checked whenever the end is lent again."""
MAKING_MAX: Final = 8
"""Places that files are made in by C at a time."""
GATHERED_SHARE: Final = 0.5
GATHERED_S_MAX: Final = 0.003
"""Longest that a flush waits for those whom the one before it was for, and how much of what that took."""
NEVER: Final = 2**64 - 1

Place: TypeAlias = tuple[str, str | None]


class LinesFile(Protocol):
    """An open file that lines are written to."""

    def published(self, size_bytes: int, lines: int) -> None:
        """The front published lines that were written to it."""

    def failed(self, error: Exception) -> None:
        """Note that the front failed to write lines. Their writers have got the error."""


@dataclass(frozen=True, slots=True)
class MadeFile:
    """A file that C created and that is open. `lookups`: the kernel's references to it. `lines` were written
    to it, `size_bytes` in all.
    """

    handle: int
    inode: Inode
    parent: Inode
    name: bytes
    flags: int
    user: int
    thread: int
    lookups: int
    size_bytes: int
    lines: int


class OpenFiles(Protocol):
    """The front's reports about open files."""

    def asked(self, user: int) -> None:
        """Note that the front answered a request for a user."""

    def adopt(self, made: MadeFile, row: object) -> None:
        """A file of it is Python's from now on: `HotWrites.adopted`."""

    def closed(self, handle: int) -> None:
        """Note that the front closed a file of Python's."""


class _Way:
    """Where some files are published."""

    __slots__ = ("files", "way")

    def __init__(self, way: LinesWay) -> None:
        self.way = way
        self.files = 0
        """How many are warm."""


class HotFile:
    """An open file. `warm` while nothing of it is under way in Python, `cool` before anything is."""

    __slots__ = ("_hot", "file", "handle", "owner", "place", "row")

    def __init__(self, hot: HotWrites, file: LinesFile, handle: int, owner: int, row: Any) -> None:
        self._hot = hot
        self.file = file
        self.handle = handle
        self.owner = owner
        self.row = row
        self.place: Place | None = None

    def warm(self, place: Place, size_bytes: int, *, appends: bool) -> None:
        """From here on C publishes lines that are written to it in a place, if it can."""
        if self.place is None:
            way = self._hot.taken(place)
            if way is None:
                return
            self.place, self.row.way = place, self._hot.ffi.cast("void *", way.pointer)
        self.row.bytes, self.row.appends = size_bytes, appends

    def cool(self) -> None:
        """All that is written to it is Python's."""
        if self.place is not None:
            self._hot.given_back(self.place)
            self.place, self.row.way = None, self._hot.ffi.NULL

    def close(self) -> None:
        self.cool()
        self._hot.forget(self)


class HotWrites:
    """All of one mount."""

    def __init__(self, ffi: Any, lib: Any, store: WritableStore, open_files: OpenFiles) -> None:
        self.ffi = ffi
        self._lib = lib
        self._lending = store.lending
        self._waking = store.waking
        self._open_files = open_files
        self._lent: Any = lib.jfs_front_lent_of()
        end = self._lending.end
        self._lent.stage = ffi.cast("int (*)(void *, void *, const uint8_t *, uint64_t)", end.stage)
        self._lent.flush = ffi.cast("int32_t (*)(void *)", end.flush)
        self._lent.full, self._lent.unfit = end.full, end.unfit
        self._tail = ffi.cast("void *", end.tail)
        self._ways: dict[Place, _Way] = {}
        self._making: OrderedDict[Place, None] = OrderedDict()
        """Places that C makes files in, as they were asked for last."""
        self._files: dict[int, HotFile] = {}
        self._stale = True
        """Something may be otherwise than when the end was lent."""
        self._is_held = True
        self._is_learning = False
        self._lent.enough = NEVER
        self._settling = False
        self._staged = trio.Event()
        self._enough = trio.Event()
        self._failure: Exception | None = None
        """Why the last of those flushes failed that did."""
        # With the interpreter's lock, unless C needs that: who lets go of it here may get it back late, and C
        # waits meanwhile.
        hold = ctypes.PYFUNCTYPE(None)(int(ffi.cast("uintptr_t", ffi.addressof(lib, "jfs_front_hold"))))
        self._hold: Callable[[], None] = lib.jfs_front_hold if self._lending.needs_python else hold

    # ---- files ----

    def opened(self, file: LinesFile, handle: int, owner: int) -> HotFile:
        row = self.ffi.new("jfs_front_file *", {"handle": handle})
        found = self._files[handle] = HotFile(self, file, handle, owner, row)
        self._lib.jfs_front_publishes(row)
        return found

    def makes(self, file: HotFile | None) -> None:
        """Files of the name that was just made, in its place, may be made in C."""
        if file is None or file.place is None:
            return
        place = file.place
        if place in self._making:
            self._making.move_to_end(place)
        elif self.taken(place) is not None:
            self._making[place] = None
        if len(self._making) > MAKING_MAX:
            self.adopt()
            self._lib.jfs_front_makes_no_more()
            while len(self._making) > MAKING_MAX:
                self.given_back(self._making.popitem(last=False)[0])
        if place in self._making:
            self._lib.jfs_front_makes(file.row.way)

    def adopt(self) -> None:
        """Take over what C made. While the end is here."""
        while made := self._lib.jfs_front_adopt():
            row = made.file
            found = MadeFile(
                handle=int(row.handle),
                inode=Inode(made.nodeid),
                parent=Inode(made.parent),
                name=self.ffi.string(made.name),
                flags=int(made.flags),
                user=int(made.uid),
                thread=int(made.pid),
                lookups=int(made.lookups),
                size_bytes=int(row.bytes),
                lines=int(row.lines),
            )
            row.way, row.taken, row.lines = self.ffi.NULL, 0, 0
            self._open_files.adopt(found, self.ffi.addressof(made, "file"))
            if row.failed:
                self._failed(self._files[found.handle])

    def adopted(self, file: LinesFile, made: MadeFile, row: object) -> HotFile:
        """Return the file that was taken over from C, as any other open file."""
        found = self._files[made.handle] = HotFile(self, file, made.handle, made.user, row)
        return found

    def forget(self, file: HotFile) -> None:
        del self._files[file.handle]
        self._lib.jfs_front_unpublishes(file.row)

    def taken(self, place: Place) -> LinesWay | None:
        """None: there are too many others."""
        way = self._ways.get(place)
        if way is None:
            if len(self._ways) >= WAYS_MAX:
                return None
            way = self._ways[place] = _Way(self._lending.way(*place))
            self._stale = True
        way.files += 1
        return way.way

    def given_back(self, place: Place) -> None:
        way = self._ways[place]
        way.files -= 1
        if not way.files:
            del self._ways[place]

    # ---- the journal's end ----

    def look_again(self) -> bool:
        """Something may be otherwise from here on. Whether it is more than C knows of."""
        self._stale = True
        if self._is_held and self._lent.made:
            self.adopt()
        return not self._is_learning

    def lend(self) -> None:
        """Before Python waits."""
        if not self._ways:
            self._lent.tail = self.ffi.NULL
        elif self._stale:
            self._stale = False
            lent = self._lending.lend([one.way for one in self._ways.values()])
            self._lent.tail = self._tail if lent else self.ffi.NULL
            self._lent.defers = self._lending.defers or self._lent.answered < self._lent.staged
        self._lent.tells = self._waking.awaited or (self._lent.defers and not self._settling)
        self._is_held = False

    def take_back(self) -> None:
        """After that."""
        self._hold()
        self._is_held = True
        lent = self._lent
        if not lent.news:
            return
        lent.news = 0
        self._is_learning = True
        was_any = self._lending.take_back([one.way for one in self._ways.values()])
        self._is_learning = False
        if was_any:
            self._stale = True
            self._open_files.asked(int(lent.user))
            if lent.defers:
                self._staged.set()
            if lent.staged >= lent.enough:
                self._enough.set()
        self._learn()
        if lent.wanted:
            self.adopt()
        closed, lent.closed = lent.closed, self.ffi.NULL
        while closed:
            handle, closed = int(closed.handle), closed.closed
            self._open_files.closed(handle)

    async def settle(self) -> None:
        """Where a flush is left to Python: have what C staged made durable, and answered, as it comes."""
        while True:
            await self._staged.wait()
            self._staged, self._settling = trio.Event(), True
            began_s, count = trio.current_time(), int(self._lent.staged - self._lent.answered)
            failure: JournalfsError | None = None
            try:
                await self._lending.settled()
            except JournalfsError as error:
                failure = self._failure = error
            self._lib.jfs_front_settle(count, 0 if failure is None else failure.errno)
            if failure is not None:
                self._learn()
                if self._lent.wanted:
                    self.adopt()
            elif count > 1 and self._lent.defers:
                await self._gather(count, (trio.current_time() - began_s) * GATHERED_SHARE)
            self._settling, self._stale = False, True

    async def _gather(self, count: int, at_most_s: float) -> None:
        """Wait a moment for writers that were just answered: as a rule they write again, and share the next
        flush.
        """
        self._enough = trio.Event()
        self._lent.enough = int(self._lent.staged) + count
        with trio.move_on_after(min(at_most_s, GATHERED_S_MAX)):
            await self._enough.wait()
        self._lent.enough = NEVER

    def _learn(self) -> None:
        """Of Python's files."""
        touched, self._lent.touched = self._lent.touched, self.ffi.NULL
        while touched:
            row, touched = touched, touched.touched
            found = self._files[row.handle]
            if row.taken:
                found.file.published(int(row.taken), int(row.lines))
                self._open_files.asked(found.owner)
            if row.failed:
                self._failed(found)
            row.taken = row.lines = 0

    def _failed(self, found: HotFile) -> None:
        found.cool()
        failure = self._lending.failure or self._failure
        assert failure is not None
        found.file.failed(failure)
        found.row.failed = 0
