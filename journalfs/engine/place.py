"""Whether an open file is still what its name stands for: who opens it by that name finds what is written."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from journalfs import door

TAKEN_AWAY: Final = "it was taken away"
CUT_SHORT: Final = "it was cut short"
_NO_SUCH_FILE: Final = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class Place:
    """A file by its path, whichever directory that leads through, and by its device and inode."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, descriptor: int, path: Path) -> Place:
        """Raises OSError."""
        found = os.fstat(descriptor)
        return cls(os.path.abspath(path), found.st_dev, found.st_ino)

    def lost(self, size_bytes: int) -> OSError | None:
        """Why nobody would find there what was written, up to `size_bytes`; `None`: it is there."""
        try:
            found = door.seen_at(self.path)
        except OSError as error:
            return OSError(error.errno, TAKEN_AWAY) if error.errno in _NO_SUCH_FILE else error
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            return OSError(errno.ENOENT, "another file was put in its place")
        if found.st_size < size_bytes:
            return OSError(errno.EIO, CUT_SHORT)
        return None
