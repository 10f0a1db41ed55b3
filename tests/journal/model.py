"""What a journal must hold after a crash, given what was staged and how far it was durable."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.reference.journal import Emitted, Replay


@dataclass(frozen=True)
class Change:
    """An add or update with a body of its own, or a delete."""

    record_id: int
    body: bytes | None


@dataclass
class Transaction:
    changes: list[Change] = field(default_factory=list)
    prepared_at: int | None = None
    ended_at: int | None = None
    committed: bool = False


@dataclass
class Model:
    """Everything staged so far; positions count records as the writer does."""

    plain: list[tuple[int, Change]] = field(default_factory=list)
    transactions: dict[int, Transaction] = field(default_factory=dict)

    def check(self, found: Replay, durable: int) -> None:
        """Raise AssertionError unless `found` is a journal that a crash may leave."""
        self._check_nothing_invented(found)
        bodies = {(one.record_id, one.body) for one in found.records}
        certain, possible = self._deletes(durable)
        for position, change in self._counting():
            if change.body is None:
                continue
            present = (change.record_id, change.body) in bodies
            if change.record_id in certain:
                assert not present, f"record {change.record_id} came back after its durable delete"
            elif position <= durable and change.record_id not in possible:
                assert present, f"record {change.record_id} was durable at {position} and is lost"
        for number, transaction in self.transactions.items():
            self._check_atomic(number, transaction, bodies, possible, found)
            self._check_prepared(number, transaction, durable, found)

    def _counting(self) -> list[tuple[int, Change]]:
        """Changes with the position that makes them count."""
        ended = [
            (transaction.ended_at, change)
            for transaction in self.transactions.values()
            if transaction.committed and transaction.ended_at is not None
            for change in transaction.changes
        ]
        return self.plain + ended

    def _deletes(self, durable: int) -> tuple[set[int], set[int]]:
        """Ids deleted for sure, and ids deleted for sure or perhaps."""
        deletes = [
            (position, change.record_id) for position, change in self._counting() if change.body is None
        ]
        return {i for position, i in deletes if position <= durable}, {i for _, i in deletes}

    def _check_nothing_invented(self, found: Replay) -> None:
        staged = {(change.record_id, change.body) for _, change in self._counting()}
        for one in found.records:
            assert (one.record_id, one.body) in staged, f"{one} was never staged, or never committed"

    def _check_atomic(
        self,
        number: int,
        transaction: Transaction,
        bodies: set[tuple[int, bytes]],
        possible: set[int],
        found: Replay,
    ) -> None:
        """All of a transaction or nothing of it, as far as nothing else deletes what it added."""
        seen = {
            (change.record_id, change.body) in bodies
            for change in transaction.changes
            if change.body is not None and change.record_id not in possible
        }
        assert len(seen) <= 1, f"transaction {number} is there in part"
        if transaction.committed and True in seen:
            for change in transaction.changes:
                if change.body is None:
                    assert not any(one.record_id == change.record_id for one in found.records)

    def _check_prepared(self, number: int, transaction: Transaction, durable: int, found: Replay) -> None:
        if transaction.prepared_at is None or transaction.prepared_at > durable:
            return
        if transaction.ended_at is not None:
            return
        those = [one for one in found.prepared if one.tx_id == number]
        assert len(those) == 1, f"transaction {number} was prepared durably, and is there {len(those)} times"
        (prepared,) = those
        kept = [(one.record_id, one.body) for one in prepared.operations]
        assert kept == [(c.record_id, c.body) for c in transaction.changes if c.body is not None]
        assert [i for i, _ in prepared.deletes] == [
            c.record_id for c in transaction.changes if c.body is None
        ]


def live_ids(records: list[Emitted]) -> set[int]:
    """Ids of records whose ADD is there."""
    return {one.record_id for one in records if not one.update}
