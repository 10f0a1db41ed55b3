"""Which files of a journal directory count, and in which order they are read: docs/format/journal-file.md.

A half-done compaction is seen as the broker's own recovery would leave it, but nothing is renamed or deleted.
Two things are done more carefully than the broker does them: an old file that was already used again when the
process died in the last step of a compaction is kept, and of two files with one id the compacted one is read
first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from journalfs.damage import Damage, FileStamp
from journalfs.errors import DecodeError, UnknownVersion
from journalfs.format.journal_file import (
    CONTROL_FILE_NAME,
    ControlFile,
    JournalHeader,
    decode_control_file,
    read_header,
)
from journalfs.ids import FileId
from journalfs.limits import CONTROL_FILE_BYTES_MAX, JOURNAL_HEADER_BYTES

FIRST_RECORD_HEAD_BYTES = 6
"""Type, file id and compact count of a record: enough to tell compaction output from appended records."""

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
    """Its first record was written by compaction."""
    header_damaged: bool = False

    @property
    def rid(self) -> int:
        """What every record of the file repeats of the file's id."""
        return self.file_id & 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class JournalDirectory:
    """The files of one journal in reading order, and what is wrong with others."""

    files: tuple[JournalFile, ...]
    problems: tuple[Damage, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: Path
    name: str
    stamp: FileStamp
    head: bytes


def read_directory(directory: Path, *, extension: str, relative_to: Path) -> JournalDirectory:
    """List the journal in `directory` whose files end in `.extension`.

    A missing directory is an empty journal. Raises `UnknownVersion` when every file there has a version that
    is not known: then it is another product's or a later format's journal, not damage.
    """
    names = _names(directory)
    control, problems = _control(directory, names, relative_to)
    candidates: list[_Candidate] = []
    for name, final in _effective_names(directory, names, extension, control):
        path = directory / name
        if not _is_regular(path):
            reason = "not a regular file, so it is not opened"
            problems.append(_damage(path, relative_to, length=0, kind="not-a-file", reason=reason))
            continue
        candidate = _candidate(path, final)
        if candidate is None:
            continue
        if candidate.stamp.size_bytes < JOURNAL_HEADER_BYTES:
            problems.append(
                _damage(
                    path,
                    relative_to,
                    length=candidate.stamp.size_bytes,
                    kind="short-file",
                    reason="shorter than a header",
                )
            )
            continue
        candidates.append(candidate)
    files, header_problems = _order(candidates, directory, relative_to)
    return JournalDirectory(tuple(files), tuple(problems + header_problems))


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _damage(path: Path, relative_to: Path, *, length: int, kind: str, reason: str, offset: int = 0) -> Damage:
    return Damage(os.path.relpath(path, relative_to), offset, length, kind, reason)


def _control(
    directory: Path, names: Sequence[str], relative_to: Path
) -> tuple[ControlFile | None, list[Damage]]:
    """The compactor's control file, if it is there and whole. A damaged one means the old files count."""
    if CONTROL_FILE_NAME not in names:
        return None, []
    path = directory / CONTROL_FILE_NAME
    if not _is_regular(path):
        reason = "compaction control file: not a regular file; the files it would replace are read"
        return None, [_damage(path, relative_to, length=0, kind="control-file", reason=reason)]
    try:
        with path.open("rb") as file:
            content = file.read(CONTROL_FILE_BYTES_MAX)
        return decode_control_file(content), []
    except FileNotFoundError:
        return None, []
    except DecodeError as error:
        reason = f"compaction control file: {error.reason}; the files it replaces are read instead"
        return None, [
            _damage(path, relative_to, length=0, kind="control-file", reason=reason, offset=error.offset)
        ]


def _effective_names(
    directory: Path, names: Sequence[str], extension: str, control: ControlFile | None
) -> list[tuple[str, str]]:
    """Pairs (name on disk, name after recovery) of the files that count."""
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
    kept |= {name: name for name in _reused(directory, old, kept.keys() - done)}
    return sorted((kept | copies | outputs).items())


def _reused(directory: Path, old: set[str], others: set[str]) -> set[str]:
    """Old files that the journal already used again, so that deleting them would lose what was appended
    since.

    Their id was drawn after the compaction began, so it is above that of the file then current, which is the
    smallest id among the files that the control file does not name.
    """
    ids = {name: _header_id(directory / name) for name in old | others}
    current = min((ids[name] for name in others if ids[name] is not None), default=None)  # type: ignore[type-var]
    if current is None:
        return set()
    return {name for name in old if (file_id := ids[name]) is not None and file_id > current}


def _header_id(path: Path) -> int | None:
    if not _is_regular(path):
        return None
    try:
        with path.open("rb") as file:
            return read_header(file.read(JOURNAL_HEADER_BYTES)).file_id
    except (OSError, DecodeError):
        return None


def _is_regular(path: Path) -> bool:
    """False for directories, pipes and devices: opening some of them would wait for ever. A file that is gone
    counts as one; opening it finds that out.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


def _candidate(path: Path, final: str) -> _Candidate | None:
    """Read the first bytes of a file; `None` when it went away meanwhile (a live broker renames and
    deletes).
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            head = file.read(JOURNAL_HEADER_BYTES + FIRST_RECORD_HEAD_BYTES)
    except FileNotFoundError:
        return None
    return _Candidate(path, final, FileStamp(status.st_size, status.st_mtime_ns, status.st_ino), head)


def _order(
    candidates: Sequence[_Candidate], directory: Path, relative_to: Path
) -> tuple[list[JournalFile], list[Damage]]:
    files: list[JournalFile] = []
    problems: list[Damage] = []
    unknown: list[tuple[Path, JournalHeader]] = []
    for candidate in candidates:
        header = read_header(candidate.head)
        if header.readable:
            files.append(_file(candidate, header))
            continue
        unknown.append((candidate.path, header))
        problems.append(
            _damage(
                candidate.path,
                relative_to,
                length=JOURNAL_HEADER_BYTES,
                kind="bad-header",
                reason=_header_problem(header),
            )
        )
        files.append(_file(candidate, JournalHeader(2, 0, FileId(0)), header_damaged=True))
    if unknown and len(unknown) == len(candidates):
        advice = "this journalfs reads versions 1 and 2 with user version 0"
        raise UnknownVersion(directory, _header_problem(unknown[0][1]), advice=advice)
    files.sort(key=lambda file: (file.file_id, not file.compacted, file.name))
    return files, problems


def _header_problem(header: JournalHeader) -> str:
    if header.blank:
        return "the journal file's header is all zeros"
    return f"journal format version {header.version}, user version {header.user_version}"


def _file(candidate: _Candidate, header: JournalHeader, *, header_damaged: bool = False) -> JournalFile:
    head = candidate.head[JOURNAL_HEADER_BYTES:]
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
        candidate.stamp,
        compacted,
        header_damaged,
    )
