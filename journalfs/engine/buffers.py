"""Files mapped for reading by the C core.

Python must not read mapped bytes itself: if another program cut the file, the process would die of SIGBUS.
The core copies bytes out under its guard.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

from journalfs import door
from journalfs.engine._native import ffi, lib
from journalfs.engine.status import FULL, OK, FileTorn, check
from journalfs.errors import refuse_shortage

# Lists handed out by the C core: it fills what room there is, and says how much all would take.

ROOM_FIRST: Final = 64
"""Room of the first attempt where nothing is known of how much there is."""

Fill: TypeAlias = Callable[[Any, int, Any], int]
"""`fill(out, capacity, count)` of the core: a status, and in `count[0]` how many there are."""


def u32_pointer(values: array[int]) -> Any:
    """The items of an array('I') for C; NULL if it has none."""
    return ffi.from_buffer("uint32_t[]", values) if len(values) else ffi.NULL


def kept_pointer(content: Any) -> Any:
    """The bytes of a buffer for C, for as long as the pointer is kept. A view is copied: CPython 3.11 ends
    the process when it finds a memoryview and a pointer to it in garbage that refers to itself.
    """
    return ffi.from_buffer("uint8_t[]", bytes(content) if isinstance(content, memoryview) else content)


def index_list(fill: Fill, doing: str, *, room: int = ROOM_FIRST) -> array[int]:
    """A list of u32 indexes as array('I')."""
    count = ffi.new("uint32_t *")
    while True:
        out = array("I", bytes(4 * room))
        status = fill(u32_pointer(out), room, count)
        if status == FULL and count[0] > room:
            room = count[0]
            continue
        check(status, doing)
        del out[count[0] :]
        return out


def id_list(fill: Callable[[Any, int, Any], Any], doing: str, *, count_of: str = "uint32_t") -> array[int]:
    """Ids as array('q'). `count_of`: the type in which `fill` counts."""
    count = ffi.new(f"{count_of} *")
    fill(ffi.NULL, 0, count)
    out = array("q", bytes(8 * count[0]))
    if out:
        check(fill(ffi.from_buffer("int64_t[]", out), len(out), count), doing)
    return out


def struct_list(kind: str, fill: Fill, doing: str) -> Iterator[Any]:
    """C structs one by one. An item is a reference into memory that this iterator owns: use it up before the
    next, and do not keep it.
    """
    out, count = _structs(kind, fill, doing)
    for i in range(count):
        yield out[i]


def struct_array(kind: str, fill: Fill, doing: str) -> Any:
    """C structs in memory that the caller owns."""
    return _structs(kind, fill, doing)[0]


def struct_bytes(kind: str, fill: Fill, doing: str, *, room: int = ROOM_FIRST) -> bytes:
    """C structs one behind the other, as they lie in memory."""
    out, count = _structs(kind, fill, doing, room)
    return bytes(ffi.buffer(out, count * ffi.sizeof(kind)))


def _structs(kind: str, fill: Fill, doing: str, room: int = ROOM_FIRST) -> tuple[Any, int]:
    """Memory with room for all that there are, and how many there are."""
    count = ffi.new("uint32_t *")
    while True:
        out = ffi.new(f"{kind}[]", room)
        status = fill(out, room, count)
        if status == FULL and count[0] > room:
            room = count[0]
            continue
        check(status, doing)
        return out, count[0]


MAPPED_BYTES_USUAL = 1 << 40
"""Up to here a file that cannot be mapped says nothing of itself. One that is longer is no store's."""

