"""Names of parts: no name ever comes again with other content, and a message keeps the part that it was in.

A name is a generation and a number. Each process that makes parts begins a generation, drawn from the clock
and from chance and above those before it, and numbers of its own, above all those in use: so which generation
a number is of is told by where it began, and nobody else can give the same name, whether a process ends in
order, is killed, or is not the only one to show the store; a copy of a store goes on with others than its
original.

The index, which says what is in which part, and where generations began, is written when a store is closed.
So that a part has its name again after its process was killed, each is noted in a file beside the index when
it is made, before anybody can see it: who remembers names, as a Spark stream does, would otherwise meet the
same messages again under another name. Whoever has the file locked gives the names that last; another process
that shows the same store meanwhile keeps none of its own, and writes no index: not even when it is alone
again, if there are names that it did not read.

The file: 8 bytes magic, u64 the newest generation of the index that it goes on from, 0: of none. Behind it
for each part that the index may not have u32 length, u32 CRC-32C and content, only appended and not synced:
what was torn, and what follows it, is as if it had not been noted. All little-endian.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from journalfs import door
from journalfs.clock import Clock
from journalfs.damage import FileStamp
from journalfs.engine.checksums import crc32c
from journalfs.ids import PageNumber, QueueId
from journalfs.limits import PART_NUMBER_MAX, SEALED_PARTS_BYTES
from journalfs.live.events import Events

MAGIC: Final = b"JFSPART3"
_HEAD: Final = struct.Struct("<8sQ")
HEAD_BYTES: Final = _HEAD.size
_FRAME: Final = struct.Struct("<II")
_LOCK: Final = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
"""The system's `struct flock`, of the first byte."""

GENERATION_CHANCE: Final = 1000
"""Generations that can begin in one millisecond: two mounts of one store may begin at once."""

PAGE_PART_BASE: Final = 5_000_000_000
"""Half of what ten digits hold: parts of the journal count from 1, those of pages from here."""


@dataclass(frozen=True, slots=True)
class PagePart:
    """Records `start` up to `end` of one page."""

    number: int
    page: PageNumber
    start: int
    end: int
    sealed_ms: int


class SealedPart(msgspec.Struct, frozen=True, array_like=True):
    queue_id: QueueId
    in_page: PagePart | None = None
    """None: it is of messages of the journal, as follows."""
    number: int = 0
    sealed_ms: int = 0
    ids: bytes = b""
    """As `part_ids` gives them."""


class _Noted(msgspec.Struct, frozen=True, array_like=True):
    generation: int
    part: SealedPart


_decode: Final = msgspec.msgpack.Decoder(_Noted).decode

Generations = Sequence[tuple[int, int]]
"""Where each began, the first number, and which: both rise."""


