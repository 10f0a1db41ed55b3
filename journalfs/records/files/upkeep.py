"""Keeps a journal going and small: a file ready for the writer, files freed, compaction when it is due.

Tasks run one after the other, long ones in a thread. A task that has begun runs to its end: a compaction that
stops after its control file leaves the disk and the writer with different files.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from journalfs.engine.waiting import FairLock, checkpoint, offload, unbroken
from journalfs.errors import Damaged, JournalfsError
from journalfs.limits import SETTLED_OPERATIONS
from journalfs.records.files.compaction import Compaction, CompactionDone, Plan, Rewritable, Room, best_plan
from journalfs.records.files.pool import WriteFile
from journalfs.records.files.reports import FileReport, file_reports

if TYPE_CHECKING:
    from journalfs.ids import Position
from journalfs.records.files.upkept import UpkeptJournal

log = logging.getLogger(__name__)

UPDATE_FACTOR = 10
"""Compaction is also due when replaceable updates outnumber adds by more than this, as in brokers."""

WRITTEN_FOR_GAINED = 2
"""Where the disk is as full as it may be, and not to its end, what lives is rewritten if that writes no more
than so many times what it gains.
"""

FILES_FOR_WHAT_IS_LOST = 4
"""So many times compact-min-files files are kept rather than compacted, where lost bytes may have committed
something.
"""

TRY_AGAIN_NS = 30_000_000_000
"""Time until a compaction that failed on a full disk is tried again. It reads all that it would rewrite, and
other programs may have taken the room.
"""


class Upkeep:
    def __init__(self, writer: UpkeptJournal) -> None:
        self._writer = writer
        self.turn = FairLock()
        """While somebody has it no file is set free, rewritten or used again."""
        self.compactions = 0
        self.compacting = False
        self._squeezing = False
        """True while compaction runs because the disk is full: tasks that need room wait for it."""
        self._overhead: tuple[int, int] = 0, 0
        """Bytes that compaction on a full disk is expected to write beside live records, after an attempt
        failed, and until when that holds.
        """
        self._explained: tuple[tuple[Position, list[int]] | None, Sequence[FileReport]] = (None, ())
        """The last answer of `explain`, with the state of the journal and its files at that time."""
        self._dead_bytes = 0
        """How much of closed files was dead when it was last seen whether rewriting them pays."""
        self.files_freed = 0
        self._deleted = False
        """True if files were deleted since the reader of the journal was last told to look."""
        self.contradicted: set[int] = set()
        """Ids of files that a checksum contradicts: they are not compacted, and freed only when nothing lives
        in them.
        """
        self._seen_without_room: tuple[int, int] | None = None
        """Up to which record the journal went, and how many bytes were free on the disk, when no room could
        be made: unless one of them changes, none can.
        """

    async def run(self) -> None:
        """Until cancelled, or until nothing can be written any more."""
        level = logging.WARNING
        committer = self._writer.committer
        while committer.failure is None or committer.suspended:
            await self._writer.bell.rung()
            try:
                await self.tidy()
                level = logging.WARNING
            except (OSError, JournalfsError, MemoryError) as error:
                log.log(level, "journal upkeep stopped short: %s", error)
                # A full disk stops it at each change.
                level = logging.DEBUG if self._writer.short_of_space else logging.WARNING

    async def tidy(self) -> None:
        """Do all that is due now. Raises OSError and WriteFailed; the journal stays as usable as it was."""
        async with self.turn:
            while self._writer.ledger.settle(SETTLED_OPERATIONS):
                await checkpoint()
            try:
                await unbroken(self._keep_ready)
            except OSError:
                # Without room for another file, room has to be made first.
                if not self._writer.short_of_space:
                    raise
            await unbroken(self._retain)
            await unbroken(self._reclaim)
            # On a full disk compaction would find no room for what it writes.
            if self.compaction_due() and self._writer.could_go_on():
                await unbroken(self._compact)
            await self._give_back()
            if self._may_pay():
                await self._squeeze(pays=True)
            try:
                await unbroken(self._keep_ready)
            except OSError:
                if not self._writer.short_of_space or await self._squeeze() is None:
                    raise
                await unbroken(self._keep_ready)

    async def make_room(self) -> None:
        """On a full disk, free the files that were consumed so far, so that the next publication is not
        refused for room that is about to be free. Raises nothing if none is freed; `JournalWriter` refuses
        then.
        """
        if not self._writer.short_of_space or (self.compacting and not self._squeezing):
            return
        async with self.turn:
            seen = self._writer.position, self._writer.backend.free_bytes()
            if not self._writer.short_of_space or seen == self._seen_without_room:
                return
            try:
                await unbroken(self._reclaim)
                await self._give_back()
                if self._writer.could_go_on() or await self._squeeze() is not None:
                    await unbroken(self._keep_ready)
            except (OSError, JournalfsError, MemoryError) as error:
                log.debug("no room could be made in the journal: %s", error)
            self._seen_without_room = seen

    async def _give_back(self) -> None:
        """Let go of what takes room on the disk and is not needed."""
        if self._writer.pool.has_spare(files_in_use=self._files_in_use):
            await unbroken(self._shed)
        if self._deleted:
            # Whoever reads the journal beside its writer has them mapped: until then they take room.
            await unbroken(self._writer.reader.before_emptying)
            self._deleted = False

    async def _retain(self) -> None:
        """Copy closed files to the history. A file whose copy failed stays until a copy succeeds."""
        retention = self._writer.retention
        if retention is None:
            return
        closed = self._writer.unretained()
        if closed:
            try:
                await offload(lambda: retention.keep(closed))
            except OSError as error:
                log.warning("no journal file is set free before the history has it: %s", error)

    async def reclaim(self) -> list[str]:
        """Set the files free that nothing needs; returns their names. Raises OSError."""
        async with self.turn:
            return await unbroken(self._reclaim)

    async def compact(self) -> CompactionDone:
        """Rewrite what lives of all closed files into new ones. Raises OSError and WriteFailed."""
        async with self.turn:
            done = await unbroken(self._compact)
            await self._give_back()
        return done

    async def squeeze(self) -> CompactionDone | None:
        """On a full disk, rewrite the live records of the first files into the room there is, if that frees
        more. Returns None if it would not, or could not be done.
        """
        async with self.turn:
            return await self._squeeze()

    def _may_pay(self) -> bool:
        """Whether the disk is as full as it may be, and much of closed files has died since it was last seen
        whether rewriting them pays. Deletes in later files keep them, and publishers wait, who would go on to
        other files.
        """
        writer = self._writer
        if not writer.pool.crowded or writer.short_of_space:
            return False
        files = writer.data[:-1]
        dead_bytes = sum(file.size_bytes for file in files)
        dead_bytes -= writer.ledger.counters(*(file.slot for file in files)).live_bytes
        if abs(dead_bytes - self._dead_bytes) < writer.settings.file_size_bytes:
            return False
        self._dead_bytes = dead_bytes
        return True

    async def _squeeze(self, *, pays: bool = False) -> CompactionDone | None:
        """`pays`: only if it gains enough for what it writes."""
        plan = await unbroken(self._plan)
        if plan is None:
            return None
        gained_bytes = plan.gained_files * self._writer.settings.file_size_bytes
        if pays and plan.written_bytes > WRITTEN_FOR_GAINED * gained_bytes:
            return None
        self._squeezing = True
        try:
            done = await unbroken(lambda: self._compacted(lambda one: one.run_in_place(plan.files)))
        except (OSError, JournalfsError) as error:
            if self._writer.committer.failure is not None:
                raise
            log.debug("what lives in %d journal files was not rewritten: %s", plan.files, error)
            # Not at once again, unless much more was consumed, or much more room is there.
            self._overhead = self._overhead_bytes() + plan.written_bytes, self._now_ns() + TRY_AGAIN_NS
            with suppress(OSError):
                await unbroken(self._keep_ready)
            return None
        finally:
            self._squeezing = False
        self._overhead = 0, 0
        await self._give_back()
        return done

    def _now_ns(self) -> int:
        return self._writer.clock.monotonic_ns()

    def _overhead_bytes(self) -> int:
        expected_bytes, until_ns = self._overhead
        return expected_bytes if self._now_ns() < until_ns else 0

    async def _plan(self) -> Plan | None:
        """Return what compaction could rewrite without a new file to go on in."""
        writer = self._writer
        if self._writer.reader.lost_file() is not None:
            return None
        files: list[Rewritable] = []
        for file in writer.data[:-1]:
            if file.file_id in self.contradicted or self._lacks_copy(file):
                break
            counted = writer.ledger.counters(file.slot)
            # A snapshot keeps the room of what has a second name.
            size_bytes = 0 if writer.backend.is_linked(file.name) else file.size_bytes
            usable = writer.pool.usable(file)
            files.append(Rewritable(counted.live_bytes + counted.open_bytes, size_bytes, usable))
        room = await offload(self.room)
        return best_plan(files, room, overhead_bytes=self._overhead_bytes())

    def room(self) -> Room:
        """Return the room for more files, without the reserve."""
        writer = self._writer
        ready = writer.ready_file
        free_files = writer.pool.can_make_way()
        if ready is not None and not writer.backend.is_linked(ready.name):
            free_files += 1
        return Room(writer.backend.free_bytes(), free_files, writer.settings.file_size_bytes)

    async def shed(self) -> int:
        """Delete the free files that need not be there; how many. Raises OSError."""
        async with self.turn:
            return await unbroken(self._shed)

    async def shrink(self, files: int) -> None:
        """Give back the room of free files until the journal has no more than so many files, if it can be: no
        file is ready then, so it is for a journal that is closed next. Raises OSError.
        """
        async with self.turn:
            writer = self._writer
            if writer.ready_file is not None:
                writer.pool.free.appendleft(writer.ready_file)
                writer.ready_file = None
            in_use = self._files_in_use
            await unbroken(lambda: offload(lambda: writer.pool.shrink(files, files_in_use=in_use)))

    async def _shed(self) -> int:
        writer, in_use = self._writer, self._files_in_use
        shed = await offload(lambda: writer.pool.shed(files_in_use=in_use))
        self._deleted |= shed > 0
        return shed

    @property
    def _files_in_use(self) -> int:
        return len(self._writer.data) + (self._writer.ready_file is not None)

    def crowd(self, *, crowded: bool) -> bool:
        """Whether the disk is as full as it may be: then no more free files are kept than there have to be.
        Returns whether some are on their way out.
        """
        writer = self._writer
        writer.pool.crowded = crowded
        going = crowded and writer.pool.has_spare(files_in_use=self._files_in_use)
        if going or writer.short_of_space:
            writer.bell.ring()
        return going

    async def have_ready(self) -> None:
        """Return when a file is ready to go on in, or none can be made, which `JournalWriter.switch` says."""
        while self._writer.ready_file is None and not self._writer.short_of_space:
            try:
                await unbroken(self._keep_ready)
            except OSError as error:
                log.warning("no further journal file can be made now: %s", error)
                return

    async def _keep_ready(self) -> None:
        """Have the next file ready before it is needed, and one behind it: the last one is for what makes
        room (see `JournalWriter.switch`).
        """
        writer = self._writer
        try:
            if writer.ready_file is None:
                above = writer.current.file_id
                # It stays where whoever has to go on meanwhile finds it: there may be no room for another.
                await offload(lambda: writer.pool.prepare(above=above))
                if writer.ready_file is None:
                    writer.ready_file = writer.pool.ready(above=writer.current.file_id)
            await offload(lambda: writer.pool.reserve(1))
        except OSError as error:
            writer.short_of_space = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise
        writer.short_of_space = False

    async def _reclaim(self) -> list[str]:
        """Only what is durable counts: a delete that a crash could lose frees nothing. Earlier files go
        first, each for good before the next, so that no delete goes before what it deletes.
        """
        writer = self._writer
        if writer.room_is_wanted:
            # The deletes may all be in the current file, and there may be no other to go on in.
            await writer.committer.flush_all()
        writer.release_handles()
        reached = writer.committer.reached_position
        counted: list[WriteFile] = []
        all_is_durable = reached >= writer.position
        for file in writer.data if writer.room_is_wanted and all_is_durable else writer.data[:-1]:
            if file.last_position > reached or self._lacks_copy(file):
                break
            counted.append(file)
        # Nothing else frees files, and what is free once stays so while others are being freed.
        slots = set(writer.ledger.reclaimable([file.slot for file in counted]))
        going = [file for file in counted if file.slot in slots and file is not writer.current]
        if going:
            await writer.reader.before_emptying()
        for file in going:
            file.going = True
            try:
                await self._retire(file)
            finally:
                file.going = False
            # Not before it is gone: if that fails, the file still counts, and so do the deletes of what it
            # holds.
            writer.forget_file(file)
            self.files_freed += 1
        return [file.name for file in going]

    def _lacks_copy(self, file: WriteFile) -> bool:
        writer = self._writer
        return writer.retention is not None and not file.retained and file is not writer.current

    async def _retire(self, file: WriteFile) -> None:
        writer = self._writer
        in_use = self._files_in_use - 1
        holds = writer.reader.holds
        free = await offload(lambda: writer.pool.retire(file, files_in_use=in_use, held=holds(file.name)))
        if free is not None:
            writer.pool.free.append(free)
            writer.short_of_space = False
        else:
            self._deleted = True

    def compaction_due(self) -> bool:
        """Return True by the broker's rule: more than compact-min-files files, and less than
        compact-percentage of them alive. Records of open transactions count as alive here: a broker counts
        them as dead and would rewrite a long transaction again and again.
        """
        writer, settings = self._writer, self._writer.settings
        files = writer.data[:-1]
        if settings.compact_min_files == 0 or len(files) <= settings.compact_min_files:
            return False
        if self._writer.reader.lost_file() is not None or self._waits_for_what_is_lost(len(files)):
            return False
        if any(file.file_id in self.contradicted or self._lacks_copy(file) for file in files):
            return False
        all_of_them = writer.ledger.counters(*(file.slot for file in files))
        if all_of_them.adds > 0 and all_of_them.replaceable // all_of_them.adds > UPDATE_FACTOR:
            return True
        live_bytes = all_of_them.live_bytes + all_of_them.open_bytes
        return live_bytes * 100 < len(files) * settings.file_size_bytes * settings.compact_percentage

    def _waits_for_what_is_lost(self, files: int) -> bool:
        """Return True if lost bytes of the journal may have committed a transaction, which compaction would
        leave out. The bytes may be put back; while such a file stays, all files behind it stay.
        """
        return (
            self._writer.ledger.totals().doubtful_transactions > 0
            and files <= FILES_FOR_WHAT_IS_LOST * self._writer.settings.compact_min_files
        )

    async def _compact(self) -> CompactionDone:
        return await self._compacted(Compaction.run)

    async def _compacted(self, run: Callable[[Compaction], Awaitable[CompactionDone]]) -> CompactionDone:
        gone = self._writer.reader.lost_file()
        if gone is not None:
            reason = "this file is lost: the journal is not compacted before it is back"
            raise Damaged(gone, 0, reason)
        self.compacting = True
        try:
            # While it goes on, whoever reads the journal beside its writer has to keep up.
            await self._writer.reader.before_emptying()
            done = await run(Compaction(self._writer, self.contradicted, self.room))
        finally:
            self.compacting = False
        self.compactions += 1
        return done

    def explain(self) -> Sequence[FileReport]:
        """Return what keeps each file from being freed, in reading order."""
        writer = self._writer
        moment = writer.position, [file.slot for file in writer.data]
        if self._explained[0] != moment:
            # Who lists explanations asks for those of all files once for each file.
            self._explained = moment, file_reports(writer.ledger, writer.data)
        return self._explained[1]
