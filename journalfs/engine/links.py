"""Second names (hard links) for files, so that their content stays when the first name goes.

A write into a file with two names changes both. The owner of such a file must give it up instead of using it
again; a program that does not ask (`is_linked`) is kept from reusing it by `lengthen`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.engine._native import lib
from journalfs.limits import COPY_CHUNK_BYTES, LENGTHENED_BYTES

# Whether an open file is still what its name stands for: who opens it by that name finds what is written.

TAKEN_AWAY: Final = "it was taken away"
CUT_SHORT: Final = "it was cut short"
_NO_SUCH_FILE: Final = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file by its path, whichever directory that leads through, and by its device and inode."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, descriptor: int, path: Path) -> NamedFile:
        """Raises OSError."""
        found = os.fstat(descriptor)
        return cls(os.path.abspath(path), found.st_dev, found.st_ino)

    def lost(self, size_bytes: int) -> OSError | None:
        """Return the error if the name does not lead to the written file up to `size_bytes` any more; `None`
        if it does.
        """
        with door.place(self.path) as (directory, name):
            # P-2: asked by name, not by descriptor: an open descriptor still works after the name is gone.
            found: int = lib.jfs_place_of(directory, name, self.device, self.inode, size_bytes)
        if found in _NO_SUCH_FILE:
            return OSError(found, TAKEN_AWAY)
        if found == lib.JFS_PLACE_REPLACED:
            return OSError(errno.ENOENT, "another file was put in its place")
        if found == lib.JFS_PLACE_SHORT:
            return OSError(errno.EIO, CUT_SHORT)
        return OSError(found, os.strerror(found), self.path) if found else None


_NO_COPYING: Final = frozenset((errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM))
"""Where the system does not copy from file to file by itself."""


def is_linked(path: Path) -> bool:
    """Whether a file has a name beside this one. Raises OSError."""
    return door.status(path).st_nlink > 1


def lengthen(path: Path, size_bytes: int) -> None:
    """Make a file of `size_bytes` longer by a hole; a file of another size stays as it is.

    Brokers, and any journalfs, reuse only journal files of one size. Other files are moved or deleted, which
    leaves their second names intact. Raises OSError.
    """
    with door.opened(path, door.WRITE) as descriptor:
        if os.fstat(descriptor).st_size == size_bytes:
            os.ftruncate(descriptor, size_bytes + LENGTHENED_BYTES)


def copy_beginning(file: Path, copy: Path, length: int, *, size_bytes: int = 0) -> None:
    """A new file with the first `length` bytes of another, and zeros up to `size_bytes`; durable but for its
    name. Raises OSError.
    """
    with door.opened(file) as source:
        target = door.create(copy)
        try:
            at = 0
            while at < length and (taken := _copy(source, target, at, length - at)):
                at += taken
            os.ftruncate(target, max(length, size_bytes))
            os.fsync(target)
        finally:
            os.close(target)


def move(file: Path, name: Path) -> None:
    """Give a file another name, on another file system too, where it is copied durably before it goes. Raises
    OSError with the file where it was.
    """
    try:
        door.rename(file, name)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    made = name.with_name(name.name + ".new")
    try:
        door.remove_if_there(made)
        copy_beginning(file, made, door.status(file).st_size)
        rename(made, name)
    except BaseException:
        door.remove_if_there(made)
        raise
    door.remove(file)


def _copy(source: int, target: int, at: int, length: int) -> int:
    """Copy at most that many bytes at one offset; some file systems need not write them for that."""
    try:
        return os.copy_file_range(source, target, length, at, at)
    except OSError as error:
        if error.errno not in _NO_COPYING:
            raise
    return os.pwrite(target, os.pread(source, min(length, COPY_CHUNK_BYTES), at), at)


def write_durably(path: Path, content: bytes) -> None:
    """A new file; durable but for its name. Raises OSError."""
    descriptor = door.create(path)
    try:
        door.write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path, content: bytes, *, sync: bool) -> None:
    """To a file, durably with `sync`. Raises OSError, and then the file is what it was."""
    with door.opened(path, os.O_WRONLY | os.O_APPEND) as descriptor:
        before = os.fstat(descriptor).st_size
        try:
            door.write_all(descriptor, content)
            if sync:
                os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            raise


def rename(old: Path, new: Path) -> None:
    """Rename within a directory, durably. Raises OSError."""
    door.rename(old, new)
    door.sync(new.parent)


def put_together(path: Path, pieces: Iterable[tuple[Path, int, int]]) -> None:
    """Make a disposable file from pieces of other files, each given by its offset and length.
    Raises OSError.
    """
    made = door.create(path)
    try:
        for source, some in groupby(pieces, key=itemgetter(0)):
            with door.opened(source) as opened:
                for _, offset, length in some:
                    door.write_all(made, os.pread(opened, length, offset))
    finally:
        os.close(made)
