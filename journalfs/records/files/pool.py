"""The files of a journal that hold nothing yet: making them, keeping one ready, using old ones again.

Ids only go up in the order in which files are used, and a file's name is durable before anything is written
into it. Everything here may be called from any thread.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journalfs.engine.backend import Backend, OpenFile, scan_view
from journalfs.engine.checksums import NOWHERE
from journalfs.engine.scan import Gap, GapKind
from journalfs.format.journal_file import number_of
from journalfs.ids import FileId, rid_of
from journalfs.limits import JOURNAL_HEADER_BYTES, LENGTHENED_BYTES
from journalfs.records.files.directory import SHORT_STEP_BYTES
from journalfs.records.files.write_settings import WriteSettings, round_up

if TYPE_CHECKING:
    from journalfs.engine.committer import Committer

VERSION, USER_VERSION = 2, 0
ATTIC = "attic"
KEPT = "removed"
"""Folder of files that are free, must not stay where they are, and hold what somebody may ask for yet."""

KEPT_SHARE = 3
"""So many times the room of what is kept is to be free on the disk, or the oldest of it is used."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A free file whose content is kept for undoing removals, so its room is not reused. `life`: its name and
    id when it was in use.
    """

    life: tuple[str, FileId]
    name: str
    """The name that it has now."""
    size_bytes: int


@dataclass(slots=True)
class WriteFile:
    """A journal file as its writer sees it. `slot` is its number in the ledger."""

    name: str
    file_id: FileId
    size_bytes: int
    slot: int = -1
    begins: int = 0
    """Where the first of the records is that were found in it: no block of the file is larger, if that is
    more than the usual one.
    """
    end: int = 0
    """Behind the last record; where the next flush begins, when it is the current file."""
    last_position: int = 0
    """The journal's position behind its last record."""
    records_end: int = 0
    """Behind the last record, before what a flush was filled up with."""
    previous: tuple[int, int] = NOWHERE
    """Id of the file that was written before this one, and where its records end."""
    was: FileId | None = None
    """Of a free file, the id that what it still holds belongs to, if somebody may ask for that."""
    kept: bool = False
    """True if the file's content is kept for undoing removals: other free files are used before it."""
    retained: bool = False
    """The history has it, or need not have it."""
    going: bool = False
    """True while the file is being emptied or deleted."""
    unreadable: tuple[Gap, ...] = ()
    """Damage in the file: bytes that are no record, no padding and nothing of an earlier life."""
    handle: OpenFile | None = None
    version: int = VERSION
    lengthened: bool = False
    """True if the file is longer than `size_bytes`, since it has or had a second name (see
    `journalfs.engine.links`).
    """

    def is_as_made(self, file_size_bytes: int) -> bool:
        """Whether it has the size in which files are made now, and was never longer."""
        return self.size_bytes == file_size_bytes and not self.lengthened

    @property
    def rid(self) -> int:
        return rid_of(self.file_id)


def encode_header(file_id: int, alignment_bytes: int) -> bytes:
    """The header, and zeros up to the first record."""
    header = struct.pack(">iiq", VERSION, USER_VERSION, file_id)
    return header.ljust(round_up(JOURNAL_HEADER_BYTES, alignment_bytes), b"\0")


def as_found(
    name: str, file_id: FileId, size_bytes: int, settings: WriteSettings, *, version: int = VERSION
) -> WriteFile:
    """A file that is there, `size_bytes` long."""
    lengthened = size_bytes == settings.file_size_bytes + LENGTHENED_BYTES
    if lengthened:
        size_bytes -= LENGTHENED_BYTES
    return WriteFile(name, file_id, size_bytes, version=version, lengthened=lengthened)


