"""A journal as `artemis data print` prints it: every record, then those that still hold."""

from __future__ import annotations

import base64
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import RecordInfo, Scan, scan_journal
from journalfs.errors import DecodeError
from journalfs.exchange.journals import OrderedFile, described_file, journal_files, scanned_files
from journalfs.exchange.printing import java
from journalfs.exchange.printing.records import NOTHING, body_text, read_counter, xid_text
from journalfs.format.primitives import Reader
from journalfs.format.record_types import MessageType, RecordKind
from journalfs.format.xid import decode_xid
from journalfs.ids import rid_of

# Which records of a journal still hold once all of it is read, as the broker's loading has it.

_FILE_SHIFT = 32
"""A place: the file's number, then the record's in it."""


class RecordAt(NamedTuple):
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

    def places(self) -> Iterator[RecordAt]:
        """Those that hold, in the order in which they came to."""
        for place, record_id in zip(self._places, self._ids, strict=True):
            if record_id not in self._deleted:
                yield place_of(place)


def place_of(place: int) -> RecordAt:
    return RecordAt(place >> _FILE_SHIFT, place & (1 << _FILE_SHIFT) - 1)


Line = Callable[[str], object]
Seen = Callable[[RecordInfo, bytes], object]

_FILES_OPEN_MAX: Final = 4

_UPDATES: Final = frozenset({RecordKind.UPDATE, RecordKind.UPDATE_TX, RecordKind.DELETE_TX})
_OPERATIONS: Final = {
    RecordKind.EVENT: "operation@Event;",
    RecordKind.ADD: "operation@AddRecord;",
    RecordKind.UPDATE: "operation@Update;",
    RecordKind.ADD_TX: "operation@AddRecordTX;txID={tx},",
    RecordKind.UPDATE_TX: "operation@UpdateTX;txID={tx},",
    RecordKind.DELETE_TX: "operation@DeleteRecordTX;txID={tx},",
}
"""Those with a body."""
_COUNTERS: Final = frozenset({MessageType.PAGE_COUNTER_VALUE, MessageType.PAGE_COUNTER_INCREMENT})
_MESSAGES: Final = frozenset({MessageType.MESSAGE, MessageType.LEGACY_MESSAGE})


class Printed(NamedTuple):
    """Where the text goes."""

    line: Line
    safe: bool
    """Leave out what users wrote."""
    lost: Callable[[str], None]
    """Told of what cannot be read."""
    tables: bool = False
    """As the tool prints what is in a database: only records that hold, of which those changed outside of
    transactions are no updates, and no folders.
    """


