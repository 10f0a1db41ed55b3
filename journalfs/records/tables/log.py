"""The journals in their tables: what is flushed is committed there first, and then put into the derived
journal, which the store reads.

One flush is one transaction of the database, and asks for the lease. Rows are those that a broker writes:
deleting takes the rows of a record away, a COMMIT those of the records that its transaction deletes, a
ROLLBACK those of its transaction (docs/format/jdbc.md).
"""

from __future__ import annotations

import errno
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import compress
from operator import ne
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, bindparam, case, delete, func, insert, literal_column
from sqlalchemy import select as selected

from journalfs.engine.stage import StagedRecord
from journalfs.errors import SystemFailure
from journalfs.format.record_types import RecordKind
from journalfs.records.older.rewriting import TableRows
from journalfs.records.tables.database import Database
from journalfs.records.tables.lease import Lease
from journalfs.records.tables.statement import Answer, OneStatement
from journalfs.records.tables.transaction import BEGINS, DELETED_AT_ONCE, OneTransaction

_NO_TYPE: Final = -1
_NOTHING: Final = -1

_ENDS: Final = frozenset({RecordKind.PREPARE, RecordKind.COMMIT})
_CHANGES: Final = frozenset(map(int, (RecordKind.ADD_TX, RecordKind.UPDATE_TX)))
_SETTLING: Final = frozenset(map(int, (RecordKind.DELETE_TX, RecordKind.COMMIT)))
_OF_TX: Final = _ENDS | {RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX}
INSERTED: Final = _OF_TX | {RecordKind.ADD, RecordKind.UPDATE}
"""What a table has rows for."""


