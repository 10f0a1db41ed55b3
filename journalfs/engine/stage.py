"""Records on their way into one journal file: encoded and accounted for, not yet written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from journalfs.engine._native import ffi, lib
from journalfs.engine.checksums import place_of
from journalfs.engine.ledger import Ledger
from journalfs.engine.status import CoreRefused, check

STAGED: Final[int] = lib.JFS_OK
NO_ROOM: Final[int] = lib.JFS_FULL
ABSENT: Final[int] = lib.JFS_ABSENT
EXISTS: Final[int] = lib.JFS_EXISTS
HELD: Final[int] = lib.JFS_HELD


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be staged. Fields that its kind does not have are ignored; counts are filled in."""

    kind: int
    record_id: int = 0
    tx_id: int = 0
    user_type: int = 0
    body: bytes = b""


def record_bytes(kind: int, body_bytes: int) -> int:
    """Whole length of a record, 0 for what is no kind."""
    return int(lib.jfs_record_bytes(kind, body_bytes))


def encode(records: Sequence[NewRecord], *, rid: int, counts: Sequence[int] = ()) -> bytes:
    """Records one behind the other; `counts` are those of PREPARE and COMMIT, in order."""
    left = iter(counts)
    batch = ffi.new("jfs_new_record[]", max(len(records), 1))
    bodies = [ffi.from_buffer("uint8_t[]", record.body) for record in records]
    for new, record, body in zip(batch, records, bodies, strict=False):
        new.kind, new.record_id, new.tx_id = record.kind, record.record_id, record.tx_id
        new.user_type, new.body, new.body_bytes = record.user_type, body, len(record.body)
        if record.kind in (lib.JFS_PREPARE, lib.JFS_COMMIT):
            new.count = next(left)
    room = sum(record_bytes(record.kind, len(record.body)) for record in records)
    out, used, done = bytearray(room), ffi.new("uint64_t *"), ffi.new("uint32_t *")
    target = ffi.from_buffer("uint8_t[]", out)
    check(lib.jfs_encode(target, room, rid, batch, len(records), used, done), "encoding records")
    return bytes(out)


class StagedRecord(NamedTuple):
    """One record that is on its way. Fields that its kind does not have are 0; the body of a PREPARE is what
    its owner knows it by.
    """

    kind: int
    record_id: int
    tx_id: int
    user_type: int
    body: bytes


class Stage:
    """One buffer's worth of records for one file, aligned as direct I/O wants it."""

    __slots__ = ("pointer",)

    def __init__(self, buffer_bytes: int) -> None:
        out = ffi.new("jfs_stage **")
        check(lib.jfs_stage_new(out, buffer_bytes), "making a write buffer")
        self.pointer: Any = ffi.gc(out[0], lib.jfs_stage_free)

    def begin(self, *, slot: int, rid: int, file_offset: int, room_bytes: int) -> None:
        """Empty it for bytes that go to `file_offset` of a file with that much room there."""
        lib.jfs_stage_begin(self.pointer, slot, rid, file_offset, room_bytes)

    def put(  # noqa: PLR0917 - called for every record, where keywords cost a tenth of the call
        self, ledger: Ledger, kind: int, record_id: int, tx_id: int, user_type: int, body: bytes
    ) -> int:
        """Stage one record: STAGED, or NO_ROOM, ABSENT, EXISTS, HELD with nothing done."""
        status = int(
            lib.jfs_stage_one(
                self.pointer, ledger.pointer, kind, tx_id, record_id, user_type, body, len(body)
            )
        )
        if status not in (STAGED, NO_ROOM, ABSENT, EXISTS, HELD):
            check(status, "staging a record")
        return status

    @property
    def used_bytes(self) -> int:
        return int(self.pointer.used_bytes)

    @property
    def file_offset(self) -> int:
        return int(self.pointer.file_offset)

    @property
    def record_count(self) -> int:
        return int(self.pointer.record_count)

    def checksum(self, file_id: int, previous: tuple[int, int]) -> None:
        """Append the record that covers all that is staged. The room that `begin` gave must leave
        `CHECKSUM_BYTES` of the buffer and of the file.
        """
        place = place_of(file_id, previous)
        check(lib.jfs_stage_checksum(self.pointer, place), "staging a checksum")

    def seal(self, alignment_bytes: int) -> int:
        """Fill with zeros up to the alignment, for which there must be room; the length to be written."""
        length = int(lib.jfs_stage_seal(self.pointer, alignment_bytes))
        if not length and self.record_count:
            raise CoreRefused(f"no room for whole blocks of {alignment_bytes} bytes while filling a buffer")
        return length

    def zero(self, length: int) -> None:
        """Zeros at the start of the buffer, for writes that are no records."""
        ffi.memmove(self.pointer.bytes, bytes(length), length)

    def staged_records(self) -> Iterator[StagedRecord]:
        """Return the staged records, in order."""
        begin, content = self.file_offset, ffi.buffer(self.pointer.bytes, self.used_bytes)
        found = self.pointer.records
        for index in range(self.record_count):
            one = found[index]
            at = one.body_offset - begin
            body = content[at : at + one.body_bytes] if one.body_bytes else b""
            yield StagedRecord(one.kind, one.record_id, one.tx_id, one.user_type, body)

    def content(self, length: int) -> bytes:
        return bytes(ffi.buffer(self.pointer.bytes, length))
