"""Caches the first bytes of a directory's files, and reads them again where they may have changed.

A file that is used again gets a new header first, which changes its time, also through a mapping. File times
are coarse, so a cached head is believed only after two looks at the same time, and each look reads some heads
whatever their times say.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from journalfs import door
from journalfs.damage import FileStamp
from journalfs.errors import refuse_shortage
from journalfs.format.journal_file import read_header
from journalfs.limits import COPY_CHUNK_BYTES, HEADS_CHECKED_SHARE, JOURNAL_HEADER_BYTES

FIRST_RECORD_HEAD_BYTES = 6
"""Type, file id and compact count of a record: enough to tell compaction output from appended records."""

FIRST_RECORD_REACH_BYTES = 8192
"""How far behind the header the first record may lie: at the next block, where blocks are written."""

HEAD_BYTES = JOURNAL_HEADER_BYTES + FIRST_RECORD_HEAD_BYTES


def first_rid(content: bytes) -> int | None:
    """Return the file id in the first bytes behind a header; `None` if nothing was written there."""
    at = len(content) - len(content.lstrip(b"\0"))
    return int.from_bytes(content[at + 1 : at + 5]) if at + 5 <= len(content) else None


@dataclass(frozen=True, slots=True)
class Head:
    """The result of a look at one file."""

    stamp: FileStamp
    content: bytes
    """The first bytes, fewer in a shorter file; none where they could not be read."""
    unreadable: str | None = None
    """Why they could not, although the file could be opened."""
    empty: bool = False
    """The whole file is zeros: it was allocated and never used."""
    first_rid: int | None = None
    """The file id that the first record carries; None if the file has no record."""


@dataclass(frozen=True, slots=True)
class _Kept:
    head: Head
    confirmed: bool


class Heads:
    """Of the files of one directory, by name."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: dict[str, _Kept] = {}
        self._turn = 0

    def looks(self, names: Collection[str]) -> list[Head | OSError]:
        """Look at each file, and return its first bytes or why they are unknown.

        Returns the same object as the last call if nothing changed.
        """
        self._turn = (self._turn + 1) % HEADS_CHECKED_SHARE
        kept: dict[str, _Kept] = {}
        found: list[Head | OSError] = []
        try:
            with door.folder(self._directory) as held:
                for number, name in enumerate(names):
                    try:
                        seen = self._look(held, name, anew=number % HEADS_CHECKED_SHARE == self._turn)
                        kept[name] = seen
                        found.append(seen.head)
                    except OSError as error:
                        found.append(error)
        except OSError as error:  # the directory went, or cannot be opened any more
            refuse_shortage(error, self._directory)
            found += [error] * (len(names) - len(found))
        self._kept = kept
        return found

    def doubt(self, name: str) -> None:
        """Have this head read again in the next look, whatever the file's time says."""
        known = self._kept.get(name)
        if known is not None:
            self._kept[name] = replace(known, confirmed=False)

    def _look(self, held: int, name: str, *, anew: bool) -> _Kept:
        known = self._kept.get(name)
        if known is None or not _is_as_seen(known.head.stamp, door.status_in(held, name)):
            return _Kept(_read(held, name, self._directory), confirmed=False)
        if known.confirmed and not anew:
            return known
        head = known.head if known.head.empty else _read(held, name, self._directory)
        return _Kept(known.head if head == known.head else head, confirmed=head.stamp == known.head.stamp)


def _is_as_seen(stamp: FileStamp, status: os.stat_result) -> bool:
    same = stamp.mtime_ns == status.st_mtime_ns and stamp.size_bytes == status.st_size
    return same and stamp.inode == status.st_ino


def has_no_header(path: Path) -> bool:
    """Whether there are only zeros where a header should be. Not of what cannot be read."""
    try:
        return not any(read_regular_file(path, JOURNAL_HEADER_BYTES))
    except OSError:
        return False


def read_regular_file(path: Path, length_max: int) -> bytes:
    """The first bytes of a file. Raises OSError."""
    descriptor = _opened(path)
    try:
        pieces: list[bytes] = []
        while length_max > 0 and (piece := os.read(descriptor, length_max)):
            pieces.append(piece)
            length_max -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _opened(path: Path | str) -> int:
    """A descriptor for reading. Raises OSError, and `OutOfResources`."""
    try:
        return door.open_file(path)
    except OSError as error:
        refuse_shortage(error, path)
        raise


def _read(held: int, name: str, directory: Path) -> Head:
    try:
        descriptor, status = door.open_in(held, name)
    except OSError as error:
        refuse_shortage(error, directory / name)
        raise
    try:
        stamp = FileStamp.of(status)
        try:
            content = os.pread(descriptor, HEAD_BYTES, 0)
        except OSError as error:
            return Head(stamp, b"", unreadable=error.strerror or str(error))
        blank = len(content) >= JOURNAL_HEADER_BYTES and read_header(content).blank
        empty = blank and _all_zeros(descriptor, status.st_size)
        written = content[JOURNAL_HEADER_BYTES:]
        if not empty and not any(written):
            try:
                written = os.pread(descriptor, FIRST_RECORD_REACH_BYTES, JOURNAL_HEADER_BYTES)
            except OSError as error:
                return Head(stamp, b"", unreadable=error.strerror or str(error))
        return Head(stamp, content, empty=empty, first_rid=first_rid(written))
    finally:
        os.close(descriptor)


def _all_zeros(descriptor: int, size_bytes: int) -> bool:
    """Return True if a file holds only zeros. Holes are not read: they may be longer than any memory."""
    at = 0
    while at < size_bytes:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
            chunk = os.pread(descriptor, COPY_CHUNK_BYTES, at)
        except OSError as error:
            # Nothing but a hole up to the end; any other error says that there is something.
            return error.errno == errno.ENXIO
        if not chunk:
            return True
        if chunk.count(0) != len(chunk):
            return False
        at += len(chunk)
    return True


SPARSE_BYTES_MIN = 256 * 1024 * 1024
"""In smaller files looking for holes takes longer than reading them."""

STAT_BLOCK_BYTES = 512


def data_end(path: Path, size_bytes: int) -> int | None:
    """Where the hole at the end of a large file begins: nothing behind it need be read. `None` where there is
    none, or where the system does not tell.
    """
    if size_bytes < SPARSE_BYTES_MIN:
        return None
    try:
        descriptor = _opened(path)
    except OSError:
        return None  # whoever reads the file says so
    try:
        status = os.fstat(descriptor)
        if status.st_blocks * STAT_BLOCK_BYTES >= status.st_size:
            return None
        return _last_data(descriptor, status.st_size)
    finally:
        os.close(descriptor)


def _last_data(descriptor: int, size_bytes: int) -> int:
    end = 0
    while end < size_bytes:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            return end if error.errno == errno.ENXIO else size_bytes
    return end
