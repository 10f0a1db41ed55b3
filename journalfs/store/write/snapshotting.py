"""Making and removing snapshots of a store that is written.

While one is made nothing of what it needs is set free: no journal file is reclaimed or compacted, no page and
no large body is deleted, no binding changes. Publishing and acknowledging go on; what is durable at one
moment, and where pages end then, is what the snapshot holds.

It is made under a name that nobody looks at, and gets its own when all of it is durable. What the store still
writes to is copied, a file of the journal and one of each address that pages. All others are second names of
the store's files, which are never written into where they hold something: journal files that have a second
name are deleted and not used again, by this process (`FilePool`), and by a broker since they are longer than
it makes them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from journalfs import door
from journalfs.bodies.writing import BodyStore
from journalfs.broker.pages.page_cleanup import PageCleanup
from journalfs.change.journals import Journals
from journalfs.engine.links import copy_beginning, lengthen, rename, write_durably
from journalfs.engine.waiting import FairLock, offload, unbroken
from journalfs.errors import NameTaken, NoSuchName, SystemFailure, failing
from journalfs.format.large_file import parse_large_name
from journalfs.format.page_folder import ADDRESS_FILE_NAME
from journalfs.ids import FileId
from journalfs.limits import JOURNAL_FILE_BYTES_MAX, LENGTHENED_BYTES, SNAPSHOT_COPIED_BYTES_MAX
from journalfs.live.core import Core
from journalfs.pages.folders import PageFolder
from journalfs.records.files.pool import WriteFile
from journalfs.records.files.writer import JournalWriter
from journalfs.store.snapshot_folder import (
    BINDINGS,
    DESCRIPTION,
    FORMAT,
    JOURNAL,
    LARGE,
    MAKING,
    PAGES,
    REMOVING,
    SNAPSHOTS,
    LinkedFile,
    LinkedPage,
    SnapshotDescription,
    encode_description,
    encoded_name,
    folder_name,
    sweep,
)
from journalfs.store.snapshots import Snapshots

_NO_LINKS: Final = frozenset((errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))
"""Errors of `link` between two file systems, and on file systems without links."""

_IDENTITY_CHARS: Final = 16
_GENERATION_CHANCE: Final = 1000
"""Snapshots that can be made in one millisecond: names of parts do not come again under one name."""


@dataclass(frozen=True, slots=True)
class _Journal:
    """The files of a journal that count at one moment, and where the last of them ends."""

    files: Sequence[tuple[WriteFile, int]]
    limit: tuple[FileId, int]

    @classmethod
    def of(cls, writer: JournalWriter) -> _Journal:
        file_id, end = writer.durable_end()
        ends = [(file, end if file.file_id == file_id else file.end) for file in writer.data]
        return cls([(file, end) for file, end in ends if file.file_id <= file_id], (file_id, end))


@dataclass(frozen=True, slots=True)
class _Moment:
    name: str
    identity: str
    created_ms: int
    messages: _Journal
    bindings: _Journal
    pages: Sequence[PageFolder]
    last_id: int
    maker: int


class SnapshotMaking(Snapshots):
    """Use from one event loop."""

    def __init__(
        self, core: Core, journals: Journals, paged: PageCleanup, bodies: BodyStore, administered: trio.Lock
    ) -> None:
        super().__init__(core.layout)
        self._core = core
        self._journals = journals
        self._paged = paged
        self._bodies = bodies
        self._administered = administered
        self._making = FairLock()

    def sweep(self) -> None:
        """Remove what a crash left. Raises OSError."""
        left = sweep(self._core.root)
        if left:
            self._core.events.add(
                "snapshots-swept", f"snapshots that were not finished, and were removed: {len(left)}"
            )

    async def create(self, name: str, maker: int = -1) -> None:
        async with self._making:
            self._journals.refuse_failed(self._core.shown)
            folder = self._core.root / SNAPSHOTS / folder_name(name)
            if door.exists(folder):
                raise NameTaken(f"{name}: there is a snapshot of that name")
            await unbroken(lambda: self._create(name, folder, maker))

    async def delete(self, name: str) -> None:
        async with self._making:
            self._journals.refuse_failed(self._core.shown)
            snapshot = self.named(name)
            if snapshot is None:
                raise NoSuchName(f"{name}: there is no such snapshot")
            folder = snapshot.folder
            going = folder.with_name(REMOVING + uuid.uuid4().hex[:_IDENTITY_CHARS])
            await unbroken(lambda: self._delete(folder, going))

    async def _delete(self, folder: Path, going: Path) -> None:
        def remove() -> None:
            rename(folder, going)
            door.remove_tree(going)
            door.sync(going.parent)

        self.forget(folder)
        with failing("remove the snapshot", folder):
            await offload(remove)

    async def _create(self, name: str, folder: Path, maker: int) -> None:
        async with self._nothing_goes():
            for writer in (self._journals.messages, self._journals.bindings):
                await writer.durable(writer.position)
            moment = self._moment(name, maker)
            making = folder.with_name(MAKING + moment.identity)
            try:
                await offload(lambda: self._make(moment, making, folder))
            except OSError as error:
                await offload(lambda: _discard(making))
                raise _failure(error, folder) from error

    @asynccontextmanager
    async def _nothing_goes(self) -> AsyncIterator[None]:
        """Keep all present files until the end of the block."""
        messages, bindings = self._journals.messages, self._journals.bindings
        async with self._administered, messages.upkeep.turn, bindings.upkeep.turn, self._paged.turn:
            await offload(self._bodies.removals.acquire)
            try:
                yield
            finally:
                self._bodies.removals.release()

    def _moment(self, name: str, maker: int) -> _Moment:
        return _Moment(
            name,
            uuid.uuid4().hex[:_IDENTITY_CHARS],
            self._core.clock.now_ms(),
            _Journal.of(self._journals.messages),
            _Journal.of(self._journals.bindings),
            self._core.paging.folders(),
            self._journals.ids.last,
            maker,
        )

    async def hold_journal(self, place: Path) -> Path:
        """Give the journal as it is now names of its own, in a new folder below `place`: the folder."""
        folder = place / JOURNAL
        messages = self._journals.messages
        async with messages.upkeep.turn:
            await messages.durable(messages.position)
            journal = _Journal.of(messages)
            try:
                await offload(lambda: self._hold(journal, folder))
            except OSError as error:
                raise _failure(error, folder) from error
        return folder

    # ---- in a thread ----

    def _hold(self, journal: _Journal, folder: Path) -> None:
        door.make_folders(folder)
        self._take_journal(journal, folder, _Copying(SNAPSHOT_COPIED_BYTES_MAX))

    def _make(self, moment: _Moment, making: Path, folder: Path) -> None:
        door.make_folders(folder.parent)
        for part in (JOURNAL, BINDINGS, PAGES, LARGE):
            door.make_folders(making / part)
        layout = self._core.layout
        for directory in (layout.journal_dir, layout.paging_dir, layout.large_dir):
            if door.status(directory).st_dev != door.status(making).st_dev:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(directory))
        copying = _Copying(SNAPSHOT_COPIED_BYTES_MAX)
        linked = self._take_journal(moment.messages, making / JOURNAL, copying)
        for file, end in moment.bindings.files:
            names = layout.bindings_dir / file.name, making / BINDINGS / file.name
            copy_beginning(*names, end, size_bytes=file.size_bytes)
        pages = [page for one in moment.pages for page in _take_pages(one, making / PAGES, copying)]
        bodies = self._link_bodies(moment.last_id, making / LARGE)
        description = SnapshotDescription(
            format=FORMAT,
            name=encoded_name(moment.name),
            identity=moment.identity,
            created_ms=moment.created_ms,
            generation=moment.created_ms * _GENERATION_CHANCE + int(moment.identity, 16) % _GENERATION_CHANCE,
            end_file=moment.messages.limit[0],
            end_offset=moment.messages.limit[1],
            journal=[LinkedFile(file.name, file.file_id, end) for file, end in moment.messages.files],
            pages=pages,
            bodies=bodies,
            maker=moment.maker,
        )
        write_durably(making / DESCRIPTION, encode_description(description))
        self._lengthen(linked)
        for directory in (making / JOURNAL, making / BINDINGS, making / LARGE, making / PAGES, making):
            door.sync(directory)
        rename(making, folder)
        for directory in (folder.parent.parent, self._core.root):
            door.sync(directory)

    def _take_journal(self, journal: _Journal, folder: Path, copying: _Copying) -> list[WriteFile]:
        """Returns those files that got a second name."""
        linked: list[WriteFile] = []
        for file, end in journal.files:
            path, name = self._core.layout.journal_dir / file.name, folder / file.name
            current = file.file_id == journal.limit[0]
            if not (current and copying.copied(path, name, end, size_bytes=file.size_bytes)):
                door.link(path, name)
                linked.append(file)
        return linked

    def _lengthen(self, files: Sequence[WriteFile]) -> None:
        """A broker is to let go of them, not to use them again."""
        size_bytes = self._journals.messages.settings.file_size_bytes
        if size_bytes + LENGTHENED_BYTES > JOURNAL_FILE_BYTES_MAX:
            return
        fresh = [file for file in files if not file.lengthened]
        for file in fresh:
            lengthen(self._core.layout.journal_dir / file.name, size_bytes)
            file.lengthened = True
        for file in fresh:
            door.sync(self._core.layout.journal_dir / file.name)

    def _link_bodies(self, last_id: int, folder: Path) -> int:
        """Link the bodies of messages published so far. Returns their number."""
        bodies = 0
        for name in door.names(self._core.layout.large_dir):
            parsed = parse_large_name(name)
            if parsed is not None and parsed.message_id <= last_id:
                door.link(self._core.layout.large_dir / name, folder / name)
                bodies += 1
        return bodies


@dataclass(slots=True)
class _Copying:
    """Files that are still written to are copied as far as they are, so that nothing in the snapshot changes;
    linked where that would be too much.
    """

    left_bytes: int

    def copied(self, file: Path, copy: Path, length: int, *, size_bytes: int = 0) -> bool:
        if length > self.left_bytes:
            return False
        self.left_bytes -= length
        copy_beginning(file, copy, length, size_bytes=size_bytes)
        return True


def _take_pages(found: PageFolder, pages: Path, copying: _Copying) -> list[LinkedPage]:
    folder = pages / found.path.name
    door.make_folders(folder)
    if door.exists(found.path / ADDRESS_FILE_NAME):
        door.link(found.path / ADDRESS_FILE_NAME, folder / ADDRESS_FILE_NAME)
    taken = list(found.pages)
    while len(taken) > 1 and not taken[-1].stamp.size_bytes:
        # What is being written to several pages was not durable in these yet.
        taken.pop()
    for page in taken:
        name = folder / page.path.name
        if page is not taken[-1]:
            door.link(page.path, name)
        elif not copying.copied(page.path, name, page.stamp.size_bytes):
            door.link(page.path, name)
            door.sync(name)  # the others were synced when the next one was begun
    door.sync(folder)
    return [LinkedPage(folder.name, page.path.name, page.stamp.size_bytes) for page in taken]


def _discard(making: Path) -> None:
    with contextlib.suppress(OSError):  # it is swept when the store is opened the next time
        door.remove_tree(making)


def _failure(error: OSError, folder: Path) -> SystemFailure:
    if error.errno not in _NO_LINKS:
        return SystemFailure.from_os(error, folder, doing="make a snapshot")
    reason = "a snapshot gives the store's files second names, and this one takes none"
    return SystemFailure(
        f"{folder}: {reason}: {error.filename}: {error.strerror}", system_errno=errno.EOPNOTSUPP
    )
