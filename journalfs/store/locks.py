"""Who holds a store: the broker's own lock, looked at and never taken here."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from journalfs.format.server_lock import PRIMARY_LOCK_NAME

_FLOCK = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux: type, whence, start, length, process id."""


def lock_holder(directory: Path) -> int | None:
    """Process id of whoever holds the active broker's lock in `directory`, 0 if it is in another PID
    namespace; `None` when nobody does.
    """
    try:
        descriptor = os.open(directory / PRIMARY_LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(process, 0)
