"""The broker's own locks on a store: looks at them, and takes them.

They are POSIX record locks, and the kernel drops all locks of a process on a file as soon as the process
closes any descriptor of it. So this module remembers the files that this process has locked, and such a file
must never be opened a second time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.format.server_lock import PRIMARY_LOCK_NAME, SERVER_LOCK_NAME

_FLOCK: Final = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux: type, whence, start, length, process id."""

_TAKEN: Final = (errno.EAGAIN, errno.EACCES)

_ATTEMPTS_MAX: Final = 3
"""Attempts to lock: the holder may release the lock before its process id is asked for."""

_held: set[tuple[int, int]] = set()
"""Device and inode of the files that this process has locked."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a file; a length of 0 reaches to its end, however long it becomes."""

    start: int = 0
    length: int = 0


WHOLE: Final = Range()

PRIMARY_BYTE: Final = Range(1, 1)
"""The byte of `server.lock` that brokers before 2.10 lock; later ones lock `serverlock.1`."""


def lock_holder(directory: Path) -> int | None:
    """Return the process id of the holder of the active broker's lock in `directory`, 0 if it is in another
    PID namespace; `None` if the lock is free.
    """
    holder = _looked_at(directory / PRIMARY_LOCK_NAME, WHOLE)
    return holder if holder is not None else _looked_at(directory / SERVER_LOCK_NAME, PRIMARY_BYTE)


def _looked_at(path: Path, wanted: Range) -> int | None:
    try:
        if held_here(path):
            return os.getpid()
        descriptor = door.open_file(path)
    except OSError:
        return None
    try:
        found = _lock_of_another(descriptor, wanted)
    finally:
        os.close(descriptor)
    # A lock of the whole of server.lock is held for an instant by whoever reads it, a broker that waits too.
    return None if found is None or found.start != wanted.start else found.process


def read_beginning(path: Path, bytes_max: int) -> bytes | None:
    """Return the first bytes of a lock file; None if there is none, or this process holds it.
    Raises OSError.
    """
    try:
        if held_here(path):
            return None
        descriptor = door.open_file(path)
    except FileNotFoundError:
        return None
    try:
        return os.pread(descriptor, bytes_max, 0)
    finally:
        os.close(descriptor)


def held_here(path: Path) -> bool:
    """True if this process holds a lock of that file. Raises OSError when there is no such file."""
    found = door.status(path)
    return (found.st_dev, found.st_ino) in _held


@dataclass(frozen=True, slots=True)
class _Lock:
    process: int
    start: int


def _lock_of_another(descriptor: int, wanted: Range) -> _Lock | None:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, wanted.start, wanted.length, 0)
    kind, _, start, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else _Lock(max(process, 0), start)


class LockedFile:
    """A file of which this process has locked a range. Nothing else in the process may open it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        found = os.fstat(descriptor)
        self._key = (found.st_dev, found.st_ino)
        _held.add(self._key)

    def read(self, bytes_max: int) -> bytes:
        """Return the first bytes of the file. Raises OSError."""
        return os.pread(self._descriptor, bytes_max, 0)

    def write(self, content: bytes) -> None:
        """Overwrite its beginning, durably. Raises OSError."""
        written = os.pwrite(self._descriptor, content, 0)
        if written != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        os.fdatasync(self._descriptor)

    def release(self) -> None:
        """Let go of it. Once only."""
        _held.remove(self._key)
        os.close(self._descriptor)


def take(path: Path, wanted: Range = WHOLE) -> LockedFile | int:
    """Lock a file, making it if need be. If another process holds the lock, return its id (0: unknown).
    Raises OSError.
    """
    if door.exists(path) and held_here(path):
        return os.getpid()
    for _ in range(_ATTEMPTS_MAX):
        descriptor = door.open_or_create(path)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, wanted.length, wanted.start, os.SEEK_SET)
            return LockedFile(path, descriptor)
        except OSError as error:
            holder = _lock_of_another(descriptor, wanted)
            os.close(descriptor)
            if error.errno not in _TAKEN:
                raise
            if holder is not None:
                return holder.process
    return 0
