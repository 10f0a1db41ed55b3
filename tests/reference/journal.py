"""Journal files, byte by byte (format page "journal", sections 1 to 3): directory, records, replay."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.reference.primitives import Cursor, MalformedError

EVENT, ADD, UPDATE, ADD_TX, UPDATE_TX, DELETE_TX, DELETE, PREPARE, COMMIT, ROLLBACK = range(10, 20)

HEADER_BYTES = 16
KIND_BYTE = re.compile(rb"[\x0a-\x13]")
"""Any other byte begins no record."""
TRANSACTIONAL = (ADD_TX, UPDATE_TX, DELETE_TX, PREPARE, COMMIT, ROLLBACK)
WITH_RECORD_ID = (EVENT, ADD, UPDATE, ADD_TX, UPDATE_TX, DELETE_TX, DELETE)
WITH_BODY = (EVENT, ADD, UPDATE, ADD_TX, UPDATE_TX, DELETE_TX)
WITH_USER_TYPE = (EVENT, ADD, UPDATE, ADD_TX, UPDATE_TX)


@dataclass(frozen=True)
class Record:
    """One valid record. Fields that its kind does not have are 0 or empty."""

    kind: int
    offset: int
    length: int
    compact_count: int = 0
    tx_id: int = 0
    record_id: int = 0
    user_type: int = 0
    count: int = 0
    body: bytes = b""
    body_offset: int = 0


@dataclass(frozen=True)
class Scan:
    records: list[Record]
    marked: bool
    """The bytes make this a file with data even if no record in it is valid."""
    end: int
    """Offset after the last valid record; the start if there is none."""


class _NotARecordError(Exception):
    def __init__(self, *, mark: bool) -> None:
        self.mark = mark


def _field(data: bytes, at: int, layout: str, *, mark: bool) -> tuple[int, int]:
    """A field's value and the offset after it; `mark` says what its overrun means for the file."""
    end = at + struct.calcsize(layout)
    if end > len(data):
        raise _NotARecordError(mark=mark)
    return struct.unpack(layout, data[at:end])[0], end


def _record_at(data: bytes, start: int, rid: int, version: int) -> Record:
    kind = data[start]
    own_rid, at = _field(data, start + 1, ">i", mark=True)
    if own_rid != rid:
        raise _NotARecordError(mark=False)
    compact_count = tx_id = record_id = user_type = count = size = 0
    if version == 2:
        compact_count, at = _field(data, at, ">b", mark=True)
    if kind in TRANSACTIONAL:
        tx_id, at = _field(data, at, ">q", mark=True)
    if kind in WITH_RECORD_ID:
        record_id, at = _field(data, at, ">q", mark=True)
    if kind in WITH_BODY:
        size, at = _field(data, at, ">i", mark=True)
        if kind in WITH_USER_TYPE:
            user_type, at = _field(data, at, ">b", mark=False)
        if size < 0 or at + size > len(data):
            raise _NotARecordError(mark=False)
    if kind in (PREPARE, COMMIT):
        count, at = _field(data, at, ">i", mark=False)
    if kind == PREPARE:
        size, at = _field(data, at, ">i", mark=False)
        if size < 0:  # the broker's reader dies of this one; ours calls it damage
            raise _NotARecordError(mark=True)
    total = at + size + 4 - start
    if start + total > len(data):
        raise _NotARecordError(mark=True)
    check, _ = _field(data, start + total - 4, ">i", mark=True)
    if check != total:
        raise _NotARecordError(mark=True)
    body = data[at : at + size]
    return Record(kind, start, total, compact_count, tx_id, record_id, user_type, count, body, at)


def scan(data: bytes, rid: int, version: int = 2, start: int = HEADER_BYTES) -> Scan:
    """Every valid record with this record id, trying each byte that belongs to no record before it."""
    records: list[Record] = []
    marked = False
    end = at = start
    while (possible := KIND_BYTE.search(data, at)) is not None:
        at = possible.start()
        try:
            record = _record_at(data, at, rid, version)
        except _NotARecordError as error:
            marked = marked or error.mark
            at += 1
            continue
        records.append(record)
        at = end = record.offset + record.length
    return Scan(records, marked, end)


@dataclass(frozen=True)
class JournalFile:
    name: str
    file_id: int
    version: int
    data: bytes
    scan: Scan


def _names(cursor: Cursor) -> list[str]:
    return [cursor.utf() for _ in range(cursor.i32())]


def _compaction(control: bytes) -> tuple[list[str], list[str], list[tuple[str, str]]] | None:
    """What a control file wants done: delete, strip of .cmp, rename. None when its record is damaged."""
    adds = [record for record in scan(control, 0).records if record.kind == ADD]
    if not adds:
        return None
    cursor = Cursor(adds[0].body)
    try:
        old, new = _names(cursor), _names(cursor)
        renames = [(cursor.utf(), cursor.utf()) for _ in range(cursor.i32())]
    except MalformedError:
        return None
    return old, new, renames