_UNSHARED: Final = frozenset({errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errnos of a filesystem that shares no mappings. Without reading instead, its journals would look empty."""

MENDS_MAX = 4
"""Times that reading a file goes on after more of it turned out to be unreadable."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes of a mapped file that the disk does not give. Whole pages, or up to the file's end."""

    offset: int
    length: int
    reason: str

    @property
    def end(self) -> int:
        return self.offset + self.length


class MappedFile:
    """A whole file, mapped for reading. It holds the descriptor, so the content outlives an unlink.

    `pointer` owns the mapping: an object that keeps it (a batch of lines, say) keeps the bytes mapped, also
    after `close`.
    """

    __slots__ = ("_fd", "_whole", "holes", "is_copy", "path", "pointer", "size_bytes", "unreadable")

    def __init__(self, path: Path | str, *, bytes_max: int | None = None) -> None:
        """Map the file as long as it is now, or its first `bytes_max` bytes. Raises OSError, and
        `OutOfResources`.
        """
        self.path = Path(path)
        self._fd = -1
        self.pointer: Any = ffi.NULL
        self._whole: Any = None
        self.size_bytes = 0
        self.unreadable: tuple[Unreadable, ...] = ()
        """Where zeros stand for what cannot be read, since `mend`."""
        self.holes: tuple[tuple[int, int], ...] = ()
        """Start and end of what the file does not store, once `note_holes` looked."""
        self.is_copy = False
        """True where the filesystem shares no mappings: bytes were read, and `reread` reads them again."""
        length = 0
        try:
            self._fd, status = door.open_and_look(self.path)
            size_bytes = status.st_size
            length = size_bytes if bytes_max is None else min(size_bytes, bytes_max)
            self._map(length)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and length <= MAPPED_BYTES_USUAL:
                refuse_shortage(error, self.path)
            raise

    @classmethod
    def without_content(cls, path: Path | str) -> Self:
        """Return a mapping of no bytes, for a file that cannot be opened."""
        made = cls.__new__(cls)
        made.path = Path(path)
        made._fd = -1
        made.pointer = ffi.NULL
        made._whole = None
        made.size_bytes = 0
        made.unreadable = ()
        made.holes = ()
        made.is_copy = False
        return made

    def _map(self, size_bytes: int) -> None:
        out = ffi.new("const uint8_t **")
        status = lib.jfs_map(self._fd, size_bytes, out)
        if status == lib.JFS_NO_MEMORY and ffi.errno in _UNSHARED:
            status = lib.jfs_map_copy(self._fd, size_bytes, out)
            self.is_copy = status == lib.JFS_OK
        if status == lib.JFS_NO_MEMORY:
            raise OSError(ffi.errno, os.strerror(ffi.errno), str(self.path))
        check(status, f"mapping {self.path}")
        self.pointer = _owned(out[0], size_bytes)
        self._whole = None
        self.unreadable = ()
        self.holes = ()
        self.size_bytes = size_bytes

    def reread(self, offset: int) -> None:
        """Bring a copy in line with the file from `offset` on; a mapping is always. Raises OSError."""
        if not self.is_copy or offset >= self.size_bytes:
            return
        with door.opened(self.path) as descriptor:
            if lib.jfs_map_reread(self.pointer, descriptor, offset, self.size_bytes) != OK:
                raise OSError(ffi.errno, os.strerror(ffi.errno), str(self.path))

    @property
    def fd(self) -> int:
        return self._fd

    def stat(self) -> os.stat_result:
        """The file's status now, by its descriptor."""
        return os.fstat(self._fd)

    def note_holes(self, bytes_min: int) -> None:
        """Find out where the file stores nothing for `bytes_min` bytes or more: reading a mapping there takes
        memory for zeros. Needs the descriptor.
        """
        found: list[tuple[int, int]] = []
        if os.fstat(self._fd).st_blocks * 512 < self.size_bytes:
            at = 0
            while at < self.size_bytes:
                start = _sought(self._fd, at, os.SEEK_HOLE, self.size_bytes)
                at = _sought(self._fd, start, os.SEEK_DATA, self.size_bytes)
                if at - start >= bytes_min:
                    found.append((start, at))
        self.holes = tuple(found)

    def copy(self, offset: int, length: int) -> bytes:
        """Return bytes [offset, offset + length); the caller must keep them within `size_bytes`. Raises
        FileTorn.
        """
        if offset < 0 or length < 0 or offset + length > self.size_bytes:
            raise ValueError(f"{self.path}: bytes {offset}+{length} lie outside {self.size_bytes}")
        if length == 0:
            return b""
        out = ffi.new("uint8_t[]", length)
        check(lib.jfs_copy(out, self.pointer + offset, length), f"reading {self.path}")
        return bytes(ffi.buffer(out, length))

    def reading(self, action: Callable[[], T]) -> T:
        """Do what reads the mapping; where the disk does not give the bytes, again with zeros for them."""
        for _ in range(MENDS_MAX):
            try:
                return action()
            except FileTorn:
                if not self.mend():
                    raise
        return action()

    def mend(self) -> bool:
        """Find the bytes that cannot be read, and map zeros in their place; `unreadable` lists them. Returns
        True if there are more than the last time.

        Earlier pointers stay as they are: bytes that were measured must not read as zeros later.
        """
        if not self.size_bytes:
            return False
        whole = self._whole if self._whole is not None else self.pointer
        out = ffi.new("const uint8_t **")
        check(lib.jfs_map_again(whole, self.size_bytes, out), f"mapping {self.path}")
        pointer = _owned(out[0], self.size_bytes)
        found: list[Unreadable] = []
        at, length = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        while True:
            check(lib.jfs_map_mend(pointer, self.size_bytes, at, length), f"reading {self.path}")
            if not length[0]:
                break
            found.append(Unreadable(at[0], length[0], self._reason(at[0])))
            at[0] += length[0]
        before, self.unreadable = self.unreadable, tuple(found)
        self._whole, self.pointer = whole, pointer
        return self.unreadable != before

    def _reason(self, offset: int) -> str:
        """Why the page at `offset` cannot be read, as far as the file's name leads to it."""
        try:
            with door.opened(self.path) as descriptor:
                return "the file ends before" if not os.pread(descriptor, 1, offset) else "read error"
        except OSError as error:
            return error.strerror or str(error)

    def release(self) -> None:
        """Give back the memory that reading the mapping took, as after a scan that will not be repeated.

        The bytes stay readable: later reads take them from the page cache or the disk.
        """
        lib.jfs_map_release(self.pointer, self.size_bytes)

    def close(self) -> None:
        """Let go of the file and of this object's hold on the mapping. May be called again."""
        self.pointer = ffi.NULL
        self._whole = None
        self.size_bytes = 0
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def detach(self) -> None:
        """Close the descriptor and keep the mapping: for files that never grow, so that many can be held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _owned(bytes_: Any, size_bytes: int) -> Any:
    """A pointer to a mapping that is freed when its last owner lets go, not when the `MappedFile` does."""
    return ffi.gc(bytes_, lambda it: lib.jfs_unmap(it, size_bytes)) if size_bytes else ffi.NULL


def _sought(descriptor: int, at: int, whence: int, end: int) -> int:
    """Where data or a hole begins from `at` on, `end` at the latest."""
    try:
        return min(os.lseek(descriptor, at, whence), end)
    except OSError as error:
        if error.errno != errno.ENXIO:  # nothing of the kind up to the end
            raise
        return end


class MemoryFile(MappedFile):
    """The content of a file that somebody else has read already, for what else works on mapped ones."""

    __slots__ = ()

    def __init__(self, path: Path | str, content: Any) -> None:
        """`content` is bytes or another buffer, which is not copied unless it is a view of one."""
        self.path = Path(path)
        self._fd = -1
        self.pointer = kept_pointer(content) if len(content) else ffi.NULL
        self._whole = None
        self.size_bytes = len(content)
        self.unreadable = ()
        self.holes = ()
        self.is_copy = False

    def mend(self) -> bool:
        """Do nothing: bytes in memory are readable."""
        return False
