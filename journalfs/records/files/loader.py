"""Feeds a message journal's files into the live state, first as a whole and then as a broker goes on writing.

The reading order is the order of replay, and what was read once is not read again: each file is scanned from
the end of its last accepted record. When older files were rewritten (compaction) the live state's locations
are void and the caller starts over with a new loader.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType

from journalfs import door
from journalfs.clock import NS_PER_MS, Clock
from journalfs.damage import MISSING_FILE, Damage, FileStamp, name_of
from journalfs.engine.buffers import MappedFile, Unreadable
from journalfs.engine.checksums import crc32c_of_file, crc32c_of_mapped
from journalfs.engine.scan import Gap, GapKind, Scan, scan_journal
from journalfs.engine.state import LiveState
from journalfs.engine.state_batch import mark_unreadable
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.errors import refuse_shortage
from journalfs.ids import FileId
from journalfs.limits import (
    JOURNAL_BLOCK_BYTES_MAX,
    JOURNAL_FILE_BYTES_MAX,
    JOURNAL_HEADER_BYTES,
    LISTINGS_MAX,
    OWN_FILES_LISTED_SHARE,
)
from journalfs.records.files.anomalies import (
    MISSING_RECORDS,
    Contradictions,
    Doubt,
    anomaly_damage,
    check_mapped,
)
from journalfs.records.files.directory import (
    DirectoryReader,
    JournalDirectory,
    JournalFile,
    reading_order,
    written_rid,
)
from journalfs.records.files.doubtful_headers import HiddenMessages
from journalfs.records.files.files import FileSet, ReadFile
from journalfs.records.files.heads import data_end, has_no_header

# Whether a journal file still holds what was read of it, by checksums of that.

END_BYTES = 4096
"""Bytes at the end of the part that was read of a growing file, compared to see whether it is still the same
file.
"""


def end_begins(position: int) -> int:
    return max(JOURNAL_HEADER_BYTES, position - END_BYTES)


def ends_as_read(read: ReadFile, file: JournalFile) -> bool:
    """Whether the last of what was read of a file is still there, as far as it can be read. Looked at where
    the file's time moved.
    """
    if read.end_crc is not None and file.stamp == read.file.stamp:
        return True
    try:
        found = crc32c_of_file(file.path, end_begins(read.position), read.position)
    except OSError as error:
        refuse_shortage(error, file.path)
        return True  # whoever reads it on says so
    if read.end_crc is None:
        read.end_crc = found
    return found == read.end_crc


def holds_prefix(file: JournalFile, position: int, prefix_crc: int) -> bool:
    """Return True if the bytes between header and `position` have this checksum; False also if they cannot be
    read. Raises FileNotFoundError.
    """
    try:
        return crc32c_of_file(file.path, JOURNAL_HEADER_BYTES, position) == prefix_crc
    except FileNotFoundError:
        raise
    except OSError as error:
        refuse_shortage(error, file.path)
        return False


UNSETTLED_GAP_WAIT_MS = 1_000
"""How long records behind a hole wait for the hole to be filled: a broker's AIO writes may land out of order.
"""


NEWS_WINDOW_BYTES = JOURNAL_BLOCK_BYTES_MAX
"""Bytes behind the last record that are compared to see whether a file grew: appending begins within one
block.
"""

HEADLESS = frozenset({"short-file", "zeroed"})
"""The reason shown for a file that has not even a header."""

DAMAGE_REASONS = {
    GapKind.ZEROED: "zeros where records should be",
    GapKind.GARBAGE: "bytes that are no record",
    GapKind.TORN: "a record that was not written to its end",
}


_NO_NAMES: Mapping[int, str] = MappingProxyType({})


class PollResult(Enum):
    UNCHANGED = "unchanged"
    APPENDED = "appended"
    REWRITTEN = "rewritten"
    """Files were compacted or replaced: load again from nothing."""


@dataclass(slots=True)
class JournalLoader:
    """One message journal being read. `state` and `files` always agree."""

    directory: Path
    extension: str
    relative_to: Path
    clock: Clock
    state: LiveState
    following: bool = False
    """A broker is at work: a message without references may be about to get some."""
    limit: tuple[FileId, int] | None = None
    """Where this process writes the journal itself: the file it writes to, and the offset up to which it is
    durable. Nothing behind that is looked at.
    """
    files: FileSet = field(default_factory=FileSet)
    overwritten: bool = False
    """True if the bytes that were read of a file were overwritten, though the file has the same id."""
    bytes_scanned: int = 0
    """Bytes of journal read so far; stays 0 when the index answered everything."""
    missing: tuple[Damage, ...] = ()
    """Files that were taken away with live messages in them, and records that are gone, as far as somebody
    knew them before.
    """
    _problems: tuple[Damage, ...] = ()
    _gaps: dict[int, tuple[Damage, ...]] = field(default_factory=dict)
    _held_since_ns: dict[int, int] = field(default_factory=dict)
    _refused: dict[int, Damage] = field(default_factory=dict)
    """By slot, files of which nothing could be read when they were last tried."""
    _void: bool = False
    """True once bytes that the live state was made of turned out to read otherwise: it must be made again."""
    broken: bool = False
    """True once a part of some records was applied: the live state is only to be replaced."""
    _doubt: Doubt = field(default_factory=Doubt)
    _reader: DirectoryReader | None = None
    _matched: tuple[JournalDirectory, list[ReadFile]] | None = None
    """The last listing, and the files in it that may have grown."""
    _contradictions: Contradictions = field(default_factory=Contradictions)
    _hidden: HiddenMessages = field(default_factory=HiddenMessages)
    _next_slot: int = 0
    _last_own: ReadFile | None = None
    """The file up to which `advance` read everything."""
    _unlisted: int = 0
    """How often the journal went on in another file since all were listed."""

    def load(self) -> None:
        """Read everything, or up to `limit`, and settle the live state."""
        read_before: list[ReadFile] = []
        for read in self._opened():
            if read_before and self._is_begun(read):
                # Whoever writes may be ahead of this by now. What is in a later file proves that those before
                # are complete: their ends come first.
                for earlier in read_before:
                    self._load_file(earlier)
                read_before.clear()
            self._load_file(read)
            read_before.append(read)
        self.state.finish(following=self.following)
        self._doubt.begin(self.state)

    def _is_begun(self, read: ReadFile) -> bool:
        """Return True if the file may hold records. A file of this process is read only as far as `advance`
        said.
        """
        if self.limit is not None or read.slot in self._refused:
            return False
        mapped = self.files[read.slot]
        try:
            return any(mapped.copy(JOURNAL_HEADER_BYTES, min(1, mapped.size_bytes - JOURNAL_HEADER_BYTES)))
        except FileTorn:
            return True

    def _opened(self) -> list[ReadFile]:
        """Map all files before any is applied: a mapped file stays readable after a broker deletes it."""
        for attempt in range(LISTINGS_MAX):
            listing = self._list()
            self._problems = listing.problems
            opened: list[ReadFile] = []
            try:
                for file in self._identified(listing.files):
                    opened.append(self._open(file))
                    self._map(opened[-1], must_exist=attempt + 1 < LISTINGS_MAX)
            except FileNotFoundError:
                for read in opened:
                    self.files.forget(read.slot)
            else:
                break
        return opened

    def _list(self) -> JournalDirectory:
        if self._reader is None:
            self._reader = DirectoryReader(
                self.directory, extension=self.extension, relative_to=self.relative_to
            )
            if self.following:
                self._reader.read()  # the next look says whether ids change just now
        return self._reader.read()

    def _map(self, read: ReadFile, *, must_exist: bool) -> None:
        """Map a file that was just listed; one that cannot be is damage. Raises FileNotFoundError."""
        try:
            self._refreshed(read)
        except FileNotFoundError as error:
            if must_exist:
                raise
            self._refuse(read, error.strerror)
        except OSError as error:
            self._refuse(read, error.strerror)

    def _refuse(self, read: ReadFile, reason: str | None) -> None:
        size = read.file.stamp.size_bytes
        self._refused[read.slot] = Damage(
            self._name(read), 0, size, "unreadable", f"cannot be read: {reason}"
        )

    def _load_file(self, read: ReadFile) -> None:
        """Read one file whole. One that cannot be read is damage, and the others count all the same."""
        if read.slot in self._refused:
            return
        try:
            self._read(read, hold_back=False)
        except (FileTorn, CoreRefused) as error:
            self._refuse(read, str(error))
            self.broken = False  # it is damage, which reading anew would meet again

    @property
    def unreadable(self) -> bool:
        """Something of the journal cannot be read now, which may be otherwise without any file changing."""
        return bool(self._refused or self.files.unreadable)

    def mend(self, slots: Iterable[int] | None = None) -> None:
        """Something that is mapped can no longer be read: find out what, and go on with zeros for it.

        `slots` are the files that are in question; `None`: all that were read since the store was opened.
        """
        files = [*self.files.mapped(), *self.state.files().items()]
        if slots is not None:
            files = [(slot, self.files[slot]) for slot in slots if self.files.get_read(slot) is not None]
        for slot, mapped in files:
            if mapped.mend():
                self.files.note_unreadable(slot, mapped)
                self.state.set_file(slot, mapped)

    def mark_unreadable(self) -> None:
        """Tell the live state which bytes the disk did not give: messages in them are damaged."""
        for slot, places in self.files.unreadable.items():
            for place in places:
                mark_unreadable(self.state, slot, place.offset, place.length)

    def resume(self, files: Iterable[ReadFile], gaps: dict[int, tuple[Damage, ...]]) -> None:
        """Continue from an index: these files were read up to their positions into `state`. Raises OSError
        where one cannot be read that is needed.
        """
        for read in files:
            self.files.add(read)
            self._next_slot = max(self._next_slot, read.slot + 1)
        self._gaps = dict(gaps)
        # What a transaction brings is measured when it is committed, where it lies.
        for slot in set().union(*(one.operations.file_slots() for one in self.state.open_transactions())):
            self.state.set_file(slot, self.files[slot])
        self._doubt.begin(self.state)

    def damage(self, queue_names: Mapping[int, str] = _NO_NAMES) -> list[Damage]:
        """Everything in the journal that could not be read, by file and offset. `queue_names`: by id."""
        gaps = (damage for gaps in self._gaps.values() for damage in gaps)
        anomalies = anomaly_damage(self.state.anomalies(), self._name_of, queue_names)
        return sorted(
            {
                *self._still_missing(),
                *self._problems,
                *self._refused.values(),
                *self._unreadable(),
                *gaps,
                *anomalies,
                # P-1: without it the messages that such a header hides are missing from every listing without
                # a word.
                *self._doubtful(),
            }
        )

    def lost_file(self) -> str | None:
        """Name of a file of which all is lost: taken away with messages in it, emptied, or zeros only."""
        if not (self.missing or self._problems):
            return None
        folder = Path(name_of(self.directory, self.relative_to))
        for one in self.damage():
            is_lost = one.kind == MISSING_FILE or (one.kind in HEADLESS and one.offset == 0)
            if is_lost and Path(one.file).parent == folder:
                return one.file
        return None

    def _still_missing(self) -> Iterator[Damage]:
        """Return the files that were known to be missing and have not been read since."""
        ends = {self._name(read): read.position for read in self.files.read_files()} if self.missing else {}
        for one in self.missing:
            path = self.relative_to / one.file
            if one.file in ends:
                is_gone = ends[one.file] < one.offset + one.length_bytes
            else:
                is_journal = path.parent == self.directory
                is_gone = not door.exists(path) or (is_journal and has_no_header(path))
            if is_gone:
                yield one

    def _doubtful(self) -> Iterator[Damage]:
        """Return the damage that wrong headers cause. While a journal is being written, a file may be between
        two lives, and is not listed.
        """
        if self.following or self.limit is not None:
            return
        yield from self._hidden.damage(self.files.read_files(), self.files, self.state, self.relative_to)

    def _unreadable(self) -> Iterator[Damage]:
        for slot, places in self.files.unreadable.items():
            name = self._name(self.files.read_file(slot))
            for place in places:
                reason = f"cannot be read: {place.reason}"
                yield Damage(name, place.offset, place.length, "unreadable", reason)

    def _name_of(self, slot: int) -> str | None:
        read = self.files.get_read(slot)
        return self._name(read) if read is not None else None

    def _name(self, read: ReadFile) -> str:
        return name_of(read.file.path, self.relative_to)

    def gaps(self) -> dict[int, tuple[Damage, ...]]:
        return dict(self._gaps)

    def poll(self, *, settled: bool = False) -> PollResult:
        """Apply the records written since the last look. `settled=True`: no process writes the journal, so
        records behind damage are complete.
        """
        try:
            return self._poll(settled=settled)
        except FileNotFoundError:
            # Renamed or deleted between listing and opening; what was applied so far is complete by itself.
            return PollResult.UNCHANGED

    def advance(
        self,
        file_id: FileId,
        end: int,
        *,
        newest_first: Iterable[tuple[FileId, str]] = (),
        list_files: bool = False,
    ) -> PollResult:
        """Apply the records that this process made durable: all files before `end`'s file, and that file up
        to `end`.

        `newest_first`: id and name of the journal's files. `list_files`: files other than the current one may
        have changed.
        """
        if self.broken:
            return PollResult.REWRITTEN
        if self.limit is None or self._last_own is None:
            self.state.foresee()
        self.limit = (file_id, end)
        if not list_files and (result := self._go_on(file_id, newest_first)) is not None:
            return result
        self._last_own = None
        # What is left of the file before comes first.
        result = self._poll_to_the_end()
        if result is None:
            return PollResult.APPENDED
        if result is not PollResult.REWRITTEN:
            self._last_own = self.files.of_id(file_id)
        return result

    def _go_on(self, file_id: FileId, newest_first: Iterable[tuple[FileId, str]]) -> PollResult | None:
        """Advance without listing the directory. Returns `None` if a listing is needed: also now and then, so
        that a file that another program removed is noticed.
        """
        last, changed = self._last_own, False
        if last is None:
            return None
        above = last.file.file_id
        new = [one for one in takewhile(lambda one: one[0] > above, newest_first) if one[0] <= file_id]
        self._unlisted += above != file_id
        is_listed = above == file_id or (bool(new) and new[0][0] == file_id)
        if not is_listed or (new and self._unlisted * OWN_FILES_LISTED_SHARE >= len(self.files)):
            return None
        try:
            for read in (last, *(self._own_file(*one) for one in reversed(new))):
                changed |= self._take_own(read)
                self._last_own = last = read
        except OSError:
            return None  # a look at all of them says what became of it
        return PollResult.APPENDED if changed else PollResult.UNCHANGED

    def _own_file(self, file_id: FileId, name: str) -> ReadFile:
        """Raises OSError where it is not there by that name."""
        path = self.directory / name
        known = self.files.of_id(file_id)
        if known is not None:
            if known.file.path != path:
                raise FileNotFoundError(path)
            return known
        stamp = FileStamp.of(door.status(path))
        return self._open(JournalFile(path, name, file_id, 2, stamp, compacted=False))

    def _poll_to_the_end(self) -> PollResult | None:
        """Compaction gives files other names, maybe just when they are to be opened: then they are listed
        again. None: each time some were read and others were not.
        """
        for attempt in range(LISTINGS_MAX):
            try:
                result = self._poll()
            except FileNotFoundError:
                continue
            return PollResult.APPENDED if attempt and result is PollResult.UNCHANGED else result
        return None

    def _stop(self, read: ReadFile) -> int | None:
        """Where to end reading a file; None: at its end."""
        if self.limit is None or read.file.file_id < self.limit[0]:
            return None
        return self.limit[1] if read.file.file_id == self.limit[0] else read.position

    def _poll(self, *, settled: bool = False) -> PollResult:
        if self.broken:
            return PollResult.REWRITTEN
        self._unlisted = 0
        listing = self._list()
        matched = self._matched
        current = matched[1] if matched is not None and matched[0] is listing else self._match(listing)
        if current is None:
            return PollResult.REWRITTEN
        # Until a file is read further, the same listing matches in the same way.
        self._matched = listing, current
        self._problems = listing.problems
        changed = False
        read_before: list[ReadFile] = []
        for read in current:
            try:
                if self.limit is None:
                    changed |= self._take_news(read, read_before, hold_back=not settled)
                else:
                    changed |= self._take_own(read)
            except FileNotFoundError:
                raise
            except OSError as error:
                self._refuse(read, error.strerror)
            read_before.append(read)
        if self._void or (changed and self._doubt.arose(self.state)):
            return PollResult.REWRITTEN
        return PollResult.APPENDED if changed else PollResult.UNCHANGED

    def _take_news(self, read: ReadFile, read_before: list[ReadFile], *, hold_back: bool) -> bool:
        """Apply what was appended to a file. Returns whether anything was."""
        if not self._has_news(read):
            return False
        changed = False
        if read.records == 0:
            # A record in a later file proves that those before are complete now: read their ends first.
            for earlier in read_before:
                changed |= self._read(earlier, hold_back=hold_back)
            read_before.clear()
        return self._read(read, hold_back=hold_back) or changed

    def _take_own(self, read: ReadFile) -> bool:
        """Apply the records that this process appended to a file. Their end is known, so
        nothing is checked.
        """
        return self._stop(read) != read.position and self._read(read, hold_back=False, check=False)

    def _match(self, listing: JournalDirectory) -> list[ReadFile] | None:
        """Bring the known files in line with the listing; `None` when they no longer are what was read.

        Returns the files that may have grown: the last one holding records and all after it.
        """
        known = {read.file.file_id: read for read in self.files.read_files()}
        last_id = max((i for i, read in known.items() if read.records), default=FileId(-1))
        listed = {file.file_id: file for file in listing.files if not file.header_damaged}
        for file_id, read in known.items():
            if read.file.header_damaged:
                continue
            file = listed.get(file_id)
            if file is not None and file.stamp.inode == read.file.stamp.inode:
                if not self._still_holds(read, file, grows=file_id >= last_id):
                    self.overwritten = True
                    return None
                read.file = file
            elif read.records and (file is not None or self._holds_live(read)):
                return None
            else:
                self._gaps.pop(read.slot, None)
                self.files.forget(read.slot)
                self.state.forget_file(read.slot)
        for file in listing.files:
            if file.file_id in known or file.header_damaged:
                continue
            if file.file_id < last_id:
                return None
            self._open(file)
        return [read for read in self.files.read_files() if read.file.file_id >= last_id]

    def _still_holds(self, read: ReadFile, file: JournalFile, *, grows: bool) -> bool:
        """Return True if the file still holds what was read. A file that is not appended to is compared by a
        checksum if its time changed. Of a growing file the last bytes are compared: an older copy of it is
        shorter. Files that this process owns are not compared.
        """
        if read.position == JOURNAL_HEADER_BYTES:
            read.stamp = file.stamp
        if file.stamp.size_bytes < read.position:
            return False
        if self.limit is not None:
            return True
        if grows:
            return ends_as_read(read, file)
        if file.stamp == read.stamp:
            return True
        if not holds_prefix(file, read.position, read.prefix_crc):
            return False
        read.stamp = file.stamp
        return True

    def _holds_live(self, read: ReadFile) -> bool:
        # Looks at every live message, so it is asked only of files that are gone.
        return read.slot in self.state.used_files(self.files.slot_limit)

    def _open(self, file: JournalFile) -> ReadFile:
        read = ReadFile(self._next_slot, file, JOURNAL_HEADER_BYTES)
        self._next_slot += 1
        self.files.add(read)
        return read

    def _has_news(self, read: ReadFile) -> bool:
        """Whether a record stands behind the position. Looks at the bytes, not at the file's time: a broker
        that writes through a mapping changes the one without the other.
        """
        mapped = self._refreshed(read)
        length = min(NEWS_WINDOW_BYTES, mapped.size_bytes - read.position)
        window = mapped.reading(lambda: mapped.copy(read.position, length))
        self.files.note_unreadable(read.slot, mapped)
        checksum = zlib.crc32(window)
        if checksum == read.window_crc and read.slot not in self._held_since_ns:
            return False
        read.window_crc = checksum
        stop = data_end(read.file.path, read.file.stamp.size_bytes)
        scan = scan_journal(
            mapped, rid=read.file.rid, version=read.file.version, start=read.position, stop=stop
        )
        if not scan.count and self._gaps.get(read.slot):
            # The journal's next writer has overwritten what the last one left without an end.
            self._gaps[read.slot] = self._earlier_gaps(read) + self._damage_of(read, scan)
        return scan.count > 0

    def _refreshed(self, read: ReadFile) -> MappedFile:
        mapped = self.files[read.slot]
        before = mapped.unreadable
        if mapped.size_bytes != read.file.stamp.size_bytes or self.files.may_have_healed(read.slot):
            mapped = self.files.remap(read.slot)
            self.files.note_unreadable(read.slot, mapped)
            # Lines of messages were measured with zeros where now are bytes, or the other way round.
            self._void |= mapped.unreadable != before
        elif mapped.is_copy:
            mapped.reread(read.position)
        self._refused.pop(read.slot, None)
        return mapped

    def _earlier_gaps(self, read: ReadFile) -> tuple[Damage, ...]:
        """Return the gaps behind the position that only the last look saw, such as a torn end."""
        gaps = self._gaps.get(read.slot, ())
        return tuple(gap for gap in gaps if gap.offset < read.position or gap.kind == MISSING_RECORDS)

    def _read(self, read: ReadFile, *, hold_back: bool, check: bool = True) -> bool:
        """Scan a file from where it was left and apply what is new. Returns whether anything was. `check`:
        also what checksums say of it.
        """
        mapped = self._refreshed(read)
        stop = self._stop(read)
        if stop is None:
            stop = data_end(read.file.path, read.file.stamp.size_bytes)
        scan = scan_journal(
            mapped, rid=read.file.rid, version=read.file.version, start=read.position, stop=stop
        )
        self.files.note_unreadable(read.slot, mapped)
        self.bytes_scanned += (mapped.size_bytes if stop is None else stop) - read.position
        if hold_back:
            scan = self._settled(read, mapped, scan)
        self._gaps[read.slot] = self._earlier_gaps(read) + self._damage_of(read, scan)
        if scan.count == 0:
            return False
        self._matched = None
        if check:
            found = self._contradictions.of(read, mapped, scan, self.files, self._name(read))
            self._gaps[read.slot] += tuple(found)
        prefix_crc = mapped.reading(
            lambda: crc32c_of_mapped(mapped, read.position, scan.end, read.prefix_crc)
        )
        self.files.note_unreadable(read.slot, mapped)
        read.end_crc = mapped.reading(lambda: crc32c_of_mapped(mapped, end_begins(scan.end), scan.end))
        try:
            self.state.apply(read.slot, mapped, scan)
            read.records += scan.count
            read.position = scan.end
        except BaseException:
            # Some of the records were applied. If they were applied once more, transactions would count their
            # records twice and come to nothing: what they acknowledged would be delivered again.
            self.broken = True
            raise
        read.prefix_crc = prefix_crc
        read.window_crc = None
        return True

    def _settled(self, read: ReadFile, mapped: MappedFile, scan: Scan) -> Scan:
        """Hold back records behind a new hole, since bytes before them may still be on their way. A record
        that a checksum contradicts may be such a hole.
        """
        holes = [gap.offset for gap in scan.gaps() if gap.kind in (GapKind.ZEROED, GapKind.GARBAGE)]
        holes += [one.offset for one in check_mapped(mapped, scan, read.file.file_id).mismatches]
        if not holes:
            self._held_since_ns.pop(read.slot, None)
            return scan
        since = self._held_since_ns.setdefault(read.slot, self.clock.monotonic_ns())
        if self.clock.monotonic_ns() - since >= UNSETTLED_GAP_WAIT_MS * NS_PER_MS:
            del self._held_since_ns[read.slot]
            return scan
        return scan_journal(
            mapped, rid=read.file.rid, version=read.file.version, start=read.position, stop=min(holes)
        )

    def _damage_of(self, read: ReadFile, scan: Scan) -> tuple[Damage, ...]:
        name = self._name(read)
        holes = self.files.unreadable.get(read.slot, ())
        found = [
            Damage(name, gap.offset, gap.length, gap.kind.name.lower(), DAMAGE_REASONS[gap.kind])
            for gap in scan.gaps()
            if gap.kind in DAMAGE_REASONS and not any(_within(gap, hole) for hole in holes)
        ]
        too_long = read.file.stamp.size_bytes - JOURNAL_FILE_BYTES_MAX
        if too_long > 0:
            reason = "further into the file than a broker writes; not looked at"
            found.append(Damage(name, JOURNAL_FILE_BYTES_MAX, too_long, "too-long", reason))
        return tuple(found)

    def _identified(self, files: Sequence[JournalFile]) -> list[JournalFile]:
        """Give files with an unreadable header the id that their first record carries. Files without records
        go last.
        """
        known = {file.file_id for file in files if not file.header_damaged}
        found: list[JournalFile] = []
        for file in files:
            if not file.header_damaged:
                found.append(file)
                continue
            rid = file.file_id or self._written_rid(file)
            if rid is not None and rid not in known:
                found.append(replace(file, file_id=FileId(rid)))
        return sorted(found, key=reading_order)

    def _written_rid(self, file: JournalFile) -> int | None:
        """`None` also for a file that cannot be opened."""
        try:
            with MappedFile(file.path) as mapped:
                return written_rid(mapped)
        except FileNotFoundError:
            raise
        except OSError as error:
            name = name_of(file.path, self.relative_to)
            reason = f"cannot be read: {error.strerror}"
            problem = Damage(name, 0, file.stamp.size_bytes, "unreadable", reason)
            self._problems = (*self._problems, problem)
            return None


def _within(gap: Gap, hole: Unreadable) -> bool:
    return hole.offset <= gap.offset and gap.offset + gap.length <= hole.end