class JournalText:
    """One journal. `shown` off: its records are only looked at."""

    def __init__(self, directory: Path, extension: str, out: Printed, *, shown: bool) -> None:
        self._directory = directory
        self._out = out
        self._shown = shown
        self._files = journal_files(directory, extension, out.lost)
        self._ends: list[int] = []
        self._opened = lru_cache(_FILES_OPEN_MAX)(self._open)
        self._survivors = Survivors()

    def write(self, seen: Seen) -> None:
        """Write it. `seen` is given each record that holds, and its body. Raises `OSError`."""
        line = self._out.line if self._shown and not self._out.tables else _nothing
        line(f"Journal path: {self._directory}")
        counters = _Counters()
        for number, (one, file, scan) in enumerate(scanned_files(self._files, self._out.lost), 1):
            line(f"#{described_file(one)} (size={file.size_bytes})")
            self._ends.append(scan.end)
            for at, record in enumerate(scan):
                self._write_record(line, counters, one, record, _Body(file, record))
                wrong = self._survivors.take(number, at, record)
                if wrong is not None:
                    self._out.lost(f"{one.path}: at offset {record.offset}: {wrong}")
        line("")
        if counters.values:
            line("#Counters during initial load:")
            counters.write(line)
        self._write_survivors(self._out.line if self._shown else _nothing, seen)
        self._opened.cache_clear()

    def _write_record(
        self, line: Line, counters: _Counters, one: OrderedFile, record: RecordInfo, body: _Body
    ) -> None:
        kind = record.kind
        if line is _nothing:
            return
        if kind in _OPERATIONS:
            front = _OPERATIONS[RecordKind(kind)].format(tx=record.tx_id)
            line(front + self._text(record, body, one.path))
            if kind in (RecordKind.UPDATE, RecordKind.UPDATE_TX) and record.user_type in _COUNTERS:
                counters.update(record, body.content(), line)
        elif kind == RecordKind.DELETE:
            line(f"operation@DeleteRecord;recordID={record.record_id}")
        elif kind == RecordKind.PREPARE:
            line(_prepare_text(record, body.content()))
        elif kind == RecordKind.COMMIT:
            line(f"operation@Commit;txID={record.tx_id},numberOfRecords={record.count}")
        elif kind == RecordKind.ROLLBACK:
            line(f"operation@Rollback;txID={record.tx_id}")

    def _text(self, record: RecordInfo, body: _Body, told: Path | None = None) -> str:
        """`told`: the file, where damage is to be told."""
        update = record.kind in (_UPDATES - {RecordKind.UPDATE} if self._out.tables else _UPDATES)
        user_type = 0 if record.kind == RecordKind.DELETE_TX else record.user_type
        try:
            text = NOTHING
            if user_type:
                text = body_text(
                    user_type, record.record_id, body.content(), update=update, safe=self._out.safe
                )
        except DecodeError as error:
            text = f"** damaged: {error.reason} **"
            if told is not None:
                self._out.lost(f"{told}: at offset {record.offset}: {error.reason}")
        return (
            f"recordID={record.record_id};userRecordType={user_type};isUpdate={java.truth(update)};"
            f"compactCount={record.compact_count};{text}"
        )

    # -- what holds ------------------------------------------------------------------------------------------

    def _open(self, number: int) -> tuple[MappedFile, Scan]:
        one = self._files[number - 1]
        file = MappedFile(one.path)
        return file, scan_journal(
            file, rid=rid_of(one.file_id), version=one.version, stop=self._ends[number - 1]
        )

    def _at(self, place: RecordAt) -> tuple[RecordInfo, _Body]:
        file, scan = self._opened(place.file)
        record = scan.record(place.record)
        return record, _Body(file, record)

    def _records(self, places: Iterable[int]) -> Iterator[tuple[RecordInfo, _Body]]:
        return (self._at(place_of(place)) for place in places)

    def _write_survivors(self, line: Line, seen: Seen) -> None:
        line("### Surviving Records Summary ###")
        counts, counters = _Counts(), _Counters()
        for record, body in map(self._at, self._survivors.places()):
            counts.take(record, body)
            if self._shown:
                line(self._text(record, body))
            if record.user_type in _COUNTERS:
                counters.load(record, body.content(), line)
            seen(record, body.content())
        if counters.values:
            line("### Page Counters")
            counters.write(line)
        line("")
        line("### Prepared TX ###")
        prepared = _Counts()
        for tx_id, one in self._survivors.open.items():
            if not one.failed:
                line(str(tx_id))
                self._write_transaction(line, one, prepared)
        failed = [(tx_id, one) for tx_id, one in self._survivors.open.items() if one.failed]
        if failed:
            line("")
            line("### Failed Transactions (Missing commit/prepare/rollback record) ###")
        for tx_id, one in failed:
            line(f"Transaction {tx_id} failed with these records:")
            self._write_transaction(line, one, None)
        line("")
        line("### Message Counts ###")
        counts.write(line, "")
        prepared.write(line, "prepared ")

    def _write_transaction(self, line: Line, one: Transaction, counts: _Counts | None) -> None:
        for record, body in self._records(one.records):
            line(f"- {self._text(record, body)}")
            if counts is not None and record.user_type != MessageType.ACKNOWLEDGE_REFERENCE:
                counts.take(record, body)
        for record, body in self._records(one.deletes):
            line(f"- {self._text(record, body)} <marked to delete>")


