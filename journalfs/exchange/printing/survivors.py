"""Which records of a journal still hold once all of it is read, as the broker's loading has it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from journalfs.engine.scan import RecordInfo
from journalfs.format.record_types import RecordKind

_FILE_SHIFT = 32
"""A place: the file's number, then the record's in it."""


class Place(NamedTuple):
    file: int
    record: int


class Transaction:
    """One that has not ended."""

    __slots__ = ("deletes", "healthy", "in_file", "prepared", "records")

    def __init__(self) -> None:
        self.records = array("Q")
        self.deletes = array("Q")
        self.prepared = False
        self.healthy = True
        self.in_file = (0, 0)
        """A file, and how many of the records are in it."""

    @property
    def failed(self) -> bool:
        return not (self.prepared and self.healthy)

    def count(self, file: int) -> None:
        self.in_file = (file, self.in_file[1] + 1 if self.in_file[0] == file else 1)

    def whole_in(self, file: int, count: int) -> bool:
        """Whether a file has as many of its records as its end says."""
        return (self.in_file[1] if self.in_file[0] == file else 0) == count


class Survivors:
    """Fed with all records in their order. Memory grows with the records, not with their bodies."""

    def __init__(self) -> None:
        self.open: dict[int, Transaction] = {}
        """By id, in the order in which they began."""
        self._places = array("Q")
        self._ids = array("q")
        self._deleted: set[int] = set()
        self._ids_of: dict[int, tuple[array[int], array[int]]] = {}

    def take(self, file: int, number: int, record: RecordInfo) -> str | None:
        """Record `number` of a file, the first of which is 1. Says what is wrong with its transaction."""
        place = file << _FILE_SHIFT | number
        kind = record.kind
        if kind in (RecordKind.ADD, RecordKind.UPDATE):
            self._places.append(place)
            self._ids.append(record.record_id)
        elif kind == RecordKind.DELETE:
            self._deleted.add(record.record_id)
        elif kind in (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX):
            self._take_part(file, place, record)
        elif kind == RecordKind.PREPARE:
            one = self._transaction(record.tx_id)
            one.prepared = True
            one.healthy = one.healthy and one.whole_in(file, record.count)
            return None if one.healthy else f"transaction {record.tx_id} is prepared, but not whole"
        elif kind == RecordKind.COMMIT:
            return self._commit(file, record)
        elif kind == RecordKind.ROLLBACK:
            self.open.pop(record.tx_id, None)
            self._ids_of.pop(record.tx_id, None)
        return None

    def _transaction(self, tx_id: int) -> Transaction:
        return self.open.setdefault(tx_id, Transaction())

    def _take_part(self, file: int, place: int, record: RecordInfo) -> None:
        one = self._transaction(record.tx_id)
        added, deleted = self._ids_of.setdefault(record.tx_id, (array("q"), array("q")))
        delete = record.kind == RecordKind.DELETE_TX
        (one.deletes if delete else one.records).append(place)
        (deleted if delete else added).append(record.record_id)
        one.count(file)

    def _commit(self, file: int, record: RecordInfo) -> str | None:
        one = self.open.pop(record.tx_id, None)
        added, deleted = self._ids_of.pop(record.tx_id, (array("q"), array("q")))
        if one is None:
            return None  # what it had is reclaimed
        if not one.whole_in(file, record.count):
            return f"transaction {record.tx_id} is committed, but not whole, and did not happen"
        self._places.extend(one.records)
        self._ids.extend(added)
        self._deleted.update(deleted)
        return None

    def places(self) -> Iterator[Place]:
        """Those that hold, in the order in which they came to."""
        for place, record_id in zip(self._places, self._ids, strict=True):
            if record_id not in self._deleted:
                yield place_of(place)


def place_of(place: int) -> Place:
    return Place(place >> _FILE_SHIFT, place & (1 << _FILE_SHIFT) - 1)
