"""What a store must have and has not: journal files and pages that live messages lay in, and whole
directories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from journalfs import door
from journalfs.config.layout import StoreLayout
from journalfs.damage import MISSING_FILE, Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.engine.state import LiveState
from journalfs.engine.state_types import Operation
from journalfs.errors import PartMissing
from journalfs.format.journal_file import CONTROL_FILE_NAME, number_of
from journalfs.format.page_folder import format_page_name
from journalfs.format.record_bodies import PAGE_BEGINNING
from journalfs.format.record_types import MessageType
from journalfs.ids import PageNumber, QueueId, rid_of
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.live.bindings import read_bindings
from journalfs.records.files.anomalies import MISSING_RECORDS
from journalfs.records.files.directory import JournalFile, read_directory
from journalfs.records.files.doubtful_headers import DOUBTFUL_HEADER, POOL_FILES
from journalfs.records.files.file_gaps import DeletedFiles, Range, missing_ids, told
from journalfs.records.files.files import KnownFile
from journalfs.records.files.loader import JournalLoader, holds_prefix
from journalfs.showing import shown

if TYPE_CHECKING:
    from journalfs.live.opened import OpenStore
    from journalfs.pages.address import PageSummary

_ANY_ID: Final = 2**63 - 1
"""Above the id of any file."""

_ABOUT_PAGES: Final[Mapping[MessageType, Callable[[Operation], bool]]] = {
    MessageType.ACKNOWLEDGE_CURSOR: lambda record: record.c != PAGE_BEGINNING,
    MessageType.PAGE_COMPLETE: lambda record: True,
    MessageType.PAGE_COUNTER_VALUE: lambda record: record.b > 0,
    MessageType.PAGE_COUNTER_INCREMENT: lambda record: True,
}
"""Records of a queue, and whether they tell of a page that there is."""


def lost_since(
    loader: JournalLoader, known: Sequence[KnownFile], state: LiveState, *, trusted: bool = False
) -> list[Damage]:
    """What is gone of the files that were `known` and that `state` was made from: files taken away with live
    messages in them, files whose header names another id now, and records at the ends of files. Nothing
    where the rest is not as it was: a broker that frees a file has written to others since, or replaced them
    by compacted ones. `trusted`: a file with the time and size that it had holds what it held.
    """
    directory = loader.directory
    if not door.is_folder(directory) or door.exists(directory / CONTROL_FILE_NAME):
        return []
    listing = read_directory(directory, extension=loader.extension, relative_to=loader.relative_to)
    listed: dict[int, JournalFile] = {file.file_id: file for file in listing.files}
    used = set(state.used_files(max((file.slot for file in known), default=-1) + 1))
    gone = [file for file in known if file.file_id not in listed and file.records and file.slot in used]
    others = _with_other_ids(gone, known, listing.files)
    before = {file.file_id for file in known} | {file.file_id for file in others.values()}
    if any(_is_written(file) for file_id, file in listed.items() if file_id not in before):
        return []
    rest = [file for file in known if file.file_id in listed]
    newest = max((file.file_id for file in rest if file.records), default=-1)
    doubted = [file for file in rest if not trusted or listed[file.file_id].stamp != file.stamp]
    cut_at = {file.slot: at for file in doubted if (at := _cut_at(file, listed, rest)) is not None}
    if not all(
        _unchanged(file, listed[file.file_id], grows=file.file_id >= newest)
        for file in rest
        if file.slot not in cut_at
    ):
        return []
    messages = _messages_by_file(state) if gone else Counter()
    cut = [file for file in rest if file.slot in cut_at]
    found = [_cut(loader, file, listed[file.file_id], cut_at[file.slot]) for file in cut]
    return [*found, *(_gone(loader, file, messages[file.slot], others.get(file.slot)) for file in gone)]


def missing_file_ids(layout: StoreLayout) -> list[str]:
    """See `Store.missing_journal_files`. Raises what reading a directory raises."""
    return [told(*one) for one in missing_ranges(layout)]


def missing_ranges(layout: StoreLayout) -> list[Range]:
    """Ids that no file of the journal has and nothing explains. Raises what reading a directory raises."""
    directory, extension = layout.journal_dir, layout.journal_extension
    listing = read_directory(directory, extension=extension, relative_to=layout.root)
    if not listing.files:
        return []
    files = [(number_of(file.name, extension=extension), file) for file in listing.files]
    # What is no file with a header any more had one, nobody knows with which id.
    named = {number_of(name, extension=extension) for name in door.names(directory)}
    others = [(number, _ANY_ID) for number in named.difference([0, *(one for one, _ in files)])]
    pool_files = int(layout.value_in_force("journal-pool-files") or 0)
    if layout.config is None and pool_files < 0:
        pool_files = POOL_FILES
    deleted = DeletedFiles(layout.root, name_of(directory, layout.root)).ranges()
    return missing_ids(files, pool_files, [*deleted, *others])


def taken_away(loader: JournalLoader, names: Collection[str]) -> list[Damage]:
    """What is gone with files of these names, as far as they were read."""
    messages = _messages_by_file(loader.state) if names else Counter()
    return [
        _taken_away(loader, read.file.name, messages[read.slot])
        for read in loader.files.read_files()
        if read.file.name in names
    ]


def _with_other_ids(
    gone: Sequence[KnownFile], known: Sequence[KnownFile], files: Sequence[JournalFile]
) -> dict[int, JournalFile]:
    """By slot, files that are there with all that was read of them, under an id that none had before."""
    ids = {file.file_id for file in known}
    by_name = {shown(file.name): file for file in files if file.file_id not in ids}
    there = {file.slot: (file, by_name[file.name]) for file in gone if file.name in by_name}
    return {slot: file for slot, (was, file) in there.items() if _same_records(was, file)}


def _is_written(file: JournalFile) -> bool:
    """Whether there are records in a file: one that is kept ready has none."""
    try:
        with MappedFile(file.path) as mapped:
            return scan_journal(mapped, rid=file.rid, version=file.version).count > 0
    except OSError:
        return True


def _same_records(known: KnownFile, file: JournalFile) -> bool:
    """Whether a file has the records that it had, and no others: none of its new id, none behind them."""
    try:
        if not holds_prefix(file, known.position, known.prefix_crc):
            return False
        with MappedFile(file.path) as mapped:
            earlier = scan_journal(mapped, rid=rid_of(known.file_id), version=2, start=known.position)
        return not earlier.count and not _is_written(file)
    except OSError:
        return False


def _cut_at(known: KnownFile, listed: Mapping[int, JournalFile], rest: Sequence[KnownFile]) -> int | None:
    """Where a file ends whose last records are gone; None for any other. An earlier state of a store that was
    put back looks the same; but then the file is another one, older, or all files were written.
    """
    file = listed[known.file_id]
    if file.stamp.inode != known.stamp.inode or file.stamp.mtime_ns < known.stamp.mtime_ns:
        return None
    if file.stamp != known.stamp and not any(listed[one.file_id].stamp == one.stamp for one in rest):
        return None
    try:
        if file.stamp.size_bytes < known.position or holds_prefix(file, known.position, known.prefix_crc):
            return None
        with MappedFile(file.path) as mapped:
            scan = scan_journal(mapped, rid=file.rid, version=file.version, start=JOURNAL_HEADER_BYTES)
    except OSError:
        return None
    return scan.end if scan.end < known.position else None


def _cut(loader: JournalLoader, known: KnownFile, file: JournalFile, end: int) -> Damage:
    reason = f"records that were here, up to {known.position}, when it was last read, are gone"
    name = name_of(file.path, loader.relative_to)
    return Damage(name, end, known.position - end, MISSING_RECORDS, reason)


def _gone(loader: JournalLoader, known: KnownFile, messages: int, other: JournalFile | None) -> Damage:
    if other is None:
        return _taken_away(loader, known.name, messages)
    name = name_of(loader.directory / known.name, loader.relative_to)
    reason = (
        f"file id {known.file_id} when it was last read, and {other.file_id} now, as if it was used again, "
        f"with {messages} messages in it that nothing says are gone: not shown"
    )
    return Damage(name, 0, known.position, DOUBTFUL_HEADER, reason)


def _taken_away(loader: JournalLoader, name: str, messages: int) -> Damage:
    reason = f"taken away, with {messages} messages that were in it when it was last read"
    return Damage(name_of(loader.directory / name, loader.relative_to), 0, 0, MISSING_FILE, reason)


def _unchanged(known: KnownFile, file: JournalFile, *, grows: bool) -> bool:
    same = file.stamp == known.stamp and file.name == known.name
    try:
        if not same and not holds_prefix(file, known.position, known.prefix_crc):
            return False
        if same and not grows:
            return True
        with MappedFile(file.path) as mapped:
            return not scan_journal(mapped, rid=file.rid, version=file.version, start=known.position).count
    except OSError:
        return False


def _messages_by_file(state: LiveState) -> Counter[int]:
    found: set[tuple[int, int]] = set()
    for info in state.queues():
        for reference in state.refs(info.slot, "arrival", "all"):
            message = state.ref(reference)
            found.add((message.file_slot, message.message_id))
    return Counter(slot for slot, _ in found)


def missing_pages(core: OpenStore, folder: str, known: Mapping[PageNumber, PageSummary]) -> Iterator[Damage]:
    """Pages of one folder that are gone, although the journal, which is as it was when they were read, says
    that messages in them are to come: a broker writes that a page is consumed before it deletes it.
    """
    directory = core.layout.paging_dir / folder
    for number, page in known.items():
        path = directory / format_page_name(number)
        if not door.exists(path) and _waits(core, number, page):
            reason = f"taken away, with up to {page.records} messages that were in it when it was last read"
            yield Damage(name_of(path, core.root), 0, 0, MISSING_FILE, reason)


def _waits(core: OpenStore, number: int, page: PageSummary) -> bool:
    """Whether a queue that is bound has messages in a page."""
    return any(
        (queue, number) not in core.cursors.complete
        and len(core.cursors.consumed.get((queue, number), ())) < share.records
        for queue, share in page.queues.items()
        if QueueId(queue) in core.bindings.queues
    )


def missing_directories(core: OpenStore) -> Iterator[Damage]:
    """Directories that are not there, although the rest of the store says that something was in them."""
    layout = core.layout
    if core.bindings.queues or core.pages:
        if not door.is_folder(layout.journal_dir):
            yield _missing(layout.journal_dir, core.root, "the message journal")
        elif not _holds_files(layout.journal_dir, layout.journal_extension):
            name = name_of(layout.journal_dir, core.root)
            yield Damage(name, 0, 0, MISSING_FILE, "no file in it, for the message journal")
    if not _pages_are_gone(core):
        return
    if not door.is_folder(layout.paging_dir):
        yield _missing(layout.paging_dir, core.root, "pages that the journal refers to")
    else:
        name = name_of(layout.paging_dir, core.root)
        yield Damage(name, 0, 0, MISSING_FILE, "no folder in it, for pages that the journal counts")


def refuse_without_journal(layout: StoreLayout, known_before: Callable[[], str | None]) -> None:
    """Raises `PartMissing` where the message journal is not there and other parts of a store are: what is in
    them would be cleared away as remains of nothing. Nor is what was `known_before` of its messages to be
    forgotten.
    """
    if _holds_files(layout.journal_dir, layout.journal_extension):
        return
    queues = len(read_bindings(layout.bindings_dir, relative_to=layout.root)[0].queues)
    if queues:
        found = f"{queues} queues are bound in {layout.bindings_dir}"
    elif _holds(layout.paging_dir, ".page"):
        found = f"there are pages in {layout.paging_dir}"
    elif _holds(layout.large_dir, ".msg"):
        found = f"there are large messages in {layout.large_dir}"
    elif known := known_before():
        found = known
    else:
        return
    raise PartMissing(layout.journal_dir, "no file of the message journal", found, "journal-directory")


def refuse_without_pages(core: OpenStore) -> None:
    """The same for pages: they would be begun anew at 1, with what the journal says of the old ones."""
    if _pages_are_gone(core):
        found = "the journal counts messages in pages"
        raise PartMissing(core.layout.paging_dir, "no page folder", found, "paging-directory")


def _pages_are_gone(core: OpenStore) -> bool:
    """Whether the journal says what queues have in pages, or have consumed of them, and no address has a
    folder. What it says goes before a folder goes, but for the place where a queue goes on to page.
    """
    try:
        with door.entries(core.layout.paging_dir) as entries:
            if any(entry.is_dir(follow_symlinks=False) for entry in entries):
                return False
    except FileNotFoundError:
        pass
    except OSError:
        return False  # whoever lists it says so
    return any(
        record.a in core.bindings.queues and is_about_pages(record)
        for kind, is_about_pages in _ABOUT_PAGES.items()
        for record in core.loader.state.side(kind)
    )


def _holds_files(directory: Path, extension: str) -> bool:
    """Whether anything of a journal is there, or cannot be looked for: a broker never deletes the last."""
    try:
        return any(f".{extension}" in name for name in door.names(directory))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _holds(directory: Path, suffix: str) -> bool:
    """Whether files of this kind are there, however deep. Raises OSError."""
    if not door.is_folder(directory):
        return False
    ending = suffix.encode()
    return any(name.endswith(ending) for _, _, names in door.below(directory) for name in names)


def _missing(directory: Path, root: Path, what: str) -> Damage:
    return Damage(name_of(directory, root), 0, 0, "missing-directory", f"no such directory, for {what}")
