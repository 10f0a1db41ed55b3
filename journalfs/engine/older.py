"""Records and pages of HornetQ and Artemis 1.x, written anew by the C core (docs/format/older.md)."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import Scan
from journalfs.engine.status import check

RENAME: int = lib.JFS_OLDER_RENAME
"""Names of properties, addresses and destinations become those of 2.x."""
RECOVER: int = lib.JFS_OLDER_RECOVER
"""Only messages and their references, as if nothing had been acknowledged."""
UNSCHEDULED: int = lib.JFS_OLDER_UNSCHEDULED
"""Messages of the journal do not say themselves when they are due: a record does."""

Routes = Sequence[Sequence[int]]
"""Of each record of a page, the queues that its message goes to."""


class Rewritten:
    """Bytes in the current layout. `memory` is valid as long as this is kept."""

    __slots__ = ("_out", "damaged_at", "memory", "messages", "undecoded")

    def __init__(self, out: Any) -> None:
        self._out = out
        self.memory = ffi.buffer(out.bytes, out.size) if out.size else b""
        self.messages: int = out.messages
        self.undecoded: int = out.undecoded
        """Messages that are not what their place requires: they are kept as they are."""
        self.damaged_at: int | None = None if out.damaged_at == 2**64 - 1 else out.damaged_at
        """Of a page: where something lies that is no record."""


class Counts:
    """How many records each transaction has in the file that is read and in the one that is written, from
    file to file of a journal.
    """

    __slots__ = ("pointer",)

    def __init__(self) -> None:
        out = ffi.new("jfs_older_counts **")
        check(lib.jfs_older_counts_new(out), "counting records of transactions")
        self.pointer = ffi.gc(out[0], lib.jfs_older_counts_free)

    def next_source(self) -> None:
        lib.jfs_older_next_source(self.pointer)

    def next_output(self) -> None:
        lib.jfs_older_next_output(self.pointer)


def rewrite_journal(
    counts: Counts,
    file: MappedFile,
    scan: Scan,
    *,
    first: int = 0,
    rid: int,
    room_bytes: int,
    empty: bool,
    flags: int = 0,
) -> tuple[Rewritten, int]:
    """Records of a scan from number `first` on in layout version 2, all with the file id `rid`, as many as
    there is room for in the file that is written, and the number of the next one. Into an `empty` file the
    first one goes whatever its length.
    """
    place = ffi.new("jfs_older_place *")
    place.room_bytes, place.rid, place.flags = room_bytes, rid, flags
    place.next, place.empty = first, empty
    rewritten = _rewritten(
        file,
        lambda out: lib.jfs_older_journal(counts.pointer, file.pointer, scan.pointer, place, out),
    )
    return rewritten, place.next


def rewrite_page(file: MappedFile, *, flags: int = 0, routes: Routes | None = None) -> Rewritten:
    """A page of the older layout. Records keep their numbers. `routes` are for pages whose records name no
    queues.
    """
    if routes is not None:
        flags |= lib.JFS_OLDER_UNROUTED
    starts, queues = array("I", [0]), array("q")
    for one in routes or ():
        queues.extend(one)
        starts.append(len(queues))
    routed = ffi.from_buffer("int64_t[]", queues) if queues else ffi.NULL
    from_ = ffi.from_buffer("uint32_t[]", starts)
    return _rewritten(
        file,
        lambda out: lib.jfs_older_page(
            file.pointer, file.size_bytes, flags, routed, from_, len(starts) - 1, out
        ),
    )


def _rewritten(file: MappedFile, rewrite: Callable[[Any], int]) -> Rewritten:
    out = ffi.gc(ffi.new("jfs_older_out *"), lib.jfs_older_free)

    def attempt() -> Rewritten:
        check(rewrite(out), f"reading {file.path}")
        return Rewritten(out)

    return file.reading(attempt)
