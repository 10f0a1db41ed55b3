"""Names of parts: no name is given again to other content, and a message keeps the part that it was in.

A name is a generation and a number. A generation is drawn once, from the clock and from chance. Numbers are
taken in blocks from a small file beside the index, under its lock, and a block is durable before a number of
it is used: so each number belongs to one process, whether that ends in order, is killed, or is one of several
that show the store. If the file is unusable (lost, damaged, not writable, of another generation), a new
generation begins. The same happens for a copy of the file, since the original store went on: a copy is
another inode, or has the time at which its content was written instead of its own.

The index, which says which messages are in which part, is written when a store is closed. So that a part has
its name again after its process was killed, each part is noted in the same file when it is made, before it is
visible: a reader that remembers names, as a Spark stream does, would otherwise read the same messages again
under another name. The process that holds the file's lock gives the lasting names. Another process that shows
the same store at that time keeps none of its names, and writes no index; if it did not read all names, it
does not do so later either.

The file: 8 bytes magic, u64 generation, u64 the first number that is not taken, u64 its own inode, 4 bytes
CRC-32C of these, written in place: a torn head is taken for lost. Behind it, for each part that the index may
lack: u32 length, u32 CRC-32C and content, only appended and not synced: a torn entry and all that follow it
are ignored. All little-endian.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from journalfs import door
from journalfs.clock import Clock
from journalfs.damage import FileStamp
from journalfs.engine.checksums import crc32c
from journalfs.ids import PageNumber, QueueId
from journalfs.limits import PART_NUMBER_MAX, PART_NUMBERS_TAKEN, SEALED_PARTS_BYTES
from journalfs.live.events import Events

MAGIC: Final = b"JFSPART2"
_HEAD: Final = struct.Struct("<8sQQQ")
_CHECKSUM: Final = struct.Struct("<I")
HEAD_BYTES: Final = _HEAD.size + _CHECKSUM.size
_FRAME: Final = struct.Struct("<II")
_LOCK: Final = struct.Struct("hhqqi4x")
"""The system's `struct flock`."""
_CHANGES, _GIVES_NAMES = 0, 1
"""Bytes of the file that are locked: while it is changed, and as long as a process gives names."""

TIMES_APART_NS: Final = 1_000_000_000
"""Less than this lies between the two times that one write sets, however coarse the file system's clock."""

GENERATION_CHANCE: Final = 1000
"""Generations that can begin in one millisecond: two mounts of one store may begin at once."""


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
    """The page of the part's messages; None: they are in the journal, as the fields below say."""
    number: int = 0
    sealed_ms: int = 0
    ids: bytes = b""
    """As `part_ids` gives them."""


_decode: Final = msgspec.msgpack.Decoder(SealedPart).decode


