"""Which journal files are shorter than they were made: files are allocated whole, in one size, and stay so.

The size may have been changed by whoever owns the journal, so several sizes alone prove nothing: one that no
other file has and that nobody sets does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from journalfs.limits import LENGTHENED_BYTES

SIZE_BYTES_MIN = 1024
"""A broker makes no smaller files."""

STEPS_BYTES = (64 * 1024, 100 * 1024, 100_000)
"""Sizes that people set are multiples of one of these."""

SHORT_STEP_BYTES = 2 * LENGTHENED_BYTES
"""What compaction makes where the disk is full is a multiple of this: so nobody takes it for what is left of
a file, and none is longer than another by what a second name adds.
"""


def missing_bytes(sizes: Mapping[str, int]) -> dict[str, int]:
    """How many bytes are missing at the end of each file that was cut off, by name; 0: nobody knows."""
    made = dict(zip(sizes, as_made(list(sizes.values())), strict=True))
    counts = Counter(made.values())
    return {
        name: _usual_above(size, counts) - size
        for name, size in made.items()
        if size < SIZE_BYTES_MIN or _is_odd(size, counts)
    }


def as_made(sizes: Sequence[int]) -> list[int]:
    """The sizes that files were made in: one may have been lengthened since (`journalfs.engine.links`)."""
    known = set(sizes)
    return [size - LENGTHENED_BYTES if size - LENGTHENED_BYTES in known else size for size in sizes]


def _is_odd(size: int, counts: Counter[int]) -> bool:
    if len(counts) == 1:
        return counts[size] == 1 and size % SIZE_BYTES_MIN != 0
    return counts[size] == 1 and size < max(counts) and all(size % step for step in STEPS_BYTES)


def _usual_above(size: int, counts: Counter[int]) -> int:
    """The size that most of the longer files have; `size` itself if there is none."""
    return max((other for other in counts if other > size), key=lambda other: counts[other], default=size)
