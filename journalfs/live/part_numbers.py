"""Which numbers this process may give to parts, so that no part's name ever comes again with other content.

A name is a generation and a number. A generation is drawn once, from the clock and from chance. Numbers are
taken in blocks from a small file beside the index, under its lock, and a block is durable before a number of
it is used: so each number belongs to one process, whether it ends in order, is killed, or is not the only one
to show the store. Where the file cannot tell (lost, damaged, not writable, of another generation), a
generation begins that nobody else knows. It cannot tell either when it is a copy: the store that it was
copied from went on. A copy is another inode, or has the time that its content was given instead of its own.

The file: 8 bytes magic, u64 generation, u64 the first number that nobody has taken, u64 its own inode, 4
bytes CRC-32C of these. All little-endian, written in place: what was torn is taken for lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from journalfs import door
from journalfs.clock import Clock
from journalfs.engine.checksums import crc32c
from journalfs.limits import PART_NUMBER_MAX, PART_NUMBERS_TAKEN

MAGIC = b"JFSPART2"
_CONTENT = struct.Struct("<8sQQQ")
_CHECKSUM = struct.Struct("<I")
_RECORD_BYTES = _CONTENT.size + _CHECKSUM.size

TIMES_APART_NS = 1_000_000_000
"""Less than this lies between the two times that one write sets, however coarse the file system's clock."""

GENERATION_CHANCE = 1000
"""Generations that can begin in one millisecond: two mounts of one store may begin at once."""


@dataclass(slots=True)
class PartNumbers:
    """The numbers of one open store. `path` is `None` where nothing is kept of the store."""

    path: Path | None
    clock: Clock
    tell: Callable[[str], None]
    """Takes a sentence for people about numbers that could not be taken."""
    gives_names: Callable[[], bool] = lambda: True
    """Whether the names that this process gives are those that last."""
    generation: int = 0
    begin: int = 1
    end: int = 1
    """Numbers `begin` up to `end` are this process's own."""
    highest: int = 0
    """The highest that was used, in any queue."""
    _published: bool = field(default=False)
    """Others may know the generation: it stands in the file, or did."""

    def start(self, *noted_generations: int | None) -> None:
        """Go on with a generation that names were given of if the file is of it; otherwise begin one."""
        noted = [generation for generation in noted_generations if generation is not None]
        known = _read(self.path) if self.path is not None and noted else None
        if known is not None and known[0] in noted:
            self.generation = known[0]
            self._published = True
        else:
            self._new_generation()

    def take(self, above: int) -> bool:
        """Take another block, of numbers above those in use. False: there are no more."""
        if self.path is not None and not self._published and not self.gives_names():
            # Another process begins a generation that others are to know.
            self.path = None
        if self.path is not None:
            try:
                self._take_from(self.path, above)
            except OSError as error:
                reason = error.strerror or str(error)
                self.tell(f"{self.path}: cannot keep which numbers of parts are used: {reason}")
                # What the file says now is not known, so nobody is to go on from what this process does.
                self.path = None
                self._new_generation()
        if self.path is None:
            self.begin, self.end = above + 1, PART_NUMBER_MAX
        return self.begin < self.end

    def next_from(self, least: int) -> int | None:
        """The first number from `least` on that is this process's own. None: there are no more."""
        if max(self.begin, least) >= self.end and not self.take(max(self.highest, least - 1)):
            return None
        return max(self.begin, least)

    def keep(self, highest: int) -> None:
        """Names of this generation are shown now: the next process is to go on with it."""
        if highest and self.path is not None and not self._published:
            self.take(highest)

    def used(self, number: int) -> None:
        self.highest = max(self.highest, number)

    def give_back(self) -> None:
        """Let the next process go on where this one stopped, if none has taken numbers since."""
        if self.path is None or not self._published or self.end == self.begin:
            return
        with contextlib.suppress(OSError), _locked(self.path) as descriptor:
            if _content(descriptor) == (self.generation, self.end):
                _write(descriptor, self.generation, max(self.begin, self.highest + 1))
                self.end = self.begin

    def _new_generation(self) -> None:
        chance = int.from_bytes(os.urandom(8)) % GENERATION_CHANCE
        self.generation = self.clock.now_ms() * GENERATION_CHANCE + chance
        self._published = False

    def _take_from(self, path: Path, above: int) -> None:
        door.make_folders(path.parent)
        with _locked(path) as descriptor:
            content = _content(descriptor)
            first = above + 1
            if content is not None and content[0] == self.generation:
                first = max(first, content[1])
            elif self._published:
                self._new_generation()
            end = min(first + PART_NUMBERS_TAKEN, PART_NUMBER_MAX)
            _write(descriptor, self.generation, end)
            os.fsync(descriptor)
        self._published = True
        self.begin, self.end = first, end


def numbers_path(index: Path) -> Path:
    """Where the numbers are kept of the store whose index that is."""
    return index.with_name(f"{index.name}.parts")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    # Held for one write and its sync, so waiting for it is short.
    descriptor = door.open_or_create(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _read(path: Path) -> tuple[int, int] | None:
    try:
        descriptor = door.open_file(path)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return _content(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> tuple[int, int] | None:
    """Generation and first free number; `None` when the file does not say, or was not written as this one."""
    record = os.pread(descriptor, _RECORD_BYTES + 1, 0)
    content, checksum = record[: _CONTENT.size], record[_CONTENT.size :]
    if len(content) < _CONTENT.size or checksum != _CHECKSUM.pack(crc32c(content)):
        return None
    magic, generation, free, inode = _CONTENT.unpack(content)
    if magic != MAGIC or not 0 < free < PART_NUMBER_MAX:
        return None
    status = os.fstat(descriptor)
    # Writing sets both times; who gives a copy the first one of its original cannot give it the other.
    is_own = inode == status.st_ino and abs(status.st_ctime_ns - status.st_mtime_ns) < TIMES_APART_NS
    return (generation, free) if is_own else None


def _write(descriptor: int, generation: int, free: int) -> None:
    content = _CONTENT.pack(MAGIC, generation, free, os.fstat(descriptor).st_ino)
    record = content + _CHECKSUM.pack(crc32c(content))
    if os.pwrite(descriptor, record, 0) != len(record):
        raise OSError("the disk took a part of it only")
    os.ftruncate(descriptor, len(record))
