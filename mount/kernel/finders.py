"""Who finds a stream by its name, and opens it.

The kernel keeps one size for a number, and asks for it without saying for which opening. So each opening of a
stream is to have a number of its own, also where several find it at the same moment, before one of them opens
it. What a process found is promised to it for a while, since tools look whether what they opened is what they
had looked at; others find a number that nobody had before. Who comes to open a number that is open all the
same, as one thread beside another, is turned away, looks the name up once more, and finds a number that is
given to nobody else.

No number is searched for. Where a hundred processes open one name at the same moment, the kernel looks it up
some five thousand times, for each answer is another one than that which the process beside it was just given.
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
    """What a process is to find of a stream as long as it has not opened that."""

    reader: Reader | None
    """None stands for all that cannot be seen: they find the same."""
    first: int
    """The stream's first number."""
    which: bytes
    """What makes the promised number another one; nothing for the first."""
    inode: int
    """The promised number."""

    @property
    def whose(self) -> tuple[tuple[int, str] | None, int]:
        return _whose(self.reader, self.first)


def _whose(reader: Reader | None, first: int) -> tuple[tuple[int, str] | None, int]:
    return None if reader is None else reader.process, first


class Finders:
    """The threads that find streams. 0 is any that cannot be seen: those are never turned away, for nobody
    could tell which of them comes back.
    """

    def __init__(self) -> None:
        self._promised = Remembered[_Promise](PROMISED_S)
        self._serials = count()
        self._turned_away: dict[int, int] = {}
        """From which number, until it comes for another one."""

    def found(self, thread: int, first: StreamFile) -> StreamFile:
        """What a thread finds by a name; `first` is the first that has it."""
        if thread in self._turned_away:
            stream = self._stream(first, self._which_is_new())
        else:
            stream = self._promise(Reader.of(thread, first.inode), first)
        if thread:
            stream.finders.add(thread)
        return stream

    def told(self, thread: int, stream: StreamFile) -> EntryAttributes:
        """What a thread is told that asks. The first time it does so as who found it: `stat`, or the kernel,
        which wants to know whether it may open it. Such a question is none of who has it open.
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
        """What a process finds: again what it found, or the first if that is free, or one that is new."""
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
        """Who was turned away and comes back with the same number did not find it by name: it opens what is
        open, as `/dev/stdin`, and shares the number.
        """
        if not stream.openings:
            self._turned_away.pop(thread, None)
        elif thread and self._turned_away.get(thread) != stream.inode:
            self._turned_away[thread] = stream.inode
            raise gone()
