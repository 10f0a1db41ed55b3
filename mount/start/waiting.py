"""Waiting for a background mount's process, and taking it back when the one who waits is told to end.

A signal that comes while the store is being opened must leave nothing: neither a process nor, later, a mount
that nobody asked for any more.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from journalfs.errors import MountFailed
from journalfs_mount.limits import UNMOUNT_WAIT_S
from journalfs_mount.process.mount_table import FILESYSTEM_TYPE, mounted_at
from journalfs_mount.start.mountpoint import is_dead, unmount

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_POLL_S: Final = 0.01
_ANSWER_BYTES: Final = 65_536


class Interrupted(MountFailed):
    """The command was told to end before the mount answered."""

    def __init__(self, place: Path, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__(f"{place}: interrupted by {name} before the mount answered; nothing is mounted")


class SignalsNoted:
    """While entered, signals that would end this process are noted instead; those ignored stay ignored.

    They are held back until `release`, so that a fork in between hands none of this to the child half done.
    The child calls `forget`.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, lambda number, frame: None)
        return self

    def release(self) -> None:
        """Let signals come."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)

    def forget(self) -> None:
        """In the child: signals do what they do to a process that knows nothing of this."""
        signal.set_wakeup_fd(-1)
        for number in self._before:
            signal.signal(number, signal.SIG_DFL)
        self.release()

    def fileno(self) -> int:
        """Readable when a signal was noted."""
        return self._reader

    def noted(self) -> int:
        """The first signal that came."""
        return os.read(self._reader, 1)[0]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)


def answer_of(child: int, pipe: int, place: Path, signals: SignalsNoted) -> bytes:
    """What the mount's process writes into `pipe` before it closes it.

    Raises `Interrupted` when a signal comes first; the process and its mount are gone by then.
    """
    answer = b""
    signals.release()
    while True:
        ready, _, _ = select.select([signals.fileno(), pipe], [], [])
        if signals.fileno() in ready:
            number = signals.noted()
            take_back(child, place)
            raise Interrupted(place, number)
        piece = os.read(pipe, _ANSWER_BYTES)
        if not piece:
            return answer
        answer += piece


def take_back(child: int, place: Path) -> None:
    """End the mount's process, and its mount if there is one already. Returns when both are gone."""
    os.kill(child, signal.SIGTERM)
    if not _ended(child):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    mount = mounted_at(place)
    if mount is not None and mount.filesystem == FILESYSTEM_TYPE and is_dead(place):
        with contextlib.suppress(MountFailed):  # the kernel may take it away by itself meanwhile
            unmount(place, lazy=True)


def _ended(child: int) -> bool:
    return any(os.waitpid(child, os.WNOHANG)[0] for _ in _moments(UNMOUNT_WAIT_S))


def _moments(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(_POLL_S)
