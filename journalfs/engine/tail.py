"""The end of a journal in the hands of C, which publishes texts without Python (`native/src/publish`)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Final

from journalfs.engine._native import ffi, lib
from journalfs.engine.checksums import place_of
from journalfs.engine.ledger import Ledger
from journalfs.engine.message_batch import TextBatch
from journalfs.engine.stage import NO_ROOM, Stage
from journalfs.engine.status import RANGE

SHARED_BYTES_MAX: Final = 64 * 1024
"""Of lines in a flush that everybody waits for."""
UNLIMITED: Final = 2**63 - 1
"""Room where no limit acts."""


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


STAGE: Final = _address(ffi.addressof(lib, "jfs_tail_stage"))
FLUSH: Final = _address(ffi.addressof(lib, "jfs_tail_flush"))
FULL: Final = NO_ROOM
UNFIT: Final = RANGE


class TailWay:
    """Where texts go that are alike. `fields` is a `jfs_tail_way`."""

    __slots__ = ("address", "batch", "fields")

    def __init__(self) -> None:
        self.fields: Any = ffi.new("jfs_tail_way *")
        self.address = _address(self.fields)
        """In memory, for other libraries."""
        self.batch: TextBatch | None = None

    def open(self, batch: TextBatch, *, turn: int, expires_ms: int, each_bytes: int) -> None:
        """Texts may be taken, as long as there is room."""
        fields = self.fields
        self.batch, fields.batch = batch, batch.fields
        fields.turn, fields.expires_ms, fields.each_bytes, fields.open = turn, expires_ms, each_bytes, 1

    def close(self) -> None:
        """None are, until it is opened again."""
        self.fields.open = 0


class Tail:
    """The end of one journal as C sees it. `fields` is a `jfs_tail`; a writer and its backend fill it in."""

    __slots__ = ("_keep", "address", "fields", "is_left", "stage")

    def __init__(self) -> None:
        self.fields: Any = ffi.new("jfs_tail *")
        self.address = _address(self.fields)
        """In memory, for other libraries."""
        self.is_left = False
        """True if the lender flushes the staged records after it took the end back."""
        self.stage: Stage | None = None
        self._keep: dict[str, object] = {}

    def begin(self, stage: Stage, ledger: Ledger, *, file_id: int, previous: tuple[int, int]) -> None:
        """Give C an empty buffer, and reset its counts and its error."""
        fields = self.fields
        self.stage, self._keep["ledger"] = stage, ledger
        fields.stage, fields.ledger, fields.place = (
            stage.pointer,
            ledger.pointer,
            place_of(file_id, previous)[0],
        )
        fields.records = fields.flushed_records = fields.flushes = fields.written_bytes = 0
        fields.slowest_ns = fields.error = fields.stopped = 0
        fields.log = ffi.NULL
        fields.shared_bytes_max = SHARED_BYTES_MAX

    def by_disk(self, io: Any, fd: int, mapping: Any, *, durable: bool) -> None:
        """Flushes are written as `jfs_io_perform` does."""
        self.fields.io, self.fields.fd, self.fields.map, self.fields.durable = io, fd, mapping, durable

    def at(self, directory: int, path: bytes, device: int, inode: int, size_bytes: int) -> None:
        """The name, from a directory's descriptor, that has to lead to the file after each flush."""
        if self._keep.get("path") != path:
            self._keep["path"], self._keep["name"] = path, ffi.new("char[]", path)
        fields = self.fields
        fields.directory, fields.path, fields.size_bytes = directory, self._keep["name"], size_bytes
        fields.device, fields.inode = device, inode

    def by_call(self, write: Any) -> None:
        """Flushes are written by a function, given their length, that returns an errno: no disk is there."""
        self._keep["write"] = call = ffi.callback(
            "int32_t(void *, uint64_t)", lambda _, length: write(length)
        )
        self.fields.write = call

    def logged(self, commit: Callable[[Stage], bool]) -> None:
        """Set the call that runs before each flush, with the interpreter's lock. If it returns False, the
        lender goes on with the staged records. If it raises, the outcome is unknown, and it must not be
        called again.
        """
        assert self.stage is not None
        stage = self.stage
        call = ffi.callback(
            "int32_t(void *, uint64_t)",
            lambda _, __: 0 if commit(stage) else lib.JFS_TAIL_LEFT,
            error=errno.EIO,
        )
        self._keep["log"] = self.fields.log = call

    def by_owner(self) -> None:
        """As `is_left` says."""
        self.fields.shared_bytes_max = self.fields.buffer_bytes
        self.fields.flush_ns, self.fields.quick_ns_max, self.fields.stall_ns = 0, UNLIMITED, UNLIMITED

    def stop(self) -> None:
        """Nothing more is taken. In any thread."""
        self.fields.stopped = 1

    def stage_lines(self, way: TailWay, lines: bytes) -> int:
        return int(lib.jfs_tail_stage(self.fields, way.fields, lines, len(lines)))

    def flush(self) -> int:
        """The errno."""
        return int(lib.jfs_tail_flush(self.fields))
