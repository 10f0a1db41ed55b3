"""Compaction where the disk has no room for another journal file: how many of the first files it can rewrite,
and what that brings.

The last file that may be begun is for what makes room, and once that is the current one there is none to go
on in. So the current one stays, and of the files before it those are rewritten whose living records fit into
what is left. Files are kept by the deletes in later ones, so it has to begin with the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from journalfs.engine.backend import Backend
from journalfs.engine.rescan import scan_view
from journalfs.format.record_types import RecordKind
from journalfs.journal.file_sizes import SHORT_STEP_BYTES
from journalfs.journal.pool import WriteFile
from journalfs.journal.write_settings import round_up
from journalfs.limits import JOURNAL_HEADER_BYTES, LENGTHENED_BYTES

_BLOCK_BYTES: Final = 4096
_ENDS: Final = frozenset({int(RecordKind.COMMIT), int(RecordKind.ROLLBACK)})


@dataclass(frozen=True, slots=True)
class Room:
    """What there is for outputs: on the disk, and in free files that can give way. Sizes in bytes."""

    free_bytes: int
    free_files: int
    file_size_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.free_bytes + self.free_files * self.file_size_bytes


@dataclass(frozen=True, slots=True)
class Rewritable:
    """One of the first files. `gives_file`: it can be used again; else the disk gets its size back."""

    live_bytes: int
    size_bytes: int
    gives_file: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """How many of the first files to rewrite, how many bytes that is expected to write, and for how many more
    files there is room then.
    """

    files: int
    written_bytes: int
    gained_files: int


def best_plan(files: Sequence[Rewritable], room: Room, *, overhead_bytes: int = 0) -> Plan | None:
    """The one after which most files can be begun, and of these the one that writes least; None where none
    leaves more than there are now. `overhead_bytes`: what is to be written beside what the files count.
    """
    size = room.file_size_bytes
    best, now = None, room.free_bytes // size + room.free_files
    most = now
    live_bytes, free_files, given_bytes = overhead_bytes, 0, 0
    for count, file in enumerate(files, 1):
        live_bytes += file.live_bytes
        free_files += file.gives_file
        given_bytes += 0 if file.gives_file else file.size_bytes
        written = sum(expected_sizes(live_bytes, size)) + control_bytes(count)
        if written > room.size_bytes:
            break
        after = free_files + (room.size_bytes - written + given_bytes) // size
        if after > most:
            best, most = Plan(count, written, after - now), after
    return best


def expected_sizes(live_bytes: int, file_size_bytes: int) -> list[int]:
    """Sizes of outputs that hold so many bytes of records, if these leave no gaps."""
    whole, rest = divmod(live_bytes, file_size_bytes - JOURNAL_HEADER_BYTES)
    sizes = [file_size_bytes] * whole
    if rest:
        sizes.append(output_size(JOURNAL_HEADER_BYTES + rest, file_size_bytes))
    return sizes


def output_size(content_bytes: int, file_size_bytes: int) -> int:
    """How large an output is made: not larger than it has to be, since there may be no room for more."""
    size = round_up(content_bytes, SHORT_STEP_BYTES)
    return size if size + LENGTHENED_BYTES < file_size_bytes else max(content_bytes, file_size_bytes)


def control_bytes(files: int) -> int:
    """Room for a control file that names so many files, and for as many names in the directory."""
    return round_up(512 + 128 * files, _BLOCK_BYTES)


def ended_in(backend: Backend, files: Iterable[WriteFile]) -> frozenset[int]:
    """Transactions that end in these files."""
    found: set[int] = set()
    for file in files:
        view = backend.view(file.name)
        scan = scan_view(view, rid=file.rid, version=file.version, doing=f"compacting {file.name}")
        records = scan.pointer.records
        found.update(records[i].tx_id for i in range(scan.count) if records[i].kind in _ENDS)
    return frozenset(found)
