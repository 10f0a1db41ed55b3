"""Contents of open files: fixed bytes, rendered lines, and several of either one after the other."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Protocol

from journalfs.api import NO_MEMORY, Bytes, ByteSource, Memory
from journalfs.engine.status import CoreRefused, FileTorn


class BytesSource:
    """A small file made in memory."""

    __slots__ = ("_content",)

    def __init__(self, content: Bytes) -> None:
        self._content = memoryview(content)

    @property
    def memory(self) -> Memory:
        return Memory(None, 0, len(self._content))

    @property
    def size_bytes(self) -> int:
        return len(self._content)

    def read(self, offset: int, length: int) -> Bytes:
        return self._content[offset : offset + length]

    def ahead(self, offset: int, length: int) -> None:
        """Do nothing: the bytes are in memory."""

    def close(self) -> None:
        self._content = memoryview(b"")


class Windowed(Protocol):
    """A text whose length is known before it is rendered, and of which any window can be rendered."""

    @property
    def size_bytes(self) -> int: ...

    def read(self, offset: int, length: int) -> Bytes: ...


class WindowSource:
    """Renders what is read. `check` runs after each rendering and raises when the bytes below were
    replaced.
    """

    __slots__ = ("_check", "_window")

    def __init__(self, window: Windowed, check: Callable[[], None] | None = None) -> None:
        self._window: Windowed = window
        self._check = check

    @property
    def size_bytes(self) -> int:
        return self._window.size_bytes

    def read(self, offset: int, length: int) -> Bytes:
        content = self._window.read(offset, length)
        if self._check is not None:
            self._check()
        return content

    def ahead(self, offset: int, length: int) -> Callable[[], None] | None:
        return None

    def close(self) -> None:
        self._window, self._check = BytesSource(b""), None


class WatchedSource:
    """Reports that lines can no longer be rendered as they were measured. The reader gets the error all the
    same: the opened file had another length than there would be now.
    """

    __slots__ = ("below", "failed", "memory")

    def __init__(
        self,
        source: ByteSource,
        failed: Callable[[FileTorn | CoreRefused], None],
        memory: Memory = NO_MEMORY,
    ) -> None:
        """`memory`: the accounted memory that the opening holds."""
        self.below = source
        self.failed: Final = failed
        self.memory = memory

    @property
    def size_bytes(self) -> int:
        return self.below.size_bytes

    def read(self, offset: int, length: int) -> Bytes:
        try:
            return self.below.read(offset, length)
        except (FileTorn, CoreRefused) as error:
            self.failed(error)
            raise

    def ahead(self, offset: int, length: int) -> Callable[[], None] | None:
        return self.below.ahead(offset, length)

    def close(self) -> None:
        self.below.close()
        self.memory = NO_MEMORY


class Segment(Protocol):
    """One stretch of a file whose source is made when it is first read."""

    @property
    def size_bytes(self) -> int: ...

    def open(self) -> ByteSource: ...


class SegmentedSource:
    """Segments one after the other; at most one is open at a time, so memory does not grow with their
    number.
    """

    __slots__ = ("_at", "_ends", "_open", "_segments")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._ends = list(accumulate(segment.size_bytes for segment in segments))
        self._at = -1
        self._open: ByteSource | None = None

    @property
    def size_bytes(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, offset: int, length: int) -> Bytes:
        pieces: list[Bytes] = []
        end = min(offset + length, self.size_bytes)
        while offset < end:
            index = bisect.bisect_right(self._ends, offset)
            start = self._ends[index] - self._segments[index].size_bytes
            piece = self._segment(index).read(offset - start, min(end, self._ends[index]) - offset)
            if not len(piece):
                break
            pieces.append(piece)
            offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def ahead(self, offset: int, length: int) -> Callable[[], None] | None:
        if offset >= self.size_bytes:
            return None
        index = bisect.bisect_right(self._ends, offset)
        start = self._ends[index] - self._segments[index].size_bytes
        end = min(offset + length, self._ends[index])
        return self._segment(index).ahead(offset - start, end - offset)

    def opened(self) -> Iterator[ByteSource]:
        """Open each segment in turn."""
        return map(self._segment, range(len(self._segments)))

    def _segment(self, index: int) -> ByteSource:
        if self._open is None or self._at != index:
            if self._open is not None:
                self._open.close()
            self._open = self._segments[index].open()
            self._at = index
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None
        self._segments = ()
        self._ends = []
