"""Encoded lines, as `artemis data encode` and HornetQ's ExportJournal write a journal and `data decode` reads
it: a line for each record, its body in base64.
"""

from __future__ import annotations

import base64
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from journalfs import door
from journalfs.engine.buffers import MappedFile
from journalfs.engine.encoded import encoded_lines
from journalfs.engine.scan import GapKind, scan_journal
from journalfs.errors import DecodeError, WrongCall
from journalfs.format.journal_file import read_header
from journalfs.format.record_types import RecordKind
from journalfs.ids import rid_of
from journalfs.limits import JOURNAL_HEADER_BYTES

DEFAULT_PREFIX: Final = "activemq-data"
DEFAULT_EXTENSION: Final = "amq"
DEFAULT_FILE_BYTES: Final = 10 * 1024 * 1024

_UNREAD: Final = {
    GapKind.ZEROED: "zeros where records should be",
    GapKind.GARBAGE: "no record",
    GapKind.TORN: "a record that was cut off",
}
"""Gaps in which something was."""


class _Ordered(NamedTuple):
    file_id: int
    name: str
    version: int
    path: Path


def journal_files(directory: Path, extension: str, lost: Callable[[str], None]) -> list[_Ordered]:
    """The files of a journal as the tools take them: all of that extension, by the id in their header. `lost`
    is told of one whose header is none.
    """
    found = []
    for path in (directory / name for name in door.names(directory) if name.endswith(f".{extension}")):
        if not door.is_file(path):
            continue
        head = door.read(path, JOURNAL_HEADER_BYTES)
        if any(head):
            try:
                header = read_header(head)
            except DecodeError as error:
                lost(f"{path}: at offset 0: left out: {error.reason}")
                continue
            if not header.readable:
                lost(f"{path}: at offset 0: left out: no journal has version {header.version}")
                continue
            found.append(_Ordered(header.file_id, path.name, header.version, path))
    return sorted(found)


def write_encoded(directory: Path, extension: str, out: BinaryIO, lost: Callable[[str], None]) -> None:
    """Write the whole journal of a directory. Memory grows with one file. `lost` is told of each place that
    cannot be read. Raises `WrongCall` where there is no journal, `OSError`.
    """
    files = journal_files(directory, extension, lost) if directory.is_dir() else []
    if not files:
        raise WrongCall(f"{directory}: no journal files here (*.{extension})")
    torn: list[str] = []
    for one in files:
        rid = rid_of(one.file_id)
        head = f"#File,JournalFileImpl: ({one.name} id = {one.file_id}, recordID = {rid})\n"
        out.write(head.encode(errors="surrogateescape"))
        with MappedFile(one.path) as file:
            scan = scan_journal(file, rid=rid, version=one.version)
            out.writelines(encoded_lines(file, scan))
            unread = [(hole.offset, hole.length, hole.reason) for hole in file.unreadable]
        if len(scan):
            # Only the end of the last file is how a writer ends.
            for text in torn:
                lost(text)
            torn.clear()
        unread += [(gap.offset, gap.length, _UNREAD[gap.kind]) for gap in scan.gaps() if gap.kind in _UNREAD]
        for offset, length, what in unread:
            text = f"{one.path}: at offset {offset}: {length} bytes are left out: {what}"
            (torn.append if what == _UNREAD[GapKind.TORN] else lost)(text)


# -- back ----------------------------------------------------------------------------------------------------

_HEADER: Final = struct.Struct(">iiq")
_RECORD: Final = struct.Struct(">BiBqiB")
_RECORD_TX: Final = struct.Struct(">BiBqqiB")
_DELETE_TX: Final = struct.Struct(">BiBqqi")
_SHORT: Final = struct.Struct(">BiBq")
_PREPARE: Final = struct.Struct(">BiBqii")
_COMMIT: Final = struct.Struct(">BiBqi")
_INT: Final = struct.Struct(">i")


class _Writer:
    """Files of one size, filled with records one after another."""

    def __init__(self, directory: Path, prefix: str, extension: str, file_bytes: int) -> None:
        self._directory = directory
        self._name = f"{prefix}-{{}}.{extension}"
        self._file_bytes = file_bytes
        self._file: BinaryIO | None = None
        self._file_id = 0
        self._room = 0
        self._of_tx: Counter[int] = Counter()

    def put(self, make: Callable[[int], bytes]) -> None:
        """`make` is given the id that records of the file carry."""
        record = make(rid_of(self._file_id))
        if len(record) > self._file_bytes - _HEADER.size:
            raise WrongCall(
                f"a record of {len(record)} bytes does not fit into journal files of {self._file_bytes}; "
                "give a larger --file-size"
            )
        if self._file is None or len(record) > self._room:
            self._next()
            record = make(rid_of(self._file_id))
        assert self._file is not None
        self._file.write(record)
        self._room -= len(record)

    def in_tx(self, tx: int, make: Callable[[int], bytes]) -> None:
        self.put(make)
        self._of_tx[tx] += 1

    def end_tx(self, tx: int, make: Callable[[int, int], bytes]) -> None:
        """A record that says how many of the transaction's are in its file."""
        self.put(lambda rid: make(rid, 0))
        size = len(make(0, 0))
        assert self._file is not None
        self._file.seek(-size, 1)
        self._file.write(make(rid_of(self._file_id), self._of_tx[tx]))

    def _next(self) -> None:
        self.close()
        self._file_id += 1
        self._file = (self._directory / self._name.format(self._file_id)).open("xb")
        self._file.truncate(self._file_bytes)
        self._file.write(_HEADER.pack(2, 0, self._file_id))
        self._room = self._file_bytes - _HEADER.size
        self._of_tx.clear()

    def finish(self) -> None:
        """A journal has two files at least."""
        while self._file_id < 2:
            self._next()
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _checked(record: bytes) -> bytes:
    return record + _INT.pack(len(record) + _INT.size)


