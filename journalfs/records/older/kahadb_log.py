"""The journal of a KahaDB store (`db-N.log`): batches of records, each a command in protocol buffers
(docs/format/kahadb.md).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum, unique
from pathlib import Path
from typing import Final, NamedTuple

from journalfs.damage import Damage
from journalfs.errors import DecodeError
from journalfs.records.older.activemq5 import numbered_files
from journalfs.records.older.openwire import Destination, LocalTransaction, Transaction, XaTransaction
from journalfs.records.older.rewriting import Row, kahadb_rows

HEAD: Final = struct.Struct(">ib")
"""Of each record: size with this head, and its type."""

USER_RECORD: Final = 1
BATCH_RECORD: Final = 2
BATCH_MAGIC: Final = b"WRITE BATCH"
BATCH: Final = struct.Struct(">ib11siq")
"""The record before a batch: its size is that of the records behind it, then their Adler-32 or 0."""

BATCH_START: Final = BATCH.pack(BATCH.size, BATCH_RECORD, BATCH_MAGIC, 0, 0)[:16]
END_OF_FILE: Final = b"-qMa4"
_NAME: Final = re.compile(r"db-(\d+)\.log")


@unique
class Command(IntEnum):
    """The byte before a command."""

    TRACE = 0
    ADD = 1
    REMOVE = 2
    PREPARE = 3
    COMMIT = 4
    ROLLBACK = 5
    REMOVE_DESTINATION = 6
    SUBSCRIPTION = 7
    PRODUCER_AUDIT = 8
    ACKNOWLEDGEMENT_FILES = 9
    UPDATE = 10
    ADD_JOB = 11
    RESCHEDULE_JOB = 12
    REMOVE_JOB = 13
    REMOVE_JOBS = 14
    DESTROY_SCHEDULER = 15
    REWRITTEN_FILE = 16


class Record(NamedTuple):
    """One record. A command's fields start at `offset` of its file and have `length` bytes."""

    start: int
    """Of the record, which is what an index refers to."""
    command: int
    offset: int
    length: int


Fields = dict[int, "int | tuple[int, int]"]
"""By tag: a number, or where bytes lie (offset, length); the last value where one is repeated. The id of a
local transaction has two fields of the same number, which their tags tell apart.
"""
NUMBER, BYTES = 0, 2
"""Types of fields, the lowest bits of a tag."""


def log_files(folder: Path) -> dict[int, Path]:
    """The journal files of a folder by number, in their order."""
    return numbered_files(folder, _NAME)


def rows(content: bytes, name: str, damage: list[Damage], start: int = 0) -> Iterator[Row | Record]:
    """The commands of one file in order, from the record at `start` on: taken apart by the core where they
    are regular. What is no batch is passed over and noted in `damage`, as is a batch whose checksum differs;
    its records are read all the same.
    """
    at = start
    while at < len(content):
        regular, behind = kahadb_rows(content, at)
        yield from regular
        if behind > at:
            at = behind
            continue
        found, at = _next(content, at, name, damage)
        if found is not None:
            yield found


def verify(content: bytes, name: str, damage: list[Damage]) -> None:
    """Note in `damage` what `rows` would, for a file of which the records are known."""
    at = 0
    while at < len(content):
        _, behind = kahadb_rows(content, at)
        at = behind if behind > at else _next(content, at, name, damage)[1]


def _next(content: bytes, at: int, name: str, damage: list[Damage]) -> tuple[Record | None, int]:
    """The command at an offset, if one is there, and where what is behind it begins."""
    if content.startswith(END_OF_FILE, at):
        return None, len(content)
    head = _head(content, at)
    if head is None:
        found = content.find(BATCH_START, at + 1)
        if found < 0 and not content[at:].strip(b"\0"):
            return None, len(content)
        end = len(content) if found < 0 else found
        reason = "no record begins here" if found >= 0 else "no record from here to the end of the file"
        damage.append(Damage(name, at, end - at, "garbage", reason))
        return None, end
    size, kind = head
    record = None
    if kind == BATCH_RECORD:
        _check(content, at, name, damage)
    else:
        record = _record(content, at, size)
        if record is None:
            damage.append(Damage(name, at, size, "garbage", "a record without a command"))
    return record, at + size


