"""Reading a journal in order to go on writing it: which records live, where the next one goes, what has to be
mended.

docs/format/records.md says what a load does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from journalfs.engine.backend import Backend, scan_view
from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import Gap, GapKind, Scan
from journalfs.engine.status import CoreRefused
from journalfs.errors import Damaged, DecodeError, UnknownVersion
from journalfs.format.journal_file import (
    CONTROL_FILE_NAME,
    ControlFile,
    JournalFileState,
    JournalHeader,
    decode_control_file,
    number_of,
    parse_file_name,
    read_header,
)
from journalfs.ids import FileId
from journalfs.limits import CONTROL_FILE_BYTES_MAX, COPY_CHUNK_BYTES, JOURNAL_HEADER_BYTES
from journalfs.records.files.directory import contradiction, missing_bytes
from journalfs.records.files.doubtful_headers import doubtful_files
from journalfs.records.files.heads import FIRST_RECORD_REACH_BYTES, first_rid
from journalfs.records.files.kept_damage import KeptDamage
from journalfs.records.files.pool import FilePool, WriteFile
from journalfs.records.files.write_settings import WriteSettings, round_up

# What a journal's writer knew when it let go of it, so that the next one reads only what came after.


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


# What has to be done to a journal directory before it is written again: docs/format/journal-file.md.
#
# Ends a compaction that was cut off, as its control file says, and removes what a cut-off creation left.
# Safer than a broker in two ways: an old file that was in use again when the process died is kept, and each
# step is made durable before the next can destroy what it stands for.


def recover(backend: Backend, *, extension: str) -> list[str]:
    """Settle the directory. Returns what was done, a line each, for the log. Raises OSError."""
    done: list[str] = []
    names = set(backend.names())
    if CONTROL_FILE_NAME in names:
        done += _end_compaction(backend, names, extension)
    done += _remove_leftovers(backend, extension)
    return done


def _end_compaction(backend: Backend, names: set[str], extension: str) -> list[str]:
    done: list[str] = []
    try:
        control = decode_control_file(backend.read(CONTROL_FILE_NAME, 0, CONTROL_FILE_BYTES_MAX))
    except DecodeError as error:
        done.append(f"a compaction had not begun to replace files ({error.reason})")
    else:
        for name in sorted(_replaced(backend, names, control, extension)):
            backend.remove(name)
            done.append(f"removed {name}, which was compacted")
        for name in control.settle:
            if name in names:
                final = name.removesuffix(JournalFileState.COMPACTED.value)
                backend.rename(name, final)
                done.append(f"{final} takes the place of compacted files")
        for old, new in control.rename:
            if old in names:
                backend.rename(old, new)
        backend.sync_directory()
    backend.remove(CONTROL_FILE_NAME)
    backend.sync_directory()
    return done


def _replaced(backend: Backend, names: set[str], control: ControlFile, extension: str) -> set[str]:
    """Return the old files of a compaction that must be deleted, without those that were used again and may
    hold new records.

    The id of a reused file was drawn after the compaction began, so it is above the id of the file then
    current: the smallest id among files that the control file does not name.
    """
    ending = JournalFileState.COMPACTED.value
    outputs = {name.removesuffix(ending) for name in control.settle}
    # An output that has its name already is no old file, even if one had that name before.
    renamed = {name for name in outputs if name + ending not in names}
    old = (set(control.delete) & names) - renamed
    others = {name for name in names if name.endswith(f".{extension}")} - old - outputs
    ids = {name: _file_id(backend, name) for name in old | others}
    current = min((ids[name] for name in others if ids[name] >= 0), default=None)
    return {name for name in old if current is None or ids[name] < current}


def _file_id(backend: Backend, name: str) -> int:
    try:
        return read_header(backend.read(name, 0, JOURNAL_HEADER_BYTES)).file_id
    except DecodeError:
        return -1


def _remove_leftovers(backend: Backend, extension: str) -> list[str]:
    done: list[str] = []
    found = {name: parse_file_name(name, extension=extension) for name in backend.names()}
    last = max((parsed.number for parsed in found.values() if parsed is not None), default=0)
    for name, parsed in found.items():
        if parsed is None:
            continue
        if parsed.state is JournalFileState.TO_RETAIN:
            backend.rename(name, name.removesuffix(JournalFileState.TO_RETAIN.value))
            done.append(f"{name} counts again: it was waiting to be copied")
        elif parsed.state is not JournalFileState.NORMAL:
            backend.remove(name)
            done.append(f"removed {name}, which was never finished")
        elif backend.size_bytes(name) < JOURNAL_HEADER_BYTES and parsed.number == last:
            # One that is not the last was whole once: it stays damage, until somebody sees to it.
            backend.remove(name)
            done.append(f"removed {name}, which is shorter than a header")
    if done:
        backend.sync_directory()
    return done


def in_reading_order(heads: Iterable[tuple[str, bytes]]) -> list[str]:
    """Names by file id; of two with one id the one that compaction wrote first. Given with their heads."""

    def key(item: tuple[str, bytes]) -> tuple[int, bool, str]:
        name, head = item
        header = read_header(head)
        record = head[JOURNAL_HEADER_BYTES:]
        compacted = len(record) == 6 and int.from_bytes(record[1:5]) == header.rid and record[5] > 0
        return header.file_id, not compacted, name

    return [name for name, _ in sorted(heads, key=key)]


_UNREADABLE = (GapKind.ZEROED, GapKind.GARBAGE, GapKind.TORN)
HEAD_BYTES = JOURNAL_HEADER_BYTES + 6
"""A header and as much of the first record as tells whether compaction wrote it."""


@dataclass(slots=True)
class Opened:
    """A journal as it was found. `data` is in reading order; the last one may be written on."""

    ledger: Ledger
    pool: FilePool
    data: list[WriteFile]
    recovered: list[str]
    """Texts for events: transactions of the last writer that were completed or rolled back."""
    cut_off: list[str]
    """Likewise, the ends of records that are overwritten."""
    bytes_read: int
    """Of records, and of where they may be."""


def open_files(
    backend: Backend,
    settings: WriteSettings,
    *,
    some_lost: bool = False,
    kept: KeptDamage | None = None,
    left_off: LeftOff | None = None,
) -> Opened:
    """Recover the journal's files, read those that are not known, and free those without live records.
    `some_lost`: a file is known to be missing. `kept` preserves unreadable bytes of freed files. `left_off`
    is ignored if anything of the journal is missing.

    Raises OSError, and UnknownVersion for files whose version or user version cannot be written beside.
    """
    recovered = recover(backend, extension=settings.extension)
    every = [name for name in backend.names() if name.endswith(f".{settings.extension}")]
    names = [name for name in every if backend.size_bytes(name) >= JOURNAL_HEADER_BYTES]
    blank = [name for name in names if _is_blank(backend, name)]
    headers = _headers(backend, [name for name in names if name not in blank])
    numbers = {name: number_of(name, extension=settings.extension) for name in every}
    last_id = max([0, *numbers.values(), *(header.file_id for header in headers.values())])
    heads = _heads(backend, headers)
    # P-1: a header may name a believable id that its records contradict. Without this refusal the file counts
    # as used again: its messages are hidden, and the writer overwrites them or gives the id a second time.
    _refuse_untrue_ids(backend, heads)
    pool = FilePool(
        backend,
        settings,
        last_id=last_id,
        keep=None if kept is None else kept.keep,
        note_deleted=None if kept is None else kept.note_deleted,
    )
    sizes_bytes = {name: backend.size_bytes(name) for name in names}
    # Not even the header is left of them, though others were made later, or something was in them: they stay
    # damage.
    # P-3: a journal file of zeros below a later one had records. Set free, it would be written over.
    lost = [name for name in blank if some_lost or numbers[name] < max(numbers.values())]
    damage_is_kept = kept is not None and next(kept.there(), None) is not None
    doubted = some_lost or damage_is_kept or lost or len(names) < len(every) or missing_bytes(sizes_bytes)
    known: dict[str, tuple[int, LeftFile]] = {}
    ledger = None
    # P-3: the ledger of the index is believed only where nothing of the journal is gone or doubted.
    if left_off is not None and not doubted and not recovered:
        ledger = left_off.resumed((name, header.file_id) for name, header in headers.items())
        if ledger is not None:
            known = {file.name: (slot, file) for slot, file in enumerate(left_off.files)}
    opened = Opened(ledger or Ledger(), pool, [], recovered, [], 0)
    # P-3: a transaction without an end may have ended in what is gone: the ledger keeps its files.
    if doubted:
        opened.ledger.doubt()
    empty = _read_files(backend, opened, headers, known)
    _mend_end(backend, opened, empty)
    if any(file.unreadable for file in opened.data):
        opened.ledger.doubt()
    # P-1: the same for an id that nothing contradicts, where no later file says that the messages are gone.
    _refuse_hidden(backend, heads, headers, opened.ledger)
    if opened.data:
        # Its writer may have died between a write and its sync; nothing that was seen may vanish any more.
        backend.sync(opened.data[-1].name)
    for file in empty:
        _set_free(opened, file)
    for name in sorted(set(blank) - set(lost)):
        # A broker does not even start beside it; with a header it is a file like any other.
        recovered.append(f"{name} was never given a header: it is a free file now")
        _set_free(opened, opened.pool.found(name, FileId(0), version=0))
    return opened


def _read_files(
    backend: Backend,
    opened: Opened,
    headers: dict[str, JournalHeader],
    known: dict[str, tuple[int, LeftFile]],
) -> list[WriteFile]:
    """Read each file into `opened`, from where the index left off for those that are `known`, which are taken
    out of it. Return the files without a record.
    """
    empty: list[WriteFile] = []
    for name, header in headers.items():
        file = opened.pool.found(name, header.file_id, version=header.version)
        if name in known:
            file.slot, left = known.pop(name)
            opened.bytes_read += _resume(backend, opened.ledger, file, left, is_last=not known)
            opened.data.append(file)
            continue
        scan = read_file(backend, opened.ledger, file)
        opened.bytes_read += file.size_bytes
        (opened.data if scan.count or scan.marked else empty).append(file)
    return empty


def _is_blank(backend: Backend, name: str) -> bool:
    """Return True for a file without even a header: its creation was cut off."""
    if not read_header(backend.read(name, 0, JOURNAL_HEADER_BYTES)).blank:
        return False
    return not any(
        any(backend.read(name, offset, COPY_CHUNK_BYTES))
        for offset in range(0, backend.size_bytes(name), COPY_CHUNK_BYTES)
    )


def _headers(backend: Backend, names: list[str]) -> dict[str, JournalHeader]:
    """Headers of the journal's files in reading order."""
    heads = [(name, backend.read(name, 0, HEAD_BYTES)) for name in names]
    headers = {name: read_header(head) for name, head in heads}
    for name, header in headers.items():
        if not header.readable:
            raise UnknownVersion(
                name,
                f"journal format version {header.version}, user version {header.user_version}",
                advice="a broker refuses to start beside this file; move it away to write this journal",
            )
    return {name: headers[name] for name in in_reading_order(heads)}


