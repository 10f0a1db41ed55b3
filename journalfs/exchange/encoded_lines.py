"""Encoded lines, as `artemis data encode` and HornetQ's ExportJournal write a journal and `data decode` reads
it: a line for each record, its body in base64.
"""

from __future__ import annotations

import base64
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final

from journalfs.engine.recordview import encoded_lines
from journalfs.engine.stage import NewRecord, encode, record_bytes
from journalfs.errors import WrongCall
from journalfs.exchange.journals import described_file, journal_files, scanned_files
from journalfs.format.record_types import RecordKind
from journalfs.ids import rid_of

DEFAULT_PREFIX: Final = "activemq-data"
DEFAULT_EXTENSION: Final = "amq"
DEFAULT_FILE_BYTES: Final = 10 * 1024 * 1024

_KINDS: Final = {
    "AddRecord": RecordKind.ADD, "AddRecordTX": RecordKind.ADD_TX, "Update": RecordKind.UPDATE,
    "UpdateTX": RecordKind.UPDATE_TX, "DeleteRecord": RecordKind.DELETE,
    "DeleteRecordTX": RecordKind.DELETE_TX, "Prepare": RecordKind.PREPARE, "Commit": RecordKind.COMMIT,
    "Rollback": RecordKind.ROLLBACK,
}  # fmt: skip
"""What the tools call each kind. They write no line for an event."""
_IN_TX: Final = frozenset({RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX})


def write_encoded(
    directory: Path,
    extension: str,
    out: BinaryIO,
    lost: Callable[[str], None],
    *,
    prefix: str | None = None,
) -> None:
    """Write the whole journal of a directory. Memory grows with one file. `lost` is told of each place that
    cannot be read. `prefix`: of the names of its files, where others lie beside them. Raises `WrongCall`
    where there is no journal, `OSError`.
    """
    begins = "" if prefix is None else f"{prefix}-"
    files = [one for one in journal_files(directory, extension, lost) if one.name.startswith(begins)]
    if not files:
        raise WrongCall(f"{directory}: no journal files here ({begins}*.{extension})")
    for one, file, scan in scanned_files(files, lost):
        out.write(f"#File,{described_file(one)}\n".encode(errors="surrogateescape"))
        out.writelines(encoded_lines(file, scan))


# -- back ----------------------------------------------------------------------------------------------------

_HEADER: Final = struct.Struct(">iiq")


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

    def put(self, record: NewRecord) -> None:
        """Append it. A COMMIT or PREPARE gets the count of the transaction's records in its file."""
        size_bytes = record_bytes(record.kind, len(record.body))
        if size_bytes > self._file_bytes - _HEADER.size:
            raise WrongCall(
                f"a record of {size_bytes} bytes does not fit into journal files of {self._file_bytes}; "
                "give a larger --file-size"
            )
        if self._file is None or size_bytes > self._room:
            self._next()
        assert self._file is not None
        if record.kind in _IN_TX:
            self._of_tx[record.tx_id] += 1
        self._file.write(encode([record], rid=rid_of(self._file_id), counts=[self._of_tx[record.tx_id]]))
        self._room -= size_bytes

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
        kind = _KINDS.get(operation)
        if kind is None:
            return f"no operation is called {operation}"
        if kind is RecordKind.DELETE:
            # What was reclaimed before needs no delete, and brokers take one for an error.
            identity = int(fields["id"])
            if identity in self._known:
                self._known.discard(identity)
                self._writer.put(NewRecord(kind, identity))
        elif kind is RecordKind.ROLLBACK:
            self._writer.put(NewRecord(kind, tx_id=int(fields["txID"])))
        elif kind in (RecordKind.PREPARE, RecordKind.COMMIT):
            return self._end(fields, kind)
        else:
            self._record(fields, kind)
        return None

    def _record(self, fields: dict[str, str], kind: RecordKind) -> None:
        identity, tx = int(fields["id"]), int(fields["txID"]) if kind in _IN_TX else 0
        if kind is RecordKind.DELETE_TX:
            user_type, body = 0, _decoded(fields.get("data", ""))
        else:
            user_type, body = int(fields["userRecordType"]), _decoded(fields["data"])
            self._known.add(identity)
        self._seen[tx] += kind in _IN_TX
        self._writer.put(NewRecord(kind, identity, tx, _signed_byte(user_type), body))

    def _end(self, fields: dict[str, str], kind: RecordKind) -> str | None:
        tx, expected = int(fields["txID"]), int(fields["numberOfRecords"])
        if self._seen[tx] != expected:
            return (
                f"transaction {tx} is incomplete: {kind.name.lower()} of {expected} records, "
                f"but {self._seen[tx]} were there"
            )
        extra = _decoded(fields["extraData"]) if kind is RecordKind.PREPARE else b""
        self._writer.put(NewRecord(kind, tx_id=tx, body=extra))
        return None


def _signed_byte(value: int) -> int:
    return (value & 0xFF) - 256 if value & 0x80 else value & 0xFF


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
