"""What the kernel says of processes and threads in /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from journalfs.store_owner import as_started

START: Final = 19
"""Among `stat_fields`: when it began, in ticks since the system did."""
_CHUNK_BYTES: Final = 4096


def content(path: str) -> bytes:
    """A whole file, without what Python's own files would cost. Raises OSError."""
    with as_started():
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.read(descriptor, _CHUNK_BYTES)
        while more := os.read(descriptor, _CHUNK_BYTES):
            found += more
        return found
    finally:
        os.close(descriptor)


def content_if_there(path: str) -> bytes:
    """The same; nothing when what it is about has gone."""
    with contextlib.suppress(OSError):
        return content(path)
    return b""


def stat_fields(task: int) -> list[str]:
    """The fields of its `stat`, counted from the one behind the program's name. Raises OSError."""
    return content(f"/proc/{task}/stat").rpartition(b")")[2].decode().split()


def process_of(thread: int) -> int | None:
    """None where it cannot be seen, as in another namespace."""
    return _status_number(thread, b"\nTgid:")


def parent_of(process: int) -> int | None:
    return _status_number(process, b"\nPPid:")


def groups_of(thread: int) -> frozenset[int] | None:
    """Return the supplementary groups of a thread; None where it cannot be seen, as in another namespace."""
    _, found, behind = content_if_there(f"/proc/{thread}/status").partition(b"\nGroups:")
    return frozenset(map(int, behind.partition(b"\n")[0].split())) if found else None


def _status_number(task: int, name: bytes) -> int | None:
    _, found, behind = content_if_there(f"/proc/{task}/status").partition(name)
    return int(behind.partition(b"\n")[0]) if found else None


def flags_of_opened(process: int, inode: int) -> Iterator[int]:
    """The flags of each of its descriptors of the file with this number, where the kernel says the number
    (Linux 5.14 or newer). Only that is looked at: asking for attributes of the file would ask the mount, that
    is us. Raises OSError where it may not be looked at.
    """
    folder, wanted = f"/proc/{process}/fdinfo", b"\nino:\t%d\n" % inode
    with as_started():
        names = os.listdir(folder)
    for name in names:
        said = content_if_there(f"{folder}/{name}")
        if wanted in said:
            yield int(said.partition(b"flags:\t")[2].partition(b"\n")[0], 8)


def process_group_of(thread: int) -> int:
    """What a shell starts together: a command, or several in a pipeline. 0 where nobody can say."""
    try:
        return os.getpgid(thread)
    except OSError:
        return 0
