"""Lists of messages that open files and directories hold, shared by all that were opened at one moment.

A list takes 70 bytes a message. Without sharing, a thousand openings of `.all.jsonl` of a queue of 200,000
messages took gigabytes. Views make and find lists here; a list goes with the last file that has it open. A
server of several users asks `journalfs.api.memory_of` for the memory of an opening.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from journalfs.api import Bytes, ByteSource, Memory
from journalfs.live.read_ahead import WINDOW_BYTES_MAX
from journalfs.live.runs import Content, JournalSegment, Run, at_once, segments_of
from journalfs.live.sources import BytesSource, Segment, SegmentedSource

LINE_BYTES: Final = 72
"""Bytes of a list for each message: its `jfs_line`, the offset of its line, and its reference."""

READING_BYTES: Final = 4 * WINDOW_BYTES_MAX
"""Bytes that one opening may hold for reading: windows rendered ahead, and the one before them."""


class OpenList:
    """The lines of some runs as they were at one moment."""

    __slots__ = ("__weakref__", "_segments", "rendered", "runs", "size_bytes")

    def __init__(self, runs: Sequence[tuple[Run, int]], content: Content) -> None:
        """Raises `Gone` where nothing is left of what was chosen."""
        self.runs: Sequence[Run] = [run for run, _ in runs]
        self._segments: Sequence[Segment] = segments_of(runs, content)
        self.size_bytes = sum(segment.size_bytes for segment in self._segments)
        self.rendered: Bytes | None = None
        if content.core.live_broker:
            # An open file keeps what it had by having it rendered: all of them the same bytes.
            first = at_once(self._source(), content)
            if isinstance(first, BytesSource):
                self.rendered, self._segments = first.read(0, first.size_bytes), ()
            first.close()

    def _source(self) -> ByteSource:
        return self._segments[0].open() if len(self._segments) == 1 else SegmentedSource(self._segments)

    def open(self) -> ByteSource:
        return self._source() if self.rendered is None else BytesSource(self.rendered)

    @property
    def memory(self) -> Memory:
        listed = sum(map(len, self.runs)) * LINE_BYTES
        return Memory(self, listed + len(self.rendered or b""), min(self.size_bytes, READING_BYTES))


def segment_memory(segment: JournalSegment) -> Memory:
    """Of one opening of a part that is laid out: all of these share it."""
    listed = segment.lines.count * LINE_BYTES
    return Memory(segment.lines, listed, min(segment.size_bytes, READING_BYTES))


ListT = TypeVar("ListT")


class Shared(Generic[ListT]):
    """The open lists, by a key that identifies their moment."""

    def __init__(self) -> None:
        self._open: WeakValueDictionary[Hashable, ListT] = WeakValueDictionary()

    def get(self, key: Hashable, make: Callable[[], ListT]) -> ListT:
        """Return what somebody has open of this moment, or make it."""
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = make()
        return found

    def forget(self, key: Hashable) -> None:
        """Stop sharing a list, since it cannot be rendered as it was measured."""
        self._open.pop(key, None)
