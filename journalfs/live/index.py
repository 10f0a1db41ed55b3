"""The content of the index of a store, and the check whether it still fits the store's files.

The live state is one section of the index; the description says which files it was made from and how far they
were read. A file is believed unread if its size, time and inode are those of before it was read; otherwise
the bytes that were read must have the checksum that they had then, or the index is void. Bytes behind these
are always looked at where a broker may have appended, since it can append without changing any time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from journalfs.bodies.inflated import Inflated
from journalfs.damage import Damage
from journalfs.engine.ledger import Ledger
from journalfs.engine.scan import Gap
from journalfs.engine.state import LiveState
from journalfs.engine.state_batch import lies_within
from journalfs.ids import FileId, MessageId, PageNumber, QueueId
from journalfs.limits import INDEX_FILE_SLOTS_MAX, JOURNAL_HEADER_BYTES
from journalfs.live.core import Core
from journalfs.live.large_bodies import BodyFile
from journalfs.live.page_parts import PageParts
from journalfs.live.part_names import PagePart
from journalfs.pages.address import PageSummary
from journalfs.records.files.directory import JournalFile, read_directory
from journalfs.records.files.files import KnownFile, ReadFile
from journalfs.records.files.loader import JournalLoader, holds_prefix
from journalfs.records.files.opening import LeftFile, LeftOff
from journalfs.records.files.pool import WriteFile
from journalfs.showing import shown

FORMAT = 15
"""Raised whenever the meaning of anything in the index changes."""


class IndexedWritten(msgspec.Struct, frozen=True):
    """Facts about a journal file that only the journal's writer knows."""

    slot: int
    begins: int
    unreadable: list[Gap]


class IndexedPageParts(msgspec.Struct, frozen=True):
    queue_id: int
    next_number: int
    parts: list[PagePart]


class IndexDescription(msgspec.Struct, frozen=True):
    format: int
    generation: int
    live_broker: bool
    """True if a broker was at work: the files that it could still append to are compared as a whole, whatever
    their times say.
    """
    journal: list[KnownFile]
    pages: dict[str, dict[PageNumber, PageSummary]]
    page_parts: list[IndexedPageParts]
    large_damage: list[tuple[MessageId, Damage]]
    large_bodies: list[tuple[MessageId, BodyFile]]
    """The body files with which the large messages of the journal were measured."""
    missing: list[Damage] = []
    """Journal files and pages that were taken away with live messages in them."""
    page_folders: dict[str, str] = {}
    """Name of the folder of each address's pages."""
    inflated: list[Inflated] = []
    """How long compressed bodies are."""
    written: list[IndexedWritten] = []
    """The files that the ledger is of, in reading order; none: there is no ledger."""


def describe(core: Core, page_parts: dict[QueueId, PageParts]) -> IndexDescription | None:
    """Describe the store as it was read; `None` when a file changed so that no checksum of what was read can
    be had, something of it could not be read, or a message was measured without a body for which there was
    no room just then.
    """
    if core.loader.unreadable or core.bodies.unreadable:
        return None
    journal: list[KnownFile] = []
    for read in core.loader.files.read_files():
        if read.file.header_damaged:
            return None
        journal.append(read.known(core.loader.gaps().get(read.slot, ())))
    return IndexDescription(
        format=FORMAT,
        generation=core.names.generation,
        live_broker=core.live_broker,
        journal=journal,
        pages={
            address: {
                number: summary
                for number, summary in sorted(paged.summaries.items())
                if not summary.unreadable
            }
            for address, paged in core.pages.items()
        },
        page_parts=[
            IndexedPageParts(queue_id, parts.next_number, parts.parts)
            for queue_id, parts in page_parts.items()
        ],
        large_damage=core.bodies.known_damage(),
        large_bodies=core.bodies.known_bodies(),
        missing=list(core.loader.missing),
        page_folders={address: shown(paged.path.name) for address, paged in core.pages.items()},
        inflated=list(core.bodies.known_inflated()),
    )


def plausible(description: IndexDescription, state: LiveState) -> bool:
    """Return True if state and description can be of one store: each place that the state names lies in the
    part of a file that was read.
    """
    ends = {file.slot: file.position for file in description.journal}
    # The compaction of a broker may give an id twice.
    files = {(file.file_id, file.name) for file in description.journal}
    return (
        len(ends) == len(files) == len(description.journal)
        and all(0 <= slot < INDEX_FILE_SLOTS_MAX for slot in ends)
        and all(file.position >= JOURNAL_HEADER_BYTES and file.records >= 0 for file in description.journal)
        and lies_within(state, ends)
    )


