"""Splits the bytes written to a file into the bodies of text messages, a whole buffer at a call."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.lines import uninitialized
from journalfs.engine.status import check

STRETCHES_AT_ONCE: Final = 65_536


class Stretches:
    """Pieces of a buffer, in order."""

    __slots__ = ("_keep", "count", "pointer", "source")

    def __init__(self, source: Any, pointer: Any, count: int, keep: Any) -> None:
        self.source = source
        self.pointer = pointer
        self.count = count
        self._keep = keep

    def __len__(self) -> int:
        return self.count

    @property
    def span_bytes(self) -> int:
        """From the beginning of the first to the end of the last: as much as they are together, or more."""
        return int(self.pointer[self.count - 1].end - self.pointer[0].begin) if self.count else 0

    def some(self, begin: int, end: int) -> Stretches:
        """Return the stretches from `begin` to before `end`, in the same buffer."""
        return Stretches(self.source, self.pointer + begin, min(end, self.count) - begin, self)

    @property
    def are_utf8(self) -> bool:
        return bool(lib.jfs_texts_are_utf8(self.source, self.pointer, self.count))

    def __iter__(self) -> Iterator[bytes]:
        for index in range(self.count):
            stretch = self.pointer[index]
            yield bytes(ffi.buffer(self.source + stretch.begin, stretch.end - stretch.begin))


class Unfinished:
    """The beginning of a line or value, held once however many copies of this there are, as long as they
    agree: one that goes on after another did has its own from there on.
    """

    __slots__ = ("_held", "size_bytes")

    def __init__(self, held: bytearray | None = None, size_bytes: int = 0) -> None:
        self._held = bytearray() if held is None else held
        self.size_bytes = size_bytes

    def copy(self) -> Unfinished:
        return Unfinished(self._held, self.size_bytes)

    def view(self) -> memoryview:
        return memoryview(self._held)[: self.size_bytes]

    def whole(self) -> bytearray:
        """Return the unfinished bytes and the data behind them as one object that engine code may keep. A
        memoryview would not do: Python before 3.11.8 and 3.12.2 crashes when it collects a cycle that leads
        to one.
        """
        return self._held

    def add(self, data: bytes) -> None:
        if len(self._held) == self.size_bytes:
            try:
                self._held += data
            except BufferError:  # somebody looks at it
                self._held = self._held + data
        else:
            self._held = bytearray().join((self.view(), data))
        self.size_bytes += len(data)

    def take(self) -> bytearray:
        """All of it, right after `add`; then there is nothing."""
        held = self._held
        self.begin(b"")
        return held

    def begin(self, data: bytes) -> None:
        """Replace the unfinished bytes by `data`."""
        self._held, self.size_bytes = bytearray(data), len(data)


class LineSplitter:
    """A stream of lines. Copies go on independently."""

    __slots__ = ("_unfinished",)

    def __init__(self, unfinished: Unfinished | None = None) -> None:
        self._unfinished = Unfinished() if unfinished is None else unfinished

    @property
    def pending_bytes(self) -> int:
        return self._unfinished.size_bytes

    def copy(self) -> LineSplitter:
        return LineSplitter(self._unfinished.copy())

    def pending(self) -> memoryview:
        """The unfinished line."""
        return self._unfinished.view()

    def feed(self, data: bytes) -> list[Stretches]:
        """The lines that `data` completes, without their line feeds."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._unfinished.add(data)
            return []
        whole: bytes | bytearray = data
        if self.pending_bytes:
            self._unfinished.add(data)
            whole = self._unfinished.take()
        self._unfinished.begin(data[end:])
        source = ffi.from_buffer("uint8_t[]", whole)
        if whole.find(b"\n") == len(whole) - 1:
            # A line a write is what most programs do.
            return [Stretches(source, ffi.new("jfs_stretch[]", ((0, len(whole) - 1),)), 1, whole)]
        room = int(lib.jfs_count_lines(source, len(whole)))
        pointer, count = uninitialized("jfs_stretch[]", room), ffi.new("uint64_t *")
        check(lib.jfs_split_lines(source, len(whole), pointer, room, count), "splitting lines")
        return [Stretches(source, pointer, int(count[0]), whole)]

    def finish(self) -> list[Stretches]:
        """An unfinished last line, if there is one."""
        whole, size_bytes = self._unfinished.whole(), self.pending_bytes
        if not size_bytes:
            return []
        self._unfinished.begin(b"")
        stretch = ffi.new("jfs_stretch[]", ((0, size_bytes),))
        return [Stretches(ffi.from_buffer("uint8_t[]", whole), stretch, 1, whole)]


