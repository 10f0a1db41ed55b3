"""Reading everything of a store or of backups against what it was: checksums where there are any, and
digests of the last time of what nobody changes any more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

from journalfs import door
from journalfs.account.advice import MENDED
from journalfs.backup import Backups
from journalfs.backup.backups import piece_of
from journalfs.backup.manifest import BACKUPS, OBJECTS, PIECE_BYTES
from journalfs.backup.mending import Mending, Unmended
from journalfs.clock import Clock, SystemClock
from journalfs.config.layout import StoreLayout
from journalfs.damage import Damage, name_of
from journalfs.engine.buffers import MappedFile
from journalfs.engine.pages import scan_page
from journalfs.engine.scan import GapKind, scan_journal
from journalfs.engine.status import FileTorn
from journalfs.errors import Damaged, IndexUnusable, JournalfsError
from journalfs.format.large_file import LargeFileKind, parse_large_name
from journalfs.format.page_folder import parse_page_name
from journalfs.inspect.findings import Finding
from journalfs.inspect.scrub_memory import DIGEST_BYTES, Done, Memory, Remembered, digest_of
from journalfs.live.bindings import EXTENSION
from journalfs.live.index_file import index_path, read_index
from journalfs.records.files.anomalies import check_mapped, mismatch_damage
from journalfs.records.files.directory import JournalFile, read_directory
from journalfs.records.files.loader import DAMAGE_REASONS
from journalfs.store.refused import refuse_unreadable
from journalfs.store.snapshot_folder import damage_of, folders, read_description

NOTED_EVERY_NS: Final = 1_000_000_000
"""So much work at most is done again after a kill."""


@dataclass(slots=True)
class Pace:
    """No more than so many bytes a second, over the whole time; 0: as fast as it goes."""

    rate_bytes: int = 0
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], None] = time.sleep
    advance: Callable[[int], None] = lambda count: None
    _began_ns: int | None = None
    _read: int = 0

    def took(self, count: int) -> None:
        self.advance(count)
        now_ns = self.clock.monotonic_ns()
        self._began_ns = now_ns if self._began_ns is None else self._began_ns
        self._read += count
        if self.rate_bytes:
            early_ns = self._began_ns + self._read * 1_000_000_000 // self.rate_bytes - now_ns
            if early_ns > 0:
                self.sleep(early_ns / 1_000_000_000)


@lru_cache(maxsize=4)
def _of_zeros(length: int) -> bytes:
    return digest_of(bytes(length))


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read. `mark`: which of those of its name it is, if nobody changes it any more."""

    path: Path
    name: str
    journal: JournalFile | None = None
    mark: str | None = None
    page: bool = False


