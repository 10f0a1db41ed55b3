"""Finds what a store must have and lacks: journal files and pages with live messages, and whole
directories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final

from journalfs import door
from journalfs.config.layout import StoreLayout
from journalfs.config.older import ARTEMIS_1, HORNETQ
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
from journalfs.ids import PageNumber, QueueId
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.live.bindings import read_bindings
from journalfs.records.files.anomalies import MISSING_RECORDS
from journalfs.records.files.directory import JournalFile, read_directory
from journalfs.records.files.doubtful_headers import POOL_FILES
from journalfs.records.files.file_gaps import DeletedFiles, Range, missing_ids, told
from journalfs.records.files.files import KnownFile
from journalfs.records.files.loader import JournalLoader
from journalfs.showing import shown

if TYPE_CHECKING:
    from journalfs.live.opened import OpenStore
    from journalfs.pages.address import PagedAddress, PageSummary

_ANY_ID: Final = 2**63 - 1
"""Above the id of any file."""

COUNT_IN_STEPS: Final = (HORNETQ, ARTEMIS_1)
"""Kinds of stores that add to the counts of messages in pages, and delete pages in their order."""

PAGES_NAMED_MAX: Final = 5
"""Pages that a reason names."""

_ABOUT_PAGES: Final[Mapping[MessageType, Callable[[Operation], bool]]] = {
    MessageType.ACKNOWLEDGE_CURSOR: lambda record: record.c != PAGE_BEGINNING,
    MessageType.PAGE_COMPLETE: lambda record: True,
    MessageType.PAGE_COUNTER_VALUE: lambda record: record.b > 0,
    MessageType.PAGE_COUNTER_INCREMENT: lambda record: True,
}
"""Records of a queue, and whether they tell of a page that there is."""


def lost_since(loader: JournalLoader, known: Sequence[KnownFile], state: LiveState) -> list[Damage]:
    """Files that were `known`, with messages in them that `state` has, and are gone, and records at the ends
    of others. Nothing where anything was written since: a broker that frees a file has written why.
    """
    directory = loader.directory
    if not door.is_folder(directory) or door.exists(directory / CONTROL_FILE_NAME):
        return []
    files = read_directory(directory, extension=loader.extension, relative_to=loader.relative_to).files
    listed: dict[int, JournalFile] = {file.file_id: file for file in files}
    used = set(state.used_files(max((file.slot for file in known), default=-1) + 1))
    gone = [file for file in known if file.file_id not in listed and file.records and file.slot in used]
    ends = {file.file_id: file.position for file in known}
    if any(_is_written(file, ends.get(file.file_id, JOURNAL_HEADER_BYTES)) for file in files):
        return []
    messages = _messages_by_file(state) if gone else Counter()
    # P-3: a file that was removed, and an end that was zeroed or cut between two mounts, look like what a
    # killed writer leaves. Without this comparison with what the index knew, messages are gone without a
    # word, and transactions that had committed there count as rolled back.
    found = [_taken_away(loader, file.name, messages[file.slot]) for file in gone]
    rest = [(file, listed[file.file_id]) for file in known if file.file_id in listed]
    if any(_as_it_was(was, file) for was, file in rest):  # else an earlier state of all was put back
        found += [one for was, file in rest if (one := _cut(loader, was, file)) is not None]
    return found


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


def note_missing(layout: StoreLayout) -> None:
    """Note the ids of files that are missing as deleted: from now on nothing lists them. Raises OSError."""
    DeletedFiles(layout.root, name_of(layout.journal_dir, layout.root)).note(missing_ranges(layout))


def _is_written(file: JournalFile, start: int) -> bool:
    """Whether there are records in a file from `start` on: one that is kept ready has none."""
    try:
        with MappedFile(file.path) as mapped:
            return scan_journal(mapped, rid=file.rid, version=file.version, start=start).count > 0
    except OSError:
        return True


def _as_it_was(known: KnownFile, file: JournalFile) -> bool:
    was, now = known.stamp, file.stamp
    return (was.size_bytes, was.mtime_ns) == (now.size_bytes, now.mtime_ns)


def _cut(loader: JournalLoader, known: KnownFile, file: JournalFile) -> Damage | None:
    """Return the damage if the end of a changed file is gone."""
    is_older = file.stamp.mtime_ns < known.stamp.mtime_ns
    if is_older or _as_it_was(known, file) or shown(file.name) != known.name:
        return None
    try:
        with MappedFile(file.path) as mapped:
            end = scan_journal(mapped, rid=file.rid, version=file.version, start=JOURNAL_HEADER_BYTES).end
    except OSError:
        return None  # whoever reads it says so
    if end >= known.position:
        return None
    reason = f"records that were here, up to {known.position}, when it was last read, are gone"
    name = name_of(file.path, loader.relative_to)
    return Damage(name, end, known.position - end, MISSING_RECORDS, reason)


def _taken_away(loader: JournalLoader, name: str, messages: int) -> Damage:
    reason = f"taken away, with {messages} messages that were in it when it was last read"
    return Damage(name_of(loader.directory / name, loader.relative_to), 0, 0, MISSING_FILE, reason)


def _messages_by_file(state: LiveState) -> Counter[int]:
    found: set[tuple[int, int]] = set()
    for info in state.queues():
        for reference in state.refs(info.slot, "arrival", "all"):
            message = state.ref(reference)
            found.add((message.file_slot, message.message_id))
    return Counter(slot for slot, _ in found)


def missing_pages(core: OpenStore, folder: str, known: Mapping[PageNumber, PageSummary]) -> Iterator[Damage]:
    """Pages of a folder that are gone, although the journal, which is as it was when they were read, says
    that messages in them are to come: a broker writes that a page is consumed before it deletes it.
    """
    for number, page in known.items():
        path = core.layout.paging_dir / folder / format_page_name(number)
        waiting = _waiting(core, number, page)
        if waiting and not door.exists(path):
            reason = f"taken away, with up to {page.records} messages that were in it when it was last read"
            for queue, messages in sorted(waiting.items()):
                yield Damage(name_of(path, core.root), 0, 0, MISSING_FILE, reason, queue, messages)


def _waiting(core: OpenStore, number: PageNumber, page: PageSummary) -> dict[str, int]:
    """Return how many messages of a page bound queues have not consumed, by the full name of the queue."""
    found: dict[str, int] = {}
    for queue_id, share in page.queues.items():
        queue = core.bindings.queues.get(QueueId(queue_id))
        left = share.records - len(core.cursors.consumed.get((queue_id, number), ()))
        if queue is not None and left > 0 and (queue_id, number) not in core.cursors.complete:
            found[f"{queue.address}::{queue.name}"] = left
    return found


def missing_by_records(core: OpenStore, damaged: Set[str]) -> Iterator[Damage]:
    """Yield missing pages that only the journal tells of: it counts more messages of a queue in pages than
    there are, or names consumed messages of a page that is not there. Call it only for a store that its last
    user stopped, since a killed one leaves old counts. Pages that the index knows to be missing are left out,
    and so are differences that damage of the journal, the bindings or the address's pages explains.
    `damaged`: names of page folders with damage.
    """
    damage = core.loader.damage()
    known = known_missing(damage)
    if core.bindings_damage or any(not one.queue or one.kind != MISSING_FILE for one in damage):
        return
    if core.derived is not None and core.derived.damage:
        return
    said: dict[int, int] = {}
    for record in core.loader.state.side(MessageType.PAGE_COUNTER_VALUE):
        # Of several, left by a file that was away and came back, the one that claims least.
        said[record.a] = min(record.b, said.get(record.a, record.b))
    if core.derived is not None and core.derived.kind in COUNT_IN_STEPS:
        for record in core.loader.state.side(MessageType.PAGE_COUNTER_INCREMENT):
            said[record.a] = said.get(record.a, 0) + record.b
    for queue in core.bindings.queues.values():
        name, paged = f"{queue.address}::{queue.name}", core.pages.get(queue.address)
        if paged is not None and (paged.set_aside or name_of(paged.path, core.root) in damaged):
            continue
        numbers = paged.numbers() if paged is not None else ()
        there = 0
        for number in numbers if queue.queue_id in said else ():
            assert paged is not None
            there += paged.count(number, queue.queue_id)
            there += len(paged.stretch(number, queue.queue_id, delivering=True))
        lacking = said.get(queue.queue_id, 0) - there - known[name]
        place = _gone_from(core, paged)
        if lacking > 0:
            reason = (
                f"the journal counts {lacking + there} messages of {name} in pages, and {there} are there: "
                f"pages, or ends of pages, with {lacking} of them were taken away"
            )
            yield Damage(place, 0, 0, MISSING_FILE, reason, name, lacking)
        elif not known[name] and (page := _consumed_and_gone(core, queue.queue_id, numbers)) is not None:
            reason = f"the journal says what {name} consumed of page {page}, and there is no such page"
            yield Damage(place, 0, 0, MISSING_FILE, reason, name)


def missing_between(core: OpenStore) -> Iterator[Damage]:
    """Yield pages that are gone between others, of a store of HornetQ or Artemis 1.x: these delete pages in
    the order of their numbers.
    """
    for address, paged in core.pages.items():
        numbers = paged.numbers()
        gone = sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if numbers else []
        if gone and not paged.set_aside:
            place = name_of(paged.path / format_page_name(PageNumber(gone[0])), core.root)
            pages = ", ".join(map(str, gone[:PAGES_NAMED_MAX]))
            reason = f"between others of {address} is no page {pages}: brokers delete the first ones only"
            yield Damage(place, 0, 0, MISSING_FILE, reason)


def known_missing(damage: Iterable[Damage]) -> Counter[str]:
    """Return how many messages were in pages that are gone, by the full name of the queue."""
    found: Counter[str] = Counter()
    for one in damage:
        if one.kind == MISSING_FILE and one.queue:
            found[one.queue] += max(0, one.messages)
    return found


def _gone_from(core: OpenStore, paged: PagedAddress | None) -> str:
    """Return where pages must have been: the one whose number is not there, or the folder."""
    numbers = paged.numbers() if paged is not None else ()
    if paged is None or not numbers:
        return name_of(core.layout.paging_dir if paged is None else paged.path, core.root)
    gaps = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    if len(gaps) != 1:
        return name_of(paged.path, core.root)
    return name_of(paged.path / format_page_name(PageNumber(gaps[0])), core.root)


def _consumed_and_gone(core: OpenStore, queue_id: QueueId, numbers: Sequence[PageNumber]) -> int | None:
    """Return a page that is not there, and of which the queue consumed something, but not all."""
    there = set(numbers)
    for (queue, page), consumed in core.cursors.consumed.items():
        is_there = page in there or (queue, page) in core.cursors.complete
        if queue == queue_id and not is_there and any(number != PAGE_BEGINNING for number in consumed):
            return page
    return None


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


def refuse_without_journal(layout: StoreLayout) -> None:
    """Raise `PartMissing` if the message journal is missing and other parts of the store are there: opening
    for writing would clear them away as leftovers.
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
    else:
        return
    raise PartMissing(layout.journal_dir, "no file of the message journal", found, "journal-directory")


def refuse_without_pages(core: OpenStore) -> None:
    """Raise `PartMissing` if the pages are missing: new pages would begin at 1, where the journal's records
    about the old ones would count for them.
    """
    if _pages_are_gone(core):
        found = "the journal counts messages in pages"
        raise PartMissing(core.layout.paging_dir, "no page folder", found, "paging-directory")


def _pages_are_gone(core: OpenStore) -> bool:
    """Return True if the journal knows messages in pages, or consumed ones, and no address has a page folder.
    Such records go before a folder goes, except the one that says where a queue goes on to page.
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
