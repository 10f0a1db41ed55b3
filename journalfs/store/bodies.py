"""Bodies of messages on their way into the store: in memory, or in a file that is never read whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from journalfs.engine.buffers import MappedFile
from journalfs.limits import COPY_CHUNK_BYTES

Buffer: TypeAlias = bytes | memoryview


class FileBody:
    """What a file holds when this is made; it stays mapped, so the file may be removed at once."""

    __slots__ = ("_file",)

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._file = MappedFile(path)
        self._file.detach()

    def __len__(self) -> int:
        return self._file.size_bytes

    def part(self, begin: int, end: int) -> bytes:
        """Raises FileTorn when the file was cut meanwhile."""
        return self._file.copy(begin, end - begin)


Body: TypeAlias = Buffer | FileBody


def whole(body: Body) -> Buffer:
    """Raises FileTorn when a file was cut meanwhile."""
    return body.part(0, len(body)) if isinstance(body, FileBody) else body


def part(body: Body, begin: int, end: int) -> Buffer:
    """The same, of a part."""
    return body.part(begin, end) if isinstance(body, FileBody) else memoryview(body)[begin:end]


def pieces(body: Body, start: int = 0) -> Iterator[Buffer]:
    """The same from `start` on, a piece at a time."""
    for begin in range(start, len(body), COPY_CHUNK_BYTES):
        yield part(body, begin, min(begin + COPY_CHUNK_BYTES, len(body)))
