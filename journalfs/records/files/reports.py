"""Reports what keeps each file of a journal from being freed, by a ledger of its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import scan_journal
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.records.files.files import FileSet, ReadFile


class Accounted(Protocol):
    """A file with records. `slot` is its number in the ledger."""

    @property
    def name(self) -> str: ...

    @property
    def file_id(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def slot(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file with records, and what of it is still needed. Sizes in bytes."""

    name: str
    file_id: int
    size_bytes: int
    live_bytes: int
    live_adds: int
    uncancelled: int
    """Adds, updates and transactions in it that nothing later cancels; 0: only deletes keep it, if anything.
    """
    cancels_earlier: tuple[str, ...]
    """Earlier files that stay and in which it deletes something: without it that would come back."""
    cancelled_by_current: int
    """Records of the file that the current file cancels: they count once another file is begun."""
    current: bool
    """Records are appended to it."""
    reclaimable: bool
    """Nothing needs it."""


def file_reports(ledger: Ledger, files: Sequence[Accounted]) -> list[FileReport]:
    """A report on each of the files, which are given in reading order; the last is the current one."""
    slots = [file.slot for file in files]
    free = set(ledger.reclaimable(slots[:-1]))
    places = {slot: index for index, slot in enumerate(slots)}
    cancels = [
        {places[slot]: count for slot, count in ledger.cancels(file.slot).items() if slot in places}
        for file in files
    ]
    cancelled = Counter[int]()
    for index, found in enumerate(cancels):
        cancelled.update({place: count for place, count in found.items() if place <= index})
    reports = []
    for index, file in enumerate(files):
        counters = ledger.counters(file.slot)
        current = index == len(files) - 1
        earlier = tuple(
            files[place].name
            for place, count in sorted(cancels[index].items())
            if place < index and count and slots[place] not in free
        )
        reports.append(
            FileReport(
                name=file.name,
                file_id=file.file_id,
                size_bytes=file.size_bytes,
                live_bytes=counters.live_bytes,
                live_adds=counters.live_adds,
                uncancelled=max(0, counters.positives - cancelled[index]),
                cancels_earlier=earlier,
                cancelled_by_current=0 if current else cancels[-1].get(index, 0),
                current=current,
                reclaimable=file.slot in free,
            )
        )
    return reports


# The ledger of a journal that somebody else writes: what its writer would count, kept up with a loader.


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
    """The ledger of one loader's files. After the loader has read the journal again, it must be
    made again.
    """

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._taken: dict[int, _Taken] = {}
        self._reports: Sequence[FileReport] | None = None
        """As of the last look, while nothing changes."""

    def reports(self, files: FileSet) -> Sequence[FileReport]:
        """Return what keeps the files, as far as they were read. Raises OSError, FileTorn and CoreRefused."""
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
