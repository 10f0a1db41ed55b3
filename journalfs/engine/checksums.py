"""Checksums over stretches of journal files, in records that brokers ignore: docs/format/checksums.md."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from journalfs import door
from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.engine.status import FULL, check
from journalfs.limits import COPY_CHUNK_BYTES

# CRC-32C in C, for memory, for mapped files and for files.


def crc32c(content: bytes | memoryview, start: int = 0) -> int:
    """CRC-32C (Castagnoli) of `content`, continuing `start`."""
    return int(lib.jfs_crc32c(start, ffi.from_buffer("uint8_t[]", content), len(content)))


def crc32c_of_mapped(file: MappedFile, begin: int, end: int, start: int = 0) -> int:
    """CRC-32C of bytes [begin, end) of a mapped file, continuing `start`. Raises FileTorn."""
    if not 0 <= begin <= end <= file.size_bytes:
        raise ValueError(f"{file.path}: bytes {begin} to {end} lie outside {file.size_bytes}")
    out = ffi.new("uint32_t *", start)
    if begin < end:
        check(lib.jfs_crc32c_mapped(out, file.pointer + begin, end - begin), f"reading {file.path}")
    return int(out[0])


def crc32c_of_file(path: Path, begin: int, end: int) -> int | None:
    """CRC-32C of bytes [begin, end) of a file; `None` when it is shorter. Raises OSError."""
    checksum = 0
    with open(door.open_file(path), "rb", buffering=0) as file:
        file.seek(begin)
        left = end - begin
        while left > 0:
            chunk = file.read(min(left, COPY_CHUNK_BYTES))
            if not chunk:
                return None
            checksum = crc32c(chunk, checksum)
            left -= len(chunk)
    return checksum


CHECKSUM_BYTES: Final[int] = lib.JFS_CHECKSUM_RECORD_BYTES
"""Whole length of a checksum's record."""
CHECKSUM_USER_TYPE: Final[int] = lib.JFS_CHECKSUM_USER_TYPE
"""Of the EVENT that a checksum is."""
REWRITTEN: Final[int] = lib.JFS_CHECKSUM_REWRITTEN

NOWHERE: Final = (0, 0)
MISMATCHES_FIRST: Final = 16
"""Room for the first attempt; more than one is rare."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A stretch that is not what was written. Length 0: the checksum itself cannot be one."""

    offset: int
    length: int
    record_offset: int


@dataclass(frozen=True, slots=True)
class Checked:
    mismatches: tuple[Mismatch, ...]
    count: int
    """Checksums that were right."""
    previous: tuple[int, int] | None
    """Id of the file before this one, and how far it had been written when this one was begun."""
    rewritten: bool
    """Compaction wrote the file."""


@lru_cache(maxsize=16)
def place_of(file_id: int, previous: tuple[int, int]) -> Any:
    """For the core: which file a checksum is in, and what was before it (`NOWHERE`: not known)."""
    return ffi.new("jfs_checksum_place *", [file_id, *previous])


def checksum_record(content: bytearray, start: int, file_id: int) -> bytes:
    """The record that covers `content` from `start` to its end, for a file that compaction writes; `content`
    is the file so far.
    """
    out = ffi.new("uint8_t[]", CHECKSUM_BYTES)
    stretch = ffi.from_buffer("uint8_t[]", content)
    place = place_of(file_id, (REWRITTEN, 0))
    lib.jfs_checksum_record(out, stretch + start, start, len(content) - start, place)
    ffi.release(stretch)
    return bytes(ffi.buffer(out))


def check_records(pointer: Any, size_bytes: int, scan: Scan, file_id: int) -> Checked:
    """Check the stretches that checksums among the records of a scan cover; the file's bytes are at
    `pointer`. Raises FileTorn.
    """
    room, count = MISMATCHES_FIRST, ffi.new("uint32_t *")
    summary = ffi.new("jfs_checksum_summary *")
    while True:
        out = ffi.new("jfs_mismatch[]", room)
        records, records_count = scan.pointer.records, scan.count
        status = lib.jfs_checksum_check(
            pointer, size_bytes, records, records_count, file_id, out, room, count, summary
        )
        if status != FULL:
            break
        room = int(count[0])
    check(status, "checking a journal file")
    return Checked(
        tuple(Mismatch(one.offset, one.length, one.record_offset) for one in out[0 : int(count[0])]),
        int(summary.checked),
        (int(summary.previous_id), int(summary.previous_end)) if summary.previous_id else None,
        bool(summary.rewritten),
    )
