"""CRC-32C in C, for memory and for mapped files."""

from __future__ import annotations

from pathlib import Path

from journalfs.engine._native import ffi, lib
from journalfs.limits import COPY_CHUNK_BYTES


def crc32c(content: bytes | memoryview, start: int = 0) -> int:
    """CRC-32C (Castagnoli) of `content`, continuing `start`."""
    return int(lib.jfs_crc32c(start, ffi.from_buffer("uint8_t[]", content), len(content)))


def crc32c_of_file(path: Path, length: int) -> int | None:
    """CRC-32C of a file's first `length` bytes; `None` when the file is shorter."""
    checksum = 0
    with path.open("rb", buffering=0) as file:
        while length > 0:
            chunk = file.read(min(length, COPY_CHUNK_BYTES))
            if not chunk:
                return None
            checksum = crc32c(chunk, checksum)
            length -= len(chunk)
    return checksum
