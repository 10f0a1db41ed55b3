"""Appends to the pages of one address.

Records are staged in memory, in order, and written together: the first task that waits writes all staged
records, and tasks that come during that write share the next one. A page takes records until the next one
would make it too long; then a new page begins. A new page also begins behind a broker's page that is damaged,
or that a queue has completed.

A failed write is taken back, and all staged records fail with it. A failed sync is final, since the content
of the disk is unknown then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from journalfs import door
from journalfs.engine.message_batch import TextBatch
from journalfs.engine.page_file import PageFile, PageStore
from journalfs.engine.pages import PageTexts
from journalfs.engine.waiting import FairLock, checkpoint, offload, unbroken
from journalfs.errors import JournalfsError, SystemFailure, WriteFailed
from journalfs.format.page_folder import format_page_name
from journalfs.ids import PageNumber
from journalfs.pages.folders import OwnPages


@dataclass(slots=True)
class Pile:
    """The records that are written together."""

    chunks: list[tuple[PageNumber, bytearray]] = field(default_factory=list)
    """By page, in order."""
    size_bytes: int = 0
    sync: bool = False
    """True if a task needs the records to be durable."""
    done: bool = False
    """True once the records were written, or failed: then there is an `error`."""
    synced: bool = False
    error: JournalfsError | None = None


@dataclass(frozen=True, slots=True)
class PageEnd:
    """Where a page ends."""

    number: PageNumber
    size_bytes: int
    records: int


class PageWriter:
    """Use from one event loop. `close` it."""

    def __init__(
        self,
        folder: Path,
        end: PageEnd,
        *,
        pages: PageStore,
        own: OwnPages,
        failed: Callable[[str, OSError], None],
    ) -> None:
        """`end`: where to go on; the page need not exist. `own` is kept up to date for those who
        read the pages. `failed` is told of a sync that
        failed, in any thread.
        """
        self.folder = folder
        self._end = end
        """Behind all that is staged."""
        self._written = end
        """Behind all that is on the disk."""
        self._pages = pages
        self._own = own
        self._durable_bytes = own.durable_bytes
        self._failed = failed
        self._pile = Pile()
        self._turn = FairLock()
        self._file: PageFile | None = None
        self._failure: JournalfsError | None = None

    @property
    def current(self) -> PageNumber:
        """The page that is appended to. It changes when the next page is written: if that write fails, later
        records still go to this one.
        """
        return self._written.number

    @property
    def end(self) -> PageEnd:
        """Behind all that was staged."""
        return self._end

    @property
    def idle(self) -> bool:
        """Nothing is staged or being written."""
        return not self._pile.chunks and not self._turn.locked()

    @property
    def staged_bytes(self) -> int:
        return self._pile.size_bytes

    def stage(self, record: bytes, page_bytes_max: int) -> tuple[PageNumber, Pile]:
        """Stage a record; returns the page it goes to, and what to wait for. Raises `WriteFailed`."""
        end = self._end
        if end.records and end.size_bytes + len(record) > page_bytes_max:
            end = PageEnd(PageNumber(end.number + 1), 0, 0)
        return self._stage(end, record, 1)

    def stage_texts(self, texts: PageTexts, batch: TextBatch, page_bytes_max: int) -> tuple[PageNumber, Pile]:
        """Stage the next texts of a batch, as many as fit a piece and the page. `batch` must
        not be at its end.
        """
        end = self._end
        while True:
            records, count = texts.next(
                batch,
                page_bytes=end.size_bytes,
                page_records=end.records,
                page_bytes_max=page_bytes_max,
            )
            if count:
                return self._stage(end, records, count)
            end = PageEnd(PageNumber(end.number + 1), 0, 0)

    def _stage(self, end: PageEnd, records: bytes | memoryview, count: int) -> tuple[PageNumber, Pile]:
        if self._failure is not None:
            raise self._failure
        pile = self._pile
        if not pile.chunks or pile.chunks[-1][0] != end.number:
            pile.chunks.append((end.number, bytearray()))
        pile.chunks[-1][1].extend(records)
        pile.size_bytes += len(records)
        self._end = PageEnd(end.number, end.size_bytes + len(records), end.records + count)
        return end.number, pile

    async def written(self, pile: Pile, *, sync: bool) -> None:
        """Return when a pile is on the disk; `sync`: when a power cut cannot lose it. Raises `SystemFailure`
        with nothing of it there, and `WriteFailed`. Not given up when cancelled.
        """
        pile.sync |= sync
        await unbroken(lambda: self._until_written(pile))
        if pile.error is not None:
            raise pile.error

    async def _until_written(self, pile: Pile) -> None:
        while not pile.done or (pile.sync and not pile.synced and pile.error is None):
            async with self._turn:
                if not pile.done:
                    # Who can run now stages what there is, and shares the write.
                    await checkpoint()
                    await self._write_pile()
                elif not pile.synced:
                    await self._sync_written(pile)

    async def _sync_written(self, pile: Pile) -> None:
        """A pile was written for somebody who did not need it to be durable, and others do."""
        try:
            await offload(self._sync)
        except OSError as error:
            pile.error = self._failure or SystemFailure.from_os(error, self.folder, doing="write to a page")
        else:
            pile.synced = True

    async def begin_page(self) -> PageNumber:
        """Begin an empty page behind the current one, unless that is empty; its name is durable on return.
        Only while idle. Raises `SystemFailure`.
        """
        async with self._turn:
            number = PageNumber(self._end.number + 1) if self._end.records else self._end.number
            path = self._path(number)
            self._durable_bytes.pop(self._path(self._end.number), None)
            try:
                await offload(lambda: self._open(path).begin())
            except OSError as error:
                raise SystemFailure.from_os(error, path, doing="begin a page") from error
            self._durable_bytes[path] = 0
            self._own.changed.add(self.folder)
            self._end = self._written = PageEnd(number, 0, 0)
            return number

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._durable_bytes.pop(self._path(self._written.number), None) is not None:
            self._own.changed.add(self.folder)

    # ---- inside ----

    def _path(self, number: PageNumber) -> Path:
        return self.folder / format_page_name(number)

    async def _write_pile(self) -> None:
        pile, self._pile = self._pile, Pile()
        end, before = self._end, self._written
        # The one before counts as being written, too: if this fails, what comes then goes there.
        for number in (before.number, *(number for number, _ in pile.chunks)):
            durable_bytes = before.size_bytes if number == before.number else 0
            self._durable_bytes.setdefault(self._path(number), durable_bytes)
        sync = pile.sync
        try:
            await offload(lambda: self._write(pile, before, sync=sync))
        except OSError as error:
            self._give_up(pile, before, error)
            return
        self._written = end
        if end.number != before.number or not before.records:
            self._own.changed.add(self.folder)
        for number in (before.number, *(number for number, _ in pile.chunks)):
            self._durable_bytes.pop(self._path(number), None)
        self._durable_bytes[self._path(end.number)] = end.size_bytes
        pile.done, pile.synced = True, sync

    def _write(self, pile: Pile, before: PageEnd, *, sync: bool) -> None:
        """In a thread. Raises OSError with nothing of it left, or with `_failure` set."""
        made: list[Path] = []
        try:
            for number, data in pile.chunks:
                path = self._path(number)
                if number != before.number:
                    made.append(path)
                page = self._open(path)
                self._check()  # what is behind a hole could not be read
                page.append(data)
        except OSError:
            if self._failure is None:
                self._take_back(made, before)
            raise
        if sync:
            self._sync()
        self._check()

    def _open(self, path: Path) -> PageFile:
        """The file, open. The one before is whole then, and durable."""
        if self._file is None or self._file.path != path:
            if self._file is not None:
                self._sync()
                self._check()
                self._file.close()
            self._file = None
            self._file = self._pages.open(path)
        return self._file

    def _sync(self) -> None:
        """Make the written records durable. Earlier pages are durable already: each was synced when the next
        one was begun.
        """
        assert self._file is not None
        try:
            self._file.sync()
        except OSError as error:
            self._doubt(self._file.path, error)
            raise

    def _check(self) -> None:
        """Raise OSError if a reader would not find the page: only this process may remove pages."""
        assert self._file is not None
        # P-2: the same for pages.
        lost = self._file.lost()
        if lost is not None:
            self._doubt(self._file.path, lost)
            raise lost

    def _take_back(self, made: list[Path], before: PageEnd) -> None:
        """Leave the pages as they were. If that cannot be, nothing is written to them any more."""
        try:
            if self._file is not None:
                self._file.close()
            self._file = None
            for path in made:
                self._pages.take_back(path)
            path = self._path(before.number)
            if before.size_bytes or door.exists(path):
                self._open(path).cut(before.size_bytes)
        except OSError as error:
            self._doubt(self._path(before.number), error)

    def _doubt(self, path: Path, error: OSError) -> None:
        reason = error.strerror or str(error)
        self._failure = WriteFailed(path.name, reason, system_errno=error.errno or 0)
        self._failed(path.name, error)

    def _give_up(self, pile: Pile, before: PageEnd, error: OSError) -> None:
        """Fail a pile, and what was staged behind it."""
        reason = self._failure or SystemFailure.from_os(error, self.folder, doing="write to a page")
        for one in (pile, self._pile):
            for number, _ in one.chunks:
                if number != before.number:
                    self._durable_bytes.pop(self._path(number), None)
            one.error, one.done = reason, True
        self._pile = Pile()
        self._own.changed.add(self.folder)
        self._end = self._written = before
        self._durable_bytes[self._path(before.number)] = before.size_bytes