def read_encoded(
    lines: Iterable[bytes],
    directory: Path,
    *,
    prefix: str = DEFAULT_PREFIX,
    extension: str = DEFAULT_EXTENSION,
    file_bytes: int = DEFAULT_FILE_BYTES,
) -> list[str]:
    """Make a new journal of encoded lines. Returns what could not be taken over, by line; the rest is. Raises
    `WrongCall` when there is a journal already.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.glob(f"*.{extension}")):
        raise WrongCall(f"{directory}: there is a journal already; encoded lines make a new one")
    writer = _Writer(directory, prefix, extension, file_bytes)
    reader = _LineReader(writer)
    problems = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            problem = reader.take(text.decode())
        except (KeyError, ValueError, struct.error) as error:
            problem = f"no record: {error}"
        if problem is not None:
            problems.append(f"line {number}: {problem}")
    writer.finish()
    return problems


class _LineReader:
    """Takes lines over, one after another."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        self._seen: Counter[int] = Counter()
        self._known: set[int] = set()

    def take(self, line: str) -> str | None:
        """What is wrong with it, if something is. Raises `KeyError`, `ValueError`."""
        if line.startswith("#File"):
            self._seen.clear()
            return None
        fields = dict(element.partition("@")[::2] for element in line.split(","))
        operation = fields["operation"]
        if operation in ("AddRecord", "Update"):
            self._record(fields, RecordKind.ADD if operation == "AddRecord" else RecordKind.UPDATE)
        elif operation in ("AddRecordTX", "UpdateTX"):
            self._record_tx(fields, RecordKind.ADD_TX if operation == "AddRecordTX" else RecordKind.UPDATE_TX)
        elif operation == "DeleteRecord":
            # What was reclaimed before needs no delete, and brokers take one for an error.
            identity = int(fields["id"])
            if identity in self._known:
                self._known.discard(identity)
                self._writer.put(lambda rid: _checked(_SHORT.pack(RecordKind.DELETE, rid, 0, identity)))
        elif operation == "DeleteRecordTX":
            self._delete_tx(fields)
        elif operation == "Rollback":
            tx = int(fields["txID"])
            self._writer.put(lambda rid: _checked(_SHORT.pack(RecordKind.ROLLBACK, rid, 0, tx)))
        elif operation in ("Prepare", "Commit"):
            return self._end(fields, operation)
        else:
            return f"no operation is called {operation}"
        return None

    def _record(self, fields: dict[str, str], kind: RecordKind) -> None:
        identity, user_type = int(fields["id"]), int(fields["userRecordType"]) & 0xFF
        body = _decoded(fields["data"])
        self._known.add(identity)
        self._writer.put(
            lambda rid: _checked(_RECORD.pack(kind, rid, 0, identity, len(body), user_type) + body)
        )

    def _record_tx(self, fields: dict[str, str], kind: RecordKind) -> None:
        tx, identity = int(fields["txID"]), int(fields["id"])
        user_type, body = int(fields["userRecordType"]) & 0xFF, _decoded(fields["data"])
        self._seen[tx] += 1
        self._known.add(identity)
        self._writer.in_tx(
            tx,
            lambda rid: _checked(_RECORD_TX.pack(kind, rid, 0, tx, identity, len(body), user_type) + body),
        )

    def _delete_tx(self, fields: dict[str, str]) -> None:
        tx, identity = int(fields["txID"]), int(fields["id"])
        body = _decoded(fields.get("data", ""))
        self._seen[tx] += 1
        self._writer.in_tx(
            tx,
            lambda rid: _checked(
                _DELETE_TX.pack(RecordKind.DELETE_TX, rid, 0, tx, identity, len(body)) + body
            ),
        )

    def _end(self, fields: dict[str, str], operation: str) -> str | None:
        tx, expected = int(fields["txID"]), int(fields["numberOfRecords"])
        if self._seen[tx] != expected:
            return (
                f"transaction {tx} is incomplete: {operation.lower()} of {expected} records, "
                f"but {self._seen[tx]} were there"
            )
        if operation == "Commit":
            self._writer.end_tx(
                tx, lambda rid, count: _checked(_COMMIT.pack(RecordKind.COMMIT, rid, 0, tx, count))
            )
        else:
            extra = _decoded(fields["extraData"])
            self._writer.end_tx(
                tx,
                lambda rid, count: _checked(
                    _PREPARE.pack(RecordKind.PREPARE, rid, 0, tx, count, len(extra)) + extra
                ),
            )
        return None


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
