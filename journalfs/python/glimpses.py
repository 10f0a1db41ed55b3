"""Any few messages of a queue by their place: for programs that show a long queue a screen at a time.

`OwnGlimpses` are of a store of this process, `MountedGlimpses` of a mount's files. Neither reads more than it
is asked for, but for the places of lines in a mount's file, which are counted once.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from journalfs.errors import NoMessage
from journalfs.ids import MessageId
from journalfs.live.content import CloserLook, looking_again
from journalfs.live.runs import Run, check_all
from journalfs.live.stretches import Stretch
from journalfs.python.message import Message
from journalfs.views.views import ALL_NAME

if TYPE_CHECKING:
    from journalfs.views.views import QueueView

LINE_BYTES_MAX: Final = 256 << 10
"""A longer line is not read before somebody asks for that message."""
CHUNK_BYTES: Final = 256 << 10


class Glimpse(NamedTuple):
    """A message in a list."""

    place: int
    """Where `whole` finds it."""
    size_bytes: int
    """Of its line."""
    message: Message | None
    """None: its line is longer than 256 KiB, and `whole` reads it."""


class Glimpsing(Protocol):
    async def count(self) -> int:
        """How many messages there are now. What follows is of them."""

    async def page(self, begin: int, count: int) -> Sequence[Glimpse]:
        """Messages [begin, begin + count) in the order of `.all.jsonl`: fewer at the end."""

    async def whole(self, glimpse: Glimpse) -> Message:
        """The message. Raises `NoMessage` once it is gone."""

    def close(self) -> None: ...


class OwnGlimpses:
    """Of a store that this process has open. `place` is the id of the message."""

    def __init__(self, find: Callable[[], Awaitable[QueueView]]) -> None:
        """`find` gives the view, with what is in it found out."""
        self._find = find
        self._version = -1
        self._runs: list[Run] = []
        self._ends: list[int] = []
        """How many messages there are up to the end of each run."""

    async def _view(self) -> QueueView:
        view = await self._find()
        if view.version != self._version:
            self._runs, total = list(view.part_runs(ALL_NAME)), 0
            self._ends = [total := total + len(run) for run in self._runs]
            self._version = view.version
        return view

    async def count(self) -> int:
        await self._view()
        return self._ends[-1] if self._ends else 0

    async def page(self, begin: int, count: int) -> Sequence[Glimpse]:
        view = await self._view()
        found: list[Glimpse] = []
        end = min(begin + count, self._ends[-1] if self._ends else 0)
        while begin < end:
            index = bisect_right(self._ends, begin)
            run, first = self._runs[index], self._ends[index] - len(self._runs[index])
            last = min(end, self._ends[index])
            piece = run.of(run.numbers[begin - first : last - first])
            found += looking_again(view.content, partial(_read, view, piece))
            begin = last
        return found

    async def whole(self, glimpse: Glimpse) -> Message:
        view = await self._find()

        def read(look: CloserLook) -> bytes:
            run = view.message_run(MessageId(glimpse.place))
            if run is None:
                raise NoMessage(f"message {glimpse.place} is no longer in the queue")
            look.at([run])
            return _stretch(view, run).lines_between(0, 1)[0]

        return Message(looking_again(view.content, read))

    def close(self) -> None:
        self._runs, self._ends, self._version = [], [], -1


def _stretch(view: QueueView, run: Run) -> Stretch:
    batch, held = run.opened(view.content)
    return Stretch(batch, partial(check_all, held), None)


def _read(view: QueueView, piece: Run, look: CloserLook) -> list[Glimpse]:
    look.at([piece])
    stretch, ids = _stretch(view, piece), piece.ids(view.content)
    starts = stretch.lines.starts
    sizes = [starts[at + 1] - starts[at] - 1 for at in range(len(ids))]
    lines: list[bytes | None]
    if sum(sizes) <= LINE_BYTES_MAX:
        lines = [*stretch.lines_between(0, len(ids))]
    else:
        lines = [
            stretch.lines_between(at, at + 1)[0] if size <= LINE_BYTES_MAX else None
            for at, size in enumerate(sizes)
        ]
    return [
        Glimpse(one, size, None if line is None else Message(line))
        for one, size, line in zip(ids, sizes, lines, strict=True)
    ]


class MountedGlimpses:
    """Of a file of lines in a mount, as it was at the last `count`. `place` is where the line begins."""

    def __init__(self, path: Path, open_file: Callable[[Path], int]) -> None:
        self._path = path
        self._open = open_file
        self._file = -1
        self._stamp = (-1, -1)
        self._lines = array("Q", [0])
        """How many lines end in all chunks up to each."""
        self._whole = False
        """True once all chunks are counted."""

    async def count(self) -> int:
        self._look()
        while not self._whole:
            self._count_chunk()
        return self._lines[-1]

    def _look(self) -> None:
        """Open the file again where it is another by now."""
        before, self._file = self._file, self._open(self._path)
        if before >= 0:
            os.close(before)
        status = os.fstat(self._file)
        if (status.st_size, status.st_mtime_ns) != self._stamp:
            self._stamp = status.st_size, status.st_mtime_ns
            self._lines, self._whole = array("Q", [0]), False

    def _count_chunk(self) -> None:
        piece = os.pread(self._file, CHUNK_BYTES, (len(self._lines) - 1) * CHUNK_BYTES)
        self._whole = len(piece) < CHUNK_BYTES
        if piece:
            self._lines.append(self._lines[-1] + piece.count(b"\n"))

    async def page(self, begin: int, count: int) -> Sequence[Glimpse]:
        if self._file < 0:
            self._look()
        while not self._whole and self._lines[-1] < begin + count:
            self._count_chunk()
        end = min(begin + count, self._lines[-1])
        if begin >= end:
            return []
        ends = self._ends_of(max(0, begin - 1), end)
        starts = [0, *(one + 1 for one in ends[:-1])] if begin == 0 else [one + 1 for one in ends[:-1]]
        ends = ends if begin == 0 else ends[1:]
        return [self._glimpse(at, to - at) for at, to in zip(starts, ends, strict=True)]

    def _ends_of(self, begin: int, end: int) -> list[int]:
        """Where lines [begin, end) end: offsets of their newlines."""
        chunk = bisect_right(self._lines, begin) - 1
        number, found = self._lines[chunk], list[int]()
        while len(found) < end - begin:
            offset = chunk * CHUNK_BYTES
            piece = os.pread(self._file, CHUNK_BYTES, offset)
            at = piece.find(b"\n")
            while at >= 0 and number < end:
                if number >= begin:
                    found.append(offset + at)
                number, at = number + 1, piece.find(b"\n", at + 1)
            if not piece:
                raise NoMessage(f"{self._path}: it is shorter than it was")
            chunk += 1
        return found

    def _glimpse(self, place: int, size_bytes: int) -> Glimpse:
        line = os.pread(self._file, size_bytes, place) if size_bytes <= LINE_BYTES_MAX else None
        return Glimpse(place, size_bytes, None if line is None else Message(line))

    async def whole(self, glimpse: Glimpse) -> Message:
        if glimpse.message is not None:
            return glimpse.message
        return Message(os.pread(self._file, glimpse.size_bytes, glimpse.place))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
