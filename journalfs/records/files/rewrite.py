"""The content of compaction's outputs: of all records of old files those that still count, in their order.

The rules are the broker's (docs/format/records.md), with three changes. A commit whose count does not fit
drops its transaction, as a load does. Of delivery counts and schedules the last of each queue is kept, not
the last of each message. A delete stays while an open transaction changes the deleted record, since a later
commit would bring that back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from journalfs.engine.backend import Backend, Viewed, scan_view
from journalfs.engine.checksums import Mismatch, check_records
from journalfs.engine.copying import RecordCopier, copy_bytes
from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import Scan
from journalfs.format.record_types import RecordKind
from journalfs.records.files.directory import STEPS_BYTES
from journalfs.records.files.pool import WriteFile
from journalfs.records.files.write_settings import round_up

COMPACT_COUNT_MAX: Final = 127
YOUNG_BELOW: Final = 2
"""Records compacted less often than this are kept apart from older ones: they are more likely to be removed
soon.
"""

ADD, UPDATE, DELETE = int(RecordKind.ADD), int(RecordKind.UPDATE), int(RecordKind.DELETE)
ADD_TX, UPDATE_TX, DELETE_TX = int(RecordKind.ADD_TX), int(RecordKind.UPDATE_TX), int(RecordKind.DELETE_TX)
PREPARE, COMMIT, ROLLBACK = int(RecordKind.PREPARE), int(RecordKind.COMMIT), int(RecordKind.ROLLBACK)
COUNTED: Final = frozenset({ADD, UPDATE, ADD_TX, UPDATE_TX})
"""Kinds whose records say how often they were compacted."""


@dataclass(frozen=True, slots=True)
class Source:
    """A record of an old file: the file's bytes and version, the scan and its struct."""

    view: Viewed
    version: int
    scan: Scan
    record: Any


@dataclass(slots=True)
class _Held:
    """A transaction that had ended by the snapshot, while its end has not come by yet."""

    records: list[Source] = field(default_factory=list)
    counted_file: int = -1
    counted: int = 0


@dataclass(frozen=True, slots=True)
class Survivors:
    """The surviving records: sorted ids of live records, and ids of transactions that are open, or whose end
    may be among lost bytes.
    """

    live_ids: Sequence[int]
    open_transactions: frozenset[int]
    ended_later: frozenset[int] = frozenset()
    """Transactions that ended in a file behind the old ones: their dead records there may go, since an end
    counts only the records in its own file.
    """

    in_doubt: frozenset[int] = frozenset()
    """Open transactions that lost records. Their PREPARE is left out: it would count the remaining records
    and so declare the transaction whole.
    """

    def prepared(self, tx_id: int) -> bool:
        return tx_id in self.open_transactions and tx_id not in self.in_doubt

    def alive(self, record_id: int) -> bool:
        at = bisect_left(self.live_ids, record_id)
        return at < len(self.live_ids) and self.live_ids[at] == record_id