@dataclass(frozen=True, slots=True)
class _Headed:
    name: str
    file_id: int
    rid: int
    compacted: bool
    first_rid: int | None


def _heads(backend: Backend, headers: dict[str, JournalHeader]) -> dict[str, _Headed]:
    found: dict[str, _Headed] = {}
    for name, header in headers.items():
        behind = backend.read(name, JOURNAL_HEADER_BYTES, FIRST_RECORD_REACH_BYTES)
        first = first_rid(bytes(behind))
        compacted = first == header.rid and behind[5] > 0
        found[name] = _Headed(name, header.file_id, header.rid, compacted, first)
    return found


def _refuse_hidden(
    backend: Backend, heads: dict[str, _Headed], headers: dict[str, JournalHeader], ledger: Ledger
) -> None:
    """A file would be set free although nothing says that what lies in it is gone."""
    doubtful = doubtful_files(list(heads.values()))
    if not doubtful:
        return
    names = [name for name, head in heads.items() if head in doubtful]
    # A write that was cut off may have left records behind what an older life left: they count as they did.
    lives = [(head.rid, name) for name, head in heads.items()]
    lives += [(heads[name].first_rid or 0, name) for name in names]
    with_it = Ledger()
    for rid, name in sorted(lives):
        file = WriteFile(name, FileId(rid), backend.size_bytes(name), version=headers[name].version)
        read_file(backend, with_it, file)
    hidden = set(with_it.live_ids()).difference(ledger.live_ids())
    if hidden:
        reason = f"of the records of {', '.join(names)} {len(hidden)} would be lost: its file id was changed"
        raise Damaged(names[0], JOURNAL_HEADER_BYTES, reason)


