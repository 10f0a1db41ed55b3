"""The stretches that the lines of an open file consist of, for readers of messages instead of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from journalfs.api import ByteSource
from journalfs.engine.lines import LineBatch
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.live.read_ahead import ReadAheadSource, checked
from journalfs.live.sources import SegmentedSource, WatchedSource

ReadT = TypeVar("ReadT")
Failed = Callable[[FileTorn | CoreRefused], None]


class Stretch(NamedTuple):
    """Messages of an open file that follow each other."""

    lines: LineBatch
    check: Callable[[], None] | None
    """Raises where the bytes below were replaced; is called after each reading."""
    failed: Failed | None
    """Is told of what can no longer be read as it was measured."""

    def read(self, read: Callable[[], ReadT]) -> ReadT:
        """Read messages, in any thread, and make sure that they were not being overwritten."""
        try:
            return checked(read, self.check)
        except (FileTorn, CoreRefused) as error:
            if self.failed is not None:
                self.failed(error)
            raise

    def lines_between(self, begin: int, end: int) -> list[bytes]:
        """Render the lines of messages [begin, end), at least one, without their newlines."""
        starts = self.lines.starts
        at, size_bytes = starts[begin], starts[end] - starts[begin]
        return self.read(lambda: self.lines.read(at, size_bytes)).removesuffix(b"\n").split(b"\n")


def stretches(source: ByteSource, failed: Failed | None = None) -> Iterator[Stretch] | None:
    """The messages of an open file, in order, each stretch opened when it is asked for; None: it has its
    lines as bytes only, as small files beside a broker have.
    """
    if isinstance(source, WatchedSource):
        return stretches(source.below, source.failed)
    if isinstance(source, SegmentedSource):
        return _segments(source, failed)
    if isinstance(source, ReadAheadSource) and source.lines is not None:
        return iter([Stretch(source.lines, source.check, failed)])
    return None


def _segments(source: SegmentedSource, failed: Failed | None) -> Iterator[Stretch]:
    for segment in source.opened():
        found = stretches(segment, failed)
        assert found is not None, "segments are lines of messages"
        yield from found