@dataclass(slots=True)
class _Changes:
    """What one flush does to a table."""

    rows: list[dict[str, Any]]
    """To be inserted. What the same flush deletes again never is."""
    deleted: array[int]
    """Records whose rows go."""
    ended: list[int]
    """Transactions whose rows go."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.deleted or self.ended)

    def without_what_goes(self) -> _Changes:
        deleted = {one["id"] for one in self.rows}.intersection(self.deleted)
        ended = {one["txid"] for one in self.rows if one["txid"]}.intersection(self.ended)
        if deleted or ended:
            kept = [one for one in self.rows if one["id"] not in deleted and one["txid"] not in ended]
            return _Changes(kept, self.deleted, self.ended)
        return self


def _nothing() -> _Changes:
    return _Changes([], array("q"), [])


class _Transaction:
    __slots__ = ("deletes", "is_committed", "number", "records")

    def __init__(self, number: int) -> None:
        self.number = number
        self.deletes = array("q")
        """What it deletes, once it is committed."""
        self.records = 0
        """How many of its records have rows, so that its COMMIT goes with the last."""
        self.is_committed = False


def highest_number(connection: Connection, column: Column[Any]) -> int:
    """Return the highest number of a column, 0 without one. Only SQLite may hold something else there, which
    it sorts behind all numbers.
    """
    highest = connection.execute(selected(func.max(column))).scalar()
    if highest is not None and not isinstance(highest, int | Decimal):
        numbers = selected(func.max(column)).where(func.typeof(column) == "integer")
        highest = connection.execute(numbers).scalar()
    return int(highest or 0)


class TableLog:
    """One journal's table. Use from one thread at a time."""

    def __init__(self, database: Database, table: Table, lease: Lease) -> None:
        self.database, self.table, self.lease = database, table, lease
        self.is_local: Final = database.dialect == "sqlite"
        self._asked: OneStatement | OneTransaction | None = None
        if database.spares(len(database.tables.journals)):
            if database.engine.dialect.driver == "psycopg":
                self._asked = OneStatement(database, table, lease)
            elif database.engine.dialect.driver in BEGINS:
                self._asked = OneTransaction(database, table, lease)
        self._under_way: _Changes | None = None
        """What was given and is not known to be committed,"""
        self._is_in_doubt = False
        """and may be."""
        self._last: _Changes | None = None
        """What was committed last: each connection is asked for it once. A server that another one stands in
        for may lack it.
        """
        self._transactions: dict[int, _Transaction] = {}
        self._transaction_of: dict[int, int] = {}
        """Its number, by the records that have rows."""
        self._seq = 0
        self.highest_id = 0
        """Of all rows that were there, or are to be."""
        c = table.c
        self._insert = insert(table)
        self._delete_ids = delete(table).where(c.id.in_(bindparam("ids", expanding=True)))
        self._any_of_ids = selected(c.seq).where(c.id.in_(bindparam("ids", expanding=True))).limit(1)
        self._delete_txs = delete(table).where(c.txid.in_(bindparam("ids", expanding=True)), c.txid > 0)

    def load(self) -> None:
        """Go on behind what is there. Rows of transactions that never ended go. Raises `SystemFailure`."""
        c = self.table.c
        with self.database.begin("read the journal's table") as connection:
            self.lease.guard(connection)
            self._seq = int(connection.execute(selected(func.max(c.seq))).scalar() or 0)
            self.highest_id = highest_number(connection, c.id)
            # Written out: Derby refuses a choice between parameters alone.
            ends = c.recordtype.in_(map(int, _ENDS))
            has_ended = case((ends, literal_column("1")), else_=literal_column("0"))
            open_ones = (
                selected(c.txid).where(c.txid > 0, c.recordtype.in_(map(int, _OF_TX))).group_by(c.txid)
            )
            unfinished = connection.execute(open_ones.having(func.max(has_ended) == 0)).scalars()
            # Where SQLite has anything else, the row is told of as it is read.
            numbers = [int(one) for one in unfinished if isinstance(one, int | Decimal)]
            self._forget_transactions(connection, numbers)

    @property
    def last_seq(self) -> int:
        """The highest number that a row has, or is to have."""
        return self._seq

    def read(self, rows: TableRows) -> None:
        """Rows that are there, in their order."""
        of, kinds = self._transaction_of, rows.kinds
        belongs = list(map(_CHANGES.__contains__, kinds))
        ids, txs = list(compress(rows.ids, belongs)), list(compress(rows.txs, belongs))
        is_fresh = map(ne, map(of.get, ids), txs)
        fresh = dict.fromkeys(compress(zip(ids, txs, strict=True), is_fresh))
        for tx, count in Counter(tx for _, tx in fresh).items():
            self._transaction(tx).records += count
        of.update(iter(fresh))
        for record_id, tx, kind in compress(
            zip(rows.ids, rows.txs, kinds, strict=True), map(_SETTLING.__contains__, kinds)
        ):
            if tx > 0 and kind == RecordKind.COMMIT:
                self._transaction(tx).is_committed = True
            elif tx > 0:
                self._transaction(tx).deletes.append(record_id)

    def begin(self, records: Iterable[StagedRecord]) -> int | None:
        """Ask for a flush to be made durable, without waiting: a descriptor that is readable when there is
        something to `look` at. None: not now, it is for `commit`.
        """
        asked = self._asked
        if not isinstance(asked, OneStatement) or not self._has_begun(asked, records):
            return None
        return asked.fileno() if asked.is_ready and asked.is_sent else None

    def _has_begun(self, asked: OneStatement | OneTransaction, records: Iterable[StagedRecord]) -> bool:
        if not asked.is_ready or self._under_way is not None or self.lease.was_away:
            return False
        changes = self._under_way = self._changes(records)
        if changes:
            asked.begin(changes.rows, changes.deleted, changes.ended)
        return bool(changes)

    def attempt(self, records: Iterable[StagedRecord]) -> bool:
        """Whether a flush is durable now. If not, it is for `commit`, which goes on with it."""
        asked = self._asked
        if not isinstance(asked, OneTransaction) or not self._has_begun(asked, records):
            return False
        return self._is_committed(asked.wait(0))

    def look(self) -> bool | None:
        """Whether what was begun is durable. None: there is no answer yet. False: `commit` finds out."""
        assert isinstance(self._asked, OneStatement)
        answer = self._asked.look()
        return None if answer is None else self._is_committed(answer)

    def _is_committed(self, answer: Answer) -> bool:
        self._is_in_doubt = answer is Answer.UNKNOWN
        if answer is Answer.COMMITTED:
            self._last, self._under_way = self._under_way, None
        return answer is Answer.COMMITTED

    def commit(self, records: Iterable[StagedRecord]) -> None:
        """Make a flush durable; where it was begun, that goes on. Raises `LeaseLost`, `SystemFailure`, and
        `StoreAway`, upon which the same is to be given again.
        """
        asked, ends_s = self._asked, self.database.deadline_s()
        if asked is not None and not asked.is_ready and self._under_way is None:
            asked.connect(lambda connection: self._refuse_older(connection, _nothing()))
        if asked is not None and not asked.under_way:
            self._has_begun(asked, records)
        if asked is not None and asked.under_way:
            ends_s = min(ends_s, asked.ends_s)
            if self._is_committed(asked.wait(ends_s)):
                return
        if self._under_way is None:
            self._under_way = self._changes(records)
        if changes := self._under_way:
            again, self._is_in_doubt = self._is_in_doubt, True
            self._insist(changes, ends_s, again=again)
            self._last = changes
        self._under_way, self._is_in_doubt = None, False

    def _insist(self, changes: _Changes, ends_s: float, *, again: bool) -> None:
        def work(connection: Connection, tried: bool) -> None:
            self.lease.was_away |= again or tried
            if again and self._asked is not None:
                self._asked.end_session(connection)
            # First: MySQL shows what was there when a transaction first looked, and what was asked before may
            # have the lease until it is done.
            self.lease.guard(connection)
            self._refuse_older(connection, changes)
            # The answer to a COMMIT may have been lost, and not what it did.
            if not ((again or tried) and self._is_there(connection, changes)):
                self._apply(connection, changes)

        self.database.insist(f"write to {self.table.name}", work, ends_s)

    def put(self, connection: Connection, records: Iterable[StagedRecord]) -> None:
        """The same within a transaction that somebody else commits."""
        self._apply(connection, self._changes(records))

    def _refuse_older(self, connection: Connection, changes: _Changes) -> None:
        """Raise `SystemFailure` where a connection leads to a database without what was committed last."""
        asked = connection.info.setdefault("asked", set())
        if self._last is None or self.table.name in asked:
            return
        # What is to be committed may be so already, and take away what was committed before.
        last = _Changes(self._last.rows, changes.deleted, changes.ended).without_what_goes()
        gone = [] if last.rows else list(self._last.deleted[:DELETED_AT_ONCE])
        if (last.rows and not self._is_there(connection, last)) or (
            gone and connection.execute(self._any_of_ids, {"ids": gone}).first() is not None
        ):
            raise SystemFailure(
                f"{self.database.settings.shown}: it lacks what was committed to {self.table.name}: it is an "
                "older copy, or others changed it",
                system_errno=errno.EIO,
            )
        asked.add(self.table.name)

    def _is_there(self, connection: Connection, changes: _Changes) -> bool:
        """Whether a flush is committed: its last row says so. One that only deletes does so again."""
        if not changes.rows:
            return False
        last, c = changes.rows[-1], self.table.c
        # A broker that was stopped may have given the number as well.
        asked = selected(c.seq).where(c.seq == last["seq"], c.id == last["id"], c.txid == last["txid"])
        return connection.execute(asked).first() is not None

    def _changes(self, records: Iterable[StagedRecord]) -> _Changes:
        changes = _nothing()
        for record in records:
            kind, tx = record.kind, record.tx_id
            if kind in INSERTED:
                changes.rows.append(self._row(record))
            if kind in (RecordKind.ADD_TX, RecordKind.UPDATE_TX):
                self._belongs(tx, record.record_id)
            elif kind == RecordKind.DELETE_TX:
                self._transaction(tx).deletes.append(record.record_id)
            elif kind == RecordKind.DELETE:
                self._deleted(changes, (record.record_id,))
            elif kind == RecordKind.COMMIT:
                ending = self._transaction(tx)
                ending.is_committed, deletes, ending.deletes = True, ending.deletes, array("q")
                self._deleted(changes, deletes)
                self._settled(changes, ending)
            elif kind == RecordKind.ROLLBACK:
                changes.ended.append(tx)
                self._forget(tx)
        return changes.without_what_goes()

    def _row(self, record: StagedRecord) -> dict[str, Any]:
        self._seq += 1
        self.highest_id = max(self.highest_id, record.record_id)
        kind, ends = record.kind, record.kind in _ENDS
        body = b"" if ends else record.body
        extra = record.body if kind == RecordKind.PREPARE else b""
        return {
            "id": _NOTHING if ends else record.record_id,
            "recordtype": kind,
            "compactcount": 0,
            "txid": record.tx_id,
            "userrecordtype": _NO_TYPE if ends else record.user_type,
            "variablesize": len(body),
            "record": body,
            "txdatasize": len(extra),
            "txdata": extra,
            "txchecknorecords": 0,
            "seq": self._seq,
        }

    # ---- transactions ----

    def _transaction(self, number: int) -> _Transaction:
        found = self._transactions.get(number)
        if found is None:
            found = self._transactions[number] = _Transaction(number)
        return found

    def _belongs(self, tx: int, record_id: int) -> None:
        if self._transaction_of.get(record_id) != tx:
            self._transaction_of[record_id] = tx
            self._transaction(tx).records += 1

    def _deleted(self, changes: _Changes, ids: Sequence[int]) -> None:
        changes.deleted.extend(ids)
        for record_id in ids:
            transaction = self._transactions.get(self._transaction_of.pop(record_id, _NOTHING))
            if transaction is not None:
                transaction.records -= 1
                self._settled(changes, transaction)

    def _settled(self, changes: _Changes, transaction: _Transaction) -> None:
        """Nothing of a committed transaction is left but the row that says so: that goes as well."""
        if transaction.is_committed and not transaction.records:
            changes.ended.append(transaction.number)
            self._forget(transaction.number)

    def _forget(self, tx: int) -> None:
        gone = self._transactions.pop(tx, None)
        if gone is not None and gone.records:
            for record_id in [one for one, found in self._transaction_of.items() if found == tx]:
                del self._transaction_of[record_id]

    # ---- statements ----

    def _apply(self, connection: Connection, changes: _Changes) -> None:
        if changes.rows:
            connection.execute(self._insert, changes.rows)
        self._forget_records(connection, changes.deleted)
        self._forget_transactions(connection, changes.ended)

    def _forget_records(self, connection: Connection, ids: Sequence[int]) -> None:
        for at in range(0, len(ids), DELETED_AT_ONCE):
            connection.execute(self._delete_ids, {"ids": list(ids[at : at + DELETED_AT_ONCE])})

    def _forget_transactions(self, connection: Connection, txs: Sequence[int]) -> None:
        for at in range(0, len(txs), DELETED_AT_ONCE):
            connection.execute(self._delete_txs, {"ids": list(txs[at : at + DELETED_AT_ONCE])})
        for tx in txs:
            self._forget(tx)