class PartNames:
    """Of one open store."""

    def __init__(
        self,
        index: Path | None,
        clock: Clock,
        events: Events,
        generation: int = 0,
    ) -> None:
        """`index`, which is read after this, is None where nothing is kept of the store."""
        self._index = index
        self._path = None if index is None else parts_path(index)
        self._clock = clock
        self.events = events
        self.generation = generation
        self.begin = self.end = 1
        """Numbers `begin` up to `end` are this process's own."""
        self.highest = 0
        """The highest that was used, in any queue."""
        self.noted = 0
        """Parts that were noted since the store was opened."""
        self._keeps_numbers = self._path is not None
        self._published = False
        """True once other processes may know the generation, since it stood in the file."""
        self._gives: int | None = None
        """The file, locked as long as this process gives the names."""
        self._late = False
        """True if other processes gave names since this one read the file."""
        self._broken = False
        self._has_all = False
        """With the index, the file has every part that this process knows of."""
        self._rewritten_bytes = 0
        self._read_from = self._now()
        self._known, noted = (None, b"") if self._path is None else _read(self._path)
        self.found, whole_bytes = _parts(noted)
        """Parts noted by the process before, in their order."""
        self._is_whole = whole_bytes == len(noted)

    def start(self, indexed: int | None) -> None:
        """Go on with the generation of the file, if the index has no other one; otherwise begin one."""
        if self._known is not None and indexed in (None, self._known[0]):
            self.generation, self._published = self._known[0], True
        else:
            self._new_generation()
            self.found = []

    # ---- numbers ----

    def take(self, above: int) -> bool:
        """Take another block, of numbers above those in use. False: there are no more."""
        if self._keeps_numbers and not self._published and not self.gives_names():
            # Another process begins a generation that others are to know.
            self._keeps_numbers = False
        if self._keeps_numbers:
            try:
                self._take_from_file(above)
            except OSError as error:
                # What the file says now is not known, so nobody is to go on from what this process does.
                self._keeps_numbers = False
                self._new_generation()
                reason = f"cannot keep which numbers of parts are used: {error.strerror or error}"
                consequence = "parts get other names in the next mount"
                self.events.add("part-numbers-not-kept", f"{self._path}: {reason}; {consequence}")
        if not self._keeps_numbers:
            self.begin, self.end = above + 1, PART_NUMBER_MAX
        return self.begin < self.end

    def next_from(self, least: int) -> int | None:
        """The first number from `least` on that is this process's own. None: there are no more."""
        if max(self.begin, least) >= self.end and not self.take(max(self.highest, least - 1)):
            return None
        return max(self.begin, least)

    def keep(self, highest: int) -> None:
        """Names of this generation are shown now: the next process is to go on with it."""
        if highest and self._keeps_numbers and not self._published:
            self.take(highest)

    def used(self, number: int) -> None:
        self.highest = max(self.highest, number)

    def _new_generation(self) -> None:
        chance = int.from_bytes(os.urandom(8)) % GENERATION_CHANCE
        self.generation = self._clock.now_ms() * GENERATION_CHANCE + chance
        self._published = self._has_all = False

    def _take_from_file(self, above: int) -> None:
        assert self._path is not None
        door.make_folders(self._path.parent)
        with self._at_work() as descriptor:
            generation, free = _head(descriptor) or (None, 0)
            if generation != self.generation:
                free = 0
                if self._published:
                    self._new_generation()
                os.ftruncate(descriptor, 0)
            # P-5: numbers that another process took may stand in names that a reader remembers. A number
            # given twice makes a Spark stream skip the messages of the second part.
            self.begin = max(above + 1, free)
            self.end = min(self.begin + PART_NUMBERS_TAKEN, PART_NUMBER_MAX)
            _write(descriptor, _header(descriptor, self.generation, self.end), 0)
            os.fsync(descriptor)
        self._published = True

    def _give_back(self) -> None:
        """Let the next process go on where this one stopped, if none has taken numbers since."""
        with contextlib.suppress(OSError), self._at_work() as descriptor:
            if _head(descriptor) == (self.generation, self.end):
                free = max(self.begin, self.highest + 1)
                _write(descriptor, _header(descriptor, self.generation, free), 0)
                self.end = self.begin

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[int]:
        """The file, with nobody else at it: held for one write and its sync, so waiting for it is short."""
        descriptor = self._locked(_CHANGES, fcntl.F_OFD_SETLKW)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _locked(self, byte: int, command: int) -> int:
        """The file with one of its bytes locked, until it is closed, and all its duplicates."""
        assert self._path is not None
        while True:
            descriptor = door.open_or_create(self._path)
            with contextlib.ExitStack() as failing:
                failing.callback(os.close, descriptor)
                _lock(descriptor, byte, command)
                # Whoever had it may have put another in its place, or removed it.
                if FileStamp.at(self._path) == FileStamp.of(os.fstat(descriptor)):
                    found = os.fstat(descriptor)
                    if found.st_nlink > 1:  # by hard links it is another store's, too
                        door.replace(self._path, os.pread(descriptor, found.st_size, 0))
                        continue
                    failing.pop_all()
                    return descriptor

    # ---- which messages are in which part ----

    def claim(self, *, make_folder: bool) -> None:
        """Give the names from now on, if nobody else does."""
        if self._path is not None and (make_folder or door.is_folder(self._path.parent)):
            with contextlib.suppress(OSError):  # told when there is something to note
                self._has_all = self._claimed() and self._published and self._is_whole
                before = self._path.with_suffix(".sealed")
                if self._gives is not None and door.exists(before):
                    self._not_kept(f"{before}: they were noted by an earlier journalfs; some get other names")
                    door.remove(before)

    def gives_names(self) -> bool:
        """Whether this process may give names that last, also where it cannot be known: nothing can be kept
        there then, which is told.
        """
        with contextlib.suppress(OSError):
            return self._path is None or self._claimed()
        return True

    def note(self, parts: Iterable[SealedPart], everything: Callable[[], Iterable[SealedPart]]) -> None:
        """Note parts in the file. `everything` returns all parts, for when the file has to be written again
        from its beginning.
        """
        if self._broken or not self._published:
            return
        self.noted += 1
        try:
            if not self._claimed():
                return
            assert self._gives is not None
            size_bytes = os.fstat(self._gives).st_size
            fits = size_bytes <= SEALED_PARTS_BYTES + 2 * self._rewritten_bytes
            if self._has_all and fits and self._free_of(self._gives):
                _write(self._gives, b"".join(map(_framed, parts)), size_bytes)
            else:
                self._note_anew(everything())
        except OSError as error:
            # What comes later must not follow what was torn.
            self._broken = True
            consequence = "parts that are made now get other names after a crash"
            self._not_kept(f"{self._path}: {error.strerror or error}; {consequence}")

    def _not_kept(self, reason: str) -> None:
        self.events.add("part-names-not-kept", reason)

    def in_index(self, noted: int) -> None:
        """All is in the index, if no more was noted than that by now."""
        if self._gives is not None and not self._broken and self.noted == noted:
            size_bytes = os.fstat(self._gives).st_size
            os.ftruncate(self._gives, min(size_bytes, HEAD_BYTES))
            self._rewritten_bytes, self._has_all = 0, self._published

    def close(self) -> None:
        if self._keeps_numbers and self._published and self.end > self.begin:
            self._give_back()
        if self._gives is not None:
            os.close(self._gives)
            self._gives = None

    def _claimed(self) -> bool:
        """Whether this process may give names that last. Raises OSError."""
        if self._gives is None and not self._late and self._path is not None:
            door.make_folders(self._path.parent)
            with contextlib.suppress(BlockingIOError):
                descriptor = self._locked(_GIVES_NAMES, fcntl.F_OFD_SETLK)
                self._late = self._now() != self._read_from
                if self._late:
                    os.close(descriptor)
                else:
                    self._gives = descriptor
        return self._gives is not None

    def _now(self) -> tuple[FileStamp | None, tuple[int, int] | None]:
        """Return the state of the files that hold names: the index, and this file if a part is
        noted in it.
        """
        index, noted = (None if path is None else FileStamp.at(path) for path in (self._index, self._path))
        has_parts = noted is not None and noted.size_bytes > HEAD_BYTES
        return index, (noted.inode, noted.size_bytes) if noted is not None and has_parts else None

    def _free_of(self, descriptor: int) -> int:
        """Return the first number that is not taken. Raises OSError if the file does not say so: then the
        numbers of other processes are unknown, or the noted parts are of another generation.
        """
        assert self._gives is not None
        locked = os.path.samestat(os.fstat(descriptor), os.fstat(self._gives))
        generation, free = _head(descriptor, locked=locked) or (None, 0)
        if generation != self.generation:
            raise OSError("it says nothing of these numbers any more")
        return free

    def _note_anew(self, parts: Iterable[SealedPart]) -> None:
        """In one step: a crash leaves what was noted before, or all of it."""
        assert self._path is not None
        assert self._gives is not None
        with self._at_work() as before:
            free = self._free_of(before)
            with door.replacing(self._path) as made:
                _lock(made, _GIVES_NAMES, fcntl.F_OFD_SETLK)
                content = _header(made, self.generation, free) + b"".join(map(_framed, parts))
                _write(made, content, 0)
                descriptor = os.dup(made)  # with its lock
            os.close(self._gives)
            self._gives = descriptor
            _write(descriptor, content[:HEAD_BYTES], 0)  # it was renamed, which sets one of its times
        self._rewritten_bytes, self._has_all = len(content), True


