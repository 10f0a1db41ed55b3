"""The one seam between journals and the disk: what a backend does, and when its effects survive a power cut.

Three backends write real files (`journalfs.engine.disk`), one simulates a disk that forgets
(`tests/journal/simulated.py`). Names are relative to the journal's directory. Every method may raise OSError;
none may repeat a sync that failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from journalfs.engine._native import ffi, lib
from journalfs.engine.scan import Scan
from journalfs.engine.stage import Stage
from journalfs.engine.status import check
from journalfs.engine.tail import Tail
from journalfs.errors import StoreAway


class BackendKind(StrEnum):
    """How records reach the disk; the names are those of `journal-type`."""

    NIO = "NIO"
    """pwrite and fdatasync, in a thread."""
    MAPPED = "MAPPED"
    """A copy into the mapped file and msync of the pages touched, in a thread."""
    AIO = "ASYNCIO"
    """The kernel's asynchronous direct I/O; each flush fills whole blocks."""
    SIMULATED = "SIMULATED"


class Viewed(Protocol):
    """The bytes of a file for the C core: valid while the object lives."""

    @property
    def pointer(self) -> Any: ...

    @property
    def size_bytes(self) -> int: ...


class OpenFile(Protocol):
    """A file that writes can be submitted to."""

    @property
    def name(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def alignment_bytes(self) -> int:
        """Bytes: each submitted write begins and ends at a multiple of this."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A submitted write that is done. `error` is an errno, 0 when the bytes are where they belong."""

    tag: int
    error: int
    goes_on: StoreAway | None = None
    """The error for waiters while this write is not done; another completion of it will come. None: it is
    done.
    """


LEFT: Final = -1
"""Result of `perform` if the write must be submitted instead, since it may take long."""


class Backend(Protocol):
    """Files of one directory.

    `write_at`, `rename`, `remove` and the creation by `allocate` may be undone by a power cut until `sync`
    (contents) or `sync_directory` (names) returned; a write submitted as durable is durable once completed.
    With `journal-datasync` off, none of this is ever durable and the syncs do nothing.
    """

    kind: BackendKind
    alignment_bytes: int
    """Submitted writes begin and end at multiples of this, unless a file is open to be written densely; so
    does the first record of a file.
    """
    depth: int
    """Most submitted writes under way at once (`journal-max-io`)."""
    performs: bool
    """Whether `perform` may be asked for a flush, after some that took little time."""
    defers: bool
    """True if C must leave flushes to this backend, since they may take long."""
    event_fd: int | None
    """Readable when a submitted write is done; None: ask `completed` after the next checkpoint."""

    def free_bytes(self) -> int:
        """Return the bytes of the disk that new files may take, as far as is known."""

    def names(self) -> list[str]:
        """Names of the plain files in the directory, sorted."""

    def size_bytes(self, name: str) -> int: ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """At most `length` bytes; fewer at the end of the file."""

    def view(self, name: str) -> Viewed: ...

    def allocate(self, name: str, size_bytes: int) -> None:
        """Make a file of zeros, blocks and all, whose contents are durable (its name is not)."""

    def write_at(self, name: str, offset: int, data: bytes) -> None: ...

    def sync(self, name: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Replaces `new` if it exists. `new` may be in a folder that `make_folder` made."""

    def remove(self, name: str) -> None: ...

    def make_folder(self, name: str) -> None:
        """Make a folder in the directory, if it is not there."""

    def is_linked(self, name: str) -> bool:
        """Whether the file has another name, and must not be written into where that has content."""

    def folder_size(self, name: str) -> int:
        """Number of files in a folder, 0 when there is none."""

    def sync_directory(self) -> None: ...

    def open(self, name: str, *, dense: bool = False) -> OpenFile:
        """`dense`: to be written byte by byte, also where that takes longer than whole blocks."""

    def close_file(self, file: OpenFile) -> None: ...

    def lost(self, file: OpenFile) -> OSError | None:
        """Return why the next opening of the journal would not find the written bytes of an open file: it was
        renamed, removed or cut. None: it would.
        """

    def perform(self, file: OpenFile, stage: Stage, length: int) -> int:
        """Write the same durably at once, in this thread; the errno, or `LEFT`. Only while
        nothing is under way.
        """

    def lend(self, file: OpenFile, tail: Tail) -> None:
        """Fill in how C performs flushes, and what it has to check after each."""

    def submit(self, file: OpenFile, stage: Stage, length: int, *, durable: bool, tag: int) -> None:
        """Hand over the first `length` bytes of a sealed stage, which must stay as it is until completed."""

    def completed(self, timeout_ns: int) -> list[Completion]:
        """Return the writes that are done; wait at most that long for the first."""

    def took_ns(self) -> int | None:
        """Return how long the disk took for the last write, or None if unknown: the caller's own measure may
        include waiting for the interpreter's lock.
        """

    def ring(self) -> None:
        """Make `event_fd` readable, though nothing is done."""

    def close(self) -> None:
        """Wait for what was submitted and let go of everything."""


def scan_view(
    view: Viewed, *, rid: int, version: int, start: int = 16, any_rid: bool = False, doing: str
) -> Scan:
    """Records from `start` on, with `any_rid` those of earlier lives too. Raises FileTorn, CoreRefused."""
    options = ffi.new("jfs_scan_options *")
    options.start_offset = min(start, view.size_bytes)
    options.stop_offset = view.size_bytes
    options.rid = rid
    options.version = version
    options.flags = lib.JFS_SCAN_ANY_RID if any_rid else 0
    out = ffi.gc(ffi.new("jfs_scan *"), lib.jfs_scan_free)
    check(lib.jfs_scan_journal(view.pointer, view.size_bytes, options, out), doing)
    return Scan(out)
