"""The files of a journal as the brokers' tools take them: all of one extension, by the id in their header."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from journalfs import door
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import GapKind, Scan, scan_journal
from journalfs.errors import DecodeError
from journalfs.format.journal_file import read_header
from journalfs.ids import rid_of
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.store.refused import refuse_unopenable

_UNREAD: Final = {
    GapKind.ZEROED: "zeros where records should be",
    GapKind.GARBAGE: "no record",
    GapKind.TORN: "a record that was cut off",
}
"""Gaps in which something was."""


class Told:
    """What a person is to know of an export, passed on at once. `lost` is of what is not whole in the file
    that is written, or not there.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.note = tell
        self.lost_count = 0

    def lost(self, text: str) -> None:
        self.lost_count += 1
        self.note(text)


class OrderedFile(NamedTuple):
    file_id: int
    name: str
    version: int
    path: Path


def journal_files(directory: Path, extension: str, lost: Callable[[str], None]) -> list[OrderedFile]:
    """`lost` is told of a file whose header is none. A directory that is not there has no files."""
    found = []
    refuse_unopenable(directory, f".{extension}")
    for path in (
        directory / name for name in door.names_if_there(directory) if name.endswith(f".{extension}")
    ):
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
            found.append(OrderedFile(header.file_id, path.name, header.version, path))
    return sorted(found)


def described_file(one: OrderedFile) -> str:
    """As the tools name it."""
    return f"JournalFileImpl: ({one.name} id = {one.file_id}, recordID = {rid_of(one.file_id)})"


def scanned_files(
    files: list[OrderedFile], lost: Callable[[str], None]
) -> Iterator[tuple[OrderedFile, MappedFile, Scan]]:
    """Each file with its records, open until the next is asked for. `lost` is told of each place that cannot
    be read. Raises `OSError`.
    """
    torn: list[str] = []
    for one in files:
        with MappedFile(one.path) as file:
            scan = scan_journal(file, rid=rid_of(one.file_id), version=one.version)
            yield one, file, scan
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


def journal_directory(path: Path) -> Path:
    """Where the message journal of a store lies that a path means: a data directory, an instance, or a
    journal directory itself.
    """
    from journalfs.config.layout import locate_store  # noqa: PLC0415 - only encoded lines ask

    return locate_store(path).journal_dir
