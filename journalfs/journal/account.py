"""The ledger of a journal that somebody else writes: what its writer would count, kept up with a loader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import scan_journal
from journalfs.journal.files import FileSet, ReadFile
from journalfs.journal.reports import FileReport, file_reports
from journalfs.limits import JOURNAL_HEADER_BYTES


@dataclass(slots=True)
class _Taken:
    """A file as far as it is taken into account. `slot` is its number in the ledger."""

    read: ReadFile
    slot: int
    position: int = JOURNAL_HEADER_BYTES

    @property
    def name(self) -> str:
        return self.read.file.name

    @property
    def file_id(self) -> int:
        return self.read.file.file_id

    @property
    def size_bytes(self) -> int:
        return self.read.file.stamp.size_bytes


class JournalAccount:
    """Of one loader: what it loads anew is another journal."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._taken: dict[int, _Taken] = {}
        self._reports: Sequence[FileReport] | None = None
        """As of the last look, while nothing changes."""

    def reports(self, files: FileSet) -> Sequence[FileReport]:
        """What keeps the files, as far as they were read. Raises OSError, FileTorn and CoreRefused."""
        self._follow(files)
        if self._reports is None:
            self._reports = file_reports(self._ledger, [self._taken[slot] for slot in sorted(self._taken)])
        return self._reports

    def _follow(self, files: FileSet) -> None:
        reads = [read for read in files.read_files() if read.records]
        for slot in self._taken.keys() - {read.slot for read in reads}:
            self._reports = None
            self._ledger.drop_file(self._taken.pop(slot).slot)
        for read in reads:
            taken = self._taken.get(read.slot)
            if taken is None:
                taken = self._taken[read.slot] = _Taken(read, self._ledger.add_file())
            if taken.position < read.position:
                self._take(files, taken, read)

    def _take(self, files: FileSet, taken: _Taken, read: ReadFile) -> None:
        self._reports = None
        scan = scan_journal(
            files[read.slot],
            rid=read.file.rid,
            version=read.file.version,
            start=taken.position,
            stop=read.position,
        )
        self._ledger.apply(taken.slot, scan.pointer.records, scan.count)
        taken.position = read.position
