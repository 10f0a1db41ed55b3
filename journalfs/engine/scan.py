"""Records of a journal file, found by the C core. Rules: docs/format/records.md, "Validity test"."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import msgspec

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import MappedFile
from journalfs.engine.status import check
from journalfs.limits import JOURNAL_FILE_BYTES_MAX


class GapKind(IntEnum):
    """Kinds of stretches between records."""

    PADDING = 0
    """Zeros up to the block where the next record starts: normal."""
    ZEROED = 1
    """Zeros where records should be: a valid record follows."""
    GARBAGE = 2
    """Damage: a valid record follows."""
    TORN = 3
    """Behind the last record: begins like one of this file, but does not fit or check."""
    STALE = 4
    """Remains of an older life of the file: normal."""


class Gap(msgspec.Struct, frozen=True):
    """A stretch of the file without records. Offset and length in bytes."""

    offset: int
    length: int
    kind: GapKind


class RecordInfo(msgspec.Struct, frozen=True):
    """One valid record. Fields that its kind does not have are 0. Offsets count from the file's start."""

    kind: int
    offset: int
    length: int
    body_offset: int
    """PREPARE: of the extra data."""
    body_bytes: int
    record_id: int
    tx_id: int
    count: int
    """PREPARE and COMMIT."""
    user_type: int
    compact_count: int
    in_damage: bool
    """Lies within the extent that a damaged record claims, so it may be a part of that record's body."""


class Scan:
    """The result of a scan. Indexable by record; `pointer` is the C struct for the other parts
    of the engine.
    """

    __slots__ = ("count", "end", "marked", "pointer")

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        self.count: int = pointer.count
        self.end: int = pointer.end_offset
        """Offset behind the last valid record, or where the scan started."""
        self.marked: bool = bool(pointer.marked)
        """Something was found that makes this a data file even without a valid record."""

    def __len__(self) -> int:
        return self.count

    def record(self, index: int) -> RecordInfo:
        """Record `index`, counted from 0 in file order. Raises IndexError."""
        if not 0 <= index < self.count:
            raise IndexError(f"record {index} of {self.count}")
        found = self.pointer.records[index]
        return RecordInfo(
            kind=found.kind,
            offset=found.offset,
            length=found.length,
            body_offset=found.body_offset,
            body_bytes=found.body_bytes,
            record_id=found.record_id,
            tx_id=found.tx_id,
            count=found.count,
            user_type=found.user_type,
            compact_count=found.compact_count,
            in_damage=bool(found.flags & lib.JFS_RECORD_IN_DAMAGE),
        )

    def __iter__(self) -> Iterator[RecordInfo]:
        return map(self.record, range(self.count))

    def gaps(self) -> list[Gap]:
        """Everything between and behind the records that is no free space, in file order."""
        found = self.pointer.gaps
        return [
            Gap(found[i].offset, found[i].length, GapKind(found[i].kind))
            for i in range(self.pointer.gap_count)
        ]


def scan_journal(
    file: MappedFile,
    *,
    rid: int,
    version: int,
    start: int = 16,
    stop: int | None = None,
    any_rid: bool = False,
) -> Scan:
    """Find the records in bytes [start, stop) of a mapped journal file.

    `rid` is the low 31 bits of the header's file id, `version` the header's format version. `any_rid` also
    takes records of earlier lives of the file. Unreadable bytes are scanned as zeros (`MappedFile.mend`);
    bytes behind `JOURNAL_FILE_BYTES_MAX` are not looked at.
    """
    end = min(file.size_bytes, JOURNAL_FILE_BYTES_MAX)
    if stop is not None:
        end = min(stop, end)
    options = ffi.new("jfs_scan_options *")
    options.start_offset = min(start, end)
    options.stop_offset = end
    options.rid = rid
    options.version = version
    options.flags = lib.JFS_SCAN_ANY_RID if any_rid else 0

    def scan() -> Scan:
        out = ffi.gc(ffi.new("jfs_scan *"), lib.jfs_scan_free)
        check(lib.jfs_scan_journal(file.pointer, file.size_bytes, options, out), f"scanning {file.path}")
        return Scan(out)

    return file.reading(scan)
