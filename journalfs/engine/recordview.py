"""Raw records as JSON lines, rendered by the C core a window at a time. Keys: docs/reference/envelope.md."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.lines import uninitialized
from journalfs.engine.pages import PageScan
from journalfs.engine.scan import Scan
from journalfs.engine.status import check


class _View:
    """Lines of records, readable at any offset."""

    __slots__ = ("_keep", "_starts", "_view", "count")

    def __init__(self, file: MappedFile, frame: Mapping[str, str], count: int, keep: Any) -> None:
        prefix = json.dumps(frame, separators=(",", ":")).encode().removesuffix(b"}")
        self.count = count
        self._view = ffi.new("jfs_record_view *")
        self._view.bytes = file.pointer
        self._view.size_bytes = file.size_bytes
        self._view.prefix = ffi.from_buffer("uint8_t[]", prefix)
        self._view.prefix_bytes = len(prefix)
        self._view.count = count
        self._keep: tuple[Any, ...] = (file.pointer, prefix, keep)
        self._starts: array[int] | None = None

    @property
    def is_measured(self) -> bool:
        """Whether it is known where each line begins, which takes a pass over all of them."""
        return self._starts is not None

    def measure(self) -> None:
        """Find that out. Raises FileTorn."""
        assert self.starts

    @property
    def starts(self) -> array[int]:
        """Offset of each line, and at last the total size: `count` + 1 numbers. Raises FileTorn."""
        if self._starts is None:
            starts = array("Q", bytes(8 * (self.count + 1)))
            view = ffi.from_buffer("uint64_t[]", starts)
            check(lib.jfs_record_view_starts(self._view, view), "measuring records")
            self._view.starts = view
            self._keep = (*self._keep, view)
            self._starts = starts
        return self._starts

    @property
    def size_bytes(self) -> int:
        return self.starts[self.count]

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes [offset, offset + length) of all lines together, fewer only at their end.

        Raises FileTorn.
        """
        size_bytes = self.size_bytes
        if offset < 0 or length < 0:
            raise ValueError(f"no window: {length} bytes from {offset}")
        length = max(0, min(length, size_bytes - offset))
        if length == 0:
            return b""
        out = uninitialized("uint8_t[]", length)
        written = ffi.new("uint64_t *")
        check(lib.jfs_record_view_read(self._view, offset, out, length, written), "rendering records")
        return bytes(ffi.buffer(out, written[0]))

    def line(self, index: int) -> bytes:
        """Return line `index`, its newline included."""
        if not 0 <= index < self.count:
            raise IndexError(f"line {index} of {self.count}")
        starts = self.starts
        return self.read(starts[index], starts[index + 1] - starts[index])


class RecordView(_View):
    """Every record of a journal file, one line each, in file order."""

    __slots__ = ()

    def __init__(self, file: MappedFile, scan: Scan, name: str) -> None:
        """`scan` is of `file` as it is mapped now; `name` is the file as the lines name it."""
        super().__init__(file, {"file": name}, scan.count, scan.pointer)
        # An empty scan may have no array, but the view goes by it.
        self._view.records = scan.pointer.records if scan.count else ffi.new("jfs_record *")


class PageView(_View):
    """Every record of a page file, one line each, in file order."""

    __slots__ = ()

    def __init__(self, file: MappedFile, scan: PageScan, name: str, *, address: str) -> None:
        """`scan` is of `file` as it is mapped now; `name` is the file as the lines name it, and `address` the
        one whose messages the page holds.
        """
        super().__init__(file, {"file": name, "address": address}, scan.count, scan)
        self._view.page = scan.pointer


def user_type_name(user_type: int) -> str | None:
    """Name of a user record type of either journal, None for an unknown one."""
    name = lib.jfs_user_type_name(user_type)
    return None if name == ffi.NULL else ffi.string(name).decode()


# Records of a journal as encoded lines, many at a time.

PIECE_BYTES: Final = 1 << 20
"""Made at once, so few that the processor still has them when they are written. One line may be longer."""


def encoded_lines(file: MappedFile, scan: Scan) -> Iterator[Any]:
    """The lines of all records, in pieces, each valid until the next is asked for. Raises `FileTorn`."""
    count, room = len(scan), PIECE_BYTES
    out, written, following = uninitialized("uint8_t[]", room), ffi.new("uint64_t *"), ffi.new("uint32_t *")
    while following[0] < count:
        status = lib.jfs_encoded_lines(file.pointer, scan.pointer, following, out, room, written)
        check(status, f"reading {file.path}")
        if written[0]:
            yield ffi.buffer(out, written[0])
        elif following[0] < count:
            body_bytes = scan.pointer.records[following[0]].body_bytes
            room = lib.JFS_ENCODED_FRONT_BYTES + (body_bytes + 2) // 3 * 4
            out = uninitialized("uint8_t[]", room)
