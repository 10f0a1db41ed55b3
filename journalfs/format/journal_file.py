"""Journal files from outside: header, names, a compaction's control file (docs/format/journal-file.md)."""

from __future__ import annotations

import re
import struct
from enum import Enum
from typing import Final

import msgspec

from journalfs import limits
from journalfs.errors import DecodeError
from journalfs.format.primitives import Reader
from journalfs.ids import FileId, rid_of

CONTROL_FILE_NAME: Final = "journal-rename-control.ctr"

READABLE_VERSIONS: Final = frozenset({1, 2})
"""Version 1 records lack the compact count byte; otherwise the two are the same."""

USER_VERSION: Final = 0

VERSIONS_BELIEVED: Final = range(1, 1000)
"""What may be a later format's version; there were two in fifteen years."""

_HEADER: Final = struct.Struct(">iiq")
_ADD: Final = 11
_ADD_FIXED_BYTES: Final = 23
_NAME: Final = re.compile(r"(?P<prefix>.*)-(?P<number>[0-9]{1,19})")
_HISTORY_NAME: Final = re.compile(r"(?P<prefix>.+)-(?P<time>[0-9]{14})-(?P<id>[0-9]{1,19})")


class JournalHeader(msgspec.Struct, frozen=True):
    """The first 16 bytes."""

    version: int
    user_version: int
    file_id: FileId

    @property
    def rid(self) -> int:
        return rid_of(self.file_id)

    @property
    def readable(self) -> bool:
        return self.version in READABLE_VERSIONS and self.user_version == USER_VERSION

    @property
    def plausible(self) -> bool:
        """True for what a broker could have written, of whatever version; otherwise it is damage."""
        return self.version in VERSIONS_BELIEVED and self.user_version >= 0 and self.file_id >= 0

    @property
    def blank(self) -> bool:
        """True for a file that was allocated but never given a header."""
        return self.version == 0 and self.user_version == 0 and self.file_id == 0


def read_header(data: bytes | memoryview) -> JournalHeader:
    """Decode a header from at least 16 bytes. Any version is returned; `readable` says if it can be used.

    Raises `DecodeError` when there are fewer bytes.
    """
    if len(data) < limits.JOURNAL_HEADER_BYTES:
        raise DecodeError(0, f"a journal file begins with 16 bytes of header, here are {len(data)}")
    version, user_version, file_id = _HEADER.unpack_from(data)
    return JournalHeader(version, user_version, FileId(file_id))


class JournalFileState(Enum):
    """What a journal file is at the moment, by the end of its name."""

    NORMAL = ""
    CREATING = ".tmp"
    """Not yet renamed into place; holds nothing."""
    COMPACTED = ".cmp"
    """A compaction's output before its rename; the control file says whether it counts."""
    TO_RETAIN = ".bkp"
    """Full, waiting to be copied into the history; holds data like any other file."""


class JournalFileName(msgspec.Struct, frozen=True):
    name: str
    prefix: str
    number: int
    """Number in the name, 0 when there is none, as the broker counts it. It says nothing about order."""
    state: JournalFileState


def parse_file_name(name: str, *, extension: str) -> JournalFileName | None:
    """Take `activemq-data-12.amq` apart; None when `name` is no file of a journal with that extension.

    Only the extension decides, as in the broker: any prefix is taken.
    """
    for state in JournalFileState:
        ending = f".{extension}{state.value}"
        if name.endswith(ending):
            match = _NAME.fullmatch(name[: -len(ending)])
            if match is None:
                return JournalFileName(name, name[: -len(ending)], 0, state)
            return JournalFileName(name, match["prefix"], int(match["number"]), state)
    return None


def number_of(name: str, *, extension: str) -> int:
    """The number in a file's name, the highest of which is that of the file that was made last; 0: none."""
    parsed = parse_file_name(name, extension=extension)
    return parsed.number if parsed is not None else 0


class HistoryFileName(msgspec.Struct, frozen=True):
    """A file of the retention folder."""

    prefix: str
    copied_at: str
    """`YYYYMMDDhhmmss`, local time of the machine that copied it."""
    file_id: FileId


def parse_history_name(name: str, *, extension: str) -> HistoryFileName | None:
    """Take `activemq-data-20261121084604-1.amq` apart; None for other names."""
    ending = f".{extension}"
    match = _HISTORY_NAME.fullmatch(name[: -len(ending)]) if name.endswith(ending) else None
    if match is None:
        return None
    return HistoryFileName(match["prefix"], match["time"], FileId(int(match["id"])))


class ControlFile(msgspec.Struct, frozen=True):
    """What a compaction that did not finish still has to do, in this order."""

    delete: tuple[str, ...]
    """Old files, replaced by the outputs."""
    settle: tuple[str, ...]
    """Outputs whose `.cmp` ending is to go."""
    rename: tuple[tuple[str, str], ...]


def decode_control_file(data: bytes) -> ControlFile:
    """Decode `journal-rename-control.ctr`: its first valid ADD record of file id 0.

    Raises `DecodeError` when there is no such record (then the compaction never happened, and the file is
    to be ignored) or when it names anything but plain files.
    """
    if len(data) > limits.CONTROL_FILE_BYTES_MAX:
        raise DecodeError(0, f"a control file of {len(data)} bytes is not plausible")
    read_header(data)
    reader = Reader(_first_add(data))
    delete = tuple(_file_name(reader) for _ in range(reader.count()))
    settle = tuple(_file_name(reader) for _ in range(reader.count()))
    rename = tuple((_file_name(reader), _file_name(reader)) for _ in range(reader.count()))
    return ControlFile(delete, settle, rename)


def _first_add(data: bytes) -> bytes:
    # With asynchronous I/O the record begins on a block boundary, so it has to be looked for.
    head = bytes((_ADD, 0, 0, 0, 0))
    at = data.find(head, limits.JOURNAL_HEADER_BYTES)
    while at >= 0:
        body_bytes = int.from_bytes(data[at + 14 : at + 18], "big", signed=True)
        end = at + _ADD_FIXED_BYTES + body_bytes
        if body_bytes >= 0 and end <= len(data) and int.from_bytes(data[end - 4 : end], "big") == end - at:
            return data[at + 19 : end - 4]
        at = data.find(head, at + 1)
    raise DecodeError(limits.JOURNAL_HEADER_BYTES, "the control file holds no valid record")


def _file_name(reader: Reader) -> str:
    at = reader.position
    name = reader.utf()
    if not name or "/" in name or "\0" in name or name in {".", ".."}:
        raise DecodeError(at, f"{name!r} is no name of a journal file")
    return name
