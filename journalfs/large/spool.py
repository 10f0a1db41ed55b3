"""Bytes of one message that is being written: in memory while they are few, then in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from journalfs.large.writing import write_all
from journalfs.limits import SPOOLED_IN_MEMORY_BYTES_MAX


class Spool:
    """Methods that touch the disk may raise OSError. The file is nobody's before its message is published."""

    def __init__(self, directory: Callable[[], Path]) -> None:
        """`directory` makes the directory for the file, if it comes to that."""
        self._directory = directory
        self._memory = bytearray()
        self._descriptor = -1
        self.path: Path | None = None
        """None while all of it is in memory."""

    def fits(self, length: int) -> bool:
        """Whether that much more can be taken without touching the disk."""
        return self.path is None and len(self._memory) + length <= SPOOLED_IN_MEMORY_BYTES_MAX

    def take(self, data: bytes) -> None:
        """More bytes that fit."""
        self._memory += data

    def append(self, data: bytes) -> None:
        """More bytes, to the file."""
        if self.path is None:
            self._to_file(self._directory())
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
            self._to_file(path.parent)
        assert self.path is not None
        os.fsync(self._descriptor)
        self.path.rename(path)
        self._close()

    def discard(self) -> None:
        self._memory.clear()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self._close()

    def _to_file(self, directory: Path) -> None:
        self._descriptor, name = tempfile.mkstemp(prefix="spool-", dir=directory)
        self.path = Path(name)
        write_all(self._descriptor, self._memory)
        self._memory.clear()

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor, self.path = -1, None
