"""Bytes of one message that is being written: in memory while they are few, then in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from journalfs import door
from journalfs.large.writing import write_all


class Spool:
    """Methods that touch the disk may raise OSError. The file is nobody's before its message is published."""

    def __init__(self, make_path: Callable[[], Path], *, memory_bytes_max: int) -> None:
        """`make_path` says where the file goes, in a directory that is there, if it comes to that."""
        self._make_path = make_path
        self._memory_bytes_max = memory_bytes_max
        self._memory = bytearray()
        self._descriptor = -1
        self.path: Path | None = None
        """None while all of it is in memory."""

    def fits(self, length: int) -> bool:
        """Whether that much more can be taken without touching the disk."""
        return self.path is None and len(self._memory) + length <= self._memory_bytes_max

    def take(self, data: bytes | memoryview) -> None:
        """More bytes that fit."""
        self._memory += data

    def append(self, data: bytes) -> None:
        """More bytes, to the file."""
        if self.path is None:
            self._to_file(self._make_path())
        write_all(self._descriptor, data)

    def sync(self) -> None:
        if self.path is not None:
            os.fsync(self._descriptor)

    def content(self) -> bytes:
        """All of it, while it is in memory."""
        return bytes(self._memory)

    def keep(self, path: Path) -> None:
        """Leave what there is as a file of that name, durable: its message could not be published."""
        if self.path is None:
            self._to_file(path)
        assert self.path is not None
        os.fsync(self._descriptor)
        door.rename(self.path, path)
        self.close()

    def discard(self) -> None:
        path = self.path
        self.close()
        if path is not None:
            door.remove_if_there(path)

    def close(self) -> None:
        """Let go of it; the file stays."""
        self._memory.clear()
        if self.path is not None:
            os.close(self._descriptor)
            self._descriptor, self.path = -1, None

    def _to_file(self, path: Path) -> None:
        """All in memory, and no file, where that fails."""
        # As a body is made: it may become one.
        descriptor = door.create(path)
        try:
            write_all(descriptor, self._memory)
        except BaseException:
            os.close(descriptor)
            door.remove_if_there(path)
            raise
        self._descriptor, self.path = descriptor, path
        self._memory.clear()
