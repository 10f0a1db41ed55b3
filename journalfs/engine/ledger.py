"""The account of what keeps journal files: live records, transactions, and how many records each file cancels
in others (in C).

A slot is the number of a file, in order of creation; it is never reused within one ledger.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from journalfs.engine._native import ffi, lib
from journalfs.engine.buffers import id_list
from journalfs.engine.status import FULL, HELD, RANGE, check


@dataclass(frozen=True, slots=True)
class FileCounters:
    """Counters of one file; docs/format/records.md says what they mean. Sizes in bytes."""

    live_bytes: int
    positives: int
    adds: int
    replaceable: int
    live_adds: int
    open_bytes: int
    """Of transactions that have not ended."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without commit or rollback."""

    tx_id: int
    operations: int
    prepared: bool
    broken: bool
    """True if its PREPARE counts records that are missing."""


@dataclass(frozen=True, slots=True)
class LedgerTotals:
    live_records: int
    open_transactions: int
    doubtful_transactions: int
    """Transactions that count for nothing, and keep the files of their records."""
    memory_bytes: int
    id_max: int
    """Highest record id ever seen, committed or not; -1: none."""
    tx_id_max: int


class Ledger:
    """Not thread-safe. `pointer` is for the other parts of the engine."""

    __slots__ = ("pointer",)

    def __init__(self) -> None:
        out = ffi.new("jfs_ledger **")
        check(lib.jfs_ledger_new(out), "making a ledger")
        self.pointer: Any = ffi.gc(out[0], lib.jfs_ledger_free)

    @classmethod
    def load(cls, saved: bytes | memoryview, file_count: int) -> Self:
        """Load what `save` returned for `file_count` files, whose slots are 0, 1, 2... The bytes may be
        hostile. Raises CoreRefused.
        """
        out = ffi.new("jfs_ledger **")
        content = ffi.from_buffer("uint8_t[]", saved)
        check(lib.jfs_ledger_load(content, len(saved), file_count, out), "reading what keeps journal files")
        ledger = cls.__new__(cls)
        ledger.pointer = ffi.gc(out[0], lib.jfs_ledger_free)
        return ledger

    def save(self, slots: Sequence[int]) -> bytes | None:
        """All of it, in files that get other slots: 0, 1, 2... None while a transaction is open, or something
        lives in another file.
        """
        numbers, size_bytes = ffi.new("uint32_t[]", list(slots)), ffi.new("uint64_t *")
        out = bytearray()
        while True:
            room = ffi.from_buffer("uint8_t[]", out)
            status = lib.jfs_ledger_save(self.pointer, numbers, len(slots), room, len(out), size_bytes)
            if status != FULL:
                break
            out = bytearray(size_bytes[0])
        if status in (HELD, RANGE):
            return None
        check(status, "writing what keeps journal files")
        return bytes(out)

    def add_file(self) -> int:
        """The next slot."""
        slot = ffi.new("uint32_t *")
        check(lib.jfs_ledger_add_file(self.pointer, slot), "adding a journal file")
        return int(slot[0])

    def drop_file(self, slot: int) -> None:
        """Forget a freed file: what other files cancel in it is not counted any more."""
        lib.jfs_ledger_drop_file(self.pointer, slot)

    def doubt(self) -> None:
        """Bytes of the journal are lost. Transactions of which a part is missing keep, from now on, the files
        that they are in.
        """
        lib.jfs_ledger_doubt(self.pointer)

    @property
    def doubts(self) -> bool:
        return bool(lib.jfs_ledger_doubts(self.pointer))

    def abandon(self, tx_id: int) -> None:
        """End a transaction as a ROLLBACK would, but keep its files: a lost record may have committed it."""
        check(lib.jfs_ledger_abandon(self.pointer, tx_id), "leaving a transaction undecided")

    @property
    def failed(self) -> bool:
        """True once memory ran out while a record was counted: nothing that it says holds any more."""
        return bool(lib.jfs_ledger_failed(self.pointer))

    def apply(self, slot: int, records: Any, count: int) -> None:
        """Take records (a `jfs_record` array, of a scan or a stage) into account, in replay order."""
        check(lib.jfs_ledger_apply(self.pointer, slot, records, count), "reading a journal file")

    def settle(self, operations: int) -> bool:
        """Settle up to `operations` operations of long transactions that have ended. Returns True if more are
        left. A question about records that they change settles all of them first.
        """
        status = lib.jfs_ledger_settle(self.pointer, operations)
        if status != FULL:
            check(status, "ending a transaction")
        return bool(status == FULL)

    def counters(self, *slots: int) -> FileCounters:
        """Of a file, or of several together."""
        out = ffi.new("jfs_ledger_file *")
        numbers = ffi.new("uint32_t[]", slots)
        check(lib.jfs_ledger_sum(self.pointer, numbers, len(slots), out), "asking about journal files")
        return FileCounters(
            out.live_bytes, out.positives, out.adds, out.replaceable, out.live_adds, out.open_bytes
        )

    def cancels(self, slot: int) -> dict[int, int]:
        """How much one file cancels, by the slot of the file that it is in."""
        count, room = ffi.new("uint32_t *"), 16
        while True:
            out = ffi.new("jfs_ledger_cancelled[]", room)
            status = lib.jfs_ledger_cancels(self.pointer, slot, out, room, count)
            if status != FULL:
                break
            room = int(count[0])
        check(status, "asking about a journal file")
        return {int(one.file): int(one.count) for one in out[0 : count[0]]}

    def is_live(self, record_id: int) -> bool:
        return bool(lib.jfs_ledger_is_live(self.pointer, record_id))

    def references(self, record_id: int) -> int:
        """In how many queues a message is that was not acknowledged there; open transactions do not count."""
        return int(lib.jfs_ledger_references(self.pointer, record_id))

    def totals(self) -> LedgerTotals:
        out = ffi.new("jfs_ledger_counts *")
        lib.jfs_ledger_totals(self.pointer, out)
        return LedgerTotals(
            out.live_records,
            out.open_transactions,
            out.doubtful_transactions,
            out.memory_bytes,
            out.id_max,
            out.tx_id_max,
        )

    def reclaimable(self, slots: Sequence[int]) -> list[int]:
        """Return those of the files (in reading order, without the current one) that no live record needs."""
        flags = ffi.new("uint8_t[]", max(len(slots), 1))
        numbers = ffi.new("uint32_t[]", list(slots))
        status = lib.jfs_ledger_reclaimable(self.pointer, numbers, len(slots), flags)
        check(status, "looking for journal files that nothing needs")
        return [slot for index, slot in enumerate(slots) if flags[index]]

    def live_ids(self) -> array[int]:
        """Ids of all live records, unsorted."""
        fill = partial(lib.jfs_ledger_live_ids, self.pointer)
        return id_list(fill, "listing live records", count_of="uint64_t")

    def doubtful(self) -> array[int]:
        """Ids of transactions that count for nothing, and keep the files that they are in."""
        fill = partial(lib.jfs_ledger_doubtful, self.pointer)
        return id_list(fill, "listing transactions that are in doubt", count_of="uint64_t")

    def transactions(self) -> list[OpenTransaction]:
        count = ffi.new("uint64_t *")
        room = 64
        while True:
            out = ffi.new("jfs_ledger_tx[]", room)
            status = lib.jfs_ledger_transactions(self.pointer, out, room, count)
            if status != FULL:
                break
            room = int(count[0])
        return [
            OpenTransaction(tx.tx_id, tx.operations, bool(tx.prepared), bool(tx.broken))
            for tx in out[0 : int(count[0])]
        ]
