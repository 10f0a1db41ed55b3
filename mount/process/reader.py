"""Who reads a stream, and how its reading ends, as far as the system tells.

The kernel closes the files of a killed process as if it had closed them itself, and hands on neither who
closes nor why. But it waits for the answer to a close: at that moment the process that opened the file stands
still, and says of itself whether it still has it, whether it is on its way out, and with what exit code. A
process that closed a file and then ends tells its exit code afterwards, to those who asked for its end before
(Linux 6.15 or newer).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from journalfs_mount.process.proc import START, flags_of_opened, process_of, stat_fields

_EXITING: Final = 0x4
"""PF_EXITING among the flags of a task."""
_STATE, _FLAGS, _EXIT_CODE = 0, 6, 49
"""Among `stat_fields`."""
_INFO: Final = 0xC0000000 | 64 << 16 | 0xFF << 8 | 11
"""PIDFD_GET_INFO with the first version's 64 bytes."""
_INFO_EXIT: Final = 1 << 3
_INFO_BYTES: Final = 64


class Seen(Enum):
    """What a close says of the process that opened the file."""

    HAS_IT = auto()
    """It still has the file, so another one closed a descriptor of its own: a child, as a rule."""
    CLOSED = auto()
    """It goes on without it."""
    ENDED_WELL = auto()
    FAILED = auto()
    """It was killed, or exits with another code than 0."""
    GONE = auto()
    """Nothing can be told of it any more."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The process that opened a file, told from later ones of the same number by when it began."""

    pid: int
    began: str
    inode: int
    """The file's number."""

    @classmethod
    def of(cls, thread: int, inode: int) -> Reader | None:
        """The process of a thread; None where it cannot be seen, as in another namespace."""
        pid = process_of(thread)
        if pid is not None:
            with contextlib.suppress(OSError):
                return cls(pid, stat_fields(pid)[START], inode)
        return None

    @property
    def process(self) -> tuple[int, str]:
        """The same for all files of one process."""
        return self.pid, self.began

    def seen(self, *, beside: int = 0) -> Seen:
        """What is to be seen of it at this moment, while somebody waits for a close. `beside`: so many other
        openings it has of a file with this number.
        """
        try:
            fields = stat_fields(self.pid)
            if fields[START] != self.began:
                return Seen.GONE
            if int(fields[_FLAGS]) & _EXITING or fields[_STATE] in "ZX":
                return Seen.ENDED_WELL if int(fields[_EXIT_CODE]) == 0 else Seen.FAILED
            opened = len(list(flags_of_opened(self.pid, self.inode)))
            return Seen.HAS_IT if opened > beside else Seen.CLOSED
        except (OSError, ValueError, IndexError):
            return Seen.GONE

    def has_ended(self) -> bool:
        """Whether it is no more. Unlike `seen` this can be asked of anybody's process at any time."""
        try:
            fields = stat_fields(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return True
        return fields[START] != self.began or fields[_STATE] in "ZX"

    def waits_not(self) -> bool:
        """Whether its descriptor says O_NONBLOCK, which can be set after the opening."""
        with contextlib.suppress(OSError, ValueError):
            return any(flags & os.O_NONBLOCK for flags in flags_of_opened(self.pid, self.inode))
        return False

    def watched(self) -> Watched | None:
        """To be told of its end; None where it has ended or the system cannot say."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return None
        watched = Watched(self, descriptor)
        if self.seen() is Seen.GONE:
            watched.close()
            return None
        return watched


class Watched:
    """A process whose end is waited for."""

    def __init__(self, reader: Reader, descriptor: int) -> None:
        self._reader = reader
        self.descriptor = descriptor
        """Readable once the process has ended."""

    def ended(self) -> bool:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def failed(self) -> bool:
        """Whether it was killed, or exited with another code than 0. Only after its end; False where that
        cannot be told any more.
        """
        seen = self._reader.seen()
        if seen is not Seen.GONE:
            return seen is Seen.FAILED
        info = bytearray(_INFO_BYTES)
        struct.pack_into("=Q", info, 0, _INFO_EXIT)
        try:
            fcntl.ioctl(self.descriptor, _INFO, info)
        except OSError:
            return False
        told, code = struct.unpack_from("=Q", info, 0)[0], struct.unpack_from("=i", info, 60)[0]
        return bool(told & _INFO_EXIT) and code != 0

    def close(self) -> None:
        os.close(self.descriptor)
