"""What a store must have and has not: journal files and pages that live messages lay in, and whole
directories.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from journalfs.damage import Damage, FileStamp, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.engine.state import LiveState
from journalfs.format.journal_file import CONTROL_FILE_NAME
from journalfs.format.page_folder import format_page_name
from journalfs.format.record_types import MessageType
from journalfs.ids import PageNumber, QueueId
from journalfs.journal.directory import JournalFile, read_directory
from journalfs.journal.loader import JournalLoader, holds_prefix

if TYPE_CHECKING:
    from journalfs.store.core import Core

PAGE_TYPES = (MessageType.PAGE_TRANSACTION, MessageType.ACKNOWLEDGE_CURSOR, MessageType.PAGE_COMPLETE)
"""Records that are there only while an address has pages."""


class KnownFile(Protocol):
    """A journal file as it was when it was last read; the index keeps such a description."""

    @property
    def slot(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def file_id(self) -> int: ...

    @property
    def stamp(self) -> FileStamp: ...

    @property
    def position(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def prefix_crc(self) -> int: ...


def missing_files(loader: JournalLoader, known: Sequence[KnownFile], state: LiveState) -> list[Damage]:
    """Files of which `known` says that live messages of `state` lay in them, and that were taken away: a
    broker that frees a file has written to others since, or replaced them by compacted ones.
    """
    directory = loader.directory
    if not directory.is_dir() or (directory / CONTROL_FILE_NAME).exists():
        return []
    listing = read_directory(directory, extension=loader.extension, relative_to=loader.relative_to)
    listed: dict[int, JournalFile] = {file.file_id: file for file in listing.files}
    used = set(state.used_files(max((file.slot for file in known), default=-1) + 1))
    gone = [file for file in known if file.file_id not in listed and file.records and file.slot in used]
    if not gone or not listed.keys() <= {file.file_id for file in known}:
        return []
    rest = [file for file in known if file.file_id in listed]
    newest = max((file.file_id for file in rest if file.records), default=-1)
    if not all(_unchanged(file, listed[file.file_id], grows=file.file_id >= newest) for file in rest):
        return []
    messages = _messages_by_file(state)
    return [
        Damage(
            name_of(directory / file.name, loader.relative_to),
            0,
            0,
            "missing-file",
            f"taken away, with {messages[file.slot]} messages that were in it when it was last read",
        )
        for file in gone
    ]


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


class KnownPage(Protocol):
    """A page as it was when it was last read; the index keeps such a description."""

    @property
    def number(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def has_transactions(self) -> bool: ...

    @property
    def queues(self) -> Sequence[int]: ...


def missing_pages(core: Core, folder: str, known: Sequence[KnownPage]) -> Iterator[Damage]:
    """Pages of one folder that are gone, although the journal, which is as it was when they were read, says
    that messages in them are to come: a broker writes that a page is consumed before it deletes it.
    """
    directory = core.layout.paging_dir / folder
    for page in known:
        path = directory / format_page_name(PageNumber(page.number))
        if not path.exists() and not page.has_transactions and _waits(core, page):
            reason = f"taken away, with up to {page.records} messages that were in it when it was last read"
            yield Damage(name_of(path, core.root), 0, 0, "missing-file", reason)


def _waits(core: Core, page: KnownPage) -> bool:
    """Whether a queue that is bound surely has messages in a page. Which queue has how many of its records
    is not known where they are of several queues.
    """
    surely = page.records if len(page.queues) == 1 else 1
    return any(
        (queue, page.number) not in core.cursors.complete
        and len(core.cursors.consumed.get((queue, page.number), ())) < surely
        for queue in page.queues
        if QueueId(queue) in core.bindings.queues
    )


def missing_directories(core: Core) -> Iterator[Damage]:
    """Directories that are not there, although the rest of the store says that something was in them."""
    layout = core.layout
    if core.bindings.queues or core.pages:
        if not layout.journal_dir.is_dir():
            yield _missing(layout.journal_dir, core.root, "the message journal")
        elif not _holds_files(layout.journal_dir, layout.journal_extension):
            name = name_of(layout.journal_dir, core.root)
            yield Damage(name, 0, 0, "missing-file", "no file in it, for the message journal")
    if not layout.paging_dir.is_dir() and any(_has_records(core, kind) for kind in PAGE_TYPES):
        yield _missing(layout.paging_dir, core.root, "pages that the journal refers to")


def _has_records(core: Core, kind: MessageType) -> bool:
    return next(iter(core.loader.state.side(kind)), None) is not None


def _holds_files(directory: Path, extension: str) -> bool:
    """Whether anything of a journal is there, or cannot be looked for: a broker never deletes the last."""
    try:
        return any(f".{extension}" in name for name in os.listdir(directory))
    except OSError:
        return True


def _missing(directory: Path, root: Path, what: str) -> Damage:
    return Damage(name_of(directory, root), 0, 0, "missing-directory", f"no such directory, for {what}")