def view(folder: Path, extension: str) -> dict[str, bytes]:
    """Name -> bytes of the files to read, as a finished recovery would leave them; changes nothing."""
    present = {path.name: path for path in folder.iterdir() if path.is_file()}
    control = present.get("journal-rename-control.ctr")
    todo = _compaction(control.read_bytes()) if control is not None else None
    if todo is not None:
        old, new, renames = todo
        outputs = {name.removesuffix(".cmp") for name in new}
        # An output that was renamed already is no old file, even if one had its name before.
        replaced = [name for name in old if name not in outputs or f"{name}.cmp" in present]
        contents = {name: present[name].read_bytes() for name in replaced if name in present}
        outside = [
            _file_id(path.read_bytes())
            for name, path in present.items()
            if name.endswith(f".{extension}") and name not in old and name not in outputs
        ]
        for name, data in contents.items():
            # A listed file with a younger id was used again before the control file went: it stays.
            if not outside or _file_id(data) < min(outside):
                del present[name]
        for name in new:
            if name in present:
                present[name.removesuffix(".cmp")] = present.pop(name)
        for source, target in renames:
            if source in present:
                present[target] = present.pop(source)
    files = {}
    for name, path in present.items():
        plain = name.removesuffix(".bkp")
        if plain.endswith(f".{extension}") and path.stat().st_size >= HEADER_BYTES:
            files[plain] = path.read_bytes()
    return files


def _file_id(data: bytes) -> int:
    return int(struct.unpack(">q", data[8:16])[0]) if len(data) >= HEADER_BYTES else 0


def read_folder(folder: Path, extension: str = "amq") -> list[JournalFile]:
    """Files of a journal in reading order: header id; of equal ids the one compaction wrote first."""
    files = []
    for name, data in sorted(view(folder, extension).items()):
        version, user_version, file_id = struct.unpack(">iiq", data[:HEADER_BYTES])
        if version not in (1, 2) or user_version != 0:
            raise MalformedError(f"{name}: version {version}, user version {user_version}")
        files.append(JournalFile(name, file_id, version, data, scan(data, file_id & 0x7FFFFFFF, version)))
    compacted = {file.name: any(record.compact_count for record in file.scan.records) for file in files}
    return sorted(files, key=lambda file: (file.file_id, not compacted[file.name]))


@dataclass(frozen=True)
class Emitted:
    """A committed ADD or UPDATE."""

    record_id: int
    user_type: int
    body: bytes
    update: bool


@dataclass
class Transaction:
    tx_id: int
    operations: list[Emitted] = field(default_factory=list)
    deletes: list[tuple[int, bytes]] = field(default_factory=list)
    extra: bytes | None = None
    invalid: bool = False
    counted_file: int = -1
    counted: int = 0

    def counter(self, file: int) -> int:
        """Records of this transaction in `file`; asking for another file starts from nothing."""
        if file != self.counted_file:
            self.counted_file, self.counted = file, 0
        return self.counted


@dataclass
class Replay:
    records: list[Emitted]
    """What survives: committed and not deleted, in the order of plain records and commits."""
    prepared: list[Transaction]
    failed: list[Transaction]
    deleted: set[int]


def replay(files: Iterable[Iterable[Record]]) -> Replay:
    """The effect of the records of files that are in reading order."""
    emitted: list[Emitted] = []
    deleted: set[int] = set()
    open_tx: dict[int, Transaction] = {}
    for number, records in enumerate(files):
        for record in records:
            _apply(record, number, emitted, deleted, open_tx)
    prepared = [tx for tx in open_tx.values() if tx.extra is not None and not tx.invalid]
    failed = [tx for tx in open_tx.values() if tx.extra is None or tx.invalid]
    return Replay([one for one in emitted if one.record_id not in deleted], prepared, failed, deleted)


def _apply(
    record: Record, file: int, emitted: list[Emitted], deleted: set[int], open_tx: dict[int, Transaction]
) -> None:
    kind = record.kind
    if kind in (ADD, UPDATE):
        emitted.append(Emitted(record.record_id, record.user_type, record.body, kind == UPDATE))
    elif kind == DELETE:
        deleted.add(record.record_id)
    elif kind in (ADD_TX, UPDATE_TX, DELETE_TX):
        tx = open_tx.setdefault(record.tx_id, Transaction(record.tx_id))
        tx.counter(file)
        tx.counted += 1
        if kind == DELETE_TX:
            tx.deletes.append((record.record_id, record.body))
        else:
            tx.operations.append(Emitted(record.record_id, record.user_type, record.body, kind == UPDATE_TX))
    elif kind == PREPARE:
        tx = open_tx.setdefault(record.tx_id, Transaction(record.tx_id))
        tx.extra = record.body
        tx.invalid = tx.counter(file) != record.count
    elif kind == COMMIT and record.tx_id in open_tx:
        tx = open_tx.pop(record.tx_id)
        if tx.counter(file) == record.count:
            emitted.extend(tx.operations)
            deleted.update(record_id for record_id, _ in tx.deletes)
    elif kind == ROLLBACK:
        open_tx.pop(record.tx_id, None)
