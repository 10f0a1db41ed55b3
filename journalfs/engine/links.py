"""Second names for files, so that what they hold stays when the first name goes.

A file that has two names and is written into changes under both. Whoever owns files with a second name has to
let go of them instead of using them again, and one that does not look (`is_linked`) is kept from it by
`lengthen`.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Final

from journalfs.limits import COPY_CHUNK_BYTES, LENGTHENED_BYTES
from journalfs.ownership import give_to_owner

_NO_COPYING: Final = frozenset((errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM))
"""Where the system does not copy from file to file by itself."""


def is_linked(path: Path) -> bool:
    """Whether a file has a name beside this one. Raises OSError."""
    return os.stat(path).st_nlink > 1


def link(file: Path, name: Path) -> None:
    """Give a file a second name. Raises OSError; `errno` says whether the file system has such names."""
    os.link(file, name)


def lengthen(path: Path, size_bytes: int) -> None:
    """Make a file of `size_bytes` longer by a hole; one of another size stays as it is.

    A broker, and any journalfs, uses journal files of one size only again: others it moves or deletes, which
    leaves their other names what they are. Raises OSError.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_size == size_bytes:
            os.ftruncate(descriptor, size_bytes + LENGTHENED_BYTES)
    finally:
        os.close(descriptor)


def copy_beginning(file: Path, copy: Path, length: int, *, size_bytes: int = 0) -> None:
    """A new file with the first `length` bytes of another, and zeros up to `size_bytes`; durable but for its
    name. Raises OSError.
    """
    source = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            give_to_owner(target, copy.parent)
            at = 0
            while at < length and (taken := _copy(source, target, at, length - at)):
                at += taken
            os.ftruncate(target, max(length, size_bytes))
            os.fsync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)


def move(file: Path, name: Path) -> None:
    """Give a file another name, on another file system too, where it is copied durably before it goes. Raises
    OSError with the file where it was.
    """
    try:
        os.rename(file, name)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    made = name.with_name(name.name + ".new")
    try:
        made.unlink(missing_ok=True)
        copy_beginning(file, made, file.stat().st_size)
        rename(made, name)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    file.unlink()


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
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        give_to_owner(descriptor, path.parent)
        at = 0
        while at < len(content):
            at += os.write(descriptor, content[at:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Make a file's content, or the names in a directory, durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(old: Path, new: Path) -> None:
    """Rename within a directory, durably. Raises OSError."""
    os.rename(old, new)
    sync(new.parent)


def remove_tree(folder: Path) -> None:
    """Remove a directory with all that is in it. Raises OSError."""
    shutil.rmtree(folder)