def _refuse_untrue_ids(backend: Backend, found: dict[str, _Headed]) -> None:
    """A file whose header names another id than its records, which cannot be, would be set free."""
    for name, file in found.items():
        others = [other for other in found.values() if other is not file]
        if file.first_rid in {None, file.file_id} or not contradiction(file, others, file.first_rid or 0):
            continue
        view = backend.view(name)
        scan = scan_view(view, rid=0, version=2, any_rid=True, doing=f"scanning {name}")
        if not scan.count:
            continue
        own = int.from_bytes(backend.read(name, scan.record(0).offset + 1, 4))
        why = contradiction(file, others, own) if own != file.file_id else None
        if why is not None:
            reason = f"the file's records carry file id {own}, and the header's, {file.file_id}, {why}"
            raise Damaged(name, 0, reason)


def read_file(backend: Backend, ledger: Ledger, file: WriteFile) -> Scan:
    """Take a file's records into the ledger; sets its slot and its end."""
    file.slot = ledger.add_file()
    scan = _read_on(backend, ledger, file, JOURNAL_HEADER_BYTES)
    file.begins = scan.record(0).offset if scan.count else scan.end
    return scan


def _resume(backend: Backend, ledger: Ledger, file: WriteFile, left: LeftFile, *, is_last: bool) -> int:
    """Go on from where a file is known; how many bytes were read. Only the last may have been written on."""
    file.begins, file.end, file.records_end, file.unreadable = (
        left.begins,
        left.end,
        left.end,
        left.unreadable,
    )
    if not is_last:
        return 0
    _read_on(backend, ledger, file, left.end)
    before = (gap for gap in left.unreadable if gap.offset < left.end)
    file.unreadable = (*before, *file.unreadable)
    return file.size_bytes - left.end


