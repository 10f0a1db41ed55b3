"""Open files read from front to back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from journalfs.api import ByteSource

WINDOW_BYTES: Final = 4 << 20
"""Read and written at once: large enough that the calls cost nothing, small enough to show progress."""


def windows(source: ByteSource) -> Iterator[bytes | memoryview]:
    """The whole content of an open file, piece by piece."""
    offset = 0
    while offset < source.size_bytes:
        piece = source.read(offset, WINDOW_BYTES)
        if not len(piece):
            return
        yield piece
        offset += len(piece)
