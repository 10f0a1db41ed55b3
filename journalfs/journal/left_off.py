"""What a journal's writer knew when it let go of it, so that the next one reads only what came after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import Gap
from journalfs.engine.status import CoreRefused
from journalfs.ids import FileId


@dataclass(frozen=True, slots=True)
class LeftFile:
    """A file with records, as far as they are known. Offsets in bytes."""

    name: str
    file_id: FileId
    begins: int
    """Where the first record is."""
    end: int
    """Behind the last one."""
    unreadable: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class LeftOff:
    """`files` are in reading order, and still hold what was read of them. At least so many records live as
    `live_min` says.
    """

    ledger: bytes
    files: Sequence[LeftFile]
    live_min: int

    def resumed(self, journal: Iterable[tuple[str, int]]) -> Ledger | None:
        """Where this goes on: the slots are the numbers of `files`. `journal`: names and ids of all files in
        reading order; None where others than the first ones are known, or the bytes say something else.
        """
        known = [(file.name, file.file_id) for file in self.files]
        if list(journal)[: len(known)] != known:
            return None
        try:
            ledger = Ledger.load(self.ledger, len(known))
        except CoreRefused:
            return None
        return ledger if ledger.totals().live_records >= self.live_min else None
