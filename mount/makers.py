"""Which process made a staged directory of a job, so that it goes when that process has ended.

Spark's committers take every finished task below `_temporary` for one of their own job. What a killed job
left would be published by the next one, so it must be gone by then.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from journalfs import door
from journalfs_mount.reader import Reader

JOB_DIRECTORY: Final = b"_temporary"
"""Where Hadoop's committers keep what the tasks of a job wrote."""

_ATTEMPT: Final = b"0"
"""What is in it as soon as a job has begun: a directory for the only attempt at it there is."""

_ATTRIBUTE: Final = "user.journalfs.maker"
"""Of the real directory, so that the next mount knows it too."""


def note_maker(path: bytes, thread: int) -> None:
    """Keep with a directory which process made it. One that cannot be told, and one on a file system without
    attributes, stays until it is swept.
    """
    process = Reader.of(thread, 0)
    where = _where()
    if process is None or where is None:
        return
    with contextlib.suppress(OSError):
        made_by = " ".join((*where, str(process.pid), process.began)).encode()
        with door.held(path) as descriptor:
            os.setxattr(descriptor, _ATTRIBUTE, made_by)


def is_left(path: bytes) -> bool:
    """Whether a directory holds a job, and the process that made it is no more. False where that cannot be
    told.
    """
    where = _where()
    if where is None or not door.is_folder(os.path.join(path, _ATTEMPT)):
        return False
    try:
        with door.held(path) as descriptor:
            said = os.getxattr(descriptor, _ATTRIBUTE)
        boot, namespace, pid, began = said.decode("ascii").split()
        process = Reader(int(pid), began, 0)
    except (OSError, ValueError):
        return False
    if boot != where[0]:
        return True
    return namespace == where[1] and process.has_ended()


def _where() -> tuple[str, str] | None:
    """The run of the system and the space of process numbers in which a number means a process."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return boot, str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return None
