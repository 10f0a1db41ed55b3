"""Which file ids in headers cannot be true, and what the file's records say instead.

A file that is used again gets a higher id than any before, and its first record then carries that one. So a
header with another id than the first record's is a file used again that holds nothing yet, unless the id is
one that such a file never has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.ids import RID_MAX
from journalfs.limits import JOURNAL_HEADER_BYTES

ID_STEP_MAX = 2**30
"""Ids are drawn one after the other: none is this far above all others."""

FIRST_RECORD_REACH_BYTES = 8192
"""How far behind the header the first record may lie: at the next block, where blocks are written."""


class Headed(Protocol):
    """A file as its header describes it."""

    @property
    def file_id(self) -> int: ...

    @property
    def compacted(self) -> bool: ...

    @property
    def first_rid(self) -> int | None: ...

    @property
    def rid(self) -> int: ...


def first_rid(content: bytes) -> int | None:
    """What the first bytes behind a header carry as a file id; `None` where nothing was written."""
    at = len(content) - len(content.lstrip(b"\0"))
    return int.from_bytes(content[at + 1 : at + 5]) if at + 5 <= len(content) else None


def contradiction(file: Headed, others: Sequence[Headed], records_rid: int) -> str | None:
    """Why a file whose records carry `records_rid` cannot have its header's id; `None` if it can."""
    if file.file_id <= 0:
        return "is none"
    if file.file_id <= RID_MAX and file.file_id < records_rid:
        return "is below it, which no file that was used again has"
    if file.file_id - max((other.file_id for other in others), default=records_rid) >= ID_STEP_MAX:
        return "is far above all others"
    # A compaction that packs worse gives its last output the id of the file that comes next.
    if any(other.file_id == file.file_id and not other.compacted for other in others):
        return "is that of another file"
    return None


def written_rid(mapped: MappedFile) -> int | None:
    """The file id that the first well-formed record carries, whatever the header says. What an earlier life
    left can only lie behind it.
    """
    scan = scan_journal(mapped, rid=0, version=2, start=JOURNAL_HEADER_BYTES, any_rid=True)
    return int.from_bytes(mapped.copy(scan.record(0).offset + 1, 4)) if scan.count else None
