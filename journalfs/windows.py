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


def whole_lines(source: ByteSource) -> Iterator[bytes]:
    """The same, cut behind line feeds; a long line is copied once. The file is closed in the end."""
    pending: list[bytes] = []
    try:
        for window in windows(source):
            lines, newline, rest = bytes(window).rpartition(b"\n")
            if newline:
                yield b"".join([*pending, lines, newline])
                pending.clear()
            pending.append(rest)
        if any(pending):
            yield b"".join(pending)
    finally:
        source.close()
