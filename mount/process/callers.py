"""Who waits for an answer, and whether a signal asks it to stop waiting.

The kernel tells a filesystem when a caller was interrupted, but pyfuse3 does not pass it on. What it shows of
each thread tells the same: one that waits for an answer cannot take a signal, so a signal that it neither
blocks nor ignores stays pending until it is answered.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from journalfs_mount.process.proc import content_if_there, flags_of_opened, parent_of, process_of

_PASSED_OVER: Final = sum(
    1 << (number - 1) for number in (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)
)
"""Signals that report and do not ask to stop. A real device would go on with the call after their handlers;
a filesystem cannot, so they wait until the call is over.
"""

_ENDING: Final = sum(
    1 << (number - 1)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM)
)


class Caller:
    """The thread that made a request which says who made it."""

    def __init__(self, thread: int) -> None:
        self._thread = thread

    def is_told_to_stop(self) -> bool:
        return _has_signal(self._thread)

    def is_known(self) -> bool:
        """False when nothing can be said of it: who is not seen cannot be interrupted."""
        return os.path.isdir(f"/proc/{self._thread}")


def lineage(thread: int) -> Iterator[int]:
    """A thread, its process, the one that started that, and so on, as far as they can be seen."""
    yield thread
    process = process_of(thread)
    while process:
        yield process
        process = parent_of(process)


def is_open(inode: int, *, near: int) -> bool:
    """Whether any process that can be looked at has a file of this number open, that of the thread `near` or
    another one. Who closes it has it no more by the time the filesystem is asked: the kernel takes the
    descriptor away first.
    """
    return any(_has_open(process, inode, otherwise=False) for process in chain(_family(near), _processes()))


class EndingCaller(Caller):
    """The same, of a change that a real file system would not break off. So only a signal that ends programs
    breaks it off, and nobody is told to try again because they cannot be seen.
    """

    def is_told_to_stop(self) -> bool:
        return _has_signal(self._thread, _ENDING)

    def is_known(self) -> bool:
        return True


class Writer:
    """Whoever writes to an open file: who opened it, one of its children, or anybody who got it from them.

    A signal for a process with several threads may be meant for another one than that which writes: only one
    that is still pending at the second look is.
    """

    def __init__(self, opener: int, inode: int) -> None:
        self._opener = opener
        self._inode = inode
        self._holders: set[int] = set()
        self._looks = 0
        self._pending: set[int] = set()

    def is_told_to_stop(self) -> bool:
        if self._looks % LOOKS_PER_SEARCH == 0:
            self._holders = self._found()
        self._looks += 1
        before = self._pending
        self._pending = {
            thread for process in self._holders for thread in _threads(process) if _has_signal(thread)
        }
        return bool(self._pending & before)

    def is_known(self) -> bool:
        return bool(self._holders)

    def _found(self) -> set[int]:
        """Processes that have the file open."""
        near = {
            process for process in _family(self._opener) if _has_open(process, self._inode, otherwise=True)
        }
        return near or {
            process for process in _processes() if _has_open(process, self._inode, otherwise=False)
        }


LOOKS_PER_SEARCH: Final = 20
"""Who has a file open is found out anew so seldom; signals are looked for each time."""


def _has_signal(thread: int, asked_for: int = ~_PASSED_OVER) -> bool:
    masks = {}
    for line in content_if_there(f"/proc/{thread}/status").splitlines():
        name, _, value = line.partition(b":")
        if name in (b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn"):
            masks[name] = int(value, 16)
    if len(masks) < 4:
        return False
    pending = masks[b"SigPnd"] | masks[b"ShdPnd"]
    return bool(pending & ~(masks[b"SigBlk"] | masks[b"SigIgn"]) & asked_for)


def _has_open(process: int, inode: int, *, otherwise: bool) -> bool:
    """Whether a process has a file of this number open; `otherwise` where that may not be seen."""
    try:
        return any(True for _ in flags_of_opened(process, inode))
    except PermissionError:
        return otherwise
    except OSError:
        return False


def _family(thread: int) -> Iterator[int]:
    """The process of a thread, and all that descend from it."""
    process = process_of(thread)
    found = [process] if process else []
    while found:
        process = found.pop()
        yield process
        for one in _threads(process):
            found += map(int, content_if_there(f"/proc/{process}/task/{one}/children").split())


def _threads(process: int) -> list[int]:
    return _numbers(f"/proc/{process}/task")


def _processes() -> Iterable[int]:
    own = os.getpid()
    return (process for process in _numbers("/proc") if process != own)


def _numbers(folder: str) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(folder) if name.isdecimal()]
    return []