def _read_on(backend: Backend, ledger: Ledger, file: WriteFile, start: int) -> Scan:
    """Take the records from there on into the ledger; sets the file's end, and what is unreadable."""
    view, doing = backend.view(file.name), f"scanning {file.name}"
    scan = scan_view(view, rid=file.rid, version=file.version, start=start, doing=doing)
    if any(gap.kind in (GapKind.ZEROED, GapKind.GARBAGE) for gap in scan.gaps()):
        ledger.doubt()
    ledger.apply(file.slot, scan.pointer.records, scan.count)
    file.unreadable = tuple(gap for gap in scan.gaps() if gap.kind in _UNREADABLE)
    file.end = file.records_end = scan.end
    return scan


def _mend_end(backend: Backend, opened: Opened, empty: list[WriteFile]) -> None:
    """Overwrite a record that was not written to its end: new records go there, and what is left of it behind
    them must not be read as one. That is how a writer ends, where it wrote last: in the last file in which
    there is anything. In any other it is damage, and stays.
    """
    written = [*opened.data, *(file for file in empty if file.unreadable)]
    if not written:
        return
    last = max(written, key=lambda file: file.file_id)
    cut = [gap for gap in last.unreadable if gap.kind is GapKind.TORN and gap.offset >= last.records_end]
    for gap in cut:
        backend.write_at(last.name, gap.offset, bytes(gap.length))
        backend.sync(last.name)
        told = f"{last.name}, byte {gap.offset}: {gap.length} bytes of a record without an end"
        opened.cut_off.append(told)
    last.unreadable = tuple(gap for gap in last.unreadable if gap not in cut)


def _set_free(opened: Opened, file: WriteFile) -> None:
    """Files are used in the order of their ids, so a free one must have one above all files with records."""
    data_max = max((other.file_id for other in opened.data), default=0)
    pool_max = max((other.file_id for other in opened.pool.free), default=0)
    may_stay = not file.unreadable and opened.pool.usable(file) and file.version == 2
    if may_stay and file.file_id > max(data_max, pool_max):
        file.end = opened.pool.first_record
        opened.pool.free.append(file)
        return
    ready = opened.pool.retire(file, files_in_use=len(opened.data))
    if ready is not None:
        opened.pool.free.append(ready)


def append_position(file: WriteFile, alignment_bytes: int) -> int:
    """Where the next flush may begin."""
    return round_up(file.end, alignment_bytes)
