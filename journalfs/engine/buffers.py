"""Files mapped for reading by the C core.

Python never looks at mapped bytes itself: a file that is truncated meanwhile would end the process. Bytes are
copied out by the core under its guard.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from journalfs.engine._native import ffi, lib
from journalfs.engine.status import check


class MappedFile:
    """A whole file, mapped for reading. It holds the descriptor, so the content outlives an unlink.

    `pointer` owns the mapping: whoever keeps it (a batch of lines, say) keeps the bytes mapped, also after
    `close` or `refresh`.
    """

    __slots__ = ("_fd", "path", "pointer", "size_bytes")

    def __init__(self, path: Path | str) -> None:
        """Map the file as long as it is now. Raises OSError."""
        self.path = Path(path)
        # Not blocking: a pipe put where a file should be would wait for a writer for ever.
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self.pointer: Any = ffi.NULL
        self.size_bytes = 0
        try:
            self._map(os.fstat(self._fd).st_size)
        except BaseException:
            self.close()
            raise

    def _map(self, size_bytes: int) -> None:
        out = ffi.new("const uint8_t **")
        check(lib.jfs_map(self._fd, size_bytes, out), f"mapping {self.path}")
        # Freed when the last owner of the pointer lets go, not when this object does.
        self.pointer = (
            ffi.gc(out[0], lambda bytes_, size=size_bytes: lib.jfs_unmap(bytes_, size))
            if size_bytes
            else ffi.NULL
        )
        self.size_bytes = size_bytes

    @property
    def fd(self) -> int:
        return self._fd

    def stat(self) -> os.stat_result:
        """The file's status now, by its descriptor."""
        return os.fstat(self._fd)

    def refresh(self) -> bool:
        """Map again if the file grew; true if it did. Earlier pointers stay valid for what they cover."""
        size_bytes = os.fstat(self._fd).st_size
        if size_bytes <= self.size_bytes:
            return False
        self._map(size_bytes)
        return True

    def copy(self, offset: int, length: int) -> bytes:
        """Return bytes [offset, offset + length); they must lie within `size_bytes`. Raises FileTorn."""
        if offset < 0 or length < 0 or offset + length > self.size_bytes:
            raise ValueError(f"{self.path}: bytes {offset}+{length} lie outside {self.size_bytes}")
        if length == 0:
            return b""
        out = ffi.new("uint8_t[]", length)
        check(lib.jfs_copy(out, self.pointer + offset, length), f"reading {self.path}")
        return bytes(ffi.buffer(out, length))

    def release(self) -> None:
        """Give back the memory that reading the mapping took, as after a scan that will not be repeated.

        The bytes stay readable: they come from the page cache, or the disk, when they are asked for again.
        """
        lib.jfs_map_release(self.pointer, self.size_bytes)

    def close(self) -> None:
        """Let go of the file and of this object's hold on the mapping. May be called again."""
        self.pointer = ffi.NULL
        self.size_bytes = 0
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def detach(self) -> None:
        """Close the descriptor and keep the mapping: for files that never grow, so that many can be held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
