"""Tracks which process looked a stream up by its name, and opens it.

The kernel keeps one size for an inode number, and asks for it without naming the opening. So each opening of
a stream must have a number of its own, also if several processes look it up at the same moment. The number
that a process was given is promised to it for a while, since tools compare the file they opened with the one
they had looked at; other processes get a number that was never given. A thread that comes to open a number
that is open all the same, as one thread beside another, is refused, looks the name up again, and gets another
number.

Numbers are not searched for. If a hundred processes open one name at the same moment, the kernel looks it up
some five thousand times, since each answer differs from the one that the process beside it just got.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Final

from pyfuse3 import EntryAttributes

from journalfs_mount.errnos import gone
from journalfs_mount.kernel.remembered import Remembered
from journalfs_mount.nodes.stream import StreamFile
from journalfs_mount.process.reader import Reader

PROMISED_S: Final = 1.0
"""How long a number is kept for the process that found it: `cp` opens at once what it has looked at."""


@dataclass(frozen=True, slots=True)
class _Promise:
    """The number promised to a process until it has opened the stream."""

    reader: Reader | None
    """The process; None stands for all processes that cannot be seen: they share one promise."""
    first: int
    """The stream's first number."""
    which: bytes
    """The part of the node's key that makes its number differ; empty for the first."""
    inode: int
    """The promised number."""

    @property
    def whose(self) -> tuple[tuple[int, str] | None, int]:
        return _whose(self.reader, self.first)


def _whose(reader: Reader | None, first: int) -> tuple[tuple[int, str] | None, int]:
    return None if reader is None else reader.process, first


class Finders:
    """The threads that look streams up. 0 is any thread that cannot be seen: it is never refused, since
    nothing tells whether it comes back.
    """

    def __init__(self) -> None:
        self._promised = Remembered[_Promise](PROMISED_S)
        self._serials = count()
        self._turned_away: dict[int, int] = {}
        """From which number, until it comes for another one."""

    def found(self, thread: int, first: StreamFile) -> StreamFile:
        """Return the node for a thread that looks up a name; `first` is the first node of that name."""
        if thread in self._turned_away:
            stream = self._stream(first, self._which_is_new())
        else:
            stream = self._promise(Reader.of(thread, first.inode), first)
        if thread:
            stream.finders.add(thread)
        return stream

    def told(self, thread: int, stream: StreamFile) -> EntryAttributes:
        """Return the attributes of a stream for a thread that asks. Its first question after a look-up
        belongs to that look-up: `stat`, or the kernel, which asks before it opens. It must not count as a
        question of the process that has the stream open.
        """
        if thread not in stream.finders and self._turned_away.get(thread) != stream.inode:
            return stream.told(thread)
        stream.finders.discard(thread)
        self._turn_away_from_open(thread, stream)
        return stream.attributes()

    def opens(self, thread: int, stream: StreamFile) -> None:
        """A thread is about to open a stream."""
        self._turn_away_from_open(thread, stream)
        self._turned_away.pop(thread, None)
        stream.finders.discard(thread)
        for promise in [one for one in self._promised if one.inode == stream.inode]:
            self._promised.forget(promise.whose)

    def _promise(self, reader: Reader | None, first: StreamFile) -> StreamFile:
        """Return the promise of a process: its earlier one, the first node if that is free, or a new one."""
        promised = self._promised.get(_whose(reader, first.inode))
        if promised is not None:
            which = promised.which
        elif first.openings or self._is_promised_to_another(reader, first):
            which = self._which_is_new()
        else:
            which = b""
        stream = self._stream(first, which)
        if promised is None or stream is first:
            # Others are kept no longer: who looks again and again finds the first once that is free.
            promise = _Promise(reader, first.inode, which, stream.inode)
            self._promised.put(promise.whose, promise)
        return stream

    def _is_promised_to_another(self, reader: Reader | None, stream: StreamFile) -> bool:
        whose = _whose(reader, stream.inode)
        return any(
            one.inode == stream.inode
            and one.whose != whose
            and not (one.reader is not None and one.reader.has_ended())
            for one in self._promised
        )

    def _which_is_new(self) -> bytes:
        return b"%d" % next(self._serials)

    @staticmethod
    def _stream(first: StreamFile, which: bytes) -> StreamFile:
        if not which:
            return first
        first.context.nodes.drop_unused(first)
        return first.another(which)

    def _turn_away_from_open(self, thread: int, stream: StreamFile) -> None:
        """Refuse a thread that would open the number of an open stream. A thread that was refused and comes
        back with the same number did not look it up by name: it opens an open stream, as `/dev/stdin`, and
        shares its number.
        """
        if not stream.openings:
            self._turned_away.pop(thread, None)
        elif thread and self._turned_away.get(thread) != stream.inode:
            self._turned_away[thread] = stream.inode
            raise gone()