class NoJson(Exception):  # noqa: N818 - what was found, as in the rest of the engine
    """`offset` in what was given last is where a value goes wrong, or nests deeper than is looked at."""

    def __init__(self, offset: int, *, too_deep: bool) -> None:
        super().__init__(f"no JSON at byte {offset}")
        self.offset = offset
        self.too_deep = too_deep


class JsonSplitter:
    """A stream of JSON values. No byte is looked at twice. Copies go on independently."""

    __slots__ = ("_unfinished", "_values")

    def __init__(self) -> None:
        out = ffi.new("jfs_values **")
        check(lib.jfs_values_new(out), "preparing to read JSON")
        self._values: Any = ffi.gc(out[0], lib.jfs_values_free)
        self._unfinished = Unfinished()
        """From its first byte on."""

    @property
    def pending_bytes(self) -> int:
        return self._unfinished.size_bytes

    def copy(self) -> JsonSplitter:
        other = JsonSplitter()
        lib.jfs_values_assign(other._values, self._values)
        other._unfinished = self._unfinished.copy()
        return other

    def pending(self) -> memoryview:
        """The unfinished value."""
        return self._unfinished.view()

    @property
    def may_end(self) -> bool:
        """False while a value is unfinished. A number is finished by the end."""
        return bool(lib.jfs_values_may_end(self._values))

    def feed(self, data: bytes) -> list[Stretches]:
        """The values that `data` completes. Raises NoJson, after which it is of no use any more."""
        before = self.pending_bytes
        found, begin = self._split(data, before)
        if not found and begin == 0 and before:
            self._unfinished.add(data)
            return []
        whole: bytes | bytearray = data
        if found and before:
            self._unfinished.add(data)
            whole = self._unfinished.take()
        self._unfinished.begin(data[begin - before :])
        if not found:
            return []
        source = ffi.from_buffer("uint8_t[]", whole)
        pointer, count = found[0] if len(found) == 1 else _joined(found)
        return [Stretches(source, pointer, count, whole)]

    def finish(self) -> list[Stretches]:
        """A last number, if there is one. `may_end` holds."""
        return self.feed(b"\n")

    def _split(self, data: bytes, before: int) -> tuple[list[tuple[Any, int]], int]:
        """Stretches and their number, and where what is unfinished begins; all counts from `before` bytes
        before `data`.
        """
        source = ffi.from_buffer("uint8_t[]", data)
        at, begin, count = ffi.new("uint64_t *"), ffi.new("uint64_t *"), ffi.new("uint64_t *")
        found = []
        while True:
            pointer = uninitialized("jfs_stretch[]", STRETCHES_AT_ONCE)
            status = lib.jfs_values_split(
                self._values, source, len(data), before, at, pointer, STRETCHES_AT_ONCE, count, begin
            )
            if status == lib.JFS_MALFORMED:
                raise NoJson(int(at[0]), too_deep=bool(lib.jfs_values_too_deep(self._values)))
            if count[0]:
                found.append((pointer, int(count[0])))
            if status != lib.JFS_FULL:
                check(status, "splitting JSON")
                return found, int(begin[0])


def _joined(found: Sequence[tuple[Any, int]]) -> tuple[Any, int]:
    """Stretches in one piece of memory, and their number."""
    count = sum(some for _, some in found)
    pointer, at = uninitialized("jfs_stretch[]", count), 0
    for part, some in found:
        ffi.memmove(pointer + at, part, some * ffi.sizeof("jfs_stretch"))
        at += some
    return pointer, count


class TextBodies:
    """The bodies of text messages, each a view of one buffer."""

    __slots__ = ("_ends", "_plain", "_view")

    def __init__(self, texts: Stretches) -> None:
        count = texts.count
        last = texts.pointer[count - 1] if count else None
        span = 0 if last is None else int(last.end - texts.pointer[0].begin)
        out = uninitialized("uint8_t[]", max(int(lib.jfs_text_bodies_room(span, count)), 1))
        self._ends = array("Q", bytes(8 * count))
        self._plain = bytearray(count)
        ends, plain = ffi.from_buffer("uint64_t[]", self._ends), ffi.from_buffer("uint8_t[]", self._plain)
        lib.jfs_text_bodies(texts.source, texts.pointer, count, out, ends, plain)
        self._view = memoryview(ffi.buffer(out))

    def __iter__(self) -> Iterator[tuple[memoryview, bool]]:
        """Each body, and beside it whether the text is no UTF-8 and stands as it is."""
        begin = 0
        view = self._view
        for end, plain in zip(self._ends, self._plain, strict=True):
            yield view[begin:end], plain == 1
            begin = end
