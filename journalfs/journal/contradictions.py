"""What the checksums of a journal say of it: stretches that are not what was written, and records that are
not there any more. What lies in them is shown all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from journalfs.damage import Damage
from journalfs.engine.buffers import MappedFile
from journalfs.engine.checksums import CHECKSUM_BYTES, Checked, Mismatch, check_records
from journalfs.engine.scan import Scan
from journalfs.format.record_types import RecordKind
from journalfs.journal.files import FileSet, ReadFile
from journalfs.limits import JOURNAL_HEADER_BYTES

MISSING_RECORDS: Final = "missing-records"
"""Damage of one file that another one tells of."""

_FIRST_RECORD_BYTES: Final = 6
"""Of a record, as much as says of what kind it is and how often it was compacted."""

_COUNTED_UP: Final = frozenset(
    {RecordKind.EVENT, RecordKind.ADD, RecordKind.UPDATE, RecordKind.ADD_TX, RecordKind.UPDATE_TX}
)
"""Kinds of which compaction counts up each copy."""


class Contradictions:
    """Found while the files of one journal are read, in their order."""

    def __init__(self) -> None:
        self._appended: dict[int, bool] = {}
        """By slot, files with checksums: whether they were appended to, not compacted."""
        self._chained: set[int] = set()
        """Slots of files that said how far the file before them had been written."""

    def of(
        self, read: ReadFile, mapped: MappedFile, scan: Scan, files: FileSet, name: str
    ) -> Iterator[Damage]:
        """What the checksums among these records contradict. `name` is the file's; damage of the file before
        it is of a file beside it.
        """
        checked = check_mapped(mapped, scan, read.file.file_id)
        yield from (mismatch_damage(name, found) for found in checked.mismatches)
        if checked.count:
            self._appended[read.slot] = not checked.rewritten
        if checked.previous is not None and read.slot not in self._chained:
            self._chained.add(read.slot)
            yield from self._missing_before(*checked.previous, files, name)

    def _missing_before(self, file_id: int, end: int, files: FileSet, name: str) -> Iterator[Damage]:
        """Records of the file before, up to `end`, that are lost. That file may be free by now, or another
        with its id may hold what compaction kept of it.
        """
        for read in files.read_files():
            if read.file.file_id == file_id and read.position < end and self._was_appended_to(read, files):
                folder = name.rpartition("/")[0]
                place = f"{folder}/{read.file.path.name}" if folder else read.file.path.name
                reason = f"the next file says that records followed up to {end}: they are lost"
                yield Damage(place, read.position, end - read.position, MISSING_RECORDS, reason)

    def _was_appended_to(self, read: ReadFile, files: FileSet) -> bool:
        """What compaction wrote begins right behind the header, mostly with a record that it counts up."""
        if read.slot in self._appended:
            return self._appended[read.slot]
        mapped = files[read.slot]
        first = mapped.reading(lambda: mapped.copy(JOURNAL_HEADER_BYTES, _FIRST_RECORD_BYTES))
        return first[0] == 0 or (first[0] in _COUNTED_UP and first[-1] == 0)


def check_mapped(mapped: MappedFile, scan: Scan, file_id: int) -> Checked:
    """Check what the checksums among the records of a mapped file cover."""
    return mapped.reading(lambda: check_records(mapped.pointer, mapped.size_bytes, scan, file_id))


def mismatch_damage(name: str, found: Mismatch) -> Damage:
    """The stretch and its checksum: either may be what was changed."""
    length = found.length + CHECKSUM_BYTES
    if not found.length:
        reason = "a checksum that covers nothing that could lie before it"
    else:
        reason = f"these bytes were changed: their checksum, at {found.record_offset}, is that of others"
    return Damage(name, found.offset, length, "checksum", reason)