@dataclass(slots=True)
class Scrub:
    """One look at everything, which goes on where the last one was ended."""

    memory: Memory
    pace: Pace = field(default_factory=Pace)
    _noted_ns: int = 0

    def store(self, layout: StoreLayout) -> Done:
        """Raises what reading a directory raises, and `SystemFailure`."""
        layout.enter()
        refuse_unreadable(layout)
        for file in self._left(_files(layout)):
            try:
                self._file(file, layout.root)
            except FileNotFoundError:
                continue  # freed, or consumed, meanwhile
            except OSError as error:
                reason = door.kind_and_reason(error)[1]
                self.memory.found(Finding(file.name, 0, 0, "unreadable", reason))
            if self._is_time():
                self.memory.note(file.name, "", b"")
        for damage in _of_ours(layout):
            self.memory.found(_finding(damage))
        return self.memory.done

    def backups(self, backups: Backups, store: Path | None = None) -> Done:
        """Pieces by their names, which are their hashes, and descriptions. Mend a bad piece from `store`,
        or from the store that was backed up, if that has it still.
        """
        place, done, mending = backups.place, self.memory.done, Mending(backups, store)
        for name in sorted(place.names(OBJECTS)):
            if self.memory.after is not None and name <= self.memory.after:
                continue
            content = place.read(name, PIECE_BYTES)
            if content is not None:
                try:
                    piece_of(place, name.rpartition("/")[2], len(content), "some backup")
                except Damaged as damaged:
                    self._mend(mending, name, len(content), "rotten", damaged.reason)
                done.bytes += len(content)
                done.files, done.compared = done.files + 1, done.compared + 1
                self.pace.took(len(content))
            if self._is_time():
                self.memory.note(name, "", b"")
        there = {name.rpartition("/")[2] for name in place.names(OBJECTS)}
        for name in backups.names():
            try:
                missing = backups.manifest(name).hashes() - there
            except Damaged as damaged:
                described = f"{BACKUPS}/{name}.json"
                self.memory.found(Finding(described, damaged.offset, 0, "rotten", damaged.reason))
            else:
                for one in sorted(missing):
                    reason = f"a piece of backup {name} is not there"
                    if self._mend(mending, f"{OBJECTS}/{one[:2]}/{one}", 0, "missing-file", reason):
                        there.add(one)
            done.files += 1
        return done

    def _mend(self, mending: Mending, name: str, length: int, kind: str, reason: str) -> bool:
        """Mend a piece, and note what came of it. True if it is whole now."""
        found = mending.mend(name.rpartition("/")[2])
        if isinstance(found, Unmended):
            self.memory.found(Finding(name, 0, length, kind, f"{reason}: {found.text()}"))
            return False
        self.memory.found(Finding(name, 0, length, MENDED, f"{reason}: written anew from {found}"))
        return True

    def _left(self, files: Iterator[_File]) -> Iterator[_File]:
        after = self.memory.after
        begun = None if after is None else after.split("/")
        for file in files:
            parts = file.name.split("/")
            if begun is None or parts > begun or (parts == begun and self.memory.inside):
                yield file

    def _is_time(self) -> bool:
        now_ns = self.pace.clock.monotonic_ns()
        if now_ns - self._noted_ns < NOTED_EVERY_NS:
            return False
        self._noted_ns = now_ns
        return True

    def _file(self, file: _File, root: Path) -> None:
        memory = self.memory
        with door.opened(file.path) as descriptor:
            found = os.fstat(descriptor)
            stamp = f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"
            digests = bytearray(memory.begun(file.name, stamp))
            for at in range(len(digests) // DIGEST_BYTES * PIECE_BYTES, found.st_size, PIECE_BYTES):
                if door.is_hole(descriptor, at, PIECE_BYTES):
                    digests += _of_zeros(min(PIECE_BYTES, found.st_size - at))
                    continue
                piece = os.pread(descriptor, PIECE_BYTES, at)
                digests += digest_of(piece)
                memory.done.bytes += len(piece)
                self.pace.took(len(piece))
                if self._is_time():
                    memory.note(file.name, stamp, bytes(digests))
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        mark = _mark(file)
        memory.done.files += 1
        if mark is not None:
            self._compare(file.name, Remembered(mark, found.st_size, bytes(digests)))
        if file.journal is not None:
            for damage in self._structure(file.journal, root, written=mark is None):
                memory.found(_finding(damage))

    def _compare(self, name: str, now: Remembered) -> None:
        before = self.memory.of(name)
        if before is None or before.mark != now.mark or before.size_bytes < now.size_bytes:
            self.memory.keep(name, now)
            return
        self.memory.done.compared += 1
        self.memory.still_there(name)
        if before.size_bytes > now.size_bytes:
            reason = f"it had {before.size_bytes} bytes when it was scrubbed before"
            self.memory.found(Finding(name, now.size_bytes, 0, "rotten", reason))
            return
        for at in range(0, len(now.digests), DIGEST_BYTES):
            if before.digests[at : at + DIGEST_BYTES] != now.digests[at : at + DIGEST_BYTES]:
                offset = at // DIGEST_BYTES * PIECE_BYTES
                length = min(PIECE_BYTES, now.size_bytes - offset)
                reason = "these bytes are others than when it was scrubbed before, and nobody writes them"
                self.memory.found(Finding(name, offset, length, "rotten", reason))

    def _structure(self, file: JournalFile, root: Path, *, written: bool) -> Iterator[Damage]:
        """As far as it is told without the other files, and against the checksums of ours. What is still
        `written` to may end within a record.
        """
        name = name_of(file.path, root)
        with MappedFile(file.path) as mapped:
            scan = scan_journal(mapped, rid=file.rid, version=file.version)
            for gap in scan.gaps():
                if gap.kind in DAMAGE_REASONS and not (written and gap.kind is GapKind.TORN):
                    kind, reason = gap.kind.name.lower(), DAMAGE_REASONS[gap.kind]
                    yield Damage(name, gap.offset, gap.length, kind, reason)
            checked = check_mapped(mapped, scan, file.file_id)
            self.memory.done.compared += bool(checked.count)
            yield from (mismatch_damage(name, one) for one in checked.mismatches)


def _finding(damage: Damage) -> Finding:
    return Finding(damage.file, damage.offset, damage.length_bytes, damage.kind, damage.reason)


def _files(layout: StoreLayout) -> Iterator[_File]:
    """In the order of their names, part by part."""
    yield from _journal(layout.bindings_dir, "bindings", EXTENSION, layout.root)
    yield from _journal(layout.journal_dir, "journal", layout.journal_extension, layout.root)
    for name in sorted(door.names_if_there(layout.large_dir)):
        parsed = parse_large_name(name)
        if parsed is not None:
            mark = "body" if parsed.kind is LargeFileKind.DURABLE else None
            yield _File(layout.large_dir / name, f"large-messages/{name}", mark=mark)
    for folder in sorted(door.names_if_there(layout.paging_dir)):
        path = layout.paging_dir / folder
        if not door.is_folder(path):
            continue
        pages = {name: parse_page_name(name) for name in door.names_if_there(path)}
        last = max((one.number for one in pages.values() if one is not None), default=None)
        for name, page in sorted(pages.items()):
            closed = page is not None and page.number != last
            yield _File(path / name, f"paging/{folder}/{name}", page=closed)


def _journal(directory: Path, shown: str, extension: str, root: Path) -> Iterator[_File]:
    """Behind the last file with records in it are those that are written next."""
    listing = read_directory(directory, extension=extension, relative_to=root)
    current = next((one.file_id for one in reversed(listing.files) if _has_records(one)), None)
    for file in sorted(listing.files, key=lambda one: one.path.name):
        closed = current is not None and file.file_id < current and not file.header_damaged
        mark = f"id {file.file_id}" if closed else None
        yield _File(file.path, f"{shown}/{file.path.name}", file, mark)


def _has_records(file: JournalFile) -> bool:
    try:
        with MappedFile(file.path) as mapped:
            return scan_journal(mapped, rid=file.rid, version=file.version).count > 0
    except (OSError, FileTorn):
        return False


def _mark(file: _File) -> str | None:
    """Of a page, the message that it begins with, whose id nothing else ever has."""
    if not file.page:
        return file.mark
    with MappedFile(file.path) as mapped:
        ids = scan_page(mapped).message_ids()
    return f"begins with {ids[0]}" if ids else None


def _of_ours(layout: StoreLayout) -> Iterator[Damage]:
    """Names of journals that are no files of them, the index, and snapshots: descriptions, and whether there
    is what they name.
    """
    for directory, extension in (
        (layout.bindings_dir, EXTENSION),
        (layout.journal_dir, layout.journal_extension),
    ):
        yield from read_directory(directory, extension=extension, relative_to=layout.root).problems
    yield from chain.from_iterable(_of_snapshot(folder, layout) for folder in folders(layout.root))
    index = index_path(layout.root)
    try:
        read_index(index, object)
    except IndexUnusable as error:
        yield Damage(name_of(index, layout.root), 0, 0, "index", str(error))


def _of_snapshot(folder: Path, layout: StoreLayout) -> Iterator[Damage]:
    try:
        yield from damage_of(folder, read_description(folder))
    except Damaged as damaged:
        yield Damage(name_of(Path(damaged.file), layout.root), damaged.offset, 0, "snapshot", damaged.reason)
    except JournalfsError as error:
        yield Damage(name_of(folder, layout.root), 0, 0, "snapshot", str(error))