class FilePool:
    """Free files and ids. `last_id` is the highest id, or number in a name, ever used."""

    def __init__(
        self,
        backend: Backend,
        settings: WriteSettings,
        *,
        last_id: int,
        keep: Callable[[Backend, WriteFile], None] | None = None,
        note_deleted: Callable[[Sequence[tuple[int, int]]], None] | None = None,
    ) -> None:
        """`keep` is given files whose damage would be overwritten or deleted next, `note_deleted` ranges of
        ids that no file will have. Raises OSError.
        """
        self._backend = backend
        self._settings = settings
        self._keep = keep
        self._note_deleted = note_deleted
        self.last_id = last_id
        self._one_at_a_time = threading.RLock()
        self.keeps = False
        """True if the content of freed files may be asked for: they are used last (see `kept`)."""
        self._aside: list[KeptFile] = []
        self._extra = 0
        """Files that were made since others were kept."""
        self.free: deque[WriteFile] = deque()
        self.crowded = False
        """The disk is as full as it may be: free files are room for others, and not kept."""
        self._committer: Committer | None = None
        self.first_record = round_up(JOURNAL_HEADER_BYTES, backend.alignment_bytes)

    def written_by(self, committer: Committer) -> None:
        """Set the committer that gives up after a failed write or sync of the pool: the content of the disk
        is unknown then, and a repeated sync would be answered from memory.
        """
        self._committer = committer

    def new_id(self) -> FileId:
        with self._one_at_a_time:
            self.last_id += 1
            return FileId(self.last_id)

    def found(self, name: str, file_id: FileId, *, version: int = VERSION) -> WriteFile:
        """A file that is there."""
        return as_found(name, file_id, self._backend.size_bytes(name), self._settings, version=version)

    def create(self, file_id: FileId) -> WriteFile:
        """Make a file that nothing can mistake for a journal file before it is one. Raises OSError."""
        try:
            return self._create(file_id)
        except OSError:
            if not self._aside:
                raise
            for kept in list(self._aside):
                self.let_go(kept)
            return self._create(file_id)

    def _create(self, file_id: FileId) -> WriteFile:
        backend, size = self._backend, self._settings.file_size_bytes
        name = f"{self._settings.prefix}-{file_id}.{self._settings.extension}"
        temporary = f"{name}.tmp"
        try:
            backend.allocate(temporary, size)
            backend.write_at(temporary, 0, encode_header(file_id, backend.alignment_bytes))
            backend.sync(temporary)
            backend.rename(temporary, name)
        except OSError:
            if self._note_deleted is not None:
                self._note_deleted([(file_id, file_id)])
            # What is left of it takes up room on a disk that may have none.
            if temporary in backend.names():
                backend.remove(temporary)
            raise
        with self._doubtful(name):
            backend.sync_directory()
        return WriteFile(name, file_id, size, end=self.first_record)

    @contextmanager
    def _doubtful(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._committer is not None:
                self._committer.give_up(name, error)
            raise

    def reinitialise(self, file: WriteFile, file_id: FileId) -> WriteFile:
        """Give a file a new id, so that its old records belong to no file. A file with a second name keeps
        its content under that name, and another file takes its place. The id skips values that would make old
        bytes look like records.
        """
        with self._doubtful(file.name):
            if self._backend.is_linked(file.name):
                self._discard(file, file.was if file.kept else None)
                return self.create(file_id)
            again = WriteFile(file.name, file_id, file.size_bytes, end=self.first_record)
            again.was, again.kept = file.was, file.kept
            while self._holds_records_of(again):
                again.file_id = self.new_id()
            self._backend.write_at(again.name, 0, encode_header(again.file_id, self._backend.alignment_bytes))
            self._backend.sync(again.name)
        return again

    def _holds_records_of(self, file: WriteFile) -> bool:
        """Whether earlier lives left something that looks like a record of its new id. Ids of messages are
        made of as many bytes, and after a few unclean ends begin with numbers like those of files.
        """
        view = self._backend.view(file.name)
        scan = scan_view(view, rid=file.rid, version=VERSION, doing=f"scanning {file.name}")
        return scan.count > 0 or any(gap.kind is not GapKind.STALE for gap in scan.gaps())

    def usable(self, file: WriteFile) -> bool:
        """Whether a file may be used again."""
        return file.is_as_made(self._settings.file_size_bytes) and not self._backend.is_linked(file.name)

    def retire(self, file: WriteFile, *, files_in_use: int, held: bool = False) -> WriteFile | None:
        """Make a file free that nothing needs. Returns it if it joins the pool (see `put`), else it is gone.
        One that is `held` is.

        Durable on return: a later file may hold the deletes of what is in this one, and must not go before
        it.
        """
        self.keep_unreadable(file)
        with self._doubtful(file.name):
            return self._retire(file, files_in_use, held)

    def keep_unreadable(self, file: WriteFile) -> None:
        """Put what could not be read of a file out of the way of what becomes of it. Raises OSError."""
        if file.unreadable and self._keep is not None:
            self._keep(self._backend, file)
            file.unreadable = ()

    def _retire(self, file: WriteFile, files_in_use: int, held: bool) -> WriteFile | None:
        settings, backend = self._settings, self._backend
        if file.lengthened or backend.is_linked(file.name) or self._is_short(file):
            self._discard(file, file.file_id)
        elif not self.usable(file):
            backend.make_folder(ATTIC)
            if backend.folder_size(ATTIC) < settings.attic_files_max:
                self._tell_deleted(file)
                backend.rename(file.name, f"{ATTIC}/{file.name}")
            else:
                self._discard(file, file.file_id)
        elif held or self._beyond_the_pool(files_in_use):
            self._discard(file, file.file_id)
        else:
            free = self.reinitialise(file, self.new_id())
            free.kept, free.was = self.keeps, file.file_id if self.keeps else None
            return free
        backend.sync_directory()
        return None

    def _tell_deleted(self, file: WriteFile) -> None:
        """Note the ids that a deleted file may have had: its own, those between the number in its name and
        its id, or, if compaction gave it its id, any later one.
        """
        if self._note_deleted is not None:
            number = number_of(file.name, extension=self._settings.extension) or file.file_id
            last = file.file_id if number <= file.file_id else self.last_id
            self._note_deleted([(number, last), (file.file_id, file.file_id)])

    # ---- what may be asked for yet ----

    def _discard(self, file: WriteFile, life: FileId | None) -> None:
        """Take a file out of the journal, with or without what it holds (`life`)."""
        self._tell_deleted(file)
        if life is None or not self.keeps:
            self._backend.remove(file.name)
            return
        kept = KeptFile((file.name, life), f"{KEPT}/{file.name}.{life}", file.size_bytes)
        self._backend.make_folder(KEPT)
        self._backend.rename(file.name, kept.name)
        self._aside.append(kept)

    def kept(self) -> list[KeptFile]:
        """Return the kept files, the oldest first. They take disk room that nothing else would need."""
        return [*self._aside, *(one for one, kept in self._as_it_was() if kept)]

    def as_it_was(self) -> list[KeptFile]:
        """Return the kept files and the free files that were not used since."""
        return [*self._aside, *(one for one, _ in self._as_it_was())]

    def _as_it_was(self) -> list[tuple[KeptFile, bool]]:
        return [
            (KeptFile((file.name, file.was), file.name, file.size_bytes), file.kept)
            for file in list(self.free)
            if file.was is not None
        ]

    def let_go(self, kept: KeptFile) -> None:
        """Stop keeping one file. Raises OSError."""
        with self._one_at_a_time:
            if kept in self._aside:
                self._aside.remove(kept)
                self._backend.remove(kept.name)
            for file in self.free:
                file.kept &= (file.name, file.was) != kept.life

    def let_go_of_all(self) -> None:
        """Stop keeping all files, also those made since. Raises OSError."""
        with self._one_at_a_time:
            for kept in self.kept():
                self.let_go(kept)
            extra, self._extra = self._extra, 0
            self._delete(min(extra, len(self.free) - 1))

    def _make_unkept(self) -> None:
        """Have the first free file one that need not be kept, if the disk has room for another."""
        if self.crowded or not self.keeps or not any(file.kept for file in self.free):
            return
        unkept = next((file for file in self.free if not file.kept), None)
        if unkept is not None:
            self.free.remove(unkept)
        else:
            kept_bytes = sum(one.size_bytes for one in self.kept())
            if self._backend.free_bytes() < KEPT_SHARE * kept_bytes:
                return  # what is kept makes way
            unkept = self.create(self.new_id())
            self._extra += 1
        self.free.appendleft(unkept)

    def _is_short(self, file: WriteFile) -> bool:
        """Whether compaction may have made it on a full disk: the attic would keep its room."""
        return file.size_bytes < self._settings.file_size_bytes and file.size_bytes % SHORT_STEP_BYTES == 0

    def _beyond_the_pool(self, files_in_use: int) -> bool:
        """Whether one more free file is too many."""
        if self.crowded and self._spare(len(self.free) + 1, files_in_use) > 0:
            return True
        return 0 <= self._settings.pool_files <= len(self.free) + files_in_use

    def _spare(self, free: int, files_in_use: int) -> int:
        """How many of so many free files are too many: one is for what makes room (see `reserve`)."""
        if self._settings.pool_files < 0 and not self.crowded:
            return 0
        wanted = self._settings.min_files
        if not self.crowded:
            wanted = max(wanted, self._settings.pool_files)
        return max(0, min(free - 1, free + files_in_use - wanted))

    def has_spare(self, *, files_in_use: int) -> bool:
        """Whether `shed` would delete anything."""
        return self._spare(len(self.free), files_in_use) > 0

    def shed(self, *, files_in_use: int) -> int:
        """Delete, for good, the free files that need not be there; how many. Raises OSError."""
        with self._one_at_a_time:
            return self._delete(self._spare(len(self.free), files_in_use))

    def shrink(self, files: int, *, files_in_use: int) -> int:
        """Delete, for good, free files until the journal has no more than so many, all of them if need be: of
        a journal that is closed then. How many. Raises OSError.
        """
        with self._one_at_a_time:
            return self._delete(min(len(self.free), len(self.free) + files_in_use - files))

    def give_way(self, count: int) -> None:
        """Delete as many free files as `count` new ones need, but for one, so that their number does not
        grow. Their rooms are not reused for the new ones: their bytes carry ids of earlier lives, which
        compaction gives to files again. Raises OSError.
        """
        with self._one_at_a_time:
            self._delete(min(count, len(self.free) - 1))

    def make_way(self, needed_bytes: int) -> None:
        """Delete, for good, as many free files as it takes for so much room on the disk, all of them if need
        be: nothing is left then for what makes room, until it is made. Raises OSError.
        """
        with self._one_at_a_time:
            for kept in list(self._aside):
                self.let_go(kept)
            while self.free and self._backend.free_bytes() < needed_bytes:
                self.free[-1].kept = False
                self._delete(1)

    def can_make_way(self) -> int:
        """How many free files would leave their room to others."""
        return sum(not self._backend.is_linked(file.name) for file in list(self.free))

    def _delete(self, count: int) -> int:
        """Delete free files, in any order since they hold nothing; the ones that are used next stay."""
        for _ in range(count):
            with self._doubtful(self.free[-1].name):
                self._discard(self.free[-1], self.free[-1].was if self.free[-1].kept else None)
            self.free.pop()
        if count > 0:
            with self._doubtful(ATTIC):
                self._backend.sync_directory()
        return max(0, count)

    def reserve(self, count: int) -> None:
        """Have that many free files. Raises OSError."""
        with self._one_at_a_time:
            while len(self.free) < count:
                self.free.append(self.create(self.new_id()))

    def renew(self, *, above: int) -> None:
        """Give all free files ids above that one. Raises OSError."""
        with self._one_at_a_time:
            for _ in range(len(self.free)):
                file = self.free[0]
                if file.file_id <= above:
                    file = self.reinitialise(file, self.new_id())
                self.free.popleft()
                self.free.append(file)

    def ready(self, *, above: int) -> WriteFile:
        """A file with an id above that of the current one: the oldest free one, else a new one. Raises
        OSError.
        """
        with self._one_at_a_time:
            self.prepare(above=above)
            return self.free.popleft()

    def prepare(self, *, above: int) -> None:
        """Have the oldest free file ready to be taken, a new one if there is none. Raises OSError."""
        with self._one_at_a_time:
            self._make_unkept()
            if not self.free:
                self.free.append(self.create(self.new_id()))
            elif self.free[0].file_id <= above or self._backend.is_linked(self.free[0].name):
                self.free[0] = self.reinitialise(self.free[0], self.new_id())
