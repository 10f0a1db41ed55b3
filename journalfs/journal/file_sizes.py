"""Which journal files are shorter than they were made: files are allocated whole, in one size, and stay so.

The size may have been changed by whoever owns the journal, so several sizes alone prove nothing: one that no
other file has and that nobody sets does.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

SIZE_BYTES_MIN = 1024
"""A broker makes no smaller files."""

STEPS_BYTES = (64 * 1024, 100 * 1024)
"""Sizes that people set are multiples of one of these."""

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
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
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


def missing_bytes(sizes: Mapping[str, int]) -> dict[str, int]:
    """How many bytes are missing at the end of each file that was cut off, by name; 0: nobody knows."""
    counts = Counter(sizes.values())
    return {
        name: _usual_above(size, counts) - size
        for name, size in sizes.items()
        if size < SIZE_BYTES_MIN or _is_odd(size, counts)
    }


def _is_odd(size: int, counts: Counter[int]) -> bool:
    if len(counts) == 1:
        return counts[size] == 1 and size % SIZE_BYTES_MIN != 0
    return counts[size] == 1 and size < max(counts) and all(size % step for step in STEPS_BYTES)


def _usual_above(size: int, counts: Counter[int]) -> int:
    """The size that most of the longer files have; `size` itself if there is none."""
    return max((other for other in counts if other > size), key=lambda other: counts[other], default=size)
