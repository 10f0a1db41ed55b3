"""Reads the bindings journal, and what is appended to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path

from journalfs.bindings.model import Anomaly, BindingsState
from journalfs.bindings.replay import BindingsReplay
from journalfs.damage import Damage, FileStamp, name_of
from journalfs.engine.buffers import MappedFile, Unreadable
from journalfs.engine.scan import GapKind, RecordInfo, Scan, scan_journal
from journalfs.errors import OutOfResources
from journalfs.ids import FileId
from journalfs.limits import JOURNAL_HEADER_BYTES, LISTINGS_MAX
from journalfs.records.files.anomalies import check_mapped, mismatch_damage
from journalfs.records.files.directory import DirectoryReader, JournalFile, written_rid

EXTENSION = "bindings"
DAMAGED_GAPS = {GapKind.ZEROED, GapKind.GARBAGE, GapKind.TORN}
DAMAGE_KINDS = {"undecodable", "incomplete-transaction"}
"""Anomalies that mean lost or unreadable data; the others are facts of ordinary stores."""

BindingsStamp = tuple[tuple[str, FileStamp], ...]


def read_bindings(directory: Path, *, relative_to: Path) -> tuple[BindingsState, tuple[Damage, ...]]:
    """Read the bindings journal once: see `BindingsReader.read`."""
    return BindingsReader(directory, relative_to=relative_to).read()


@dataclass(slots=True)
class _Read:
    """A file, and how far it was read."""

    file: JournalFile
    end: int

    def is_now(self, file: JournalFile) -> bool:
        was = self.file
        return (file.file_id, file.stamp.inode) == (was.file_id, was.stamp.inode) and not file.header_damaged


class BindingsReader:
    """Reads the bindings journal in `directory`. Each further reading goes on behind the last one."""

    def __init__(self, directory: Path, *, relative_to: Path) -> None:
        self._root = relative_to
        self._listing = DirectoryReader(directory, extension=EXTENSION, relative_to=relative_to)
        self._replay = BindingsReplay()
        self._read: list[_Read] | None = None
        """In order; None: the next reading is of the whole journal."""

    def stamp(self) -> BindingsStamp:
        """Return a value that changes when the journal has to be read again."""
        return tuple((file.name, file.stamp) for file in self._listing.read().files)

    def read(self, limit: tuple[FileId, int] | None = None) -> tuple[BindingsState, tuple[Damage, ...]]:
        """Replay the bindings journal. A missing directory gives no addresses, and what cannot be read is
        damage. `limit` is a file and an offset behind which nothing is looked at: this process, and nobody
        else, writes there.
        """
        problems: list[Damage] = []
        for attempt in range(LISTINGS_MAX):
            listing = self._listing.read()
            try:
                if listing.problems or not self._went_on(listing.files, limit):
                    problems = [*listing.problems]
                    problems += self._whole(listing.files, limit, last=attempt + 1 == LISTINGS_MAX)
                    if problems:
                        self._read = None
            except FileNotFoundError:
                continue  # renamed or deleted by a broker since it was listed
            except OutOfResources:
                self._read = None  # some of it may be taken over
                raise
            break
        state = replace(self._replay.finish(), history_whole=_history_whole(listing.files))
        problems.extend(_anomalies(state.anomalies))
        return state, tuple(sorted(problems))

    def _whole(
        self, files: Sequence[JournalFile], limit: tuple[FileId, int] | None, *, last: bool
    ) -> list[Damage]:
        """Read all there is. Raises `FileNotFoundError`, if this is not the `last` attempt."""
        self._replay, self._read = BindingsReplay(), []
        problems: list[Damage] = []
        for file in files:
            name = name_of(file.path, self._root)
            try:
                records, end, damage = _records(file, name, _stop(file, limit))
            except OSError as error:
                if isinstance(error, FileNotFoundError) and not last:
                    raise
                reason = f"cannot be read: {error.strerror or error}"
                problems.append(Damage(name, 0, file.stamp.size_bytes, "unreadable", reason))
                continue
            problems.extend(damage)
            if limit is None or file.file_id <= limit[0]:
                self._apply(name, records)
                self._read.append(_Read(file, end))
        return problems

    def _went_on(self, files: Sequence[JournalFile], limit: tuple[FileId, int] | None) -> bool:
        """Take over what was appended. False: something else became of the journal too."""
        known = self._read
        if known and limit is not None:
            # Nobody else writes: what is gone was read, and what was compacted says the same again.
            known = self._read = [read for read in known if read.file.file_id <= limit[0]][-1:]
        if not known:
            return False
        if limit is not None:
            first = known[0].file.file_id
            files = [file for file in files if first <= file.file_id <= limit[0] and not file.compacted]
        if len(files) < len(known):
            return False
        if not all(read.is_now(file) for read, file in zip(known, files, strict=False)):
            return False
        # A broker has files ready behind the one that it writes to.
        written = [number for number, read in enumerate(known) if read.end > JOURNAL_HEADER_BYTES]
        begun = written[-1] if written else 0
        reads = [*known[begun:], *(None for _ in files[len(known) :])]
        try:
            return all(map(self._appended, files[begun:], reads, repeat(limit)))
        except FileNotFoundError:
            raise
        except OSError:
            return False  # whoever reads all of it says so

    def _appended(self, file: JournalFile, read: _Read | None, limit: tuple[FileId, int] | None) -> bool:
        """Take over what is new in a file. `read`: how far it was read; None: not at all."""
        assert self._read
        start = JOURNAL_HEADER_BYTES if read is None else read.end
        with MappedFile(file.path) as mapped:
            stop = _stop(file, limit)
            scan = scan_journal(mapped, rid=file.rid, version=file.version, start=start, stop=stop)
            records = [(record, _body(mapped, record)) for record in scan]
            if mapped.unreadable or any(gap.kind in DAMAGED_GAPS for gap in scan.gaps()):
                return False
        if read is None:
            read = _Read(file, start)
            self._read.append(read)
        read.end = max(read.end, scan.end)
        self._apply(name_of(file.path, self._root), records)
        return True

    def _apply(self, name: str, records: Sequence[tuple[RecordInfo, bytes]]) -> None:
        if records:
            self._replay.begin_file(name)
        for record, body in records:
            self._replay.apply(record, body)


def _history_whole(files: Sequence[JournalFile]) -> bool:
    """Whether no file was ever compacted or used again: the first file has id 1, each the next one, and those
    that nothing was written to come last.
    """
    written = [file for file in files if file.first_rid is not None]
    return all(
        file.file_id == file.first_rid == number and not file.compacted and not file.header_damaged
        for number, file in enumerate(written, 1)
    )


def _stop(file: JournalFile, limit: tuple[FileId, int] | None) -> int | None:
    if limit is None or file.file_id < limit[0]:
        return None
    return limit[1] if file.file_id == limit[0] else JOURNAL_HEADER_BYTES


def _records(
    file: JournalFile, name: str, stop: int | None
) -> tuple[list[tuple[RecordInfo, bytes]], int, list[Damage]]:
    """The records of one file up to `stop` with their bodies, where the last ends, and what of the file
    cannot be read.
    """
    with MappedFile(file.path) as mapped:
        scan = _scan(mapped, file, stop)
        # All of them before `unreadable` is looked at: copying a body may add to it.
        bodies = [(record, _body(mapped, record)) for record in scan]
        holes = mapped.unreadable
        whole = [(record, body) for record, body in bodies if not any(map(partial(_overlap, record), holes))]
        damage = [
            Damage(name, hole.offset, hole.length, "unreadable", f"cannot be read: {hole.reason}")
            for hole in holes
        ]
        found = check_mapped(mapped, scan, file.file_id).mismatches
        return whole, scan.end, [*damage, *_gaps(name, scan), *(mismatch_damage(name, one) for one in found)]


def _body(mapped: MappedFile, record: RecordInfo) -> bytes:
    return mapped.reading(lambda: mapped.copy(record.body_offset, record.body_bytes))


def _overlap(record: RecordInfo, hole: Unreadable) -> bool:
    return hole.offset < record.offset + record.length and record.offset < hole.end


def _scan(mapped: MappedFile, file: JournalFile, stop: int | None) -> Scan:
    """Scan a file. Without a usable header, its records are those with the id that the first one carries;
    later ones belong to an earlier life of the file.
    """
    rid = file.rid or written_rid(mapped) or 0
    return scan_journal(mapped, rid=rid, version=file.version, stop=stop)


def _gaps(name: str, scan: Scan) -> Iterator[Damage]:
    for gap in scan.gaps():
        if gap.kind in DAMAGED_GAPS:
            yield Damage(
                name, gap.offset, gap.length, gap.kind.name.lower(), "no bindings record can be read here"
            )


def _anomalies(anomalies: tuple[Anomaly, ...]) -> Iterator[Damage]:
    for anomaly in anomalies:
        if anomaly.kind in DAMAGE_KINDS:
            yield Damage(anomaly.file, anomaly.offset, 0, anomaly.kind, anomaly.reason)
