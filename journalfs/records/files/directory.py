"""Which files of a journal directory count, and in which order they are read: docs/format/journal-file.md.

A half-done compaction is seen as the broker's own recovery would leave it, but nothing is renamed or deleted.
Two things are done more carefully than the broker does them: an old file that was already used again when the
process died in the last step of a compaction is kept, and of two files with one id the compacted one is read
first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from pathlib import Path
from typing import Protocol

from journalfs import door
from journalfs.damage import Damage, FileStamp, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.errors import DecodeError, UnknownVersion, refuse_shortage
from journalfs.format.journal_file import (
    CONTROL_FILE_NAME,
    ControlFile,
    JournalHeader,
    decode_control_file,
    number_of,
    read_header,
)
from journalfs.ids import RID_MAX, FileId, rid_of
from journalfs.limits import CONTROL_FILE_BYTES_MAX, JOURNAL_HEADER_BYTES, LENGTHENED_BYTES, LISTINGS_MAX
from journalfs.records.files.heads import (
    FIRST_RECORD_HEAD_BYTES,
    Head,
    Heads,
    read_regular_file,
)

# Which journal files are shorter than they were made: files are allocated whole, in one size, and stay so.
#
# The size may have been changed by whoever owns the journal, so several sizes alone prove nothing: one that
# no other file has and that nobody sets does.

SIZE_BYTES_MIN = 1024
"""A broker makes no smaller files."""

STEPS_BYTES = (64 * 1024, 100 * 1024, 100_000)
"""Sizes that people set are multiples of one of these."""

SHORT_STEP_BYTES = 2 * LENGTHENED_BYTES
"""Sizes of the outputs of compaction on a full disk are multiples of this, so that none looks like a file
that was cut, or is longer than another by what `lengthen` adds.
"""


def missing_bytes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return how many bytes are missing at the end of each file that was cut off, by name; 0 where that is
    unknown.
    """
    made = dict(zip(sizes, as_made(list(sizes.values())), strict=True))
    counts = Counter(made.values())
    return {
        name: _usual_above(size, counts) - size
        for name, size in made.items()
        if size < SIZE_BYTES_MIN or _is_odd(size, counts)
    }


def as_made(sizes: Sequence[int]) -> list[int]:
    """The sizes that files were made in: one may have been lengthened since (`journalfs.engine.links`)."""
    known = set(sizes)
    return [size - LENGTHENED_BYTES if size - LENGTHENED_BYTES in known else size for size in sizes]


def _is_odd(size: int, counts: Counter[int]) -> bool:
    if len(counts) == 1:
        return counts[size] == 1 and size % SIZE_BYTES_MIN != 0
    return counts[size] == 1 and size < max(counts) and all(size % step for step in STEPS_BYTES)


def _usual_above(size: int, counts: Counter[int]) -> int:
    """The size that most of the longer files have; `size` itself if there is none."""
    return max((other for other in counts if other > size), key=lambda other: counts[other], default=size)


# Which file ids in headers cannot be true, and what the file's records say instead.
#
# A file that is used again gets a higher id than any before, and its first record then carries that one. So a
# header with another id than the first record's is a file used again that holds nothing yet, unless the id is
# one that such a file never has.

ID_STEP_MAX = 2**30
"""Ids are drawn one after the other: none is this far above all others."""


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
    """Return the file id that the first well-formed record carries, whatever the header says. Records of an
    earlier life lie only behind it.
    """
    scan = scan_journal(mapped, rid=0, version=2, start=JOURNAL_HEADER_BYTES, any_rid=True)
    return int.from_bytes(mapped.copy(scan.record(0).offset + 1, 4)) if scan.count else None


COPY_SUFFIX = ".bkp"
COMPACTED_SUFFIX = ".cmp"


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One file that a load reads."""

    path: Path
    name: str
    """The name it has once recovery is done; `path` may still end in `.cmp` or `.bkp`."""
    file_id: FileId
    version: int
    stamp: FileStamp
    compacted: bool
    """True if compaction wrote the first record."""
    header_damaged: bool = False
    """`file_id` is what the file's records carry instead, or 0 where that is not known yet."""
    first_rid: int | None = None
    """The file id that the first record carries; None if the file has no record."""

    @property
    def rid(self) -> int:
        return rid_of(self.file_id)


