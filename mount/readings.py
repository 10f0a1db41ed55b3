"""What processes have read of files that removing acknowledges.

Who moves a file to another file system, or removes what was sent, removes what it has read: messages that
came later stay. And who unpacks, moves or mirrors files into a queue takes away what has their names, or what
they do not have, unread: that would acknowledge messages which nobody handled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Protocol

from journalfs.store.api import Shown
from journalfs_mount.callers import program_of, started_s, threads_of

READERS_MAX: Final = 256
"""Threads that are remembered, those that opened something last."""
READ_MAX: Final = 4096
"""Files of each, those that it opened last."""
SHOWN_MAX: Final = 1 << 20
"""Messages that all of them together saw: 8 bytes each. What one alone saw is remembered, however much."""
CLOCK_STEP_S: Final = 0.02
"""How exactly it is known when a thread was started, and more."""

REPLACING: Final = frozenset(
    b"mv cp install ln tar bsdtar star pax spax paxtar cpio bsdcpio unzip bsdunzip 7z 7za 7zr 7zz 7zzs unar "
    b"unrar rar unsquashfs dar borg duplicity rdiff-backup git hg svn wget rsync rclone unison lftp".split()
)
"""Programs that remove a file to put another one in its place, and those that make a folder like another one:
what they remove last may be what they have just brought.
"""


class Growing(Protocol):
    """An open file to which messages may have come since it was opened."""

    @property
    def shown(self) -> Shown:
        """What whoever reads it gets to see."""


@dataclass(frozen=True, slots=True)
class _Reading:
    number: int
    growing: Growing | None


@dataclass(slots=True)
class _Reader:
    since_s: float
    files: dict[int, _Reading] = field(default_factory=dict)

    @property
    def shown(self) -> int:
        """How many messages it saw, but for those in parts."""
        growing = (reading.growing for reading in self.files.values())
        return sum(len(one.shown.message_ids) for one in growing if one is not None)


class Readings:
    """By thread. Another thread of the same process may remove what one has read."""

    __slots__ = ("_now_s", "_numbers", "_program_of", "_readers", "_shown", "_started_s", "_threads_of")

    def __init__(
        self,
        *,
        program: Callable[[int], bytes] = program_of,
        threads: Callable[[int], set[int]] = threads_of,
        started: Callable[[int], float] = started_s,
        now_s: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._readers: dict[int, _Reader] = {}
        self._numbers = count()
        self._shown = 0
        """At least as many messages as are remembered."""
        self._program_of = program
        self._threads_of = threads
        self._started_s = started
        self._now_s = now_s

    def note(self, thread: int, inode: int, growing: Growing | None) -> None:
        """A file was opened to be read."""
        reader = self._readers.pop(thread, None)
        if reader is None or (growing is not None and self._is_another(thread, reader)):
            reader = _Reader(self._now_s())
        self._readers[thread] = reader
        reader.files.pop(inode, None)
        reader.files[inode] = _Reading(next(self._numbers), growing)
        if len(reader.files) > READ_MAX:
            del reader.files[next(iter(reader.files))]
        if growing is not None:
            self._shown += len(growing.shown.message_ids)
        if len(self._readers) > READERS_MAX or self._shown > SHOWN_MAX:
            self._forget(thread)

    def _forget(self, last: int) -> None:
        """Those that have ended first, and then those that opened nothing for the longest time."""
        for thread in [one for one in self._readers if one != last and not self._started_s(one)]:
            del self._readers[thread]
        self._shown = sum(reader.shown for reader in self._readers.values())
        while len(self._readers) > 1 and (len(self._readers) > READERS_MAX or self._shown > SHOWN_MAX):
            self._shown -= self._readers.pop(next(iter(self._readers))).shown

    def shown(self, thread: int, inode: int) -> Shown | None:
        """What a process saw of a file that it removes; None: all that it holds."""
        reading = self._last(thread, inode)
        return None if reading is None or reading.growing is None else reading.growing.shown

    def replaces(self, thread: int, inode: int) -> bool:
        """Whether a process removes a file to put another one in its place."""
        return self.brings(thread) and not self.has_read(thread, inode)

    def has_read(self, thread: int, inode: int) -> bool:
        """Whether a process opened a file to read it."""
        return self._last(thread, inode) is not None

    def brings(self, thread: int) -> bool:
        """Whether what a process removes is what it brought elsewhere, or what it brings another for."""
        return self._program_of(thread) in REPLACING

    def _last(self, thread: int, inode: int) -> _Reading | None:
        """When a process opened a file last."""
        if not self._readers:
            return None
        found: list[_Reading] = []
        for one in self._readers.keys() & ({thread} | self._threads_of(thread)):
            reader = self._readers[one]
            if self._is_another(one, reader):
                del self._readers[one]
            elif inode in reader.files:
                found.append(reader.files[inode])
        return max(found, key=lambda reading: reading.number, default=None)

    def _is_another(self, thread: int, reader: _Reader) -> bool:
        """Whether what is known is of an earlier thread of the same number."""
        return self._started_s(thread) > reader.since_s + CLOCK_STEP_S