class PartNames:
    """Of one open store."""

    def __init__(
        self,
        index: Path | None,
        clock: Clock,
        events: Events,
        generation: int = 0,
    ) -> None:
        """`index`, which is read after this, is None where nothing is kept of the store. `generation`: of all
        parts, where nothing changes any more.
        """
        self._index = index
        self._path = None if index is None else parts_path(index)
        self._clock = clock
        self.events = events
        self.generation = generation
        """Of the parts that this process makes."""
        self.begin = 1
        """The first of their numbers."""
        self._before: Generations = ()
        self.highest = 0
        """The highest that was used, in any queue."""
        self.noted = 0
        """Parts that were noted since the store was opened."""
        self._after = 0
        """The newest generation of the index."""
        self._gives: int | None = None
        """The file, locked as long as this process gives the names."""
        self._late = False
        """Others gave names since this was read."""
        self._broken = False
        self._has_all = False
        """With the index, the file has every part that this process knows of."""
        self._rewritten_bytes = 0
        self._read_from = self._now()
        self._noted_after: int | None = None
        self._noted: list[_Noted] = []
        """By the process before, in their order."""
        self._is_whole = False
        if self._path is not None:
            with contextlib.suppress(OSError), open(door.open_file(self._path), "rb") as file:
                self._take_notes(file.read())

    def start(self, indexed: Generations | None) -> None:
        """Go on from the index, if there is one, and from what was noted since."""
        began = {generation: first for first, generation in indexed or ()}
        self._after = max(began, default=0)
        if indexed is not None and self._noted_after != self._after:
            self._noted, self._is_whole = [], False
        for one in self._noted:
            number = _plain(one.part.in_page.number if one.part.in_page is not None else one.part.number)
            began[one.generation] = min(number, began.get(one.generation, number))
        chance = int.from_bytes(os.urandom(8)) % GENERATION_CHANCE
        least = max(self._clock.now_ms() * GENERATION_CHANCE, max(began, default=0) + 1)
        self.generation = least + chance
        self._before = sorted((first, generation) for generation, first in began.items())

    def begin_above(self, highest: int) -> None:
        """No part has a higher number."""
        self.begin = max([highest, *(first for first, _ in self._before)]) + 1

    def since(self, number: int) -> list[tuple[int, int]]:
        """The generations of that number and above, but this process's only if it made parts."""
        every = [*self._before]
        if self.highest >= self.begin:
            every.append((self.begin, self.generation))
        return every[max(bisect.bisect_right(every, number, key=lambda one: one[0]) - 1, 0) :]

    @property
    def found(self) -> list[SealedPart]:
        """Parts noted by the process before, in their order."""
        return [one.part for one in self._noted]

    def generation_of(self, number: int) -> int:
        """The generation that a part of this number has in its name."""
        plain = _plain(number)
        if plain >= self.begin or not self._before:
            return self.generation
        return self._before[max(bisect.bisect_right(self._before, plain, key=lambda one: one[0]) - 1, 0)][1]

    def used(self, number: int) -> None:
        self.highest = max(self.highest, number)

    # ---- which messages are in which part ----

    def _take_notes(self, content: bytes) -> None:
        """What was noted, up to what is torn."""
        if len(content) < HEAD_BYTES or not content.startswith(MAGIC):
            return
        _, self._noted_after = _HEAD.unpack_from(content)
        at = HEAD_BYTES
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            while at + _FRAME.size <= len(content):
                size_bytes, checksum = _FRAME.unpack_from(content, at)
                noted = content[at + _FRAME.size : at + _FRAME.size + size_bytes]
                if len(noted) != size_bytes or crc32c(noted) != checksum:
                    break
                one = _decode(noted)
                if one.part.in_page is None and not 0 < one.part.number < PART_NUMBER_MAX:
                    break
                self._noted.append(one)
                at += _FRAME.size + size_bytes
        self._is_whole = at == len(content)

    def claim(self, *, make_folder: bool) -> None:
        """Give the names from now on, if nobody else does."""
        if self._path is not None and (make_folder or door.is_folder(self._path.parent)):
            with contextlib.suppress(OSError):  # told when there is something to note
                self._has_all = self._claimed() and self._is_whole

    def gives_names(self) -> bool:
        """Whether this process may give names that last, also where it cannot be known: nothing can be kept
        there then, which is told.
        """
        with contextlib.suppress(OSError):
            return self._path is None or self._claimed()
        return True

    def note(self, parts: Iterable[SealedPart], everything: Callable[[], Iterable[SealedPart]]) -> None:
        """Note parts. `everything` gives all there are, for when they are to be noted anew."""
        if self._broken or self._path is None:
            return
        self.noted += 1
        try:
            if not self._claimed():
                return
            assert self._gives is not None
            size_bytes = os.fstat(self._gives).st_size
            if self._has_all and size_bytes <= SEALED_PARTS_BYTES + 2 * self._rewritten_bytes:
                _write(self._gives, b"".join(map(self._framed, parts)), size_bytes)
            else:
                self._note_anew(everything())
        except OSError as error:
            # What comes later must not follow what was torn.
            self._broken = True
            consequence = "parts that are made now get other names after a crash"
            reason = f"{self._path}: {error.strerror or error}; {consequence}"
            self.events.add("part-names-not-kept", reason)

    def in_index(self, noted: int) -> None:
        """All is in the index, if no more was noted than that by now."""
        if self._gives is not None and not self._broken and self.noted == noted:
            self._after = max((generation for _, generation in self.since(0)), default=0)
            os.ftruncate(self._gives, 0)
            _write(self._gives, self._header(), 0)
            self._rewritten_bytes, self._has_all = 0, True

    def close(self) -> None:
        if self._gives is not None:
            os.close(self._gives)
            self._gives = None

    def _claimed(self) -> bool:
        """Whether this process may give names that last. Raises OSError."""
        if self._gives is None and not self._late and self._path is not None:
            door.make_folders(self._path.parent)
            with contextlib.suppress(BlockingIOError):
                descriptor = self._locked()
                self._late = self._now() != self._read_from
                if self._late:
                    os.close(descriptor)
                else:
                    self._gives = descriptor
        return self._gives is not None

    def _locked(self) -> int:
        """The file, locked until it is closed, and all its duplicates. Raises BlockingIOError."""
        assert self._path is not None
        while True:
            descriptor = door.open_or_create(self._path)
            with contextlib.ExitStack() as failing:
                failing.callback(os.close, descriptor)
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _LOCK)
                # Whoever had it may have put another in its place, or removed it.
                if FileStamp.at(self._path) == FileStamp.of(os.fstat(descriptor)):
                    failing.pop_all()
                    return descriptor

    def _now(self) -> tuple[FileStamp | None, tuple[int, int] | None]:
        """What the names are in: the index, and this file if something is noted in it."""
        index, noted = (None if path is None else FileStamp.at(path) for path in (self._index, self._path))
        has_parts = noted is not None and noted.size_bytes > HEAD_BYTES
        return index, (noted.inode, noted.size_bytes) if noted is not None and has_parts else None

    def _note_anew(self, parts: Iterable[SealedPart]) -> None:
        """In one step: a crash leaves what was noted before, or all of it."""
        assert self._path is not None
        assert self._gives is not None
        content = self._header() + b"".join(map(self._framed, parts))
        with door.replacing(self._path) as made:
            fcntl.fcntl(made, fcntl.F_OFD_SETLK, _LOCK)
            _write(made, content, 0)
            descriptor = os.dup(made)  # with its lock
        os.close(self._gives)
        self._gives = descriptor
        self._rewritten_bytes, self._has_all = len(content), True

    def _header(self) -> bytes:
        return _HEAD.pack(MAGIC, self._after)

    def _framed(self, part: SealedPart) -> bytes:
        number = part.in_page.number if part.in_page is not None else part.number
        content = msgspec.msgpack.encode(_Noted(self.generation_of(number), part))
        return _FRAME.pack(len(content), crc32c(content)) + content


def parts_path(index: Path) -> Path:
    """Where the names are kept of the store whose index that is."""
    return index.with_name(f"{index.name}.parts")


def _plain(number: int) -> int:
    """Without the base that numbers of parts of pages have."""
    return number - PAGE_PART_BASE if number >= PAGE_PART_BASE else number


def _write(descriptor: int, content: bytes, offset: int) -> None:
    if os.pwrite(descriptor, content, offset) != len(content):
        raise OSError("the disk took a part of it only")