def parts_path(index: Path) -> Path:
    """Where the names are kept of the store whose index that is."""
    return index.with_name(f"{index.name}.parts")


def _lock(descriptor: int, byte: int, command: int) -> None:
    fcntl.fcntl(descriptor, command, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))


def _read(path: Path) -> tuple[tuple[int, int] | None, bytes]:
    """Return the head of the file and the parts noted in it; nothing if the head is unusable."""
    with contextlib.suppress(OSError), open(door.open_file(path), "rb") as file:
        head = _head(file.fileno())
        return head, b"" if head is None else file.read()[HEAD_BYTES:]
    return None, b""


def _head(descriptor: int, *, locked: bool = False) -> tuple[int, int] | None:
    """Generation, and first number that nobody has taken; `None` when the file does not say, or was not
    written as this one, which its times need not say of one that was `locked` since.
    """
    record = os.pread(descriptor, HEAD_BYTES, 0)
    content, checksum = record[: _HEAD.size], record[_HEAD.size :]
    if len(content) < _HEAD.size or checksum != _CHECKSUM.pack(crc32c(content)):
        return None
    magic, generation, free, inode = _HEAD.unpack(content)
    if magic != MAGIC or not 0 < free < PART_NUMBER_MAX:
        return None
    status = os.fstat(descriptor)
    # P-5: the file of a copied or restored store does not know the numbers that its original gave since.
    # Writing sets both times; who gives a copy the first one of its original cannot give it the other.
    is_own = locked or abs(status.st_ctime_ns - status.st_mtime_ns) < TIMES_APART_NS
    return (generation, free) if is_own and inode == status.st_ino else None


def _header(descriptor: int, generation: int, free: int) -> bytes:
    content = _HEAD.pack(MAGIC, generation, free, os.fstat(descriptor).st_ino)
    return content + _CHECKSUM.pack(crc32c(content))


def _write(descriptor: int, content: bytes, offset: int) -> None:
    if os.pwrite(descriptor, content, offset) != len(content):
        raise OSError("the disk took a part of it only")


def _framed(part: SealedPart) -> bytes:
    content = msgspec.msgpack.encode(part)
    return _FRAME.pack(len(content), crc32c(content)) + content


def _parts(content: bytes) -> tuple[list[SealedPart], int]:
    """Return the parts up to the first torn one, and the bytes that they take."""
    found: list[SealedPart] = []
    at = 0
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        while at + _FRAME.size <= len(content):
            size_bytes, checksum = _FRAME.unpack_from(content, at)
            noted = content[at + _FRAME.size : at + _FRAME.size + size_bytes]
            if len(noted) != size_bytes or crc32c(noted) != checksum:
                break
            part = _decode(noted)
            if part.in_page is None and not 0 < part.number < PART_NUMBER_MAX:
                break
            found.append(part)
            at += _FRAME.size + size_bytes
    return found, at
