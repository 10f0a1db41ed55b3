"""Records that differ in the id they are about alone, many at once (in C)."""

from __future__ import annotations

from array import array
from typing import Any

from journalfs.engine._native import ffi, lib
from journalfs.engine.ledger import Ledger
from journalfs.engine.stage import ABSENT, EXISTS, HELD, NO_ROOM, STAGED, Stage
from journalfs.engine.status import check


class UpdateBatch:
    """An update of each of many records, as part of a transaction: `stage` into one buffer after the other
    until all of them are.
    """

    __slots__ = ("_body", "_body_bytes", "_done", "_ids", "count", "staged_records", "tx_id", "user_type")

    def __init__(self, ids: array[int], *, tx_id: int, user_type: int, body: bytes) -> None:
        self._ids: Any = _pointer(ids)
        self._body: Any = ffi.from_buffer("uint8_t[]", body)
        self._body_bytes = len(body)
        self._done: Any = ffi.new("uint32_t *")
        self.count = len(ids)
        self.tx_id = tx_id
        self.user_type = user_type
        self.staged_records = 0
        """By the last call."""

    def stage(self, stage: Stage, ledger: Ledger) -> int:
        """STAGED when that was all, NO_ROOM when it goes on elsewhere, or ABSENT, EXISTS, HELD."""
        before = self._done[0]
        status = int(
            lib.jfs_stage_updates(
                stage.pointer,
                ledger.pointer,
                self.tx_id,
                self.user_type,
                self._body,
                self._body_bytes,
                self._ids,
                self.count,
                self._done,
            )
        )
        self.staged_records = self._done[0] - before
        if status not in (STAGED, NO_ROOM, ABSENT, EXISTS, HELD):
            check(status, "staging updates")
        return status


class DeleteBatch:
    """Deletes of many messages. Messages that are gone, held by an open transaction or still in a queue are
    passed over.
    """

    __slots__ = ("_done", "_flags", "_ids", "_records", "count", "staged_records")

    def __init__(self, ids: array[int]) -> None:
        self._ids: Any = _pointer(ids)
        self._flags: Any = ffi.new("uint8_t[]", max(len(ids), 1))
        self._done: Any = ffi.new("uint32_t *")
        self._records: Any = ffi.new("uint32_t *")
        self.count = len(ids)
        self.staged_records = 0
        """By the last call."""

    def stage(self, stage: Stage, ledger: Ledger) -> int:
        """STAGED when that was all, or NO_ROOM when it goes on elsewhere."""
        status = int(
            lib.jfs_stage_deletes(
                stage.pointer, ledger.pointer, self._ids, self.count, self._flags, self._done, self._records
            )
        )
        self.staged_records = int(self._records[0])
        if status not in (STAGED, NO_ROOM):
            check(status, "staging deletes")
        return status

    def staged(self) -> bytes:
        """For each id 1 if its delete was staged."""
        return bytes(ffi.buffer(self._flags, self.count))


def _pointer(ids: array[int]) -> Any:
    return ffi.from_buffer("int64_t[]", ids) if len(ids) else ffi.NULL


class IdSet:
    """Sets of ids, 8 bytes each where they are ascending, otherwise 11 to 21 (in C)."""

    __slots__ = ("_pointer",)

    def __init__(self, ids: array[int]) -> None:
        out = ffi.new("jfs_ids **")
        check(lib.jfs_ids_new(out), "making a set of ids")
        self._pointer: Any = ffi.gc(out[0], lib.jfs_ids_free)
        if ids:
            view = ffi.from_buffer("int64_t[]", ids)
            check(lib.jfs_ids_fill(self._pointer, view, len(ids)), "filling a set of ids")

    def without(self, ids: array[int]) -> array[int]:
        """Return the ids that are not in the set, in their order."""
        out = array("q", bytes(8 * len(ids)))
        if not ids:
            return out
        view, target = ffi.from_buffer("int64_t[]", ids), ffi.from_buffer("int64_t[]", out)
        count = lib.jfs_ids_without(self._pointer, view, len(ids), target)
        ffi.release(target)
        del out[count:]
        return out