def fits(loader: JournalLoader, description: IndexDescription) -> bool:
    """Whether `loader` may go on from what the index describes; if so, it is brought to that point."""
    listing = read_directory(loader.directory, extension=loader.extension, relative_to=loader.relative_to)
    present = {file.file_id: file for file in listing.files if not file.header_damaged}
    by_name = {(file.file_id, shown(file.name)): file for file in listing.files if not file.header_damaged}
    used = set(loader.state.used_files(max((file.slot for file in description.journal), default=-1) + 1))
    current = max((file.file_id for file in description.journal if file.records), default=-1)
    resumed: list[ReadFile] = []
    gaps: dict[int, tuple[Damage, ...]] = {}
    for indexed in description.journal:
        file_id = FileId(indexed.file_id)
        file = by_name.get((file_id, indexed.name), present.get(file_id))
        if file is None:
            if indexed.records and indexed.slot in used:
                return False
            continue
        trusted = not (description.live_broker and indexed.file_id >= current)
        read = _resumed(indexed, file, trusted=trusted)
        if read is None:
            return False
        resumed.append(read)
        gaps[indexed.slot] = indexed.gaps
    newest = max((read.file.file_id for read in resumed if read.records), default=FileId(-1))
    known = {read.file.file_id for read in resumed}
    if any(file_id < newest and file_id not in known for file_id in present):
        return False
    try:
        loader.resume(resumed, gaps)
    except OSError:
        return False  # a scan says what is wrong with the file
    return True


def with_ledger(
    description: IndexDescription, ledger: Ledger, files: Iterable[WriteFile]
) -> tuple[IndexDescription, bytes]:
    """Return the description with the writer's ledger, whose files are in reading order; without it if a file
    was not read to its end or a transaction is open.
    """
    found = _written(description, files)
    saved = ledger.save([file.slot for file, _ in found]) if found else None
    if saved is None:
        return description, b""
    return replace(description, written=[one for _, one in found]), saved


def _written(
    description: IndexDescription, files: Iterable[WriteFile]
) -> list[tuple[WriteFile, IndexedWritten]]:
    """Return the written files with records; none if one of them was not read to its end."""
    read = {(file.file_id, file.name): file for file in description.journal}
    found: list[tuple[WriteFile, IndexedWritten]] = []
    for file in files:
        indexed = read.get((file.file_id, shown(file.name)))
        if indexed is None or indexed.position != file.records_end:
            if file.records_end > JOURNAL_HEADER_BYTES or (indexed is not None and indexed.records):
                return []
        elif indexed.records:
            found.append((file, IndexedWritten(indexed.slot, file.begins, list(file.unreadable))))
    return found


def as_written(before: IndexDescription, after: IndexDescription) -> IndexDescription:
    """The later one with the earlier one's ledger, if nothing of the journal was read since."""
    ends = [
        {(file.slot, file.name, file.file_id): file.position for file in one.journal if file.records}
        for one in (before, after)
    ]
    return replace(after, written=before.written) if ends[0] == ends[1] else after


def left_off(
    description: IndexDescription, ledger: bytes, loader: JournalLoader, live_min: int
) -> LeftOff | None:
    """Where the writer of the journal may go on, if its files still hold what they held."""
    listing = read_directory(loader.directory, extension=loader.extension, relative_to=loader.relative_to)
    listed = {(file.file_id, shown(file.name)): file for file in listing.files if not file.header_damaged}
    by_slot = {file.slot: file for file in description.journal}
    found: list[LeftFile] = []
    for one in description.written:
        indexed = by_slot.get(one.slot)
        file = None if indexed is None else listed.get((FileId(indexed.file_id), indexed.name))
        if indexed is None or file is None or _resumed(indexed, file, trusted=True) is None:
            return None
        found.append(LeftFile(file.name, file.file_id, one.begins, indexed.position, tuple(one.unreadable)))
    return LeftOff(ledger, found, live_min) if found and not description.live_broker else None


def _resumed(indexed: KnownFile, file: JournalFile, *, trusted: bool) -> ReadFile | None:
    """Return the file at the point where the index left it; `None` if the bytes that were read are no longer
    there. `trusted`: the file can have changed only if its time did.
    """
    if file.stamp.size_bytes < indexed.position:
        return None
    same = trusted and file.stamp == indexed.stamp and shown(file.name) == indexed.name
    if not same:
        try:
            if not holds_prefix(file, indexed.position, indexed.prefix_crc):
                return None
        except FileNotFoundError:
            return None
    window_crc = indexed.window_crc if same else None
    return ReadFile(indexed.slot, file, indexed.position, indexed.records, indexed.prefix_crc, window_crc)