class Rewriter:
    """Feeds old files through; new ones have ids from `first_id` up."""

    def __init__(
        self,
        survivors: Survivors,
        *,
        first_id: int,
        file_size_bytes: int,
        replaceable_types: frozenset[int],
        checksums: bool,
        keep_apart: bool = True,
    ) -> None:
        """`keep_apart`: young records begin a file of their own."""
        self._survivors = survivors
        self._keep_apart = keep_apart
        self._replaceable_types = replaceable_types
        self._copier = RecordCopier(first_id=first_id, file_size_bytes=file_size_bytes, checksums=checksums)
        self._held: dict[int, _Held] = {}
        self._counts: dict[int, tuple[int, int]] = {}
        self._last_updates: dict[int, dict[tuple[int, bytes], Source]] = {}
        self._changed_by_open: set[int] = set()
        self._seen_old = False
        self._split = False

    def feed(self, number: int, view: Viewed, file: WriteFile) -> None:
        """One old file; `number` counts them."""
        scan = scan_view(view, rid=file.rid, version=file.version, doing=f"compacting {file.name}")
        records = scan.pointer.records
        for index in range(scan.count):
            self._take(number, Source(view, file.version, scan, records[index]))

    def finish(self) -> list[bytearray]:
        """Write what was put off to the end, and return the outputs, each as long as its content."""
        for record_id in list(self._last_updates):
            self._write_last_updates(record_id)
        return self._copier.finish()

    def _take(self, number: int, source: Source) -> None:
        record = source.record
        kind: int = record.kind
        if kind in (ADD, UPDATE):
            self._take_plain(source, kind)
        elif kind in (ADD_TX, UPDATE_TX, DELETE_TX):
            self._take_in_transaction(number, source, kind)
        elif kind == PREPARE and self._survivors.prepared(record.tx_id):
            self._place(record)
            file, count = self._counts.get(record.tx_id, (-1, 0))
            self._copy(source, count if file == self._copier.number else 0)
        elif kind == COMMIT:
            self._take_commit(number, source)
        elif kind == ROLLBACK:
            self._held.pop(record.tx_id, None)
        elif kind == DELETE and record.record_id in self._changed_by_open:
            self._write(source)

    def _take_plain(self, source: Source, kind: int) -> None:
        record = source.record
        if not self._survivors.alive(record.record_id):
            return
        if kind == UPDATE and record.user_type in self._replaceable_types and record.body_bytes >= 8:
            queue = copy_bytes(source.view, record.body_offset, 8)
            key = (int(record.user_type), queue)
            last = self._last_updates.setdefault(int(record.record_id), {})
            last.pop(key, None)
            last[key] = source
        else:
            self._write_in_order(source)

    def _take_in_transaction(self, number: int, source: Source, kind: int) -> None:
        record = source.record
        if record.tx_id in self._survivors.open_transactions:
            self._changed_by_open.add(record.record_id)
            self._write_in_order(source)
            file, count = self._counts.get(record.tx_id, (-1, 0))
            here = self._copier.number
            self._counts[record.tx_id] = (here, count + 1 if file == here else 1)
            return
        if record.tx_id in self._survivors.ended_later:
            if kind != DELETE_TX and self._survivors.alive(record.record_id):
                self._write_in_order(source)
            return
        held = self._held.setdefault(record.tx_id, _Held())
        held.counted = held.counted + 1 if held.counted_file == number else 1
        held.counted_file = number
        if kind != DELETE_TX and self._survivors.alive(record.record_id):
            held.records.append(source)

    def _take_commit(self, number: int, source: Source) -> None:
        held = self._held.pop(source.record.tx_id, None)
        if held is None:
            return
        counted = held.counted if held.counted_file == number else 0
        if counted != source.record.count or not held.records:
            return
        in_file, count = -1, 0
        for one in held.records:
            self._write_last_updates(one.record.record_id)
        for one in held.records:
            self._write(one)
            count = count + 1 if in_file == self._copier.number else 1
            in_file = self._copier.number
        self._place(source.record)
        self._copy(source, count if in_file == self._copier.number else 0)

    def _write_in_order(self, source: Source) -> None:
        """A record, behind what was put off of the same message: a delivery count says nothing any more once
        its queue has let go of the message.
        """
        self._write_last_updates(source.record.record_id)
        self._write(source)

    def _write_last_updates(self, record_id: int) -> None:
        for source in self._last_updates.pop(record_id, {}).values():
            self._write(source)

    def _write(self, source: Source) -> None:
        self._place(source.record)
        self._copy(source, 0)

    def _place(self, record: Any) -> None:
        """Have an output that the record goes into."""
        if record.kind in COUNTED and record.compact_count >= YOUNG_BELOW:
            self._seen_old = True
        elif self._keep_apart and self._seen_old and not self._split:
            self._split = True
            self._copier.next_output()
        # A record of the oldest format grows by a byte.
        self._copier.make_room(record.length + 1)

    def _copy(self, source: Source, count: int) -> None:
        record = source.record
        after = min(record.compact_count + 1, COMPACT_COUNT_MAX) if record.kind in COUNTED else 0
        self._copier.copy(source.view, record, version=source.version, compact_count=after, count=count)


def contradicted(backend: Backend, file: WriteFile) -> Mismatch | None:
    """The first stretch of a file that is not what its checksum says was written."""
    view = backend.view(file.name)
    scan = scan_view(view, rid=file.rid, version=file.version, doing=f"compacting {file.name}")
    found = check_records(view.pointer, view.size_bytes, scan, file.file_id).mismatches
    return found[0] if found else None


def output_limit(old: Sequence[WriteFile], file_size_bytes: int) -> int:
    """How long an output may get, in bytes. Old files may be larger than new ones are to be, and so may a
    record of theirs: then it is a size that can be written in blocks, and that nobody takes for what is left
    of a file.
    """
    largest = max(file.size_bytes for file in old)
    return file_size_bytes if largest <= file_size_bytes else round_up(largest, STEPS_BYTES[0])


def pays_apart(ledger: Ledger, old: Sequence[WriteFile], limit_bytes: int) -> bool:
    """Return True if young records are worth a file of their own: records that fit into one file are not
    divided.
    """
    counted = ledger.counters(*(file.slot for file in old))
    return counted.live_bytes + counted.open_bytes > limit_bytes


def rewrite(backend: Backend, files: Sequence[WriteFile], rewriter: Rewriter) -> list[bytearray]:
    """The outputs for `files`, in order."""
    for number, file in enumerate(files):
        rewriter.feed(number, backend.view(file.name), file)
    return rewriter.finish()
