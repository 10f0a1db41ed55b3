"""Renders ahead of a reader that goes through a file from front to back.

A request of the kernel is answered while the next stretch is already being rendered in another thread, and
the stretch after that is on its way from the disk. Threads, not trio: requests are answered one after the
other without waiting in between, and the core renders without holding the interpreter.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from journalfs.api import Bytes
from journalfs.engine.lines import LineBatch
from journalfs.engine.status import CoreRefused
from journalfs.errors import JournalfsError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

WINDOW_BYTES_MIN: Final = 256 * 1024
"""Rendered in one go at first. Handing work to a thread costs 50 us, so windows double from here."""

WINDOW_BYTES_MAX: Final = 1024 * 1024
"""The longest request that the kernel makes; 1 ms of rendering."""

AHEAD_BYTES: Final = 2 * WINDOW_BYTES_MAX
"""Rendered beyond what was asked for."""

DISK_AHEAD_BYTES: Final = 8 * WINDOW_BYTES_MAX
"""Asked of the disk beyond what is rendered: about 10 ms of a fast one."""

THREADS_MAX: Final = 4

AHEAD_WINDOWS_MAX: Final = 64
"""Windows of an open file that are rendered and not read yet: a mebibyte each at most."""

RenderedT = TypeVar("RenderedT")


def checked(render: Callable[[], RenderedT], check: Callable[[], None] | None) -> RenderedT:
    """Render, and then make sure that what was rendered was not being overwritten; if that is why rendering
    failed, `check` says so.
    """
    try:
        content = render()
    except CoreRefused:
        if check is not None:
            check()
        raise
    if check is not None:
        check()
    return content


@cache
def _threads() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (most commands read nothing that long)

    return ThreadPoolExecutor(min(THREADS_MAX, os.cpu_count() or 1), thread_name_prefix="journalfs-render")


@dataclass(frozen=True, slots=True)
class _Window:
    begin: int
    end: int
    content: Future[memoryview]


class Ahead:
    """Windows that are rendered in threads before they are read: as many as are asked for at once."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: dict[tuple[int, int], memoryview | JournalfsError] = {}

    def render(self, begin: int, end: int, render: Callable[[int, int], memoryview]) -> Callable[[], None]:
        """Render one window; runs in a worker thread. A failure is raised to the reader of that window."""

        def work() -> None:
            try:
                content: memoryview | JournalfsError = render(begin, end)
            except JournalfsError as error:
                content = error
            if len(self._windows) == AHEAD_WINDOWS_MAX:
                self._windows.clear()  # of callers who went
            self._windows[begin, end] = content

        return work

    def take(self, begin: int, end: int) -> memoryview | None:
        content = self._windows.pop((begin, end), None) if self._windows else None
        if isinstance(content, JournalfsError):
            raise content
        return content


class ReadAheadSource:
    """The lines of a batch. `check` runs after each rendering and raises when the bytes below were
    replaced.
    """

    __slots__ = ("_ahead", "_end_of_last", "_size_bytes", "_wanted_from_disk", "_windows", "check", "lines")

    def __init__(self, lines: LineBatch, check: Callable[[], None] | None = None) -> None:
        self.lines: LineBatch | None = lines
        self.check = check
        self._size_bytes = lines.size_bytes
        self._windows: deque[_Window] = deque()
        self._end_of_last = -1
        self._ahead = Ahead()
        self._wanted_from_disk = 0

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def read(self, offset: int, length: int) -> Bytes:
        end = min(offset + length, self._size_bytes)
        if offset >= end:
            return b""
        windows = self._windows
        if windows and windows[0].begin <= offset <= windows[-1].end:
            return self._read_windows(offset, end)
        self._forget_windows()
        sequential = offset == self._end_of_last
        self._end_of_last = end
        if sequential:
            # Windows no shorter than requests: then most requests are part of one, and nothing is joined.
            self._render_ahead(end, max(length, WINDOW_BYTES_MIN), until=end + WINDOW_BYTES_MIN)
        return self._render(offset, end)

    def ahead(self, offset: int, length: int) -> Callable[[], None] | None:
        """Where a line is long, to come to a place in it may take as long as to read all before it."""
        lines, windows = self.lines, self._windows
        end = min(offset + length, self._size_bytes)
        if lines is None or not lines.has_long or offset >= end:
            return None
        if offset == self._end_of_last or (windows and windows[0].begin <= offset <= windows[-1].end):
            return None  # it goes on from where it is
        return self._ahead.render(offset, end, self._rendered)

    def close(self) -> None:
        """Unmap the files, even if other objects still refer to this source."""
        self._forget_windows()
        self.lines = self.check = None

    def _read_windows(self, offset: int, end: int) -> Bytes:
        pieces: list[Bytes] = []
        at = offset
        for window in self._windows:
            if at < end and window.begin <= at < window.end:
                piece = self._content(window)[at - window.begin : end - window.begin]
                pieces.append(piece)
                at += len(piece)
        if at < end:
            pieces.append(self._render(at, end))
        self._end_of_last = end
        # The window before stays: requests of one reader may come in another order than they were made.
        while len(self._windows) > 1 and self._windows[1].end <= offset:
            self._windows.popleft()
        last = self._windows[-1]
        self._render_ahead(max(end, last.end), 2 * (last.end - last.begin), until=end + AHEAD_BYTES)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _content(self, window: _Window) -> memoryview:
        if window.content.cancel():
            # No thread has begun with it: this one has nothing better to do.
            return self._render(window.begin, window.end)
        return window.content.result()

    def _render_ahead(self, begin: int, window_bytes: int, *, until: int) -> None:
        lines = self.lines
        assert lines is not None, "the file is closed"
        until = min(until, self._size_bytes)
        while begin < until:
            end = min(begin + min(window_bytes, WINDOW_BYTES_MAX), self._size_bytes)
            self._windows.append(_Window(begin, end, _threads().submit(self._render, begin, end)))
            begin = end
        if begin + DISK_AHEAD_BYTES // 2 > self._wanted_from_disk:
            wanted = begin + DISK_AHEAD_BYTES
            lines.prefetch(max(begin, self._wanted_from_disk), wanted)
            self._wanted_from_disk = wanted

    def _render(self, begin: int, end: int) -> memoryview:
        return self._ahead.take(begin, end) or self._rendered(begin, end)

    def _rendered(self, begin: int, end: int) -> memoryview:
        lines = self.lines
        if lines is None:
            return memoryview(b"")
        return checked(lambda: lines.read_view(begin, end - begin), self.check)

    def _forget_windows(self) -> None:
        for window in self._windows:
            window.content.cancel()
        self._windows.clear()
