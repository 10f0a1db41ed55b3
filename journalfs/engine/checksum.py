"""CRC-32C in C, for memory, for mapped files and for files."""

from __future__ import annotations

from pathlib import Path

from journalfs import door
from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.status import check
from journalfs.limits import COPY_CHUNK_BYTES


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
