"""Files that a command is given beside a store, as those of exports and imports: its caller's.

They are reached as whoever started the process, whosever the store is that it acts for. Who owns their
directory leads nothing that is written elsewhere: what is made is made anew.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from journalfs.store_owner import as_started

NOTE_BYTES_MAX: Final = 1 << 20

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_SMALL: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def replacing(path: Path, unfinished: str) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` at the end, and is called `unfinished` beside it until then; it
    goes if that fails, and so does what had that name. Raises OSError.
    """
    with as_started():
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with as_started():
            with suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=folder)
            made = os.open(unfinished, _NEW, 0o666, dir_fd=folder)
        try:
            with open(made, "wb") as file:
                yield file
                file.flush()
                _sync(made)  # else a power cut leaves an empty file of that name
            with as_started():
                os.rename(unfinished, path.name, src_dir_fd=folder, dst_dir_fd=folder)
                _sync_folder(path.parent)
        except BaseException:
            with as_started(), suppress(OSError):
                os.unlink(unfinished, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _sync(descriptor: int) -> None:
    """Make a file durable; what is no file, as a terminal or a pipe, needs no sync."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EROFS):
            raise


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def opened(path: Path) -> BinaryIO:
    """For reading. Raises OSError."""
    with as_started():
        return path.open("rb")


def read_note(path: Path) -> bytes:
    """A short file of ours that lies there. Raises OSError: ELOOP for a link."""
    with as_started():
        descriptor = os.open(path, _SMALL)
    try:
        return os.read(descriptor, NOTE_BYTES_MAX)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """It may be gone. Raises OSError."""
    with as_started():
        path.unlink(missing_ok=True)