def reading_order(file: JournalFile) -> tuple[FileId, bool, str]:
    """Return the sort key of a file in reading order."""
    return file.file_id, not file.compacted, file.name


@dataclass(frozen=True, slots=True)
class JournalDirectory:
    """The files of one journal in reading order, and what is wrong with others."""

    files: tuple[JournalFile, ...]
    problems: tuple[Damage, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: Path
    name: str
    head: Head


@dataclass(frozen=True, slots=True)
class _Look:
    """The files that the last look saw, and its result."""

    names: list[str]
    finals: Mapping[str, str]
    heads: list[Head | OSError]
    listing: JournalDirectory


def _headers(heads: Sequence[Head | OSError]) -> list[bytes | None]:
    return [head.content[:JOURNAL_HEADER_BYTES] if isinstance(head, Head) else None for head in heads]


class DirectoryReader:
    """The journal in `directory` whose files end in `.extension`, looked at again and again."""

    def __init__(self, directory: Path, *, extension: str, relative_to: Path) -> None:
        self._directory = directory
        self._extension = extension
        self._root = relative_to
        self._heads = Heads(directory)
        self._files: dict[str, tuple[_Candidate, JournalFile]] = {}
        self._written: dict[str, tuple[FileStamp, int | None]] = {}
        """By name, what the records of a file carry whose header says something else."""
        self._last: _Look | None = None

    def read(self) -> JournalDirectory:
        """List the journal's files. Returns the same object as the last call if nothing changed.

        A missing directory is an empty journal, and unreadable files are among the problems. Raises
        `UnknownVersion` if no file has a known version and one has another: then the journal belongs to
        another product or a later format, and is not damaged.
        """
        last = self._last
        seen = None if last is None else last.heads
        for _ in range(LISTINGS_MAX):
            problems: list[Damage] = []
            names = self._names(problems)
            control = None if CONTROL_FILE_NAME not in names else self._control(problems)
            if last is not None and not problems and control is None and names == last.names:
                heads = self._heads.looks(last.finals)
                if all(map(is_, heads, last.heads)):
                    return self._doubting(last.listing)
                finals = last.finals
            else:
                finals = dict(effective_names(names, self._extension, control, self._header_id))
                heads = self._heads.looks(finals)
            candidates, missing = self._candidates(finals, heads, problems)
            # A live broker renames and deletes; what stays listed and missing is a link to nothing. It gives
            # files other ids, too, one after the other, and so they are looked at: what is seen twice is so.
            before, seen = seen, heads
            if not missing and (before is None or _headers(before) == _headers(heads)):
                break
        problems += [
            self._damage(self._directory / name, 0, "unreadable", "it is listed, but there is no such file")
            for name in missing
        ]
        files = self._ordered(candidates, problems)
        listing = JournalDirectory(tuple(files), tuple(problems))
        # With a control file the names say too little: other files are read for what counts.
        self._last = _Look(names, finals, heads, listing) if CONTROL_FILE_NAME not in names else None
        return self._doubting(listing)

    def _doubting(self, listing: JournalDirectory) -> JournalDirectory:
        if listing.files:
            # It is being written, so its time may lag behind its content.
            self._heads.doubt(listing.files[-1].path.name)
        return listing

    def _header_id(self, name: str) -> int | None:
        return _header_id(self._directory / name)

    def _candidates(
        self, finals: Mapping[str, str], heads: Sequence[Head | OSError], problems: list[Damage]
    ) -> tuple[list[_Candidate], list[str]]:
        """The files that could be looked at, and those that were gone."""
        candidates: list[_Candidate] = []
        missing: list[str] = []
        for name, found in zip(finals, heads, strict=True):
            if isinstance(found, Head):
                candidates.append(_Candidate(self._directory / name, finals[name], found))
            elif isinstance(found, FileNotFoundError):
                missing.append(name)
            else:
                problems.append(self._refusal(self._directory / name, found))
        return candidates, missing

    def _names(self, problems: list[Damage]) -> list[str]:
        try:
            return sorted(door.names(self._directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            refuse_shortage(error, self._directory)
            problems.append(self._refusal(self._directory, error))
            return []

    def _refusal(self, path: Path, error: OSError) -> Damage:
        return self._damage(path, 0, *door.kind_and_reason(error))

    def _damage(self, path: Path, length: int, kind: str, reason: str, *, offset: int = 0) -> Damage:
        return Damage(name_of(path, self._root), offset, length, kind, reason)

    def _control(self, problems: list[Damage]) -> ControlFile | None:
        """The compactor's control file, if it is there and whole. A damaged one means the old files count."""
        path = self._directory / CONTROL_FILE_NAME
        offset = 0
        try:
            return decode_control_file(read_regular_file(path, CONTROL_FILE_BYTES_MAX))
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror or str(error)
        except DecodeError as error:
            offset, reason = error.offset, error.reason
        reason = f"compaction control file: {reason}; the files it replaces are read instead"
        problems.append(self._damage(path, 0, "control-file", reason, offset=offset))
        return None

    def _ordered(self, candidates: Sequence[_Candidate], problems: list[Damage]) -> list[JournalFile]:
        files: list[JournalFile] = []
        foreign: JournalHeader | None = None
        kept: dict[str, tuple[_Candidate, JournalFile]] = {}
        # One that was being made has the highest number, and has no header yet.
        numbers = [number_of(candidate.name, extension=self._extension) for candidate in candidates]
        last = max(numbers, default=0)
        for number, candidate in zip(numbers, candidates, strict=True):
            head = candidate.head
            if head.unreadable is None and len(head.content) < JOURNAL_HEADER_BYTES:
                size = head.stamp.size_bytes
                problems.append(self._damage(candidate.path, size, "short-file", "shorter than a header"))
                continue
            if head.empty:
                if number < last:
                    reason = "all zeros, its header too, and later files are there"
                    problems.append(self._damage(candidate.path, head.stamp.size_bytes, "zeroed", reason))
                continue
            known = self._files.get(candidate.path.name)
            if known is not None and known[0].head is head and known[0].name == candidate.name:
                kept[candidate.path.name] = known
                files.append(known[1])
                continue
            header = read_header(head.content) if head.unreadable is None else None
            if header is not None and header.readable:
                file = _file(candidate, header)
                kept[candidate.path.name] = candidate, file
            else:
                problems.append(self._bad_header(candidate, header))
                foreign = header if header is not None and header.plausible else foreign
                file = _file(candidate, JournalHeader(2, 0, FileId(0)), header_damaged=True)
            files.append(file)
        self._files = kept
        if foreign is not None and all(file.header_damaged for file in files):
            advice = "this journalfs reads versions 1 and 2 with user version 0"
            raise UnknownVersion(self._directory, _header_problem(foreign), advice=advice)
        files = self._with_own_ids(files, problems)
        problems += [*self._cut_off(candidates), *self._of_one_id(files)]
        files.sort(key=reading_order)
        return files

    def _with_own_ids(self, files: Sequence[JournalFile], problems: list[Damage]) -> list[JournalFile]:
        """The files, those whose header's id cannot be true with the one that their records carry."""
        sound = [file for file in files if not file.header_damaged]
        written: dict[str, tuple[FileStamp, int | None]] = {}
        found: list[JournalFile] = []
        for file in files:
            own = why = None
            if not file.header_damaged and file.first_rid not in {None, file.file_id}:
                others = [other for other in sound if other is not file]
                if contradiction(file, others, file.first_rid or 0) is not None:
                    own = self._written_rid(file)
                    written[file.path.name] = file.stamp, own
            if own is not None and own != file.file_id:
                why = contradiction(file, others, own)
            if own is None or why is None:
                found.append(file)
                continue
            reason = f"the file's records carry file id {own}, and the header's, {file.file_id}, {why}"
            problems.append(self._damage(file.path, JOURNAL_HEADER_BYTES, "bad-header", reason))
            found.append(replace(file, file_id=FileId(own), header_damaged=True))
        self._written = written
        return found

    def _written_rid(self, file: JournalFile) -> int | None:
        """Return the file id of the first record; `None` also for an unreadable file, which its reader
        reports.
        """
        known = self._written.get(file.path.name)
        if known is not None and known[0] == file.stamp:
            return known[1]
        try:
            with MappedFile(file.path) as mapped:
                return written_rid(mapped)
        except OSError:
            return None

    def _cut_off(self, candidates: Sequence[_Candidate]) -> list[Damage]:
        sizes = {
            candidate.path.name: candidate.head.stamp.size_bytes
            for candidate in candidates
            if candidate.head.stamp.size_bytes >= JOURNAL_HEADER_BYTES
        }
        reason = "cut off: no other file of the journal has this size, and files are made in one"
        return [
            self._damage(self._directory / name, missing, "short-file", reason, offset=sizes[name])
            for name, missing in missing_bytes(sizes).items()
        ]

    def _of_one_id(self, files: Sequence[JournalFile]) -> list[Damage]:
        """Files that were written under the id of another one. Only what compaction writes may have it too,
        so the content of a file that is lost was replaced by that of another, or one was copied.
        """
        names: dict[int, str] = {}
        found: list[Damage] = []
        for file in sorted(files, key=lambda file: file.name):
            if file.first_rid != file.rid or file.compacted or file.header_damaged:
                continue
            other = names.setdefault(file.file_id, file.path.name)
            if other != file.path.name:
                reason = f"file id {file.file_id} is that of {other} too: is it a copy of another file?"
                found.append(self._damage(file.path, JOURNAL_HEADER_BYTES, "same-id", reason))
        return found

    def _bad_header(self, candidate: _Candidate, header: JournalHeader | None) -> Damage:
        if header is not None:
            reason, kind = _header_problem(header), "bad-header"
        else:
            reason, kind = f"the header cannot be read: {candidate.head.unreadable}", "unreadable"
        return self._damage(candidate.path, JOURNAL_HEADER_BYTES, kind, reason)


def read_directory(directory: Path, *, extension: str, relative_to: Path) -> JournalDirectory:
    """List a journal once: see `DirectoryReader.read`."""
    return DirectoryReader(directory, extension=extension, relative_to=relative_to).read()


def effective_names(
    names: Sequence[str],
    extension: str,
    control: ControlFile | None,
    header_id: Callable[[str], int | None],
) -> list[tuple[str, str]]:
    """Pairs (name on disk, name after recovery) of the files that count. `header_id` says which file id the
    header of a file has, if it can be read.
    """
    present = set(names)
    ending = "." + extension
    plain = {name: name for name in names if name.endswith(ending)}
    copies = {name: name.removesuffix(COPY_SUFFIX) for name in names if name.endswith(ending + COPY_SUFFIX)}
    if control is None:
        return sorted((plain | copies).items())
    outputs = {name: name.removesuffix(COMPACTED_SUFFIX) for name in control.settle if name in present}
    replaced = set(outputs.values())
    done = {name.removesuffix(COMPACTED_SUFFIX) for name in control.settle} & plain.keys()
    old = (set(control.delete) & plain.keys()) - done
    kept = {name: final for name, final in plain.items() if name not in old and name not in replaced}
    kept |= {name: name for name in _reused(header_id, old, kept.keys() - done)}
    return sorted((kept | copies | outputs).items())


def _reused(header_id: Callable[[str], int | None], old: set[str], others: set[str]) -> set[str]:
    """Return the old files of a compaction that are in use again: deleting them would lose new records.

    Their id was drawn after the compaction began, so it is above the id of the file then current: the
    smallest id among files that the control file does not name.
    """
    ids = {name: header_id(name) for name in old | others}
    current = min((ids[name] for name in others if ids[name] is not None), default=None)  # type: ignore[type-var]
    if current is None:
        return set()
    return {name for name in old if (file_id := ids[name]) is not None and file_id > current}


def _header_id(path: Path) -> int | None:
    try:
        return read_header(read_regular_file(path, JOURNAL_HEADER_BYTES)).file_id
    except (OSError, DecodeError):
        return None


def _header_problem(header: JournalHeader) -> str:
    if header.blank:
        return "the journal file's header is all zeros"
    return f"journal format version {header.version}, user version {header.user_version}"


def _file(candidate: _Candidate, header: JournalHeader, *, header_damaged: bool = False) -> JournalFile:
    head = candidate.head.content[JOURNAL_HEADER_BYTES:]
    compacted = (
        header.version == 2
        and len(head) == FIRST_RECORD_HEAD_BYTES
        and int.from_bytes(head[1:5]) == header.rid
        and head[5] > 0
    )
    return JournalFile(
        candidate.path,
        candidate.name,
        header.file_id,
        header.version,
        candidate.head.stamp,
        compacted,
        header_damaged,
        candidate.head.first_rid,
    )
