"""Replays the records of a bindings journal into a `BindingsState` (docs/format/bindings.md, "Replay").

A small transactional replay in plain Python: a bindings journal holds thousands of records, not millions.
Damage never stops it; an unusable record is an `Anomaly` of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from journalfs.bindings.interpret import Emitted, Interpretation
from journalfs.bindings.model import Anomaly, BindingsState
from journalfs.format.record_types import RecordKind


class ReplayRecord(Protocol):
    """The fields of a scanned record that replay needs; fields that its kind lacks are ignored."""

    @property
    def kind(self) -> int: ...

    @property
    def offset(self) -> int:
        """Where the record begins in its file."""

    @property
    def record_id(self) -> int: ...

    @property
    def tx_id(self) -> int: ...

    @property
    def count(self) -> int:
        """PREPARE, COMMIT: how many records of the transaction lie in the same file."""

    @property
    def user_type(self) -> int: ...


@dataclass(slots=True)
class _Transaction:
    file: str
    offset: int
    emitted: list[Emitted] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)
    counted_file: int = 0
    """Which file `counted` is about: only records in the file of the COMMIT are counted by it."""
    counted: int = 0
    prepared: bool = False
    incomplete: bool = False


class BindingsReplay:
    """Takes records in the order of the journal. Call `begin_file` before the records of each file."""

    def __init__(self) -> None:
        self._file = ""
        self._file_number = 0
        self._emitted: list[Emitted] = []
        """The effects of records since the last `finish`."""
        self._deleted: set[int] = set()
        self._deleted_since: set[int] = set()
        self._interpretation = Interpretation()
        self._transactions: dict[int, _Transaction] = {}
        self._anomalies: list[Anomaly] = []
        self._max_id = -1
        self._named_by_deletes: set[int] = set()

    def begin_file(self, name: str) -> None:
        """The next records are of this file, which they may be already."""
        if name != self._file:
            self._file = name
            self._file_number += 1

    def apply(self, record: ReplayRecord, body: bytes) -> None:
        """Take one record. `body` is what stands between its header and its check size."""
        kind = record.kind
        if kind in (RecordKind.ADD, RecordKind.UPDATE):
            self._see(record.record_id)
            self._emitted.append(self._emit(record, body))
        elif kind == RecordKind.DELETE:
            self._deleted_since.add(record.record_id)
            self._named_by_deletes.add(record.record_id)
        elif kind in (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX):
            self._apply_to_transaction(record, body)
        elif kind == RecordKind.PREPARE:
            self._prepare(record)
        elif kind == RecordKind.COMMIT:
            self._commit(record)
        elif kind == RecordKind.ROLLBACK:
            self._see(record.tx_id)
            self._transactions.pop(record.tx_id, None)

    def finish(self) -> BindingsState:
        """Apply what was deleted, settle open transactions and interpret what is left. More records may
        follow all the same; the state that is finished next shares what did not change.
        """
        unfinished = []
        for tx_id, transaction in self._transactions.items():
            kind = "prepared-transaction" if transaction.prepared else "unfinished-transaction"
            reason = f"transaction {tx_id} never ended; its {len(transaction.emitted)} records do not count"
            unfinished.append(Anomaly(kind, reason, transaction.file, transaction.offset, tx_id))
        told = self._interpretation
        self._deleted |= self._deleted_since
        told.take(self.live(), self._deleted_since)
        self._emitted, self._deleted_since = [], set()
        return BindingsState(
            addresses=told.addresses,
            queues=told.queues,
            address_settings=told.settings,
            diverts=told.diverts,
            id_counter=told.id_counter,
            record_ids=told.record_ids,
            max_id=self._max_id,
            anomalies=(*self._anomalies, *unfinished, *told.anomalies()),
            by_address=told.by_address,
            by_name=told.by_name,
            deleted=self._named_by_deletes,
            log=told.log,
            changes=told.log.count,
        )

    def live(self) -> list[Emitted]:
        """The records that took effect since the last `finish` and were not deleted, in journal order."""
        # A delete removes every record of its id in the whole journal, earlier or later.
        before, since = self._deleted, self._deleted_since
        return [one for one in self._emitted if one.record_id not in before and one.record_id not in since]

    @property
    def max_id(self) -> int:
        """The highest id seen, -1: none."""
        return self._max_id

    def _apply_to_transaction(self, record: ReplayRecord, body: bytes) -> None:
        self._see(record.tx_id)
        transaction = self._transactions.setdefault(record.tx_id, _Transaction(self._file, record.offset))
        if transaction.counted_file != self._file_number:
            transaction.counted_file, transaction.counted = self._file_number, 0
        transaction.counted += 1
        if record.kind == RecordKind.DELETE_TX:
            # Record 0 is named whenever a temporary queue goes; usually there is none, and then nothing is
            # deleted.
            transaction.deletes.append(record.record_id)
            self._named_by_deletes.add(record.record_id)
        else:
            self._see(record.record_id)
            transaction.emitted.append(self._emit(record, body))

    def _prepare(self, record: ReplayRecord) -> None:
        self._see(record.tx_id)
        transaction = self._transactions.setdefault(record.tx_id, _Transaction(self._file, record.offset))
        transaction.prepared = True
        transaction.incomplete |= self._missing(transaction, record.count)

    def _commit(self, record: ReplayRecord) -> None:
        self._see(record.tx_id)
        transaction = self._transactions.pop(record.tx_id, None)
        if transaction is None:
            # Where its records lay in files that were reclaimed, nothing of it is counted here.
            if record.count <= 0:
                return
            transaction = _Transaction(self._file, record.offset)
        if transaction.incomplete or self._missing(transaction, record.count):
            reason = f"transaction {record.tx_id} lost records before it was committed, so none of it counts"
            self._anomalies.append(
                Anomaly("incomplete-transaction", reason, self._file, record.offset, record.tx_id)
            )
            return
        self._emitted.extend(transaction.emitted)
        self._deleted_since.update(transaction.deletes)

    def _missing(self, transaction: _Transaction, count: int) -> bool:
        here = transaction.counted if transaction.counted_file == self._file_number else 0
        return here != count

    def _emit(self, record: ReplayRecord, body: bytes) -> Emitted:
        return Emitted(record.record_id, record.user_type, body, self._file, record.offset)

    def _see(self, an_id: int) -> None:
        self._max_id = max(self._max_id, an_id)