def _nothing(_line: str) -> None:
    """Takes the place of the output for what is not shown."""


class _Body:
    """A record's body, copied when it is asked for."""

    __slots__ = ("_file", "_record")

    def __init__(self, file: MappedFile, record: RecordInfo) -> None:
        self._file = file
        self._record = record

    def content(self) -> bytes:
        return self._file.copy(self._record.body_offset, self._record.body_bytes)


def _prepare_text(record: RecordInfo, extra: bytes) -> str:
    try:
        xid = xid_text(decode_xid(extra))
    except DecodeError:
        xid = "null"
    encoded = base64.b64encode(extra).decode()
    return (
        f"operation@Prepare,txID={record.tx_id},numberOfRecords={record.count},extraData={encoded}, xid={xid}"
    )


class _Counts:
    """Messages and, of each queue, references."""

    def __init__(self) -> None:
        self._messages = 0
        self._large = 0
        self._references: Counter[int] = Counter()

    def take(self, record: RecordInfo, body: _Body) -> None:
        user_type = record.user_type
        if user_type in _MESSAGES:
            self._messages += 1
        elif user_type == MessageType.LARGE_MESSAGE:
            self._large += 1
        elif user_type in (MessageType.ADD_REFERENCE, MessageType.ACKNOWLEDGE_REFERENCE):
            content = body.content()
            if len(content) >= 8:
                self._count(int.from_bytes(content[:8], signed=True), user_type)

    def _count(self, queue: int, user_type: int) -> None:
        if user_type == MessageType.ADD_REFERENCE:
            self._references[queue] += 1
        elif queue in self._references:
            self._references[queue] -= 1
        else:
            self._references[queue] = 0

    def write(self, line: Line, front: str) -> None:
        line(f"{front}message count={self._messages}")
        line(f"{front}large message count={self._large}")
        line(f"{front}message reference count")
        for queue in java.by_id(list(self._references)):
            line(f"queue id {queue},count={self._references[queue]}")


class _Counters:
    """How many messages in pages each queue has, by its records."""

    def __init__(self) -> None:
        self.values: dict[int, tuple[int, int]] = {}
        """Messages and their bytes."""

    def write(self, line: Line) -> None:
        for queue in java.by_id(list(self.values)):
            line(f"Queue {queue} value={self.values[queue][0]}")

    def _take(self, record: RecordInfo, body: bytes) -> tuple[int, int, int] | None:
        """The queue, what the record says, and what held before; None where the record is damaged."""
        increment = record.user_type == MessageType.PAGE_COUNTER_INCREMENT
        try:
            queue, value, size_bytes = read_counter(Reader(body), increment=increment)
        except DecodeError:
            return None
        old, _ = self.values.setdefault(queue, (0, 0))
        if not increment:
            self.values[queue] = (value, size_bytes)
        return queue, value, old

    def load(self, record: RecordInfo, body: bytes, line: Line) -> None:
        found = self._take(record, body)
        if found is not None:
            line(f"##SubsCounter for queue={found[0]}, value={self.values[found[0]][0]}")
            line("")

    def update(self, record: RecordInfo, body: bytes, line: Line) -> None:
        found = self._take(record, body)
        if found is None:
            return
        queue, value, old = found
        now, size_bytes = self.values[queue]
        end = f" increased by {value}"
        if record.user_type == MessageType.PAGE_COUNTER_VALUE:
            end = f", result={now}"
            if old not in (0, now):
                line(f"####### Counter replace wrongly on queue {queue} oldValue={old} newValue={now}")
        negative = " #NegativeCounter!!!!" if now < 0 else ""
        line(f"#Counter queue {queue} value={now} persistentSize={size_bytes}{end}{negative}")
        line("")