def _head(content: bytes, at: int) -> tuple[int, int] | None:
    """Size and type of the record at an offset; None: there is none."""
    if at + HEAD.size > len(content):
        return None
    size, kind = HEAD.unpack_from(content, at)
    if size < HEAD.size or at + size > len(content):
        return None
    if kind == BATCH_RECORD:
        return (size, kind) if content.startswith(BATCH_START, at) and size == BATCH.size else None
    return (size, kind) if kind == USER_RECORD else None


def _check(content: bytes, at: int, name: str, damage: list[Damage]) -> None:
    *_, length, checksum = BATCH.unpack_from(content, at)
    start = at + BATCH.size
    if length < 0 or start + length > len(content):
        reason = f"a batch of {length} bytes, but {len(content) - start} are left"
        damage.append(Damage(name, at, len(content) - at, "torn", reason))
    elif checksum > 0 and zlib.adler32(memoryview(content)[start : start + length]) != checksum:
        damage.append(Damage(name, start, length, "checksum", "the checksum of a batch differs"))


def _record(content: bytes, at: int, size: int) -> Record | None:
    """The type byte, then the fields with their length before them."""
    offset = at + HEAD.size
    if size < HEAD.size + 2:
        return None
    try:
        length, fields = varint(content, offset + 1)
    except DecodeError:
        return None
    if fields + length > at + size:
        return None
    return Record(at, content[offset], fields, length)


def varint(content: bytes | memoryview, at: int) -> tuple[int, int]:
    """A number of protocol buffers, and where it ends."""
    value = shift = 0
    while at < len(content) and shift < 70:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise DecodeError(at, "a number does not end")


def fields_of(content: bytes | memoryview, at: int, length: int) -> Fields:
    """The fields of a message of protocol buffers. Raises `DecodeError`."""
    found: Fields = {}
    end = at + length
    if end > len(content):
        raise DecodeError(at, f"fields of {length} bytes, but {len(content) - at} are left")
    while at < end:
        tag, at = varint(content, at)
        kind = tag & 7
        if kind == NUMBER:
            value, at = varint(content, at)
            found[tag] = value
        elif kind == BYTES:
            size, at = varint(content, at)
            if at + size > end:
                raise DecodeError(at, f"a field of {size} bytes, but {end - at} are left")
            found[tag] = at, size
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise DecodeError(at, f"a field of type {kind}")
    return found


class Fielded:
    """The fields of one message, by number."""

    def __init__(self, content: bytes | memoryview, at: int, length: int) -> None:
        self._content = content
        self._fields = fields_of(content, at, length)

    def has(self, field: int, kind: int = BYTES) -> bool:
        return field << 3 | kind in self._fields

    def number(self, field: int, default: int = 0) -> int:
        value = self._fields.get(field << 3 | NUMBER, default)
        assert isinstance(value, int), "the tag says so"
        return value

    def place(self, field: int) -> tuple[int, int]:
        """Where the bytes of a field lie: offset and length."""
        value = self._fields.get(field << 3 | BYTES)
        if value is None:
            raise DecodeError(0, f"field {field} is missing")
        assert isinstance(value, tuple), "the tag says so"
        return value

    def bytes(self, field: int) -> bytes:
        at, length = self.place(field)
        return bytes(self._content[at : at + length])

    def text(self, field: int) -> str:
        return self.bytes(field).decode("utf-8", "replace")

    def message(self, field: int) -> Fielded:
        return Fielded(self._content, *self.place(field))


def signed(value: int, bits: int) -> int:
    """A number of protocol buffers is written as one of 64 bits without a sign."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def destination_of(fields: Fielded) -> Destination:
    """Types: queue, topic, temporary queue, temporary topic."""
    kind = fields.number(1)
    return Destination(kind in (1, 3), fields.text(2), kind >= 2)


def transaction_of(command: Fielded) -> Transaction | None:
    """Of the commands that can be part of one: field 1."""
    return transaction_in(command.message(1)) if command.has(1) else None


def transaction_in(found: Fielded) -> Transaction | None:
    """Of the field itself."""
    if found.has(1):
        local = found.message(1)
        return LocalTransaction(local.text(1), signed(local.number(1), 64))
    if found.has(2):
        xa = found.message(2)
        return XaTransaction(signed(xa.number(1), 32), xa.bytes(3), xa.bytes(2))
    return None
