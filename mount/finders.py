"""Who finds a stream by its name, and opens it.

The kernel keeps one size for a number, and asks for it without saying for which opening. So each opening of a
stream is to have a number of its own, also where several find it at the same moment, before one of them opens
it. What a process found is promised to it for a while, since tools look whether what they opened is what they
had looked at; others find the next number. Who comes to open a number that is open all the same, as one
thread beside another, is turned away, looks the name up once more, and finds a number that nobody else is
given.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Final

from pyfuse3 import EntryAttributes

from journalfs_mount.errnos import gone
from journalfs_mount.nodes.stream import StreamFile
from journalfs_mount.reader import Reader
from journalfs_mount.recent import Recent

PROMISED_S: Final = 1.0
"""How long a number is kept for the process that found it: `cp` opens at once what it has looked at."""


class Finders:
    """The threads that find streams. 0 is any that cannot be seen: those are never turned away, for nobody
    could tell which of them comes back.
    """

    __slots__ = ("_promised", "_serials", "_turned_away")

    def __init__(self) -> None:
        self._promised = Recent[Reader](PROMISED_S)
        self._serials = count()
        self._turned_away: dict[int, int] = {}
        """From which number, until it comes for another one."""

    def found(self, thread: int, first: StreamFile) -> StreamFile:
        """What a thread finds by a name; `first` is the first that has it."""
        if thread in self._turned_away:
            first.context.nodes.drop_unused(first)
            stream = first.another(b"apart %d" % next(self._serials))
        else:
            stream = self._free(thread, first)
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

    def _free(self, thread: int, first: StreamFile) -> StreamFile:
        """The first that nobody has open, and that is promised to no other process."""
        reader, stream, others = Reader.of(thread, first.inode), first, count(1)
        while stream.openings or self._is_promised_to_another(reader, stream):
            stream.context.nodes.drop_unused(stream)
            stream = first.another(b"%d" % next(others))
        if reader is not None:
            self._promised.did(reader.pid, replace(reader, inode=stream.inode))
        return stream

    def _is_promised_to_another(self, reader: Reader | None, stream: StreamFile) -> bool:
        process = None if reader is None else reader.process
        return any(
            one.inode == stream.inode and one.process != process and not one.has_ended()
            for one in self._promised
        )

    def _turn_away_from_open(self, thread: int, stream: StreamFile) -> None:
        """Who was turned away and comes back with the same number did not find it by name: it opens what is
        open, as `/dev/stdin`, and shares the number.
        """
        if not stream.openings:
            self._turned_away.pop(thread, None)
        elif thread and self._turned_away.get(thread) != stream.inode:
            self._turned_away[thread] = stream.inode
            raise gone()
