"""Which messages are in which part, for parts that the index does not know yet.

The index is written when a store is closed. So that a part has its name again after its process was killed,
each is noted here when it is made, before anybody can see it: who remembers names, as a Spark stream does,
would otherwise meet the same messages again under another name. Whoever has the file locked gives the names;
another process that shows the same store meanwhile keeps none of its own, and writes no index: not even when
it is alone again, if there are names that it did not read.

The file: 8 bytes magic, u64 generation, and for each part u32 length, u32 CRC-32C and content. All
little-endian. It is only appended to, and not synced: what was torn, and what follows it, is as if it had not
been noted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from journalfs import door
from journalfs.damage import FileStamp
from journalfs.engine.checksums import crc32c
from journalfs.ids import PageNumber, QueueId
from journalfs.limits import PART_NUMBER_MAX, SEALED_PARTS_BYTES
from journalfs.live.page_parts import PagePart

MAGIC: Final = b"JFSSEAL1"
_HEAD: Final = struct.Struct("<8sQ")
_FRAME: Final = struct.Struct("<II")
_PART: Final = struct.Struct("<BqQq")
_STRETCH: Final = struct.Struct("<QII")
_JOURNAL, _PAGE = 1, 2


@dataclass(frozen=True, slots=True)
class JournalPart:
    """A part of messages of the journal."""

    queue_id: QueueId
    number: int
    sealed_ms: int
    ids: bytes
    """As `part_ids` gives them."""


@dataclass(frozen=True, slots=True)
class PagePartOf:
    """A part of messages of a page."""

    queue_id: QueueId
    part: PagePart


SealedPart: TypeAlias = JournalPart | PagePartOf


class SealedParts:
    """The file. It is made when there is something to note, and removed where that is in the index."""

    def __init__(self, index: Path, tell: Callable[[str], None]) -> None:
        """`index` is read after this. `tell` takes a sentence for people about what cannot be noted."""
        self._index, self._path = index, sealed_parts_path(index)
        self._tell = tell
        self._read_from = self._now()
        self._late = False
        """Others gave names since this was read."""
        self._descriptor: int | None = None
        self._broken = False
        self._has_all = False
        """With the index, the file has every part that this process knows of."""
        self._rewritten_bytes = self._whole_bytes = 0
        self.generation: int | None = None
        """Of the names in the file."""
        self.found: list[SealedPart] = []
        """What was in it when it was read, in the order in which it was noted."""
        self._read()

    def claim(self, *, make_folder: bool) -> None:
        """Give the names from now on, if nobody else does."""
        with contextlib.suppress(OSError):  # told when there is something to note
            if make_folder or door.is_folder(self._path.parent):
                self._has_all = self.is_ours() and self.size_bytes == self._whole_bytes

    def is_ours(self) -> bool:
        """Whether this process may give names that last. Raises OSError."""
        if self._descriptor is None and not self._late:
            self._lock()
        return self._descriptor is not None

    def gives_names(self) -> bool:
        """The same, also where it cannot be known: nothing can be kept there then, which is told."""
        with contextlib.suppress(OSError):
            return self.is_ours()
        return True

    @property
    def size_bytes(self) -> int:
        return 0 if self._descriptor is None else os.fstat(self._descriptor).st_size

    def add(
        self, generation: int, parts: Iterable[SealedPart], everything: Callable[[], Iterable[SealedPart]]
    ) -> None:
        """Note parts. `everything` gives all there are, for when they are to be noted anew."""
        if self._broken:
            return
        try:
            if not self.is_ours():
                return
            noted_bytes = self.size_bytes
            fits = noted_bytes <= SEALED_PARTS_BYTES + 2 * self._rewritten_bytes
            if not noted_bytes and self._has_all:
                self._rewrite(generation, parts)
            elif self._has_all and generation == self.generation and fits:
                assert self._descriptor is not None
                _write(self._descriptor, b"".join(map(_framed, parts)), noted_bytes)
            else:
                self._rewrite(generation, everything())
        except OSError as error:
            # What comes later must not follow what was torn.
            self._broken = True
            self._tell(f"{self._path}: {error.strerror or error}")

    def clear(self, noted_bytes: int) -> None:
        """All is in the index, if no more than this was noted by now."""
        if self._descriptor is not None and not self._broken and self.size_bytes == noted_bytes:
            os.ftruncate(self._descriptor, 0)
            self._rewritten_bytes, self._has_all = 0, True

    def close(self) -> None:
        if self._descriptor is None:
            return
        if not self.size_bytes:
            door.remove_if_there(self._path)
        os.close(self._descriptor)
        self._descriptor = None

    def _lock(self) -> None:
        door.make_folders(self._path.parent)
        while self._descriptor is None:
            descriptor = door.open_or_create(self._path)
            with contextlib.ExitStack() as failing:
                failing.callback(os.close, descriptor)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                # Who had it before may have put another in its place, or removed it.
                if not _is_at(self._path, descriptor):
                    continue
                is_empty = not os.fstat(descriptor).st_size
                self._late = self._now() != self._read_from
                if self._late:
                    if is_empty:
                        door.remove_if_there(self._path)
                    return
                failing.pop_all()
                self._descriptor = descriptor

    def _now(self) -> tuple[FileStamp | None, FileStamp | None]:
        """What the names are in: the index, and this file if there is something in it."""
        index, noted = (FileStamp.at(path) for path in (self._index, self._path))
        return index, noted if noted is not None and noted.size_bytes else None

    def _rewrite(self, generation: int, parts: Iterable[SealedPart]) -> None:
        """In one step: a crash leaves what was noted before, or all of it."""
        assert self._descriptor is not None
        content = _HEAD.pack(MAGIC, generation) + b"".join(map(_framed, parts))
        with door.replacing(self._path) as made:
            fcntl.flock(made, fcntl.LOCK_EX)
            _write(made, content, 0)
            descriptor = os.dup(made)  # with its lock
        os.close(self._descriptor)
        self._descriptor, self.generation, self._rewritten_bytes = descriptor, generation, len(content)
        self._has_all = True

    def _read(self) -> None:
        try:
            content = door.read(self._path)
        except OSError:
            return
        if len(content) < _HEAD.size:
            return
        magic, generation = _HEAD.unpack_from(content)
        if magic == MAGIC:
            self.generation = generation
            self._whole_bytes = _HEAD.size
            for part, size_bytes in _parts(memoryview(content)[_HEAD.size :]):
                self.found.append(part)
                self._whole_bytes += size_bytes


def sealed_parts_path(index: Path) -> Path:
    """Where the parts are noted of the store whose index that is."""
    return index.with_name(f"{index.name}.sealed")


def _write(descriptor: int, content: bytes, offset: int) -> None:
    if os.pwrite(descriptor, content, offset) != len(content):
        raise OSError("the disk took a part of it only")


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(door.status(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _framed(part: SealedPart) -> bytes:
    if isinstance(part, JournalPart):
        content = _PART.pack(_JOURNAL, part.queue_id, part.number, part.sealed_ms) + part.ids
    else:
        page = part.part
        content = _PART.pack(_PAGE, part.queue_id, page.number, page.sealed_ms)
        content += _STRETCH.pack(page.page, page.start, page.end)
    return _FRAME.pack(len(content), crc32c(content)) + content


def _parts(content: memoryview) -> Iterator[tuple[SealedPart, int]]:
    """What was noted, each with the bytes that it takes, up to what is torn."""
    at = 0
    while at + _FRAME.size <= len(content):
        size_bytes, checksum = _FRAME.unpack_from(content, at)
        noted = content[at + _FRAME.size : at + _FRAME.size + size_bytes]
        if len(noted) != size_bytes or size_bytes < _PART.size or crc32c(noted) != checksum:
            return
        kind, queue_id, number, sealed_ms = _PART.unpack_from(noted)
        rest = noted[_PART.size :]
        if kind == _JOURNAL and number < PART_NUMBER_MAX:
            yield JournalPart(QueueId(queue_id), number, sealed_ms, bytes(rest)), _FRAME.size + size_bytes
        elif kind == _PAGE and len(rest) == _STRETCH.size:
            page, start, end = _STRETCH.unpack(rest)
            part = PagePart(number, PageNumber(page), start, end, sealed_ms)
            yield PagePartOf(QueueId(queue_id), part), _FRAME.size + size_bytes
        else:
            return
        at += _FRAME.size + size_bytes
