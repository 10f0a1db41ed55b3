"""Finds files whose header says that they were used again, though no other file confirms it: then the id in
the header was changed.

A file is used again once no record in it is needed, so later files tell that each message in it is gone. If
all later files are there and tell it of some messages only, the file was never used again. A broker opens the
journal without such files, and the mount shows it so; but they count as damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from journalfs.damage import Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.scan import scan_journal
from journalfs.engine.state import LiveState
from journalfs.engine.status import CoreRefused, FileTorn
from journalfs.limits import JOURNAL_HEADER_BYTES
from journalfs.records.files.directory import Headed
from journalfs.records.files.files import ReadFile

POOL_FILES = 10
"""A broker keeps so many files, unless it is told otherwise, before it deletes any."""

DOUBTFUL_HEADER = "doubtful-header"


class Named(Headed, Protocol):
    @property
    def name(self) -> str: ...


FileT = TypeVar("FileT", bound=Named)


def doubtful_files(files: Sequence[FileT]) -> list[FileT]:
    """Return the files whose records carry another id than their header, if no later file is missing."""
    if len(files) >= POOL_FILES:
        return []
    ids = {file.file_id for file in files}
    written = {file.file_id for file in files if file.first_rid == file.rid and not file.compacted}
    again = [file for file in files if file.first_rid is not None and file.first_rid < file.rid]
    found: list[FileT] = []
    # P-1: a file is doubted only where every file written later is there. A weaker rule doubts files that a
    # broker did use again, a stronger one believes an id that was changed on the disk.
    for file in sorted(again, key=_first_rid, reverse=True):
        rid = _first_rid(file)
        newest = max(written, default=0)
        others = [other for other in files if other is not file and other not in found]
        if rid in ids:
            continue  # compaction gave its id to what it kept of it
        if rid < newest < rid + POOL_FILES:
            all_there = written.issuperset(range(rid + 1, newest))
        else:
            none_written = all(_first_rid(other) < rid for other in others)
            all_there = none_written and (_all_new(files) or ids.issuperset(range(rid + 1, max(ids))))
        if all_there:
            found.append(file)
            written.add(rid)
    return found


def _first_rid(file: Headed) -> int:
    return file.first_rid or 0


def _all_new(files: Sequence[Named]) -> bool:
    """Whether no file was ever used again, compacted or deleted: a file is named by its first id."""
    numbers = {file.name.rpartition("-")[2].partition(".")[0]: file for file in files}
    return numbers.keys() == {str(number) for number in range(1, len(files) + 1)} and all(
        number in {str(file.first_rid), str(file.file_id)} for number, file in numbers.items()
    )


class HiddenMessages:
    """Of one journal. Looked for once for each set of files."""

    def __init__(self) -> None:
        self._known: tuple[object, dict[int, int]] = None, {}

    def damage(
        self, reads: Sequence[ReadFile], mapped: Mapping[int, MappedFile], state: LiveState, root: Path
    ) -> Iterator[Damage]:
        """One entry for each file with messages that nothing says are gone."""
        files = [read.file for read in reads]
        doubtful = {file.path for file in doubtful_files(files) if not file.header_damaged}
        if not doubtful:
            return
        key = [(read.file.path, read.file.stamp, read.position) for read in reads]
        if self._known[0] != key:
            try:
                self._known = key, _messages_by_slot(reads, mapped, state, doubtful)
            except (OSError, FileTorn, CoreRefused):
                return  # what says that they are gone may be what cannot be read; that is listed itself
        for read in reads:
            messages = self._known[1].get(read.slot)
            if messages:
                file = read.file
                reason = (
                    f"its header has file id {file.file_id}, as if it was used again, and its records "
                    f"{file.first_rid}; but nothing says that {messages} messages in it are gone: not shown"
                )
                yield Damage(name_of(file.path, root), 0, JOURNAL_HEADER_BYTES, DOUBTFUL_HEADER, reason)


def _messages_by_slot(
    reads: Sequence[ReadFile], mapped: Mapping[int, MappedFile], state: LiveState, doubtful: set[Path]
) -> dict[int, int]:
    """How many messages would be live in each of the files, and are not known to `state`."""
    ids = {
        read.slot: _first_rid(read.file) if read.file.path in doubtful else read.file.rid for read in reads
    }
    first = min(ids[read.slot] for read in reads if read.file.path in doubtful)
    other = LiveState()
    for read in sorted(reads, key=lambda read: ids[read.slot]):
        if ids[read.slot] >= first:
            file = mapped[read.slot]
            scan = scan_journal(file, rid=ids[read.slot], version=read.file.version)
            if scan.count:
                other.apply(read.slot, file, scan)
    other.finish()
    found: dict[int, set[int]] = {read.slot: set() for read in reads if read.file.path in doubtful}
    for queue in other.queues():
        for reference in other.refs(queue.slot):
            message = other.ref(reference)
            if message.file_slot in found and not state.message_refs(message.message_id):
                found[message.file_slot].add(message.message_id)
    return {slot: len(messages) for slot, messages in found.items()}
