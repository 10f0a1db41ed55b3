"""Bodies of messages on their way into the store: in memory, or in a file that is never read whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

from journalfs.engine.buffers import MappedFile
from journalfs.limits import COPY_CHUNK_BYTES

Buffer: TypeAlias = bytes | memoryview


class Body(Protocol):
    @property
    def size_bytes(self) -> int: ...

    def whole(self) -> Buffer: ...

    def pieces(self) -> Iterator[bytes]:
        """The same, a piece at a time."""


class MemoryBody:
    __slots__ = ("_content",)

    def __init__(self, content: Buffer) -> None:
        self._content = content

    @property
    def size_bytes(self) -> int:
        return len(self._content)

    def whole(self) -> Buffer:
        return self._content

    def pieces(self) -> Iterator[bytes]:
        for at in range(0, len(self._content), COPY_CHUNK_BYTES):
            yield bytes(self._content[at : at + COPY_CHUNK_BYTES])


class FileBody:
    """What a file holds when this is made; the file is kept open, so it may be removed at once."""

    __slots__ = ("_file",)

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._file = MappedFile(path)

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def whole(self) -> bytes:
        return self._file.copy(0, self._file.size_bytes)

    def pieces(self) -> Iterator[bytes]:
        for at in range(0, self._file.size_bytes, COPY_CHUNK_BYTES):
            yield self._file.copy(at, min(COPY_CHUNK_BYTES, self._file.size_bytes - at))
