"""Appends to one journal: records are staged in order, and `durable` waits until they survive a power cut.

`stage_…` checks the rules that keep a journal readable (docs/format/records.md): an id lives once, a change
names a live record, and no record that an open transaction changes is deleted. The caller must never reuse
the id of a deleted record.
"""

from __future__ import annotations

import errno
import logging
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from journalfs.clock import Clock
from journalfs.engine.backend import Backend
from journalfs.engine.checksums import NOWHERE
from journalfs.engine.committer import Committer, Flush
from journalfs.engine.id_batch import DeleteBatch, UpdateBatch
from journalfs.engine.ledger import Ledger, LedgerTotals
from journalfs.engine.message_batch import TOO_LONG, CopyBatch, TextBatch
from journalfs.engine.stage import ABSENT, EXISTS, HELD, NO_ROOM, STAGED, Stage, record_bytes
from journalfs.engine.status import check
from journalfs.engine.tail import Tail
from journalfs.engine.waiting import Bell, together
from journalfs.errors import NoSpace, ReadOnlyStore, RecordRefused, RecordTooLarge, SystemFailure
from journalfs.format.record_types import BindingType, MessageType, RecordKind
from journalfs.ids import FileId, Position, RecordId, TxId
from journalfs.limits import JOURNAL_BLOCK_BYTES_DEFAULT, JOURNAL_HEADER_BYTES
from journalfs.records.files.kept_damage import KeptDamage
from journalfs.records.files.opening import LeftOff, Opened, append_position, open_files
from journalfs.records.files.pool import FilePool, WriteFile
from journalfs.records.files.retention import Retention
from journalfs.records.files.upkeep import Upkeep
from journalfs.records.files.upkept import JournalReader
from journalfs.records.files.write_settings import WriteSettings, round_up

# Which records take room, and are not there to make some.

_ADDS: Final = frozenset({RecordKind.ADD, RecordKind.ADD_TX, RecordKind.EVENT})
_OF_CONSUMING: Final = frozenset(
    {
        MessageType.ACKNOWLEDGE_CURSOR,
        MessageType.PAGE_COMPLETE,
        MessageType.PAGE_COUNTER_VALUE,
        MessageType.PAGE_COUNTER_INCREMENT,
        BindingType.ID_COUNTER,
    }
)
"""User types of what is added to consume messages: that those of pages are, and the ids that it takes."""


def takes_room(kind: int, user_type: int) -> bool:
    """Whether a record is not there to make some."""
    if kind in _ADDS:
        return user_type not in _OF_CONSUMING
    return user_type == MessageType.ADD_REFERENCE and kind in (RecordKind.UPDATE, RecordKind.UPDATE_TX)


log = logging.getLogger(__name__)

_REFUSALS: Final = {
    ABSENT: "there is no such record, or its transaction is not open",
    EXISTS: "the id is in use, or the transaction is prepared already",
    HELD: "an open transaction claims it, or the transaction is prepared",
}

_SPACE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class JournalWriter:
    """One journal, open for writing. Use from one event loop; the `stage_` methods do not wait."""

    def __init__(self, backend: Backend, settings: WriteSettings, clock: Clock, opened: Opened) -> None:
        self.backend = backend
        self.settings = settings
        self.clock = clock
        self.ledger: Ledger = opened.ledger
        self.pool: FilePool = opened.pool
        self.data: list[WriteFile] = opened.data
        """Files with records in reading order; the last is the current one."""
        self.recovered: list[str] = opened.recovered
        self.cut_off: list[str] = opened.cut_off
        self.ready_file: WriteFile | None = None
        self.short_of_space = False
        """True while no further file can be made: the room that is left is for records that remove."""
        self.reader = JournalReader()
        self.retention: Retention | None = None
        self.bell = Bell()
        self.committer = Committer(backend, clock, seal=self._seal, while_waiting=self._while_waiting)
        self.pool.written_by(self.committer)
        self.bytes_read = opened.bytes_read
        """To open it."""
        self.upkeep = Upkeep(self)
        self.record_bytes_max = settings.record_bytes_max(backend.alignment_bytes)
        self._position = 0
        self._staged_since_ns: int | None = None
        self._owed: list[TxId] = []
        """Transactions whose rollback found no room."""
        self._stage: Stage = self._empty_stage()
        self._gathers = False
        self._closed = False

    @classmethod
    def open(
        cls,
        backend: Backend,
        settings: WriteSettings,
        clock: Clock,
        *,
        retention: Callable[[WriteSettings], Retention] | None = None,
        some_lost: bool = False,
        ends_unfinished: bool = True,
        kept: KeptDamage | None = None,
        left_off: LeftOff | None = None,
    ) -> JournalWriter:
        """Recover and read the journal, roll back unfinished transactions, and return a writer at its end.
        `retention` is the journal's history. `some_lost`: a file of the journal is known to be missing.
        `kept` preserves unreadable bytes of files that are used again. `left_off` describes files that need
        not be read.

        Raises OSError and UnknownVersion. No other process may have the journal open for writing.
        """
        settings = settings.aligned(backend.alignment_bytes)
        opened = open_files(backend, settings, some_lost=some_lost, kept=kept, left_off=left_off)
        writer = cls(backend, settings, clock, opened)
        try:
            if retention is not None:
                writer.retention = retention(settings)
                writer.retention.begin(writer.data)
            writer._begin()
            if ends_unfinished:
                writer.end_unfinished()
        except BaseException:
            writer.release()
            raise
        return writer

    def _begin(self) -> None:
        pool = self.pool
        with self._as_far_as_there_is_room():
            while len(self.data) + len(pool.free) < max(self.settings.min_files, 2):
                pool.free.append(pool.create(pool.new_id()))
        current = self.data[-1] if self.data else None
        if current is None or not self._goes_on(current):
            self._enter(pool.ready(above=current.file_id if current else 0))
        else:
            with self._as_far_as_there_is_room():
                # What is in the history would be in it a second time with what is written behind it.
                if current.retained or self._room(current) <= 0:
                    self._enter(pool.ready(above=current.file_id))
        with self._as_far_as_there_is_room():
            self.ready_file = pool.ready(above=self.current.file_id)
        if self.current is current:
            current.retained = False
            current.handle = self.backend.open(current.name, dense=self.short_of_space)
            current.end = append_position(current, current.handle.alignment_bytes)
            self._begin_stage()
        # Nothing of this process is on its way yet.
        self.committer.reached_end = self.current.file_id, self.current.end
        self.bell.ring()

    def end_unfinished(self, *, in_doubt: bool = False) -> None:
        """Roll back the transactions that were open and not prepared when the journal was opened. If bytes of
        the journal are lost, or `in_doubt` says so, their COMMIT may be lost: then they stay as they are.
        """
        if in_doubt:
            self.ledger.doubt()
        for transaction in self.ledger.transactions():
            if transaction.prepared and not transaction.broken:
                continue
            if self.ledger.doubts:
                # Nor does a record say so: with what is lost put back, it may be committed.
                self.ledger.abandon(transaction.tx_id)
            else:
                self.roll_back(TxId(transaction.tx_id))

    @contextmanager
    def _as_far_as_there_is_room(self) -> Iterator[None]:
        """Note an error of a full disk within the block in `short_of_space` instead of raising it: the
        journal must open, since consuming makes room.
        """
        try:
            yield
        except OSError as error:
            if error.errno not in _SPACE_ERRORS:
                raise
            self.short_of_space = True

    def _goes_on(self, current: WriteFile) -> bool:
        """Return True if the last file found may be appended to. A file whose id another file has, too, may
        not: an id and an offset would not name one place. Nor may a file with smaller blocks: padding to
        larger ones would look like lost records.
        """
        alone = all(file.file_id != current.file_id for file in self.data[:-1])
        blocks_fit = self.backend.alignment_bytes <= max(current.begins, JOURNAL_BLOCK_BYTES_DEFAULT)
        return alone and current.version == 2 and blocks_fit

    # ---- what there is ----

    @property
    def current(self) -> WriteFile:
        return self.data[-1]

    @property
    def position(self) -> Position:
        """Behind everything staged so far."""
        return Position(self._position)

    @property
    def room_is_wanted(self) -> bool:
        """Whether files are to be set free as soon as they can be: publishers wait for room, or get none."""
        return self.short_of_space or self.pool.crowded

    @property
    def is_settled(self) -> bool:
        """Whether all that was staged is durable."""
        failed = self.committer.failure is not None or self._owed
        return not failed and self.committer.reached_position >= self._position

    def durable_end(self) -> tuple[FileId, int]:
        """Return the place (file, offset) up to which the journal is durable: all files before that file are
        durable as a whole, and no byte of later files is. May be called in any thread.
        """
        return self.committer.reached_end

    def newest_first(self) -> Iterator[tuple[FileId, str]]:
        """Id and name of each file with records, from the current one back."""
        return ((file.file_id, file.name) for file in reversed(self.data))

    def totals(self) -> LedgerTotals:
        return self.ledger.totals()

    def has_open(self, tx: TxId) -> bool:
        """Whether anything of a transaction is staged that is neither committed nor rolled back."""
        return any(transaction.tx_id == tx for transaction in self.ledger.transactions())

    def is_live(self, record_id: int) -> bool:
        return self.ledger.is_live(record_id)

    # ---- staging ----

    def stage_add(self, record_id: RecordId, user_type: int, body: bytes) -> Position:
        """Stage a record of its own. Like all of these raises RecordRefused, RecordTooLarge, NoSpace and,
        after a write failed, ReadOnlyStore; then nothing was staged.
        """
        return self._put(RecordKind.ADD, record_id, 0, user_type, body)

    def stage_update(self, record_id: RecordId, user_type: int, body: bytes) -> Position:
        return self._put(RecordKind.UPDATE, record_id, 0, user_type, body)

    def stage_delete(self, record_id: RecordId) -> Position:
        return self._put(RecordKind.DELETE, record_id, 0, 0, b"")

    def stage_event(self, record_id: RecordId, user_type: int, body: bytes) -> Position:
        """A record that no load looks at."""
        return self._put(RecordKind.EVENT, record_id, 0, user_type, body)

    def stage_add_in(self, tx: TxId, record_id: RecordId, user_type: int, body: bytes) -> Position:
        """As part of a transaction; the first such record begins it."""
        return self._put(RecordKind.ADD_TX, record_id, tx, user_type, body)

    def stage_update_in(self, tx: TxId, record_id: RecordId, user_type: int, body: bytes) -> Position:
        return self._put(RecordKind.UPDATE_TX, record_id, tx, user_type, body)

    def stage_delete_in(self, tx: TxId, record_id: RecordId, body: bytes = b"") -> Position:
        return self._put(RecordKind.DELETE_TX, record_id, tx, 0, body)

    def stage_messages(self, batch: TextBatch | CopyBatch) -> Position | None:
        """Stage all of a batch. None, with nothing staged, if one of its texts may be too long for a record,
        or where each record is to be a write of its own. Raises FileTorn where what is copied was cut.
        """
        if self.settings.buffer_timeout_ns == 0:
            return None
        self._begin_staging()
        self._refuse_in_last_file()
        status = self._stage_some(batch)
        while status == NO_ROOM:
            self._make_room(batch.needed_bytes, for_add=True)
            status = self._stage_some(batch)
        if status == TOO_LONG:
            return None
        if status in _REFUSALS:
            raise RecordRefused(f"messages of transaction {batch.tx_id}: {_REFUSALS[status]}")
        check(status, "staging messages")
        return Position(self._position)

    def stage_updates_in(self, tx: TxId, record_ids: array[int], user_type: int, body: bytes) -> Position:
        """Stage the same update for each of many records, as part of a transaction."""
        if self.settings.buffer_timeout_ns == 0:
            for record_id in record_ids:
                self.stage_update_in(tx, RecordId(record_id), user_type, body)
            return Position(self._position)
        self._begin_staging()
        batch = UpdateBatch(record_ids, tx_id=tx, user_type=user_type, body=body)
        length = record_bytes(RecordKind.UPDATE_TX, len(body))
        status = self._stage_some(batch)
        while status == NO_ROOM:
            self._make_room(length)
            status = self._stage_some(batch)
        if status != STAGED:
            raise RecordRefused(f"updates of transaction {tx}: {_REFUSALS[status]}")
        return Position(self._position)

    def stage_deletes(self, record_ids: array[int]) -> bytes:
        """Delete those of many messages that are there, free of open transactions and in no queue: for each 1
        or 0.
        """
        if self.settings.buffer_timeout_ns == 0:
            return bytes(map(self._delete_if_free, record_ids))
        self._begin_staging()
        batch = DeleteBatch(record_ids)
        length = record_bytes(RecordKind.DELETE, 0)
        while self._stage_some(batch) == NO_ROOM:
            self._make_room(length)
        return batch.staged()

    def _delete_if_free(self, record_id: int) -> bool:
        if self.ledger.references(record_id) > 0:
            return False
        try:
            self.stage_delete(RecordId(record_id))
        except RecordRefused:
            return False
        return True

    def stage_prepare(self, tx: TxId, extra: bytes) -> Position:
        """From here on the transaction survives a crash; `extra` is what its owner knows it by."""
        return self._put(RecordKind.PREPARE, 0, tx, 0, extra)

    def stage_commit(self, tx: TxId) -> Position:
        return self._put(RecordKind.COMMIT, 0, tx, 0, b"")

    def stage_rollback(self, tx: TxId) -> Position:
        return self._put(RecordKind.ROLLBACK, 0, tx, 0, b"")

    def roll_back(self, tx: TxId) -> None:
        """Make sure that a transaction that could not be finished never counts, if any record of it was
        staged. Without room for its ROLLBACK, that record is staged before the next one that finds room;
        until then the transaction's claims stay. After a failed write, the next opening of the journal rolls
        it back.
        """
        failure, passing = self.committer.failure, self.committer.suspended
        if (failure is None or passing) and not self._closed and self.has_open(tx):
            self._owed.append(tx)
            if not passing:
                self._roll_back_owed()

    def _roll_back_owed(self) -> None:
        with suppress(NoSpace):
            while self._owed:
                self._append(RecordKind.ROLLBACK, 0, self._owed[-1], 0, b"")
                self._owed.pop()

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Write what is staged within this in as few flushes as it fills, also where `journal-buffer-timeout`
        is 0. Wait for nothing within it.
        """
        self._gathers = True
        try:
            yield
        finally:
            self._gathers = False
            if self.settings.buffer_timeout_ns == 0 and self.committer.failure is None:
                self._seal()
                self.committer.submit_full()

    # ---- durability ----

    async def durable(self, position: Position) -> None:
        """Return when a crash cannot lose anything up to `position`; one flush serves all who wait.

        If cancelled before the call, the records stay staged and are written within the buffer timeout. Once
        waiting, cancellation is delivered when the outcome of the flush is known. Raises WriteFailed.
        """
        await self.committer.reached(position)

    async def durable_unbroken(self, position: Position) -> None:
        """Wait until `position` is durable, without delivering a cancellation, and without a turn of the
        scheduler where no other task has records for the flush. Raises WriteFailed.
        """
        await self.committer.reached_unbroken(position)

    def waits(self, *, transactional: bool) -> bool:
        """Whether `journal-sync-transactional` or `journal-sync-non-transactional` asks for a publisher to
        wait until it is `durable`.
        """
        settings = self.settings
        return settings.sync_transactional if transactional else settings.sync_non_transactional

    async def run(self) -> None:
        """The journal's own work, until cancelled: flushing what nobody waits for, keeping a file ready,
        setting files free, compacting.
        """
        await together(
            lambda: self.committer.run(
                timeout_ns=max(self.settings.buffer_timeout_ns, 1),
                staged_since_ns=lambda: self._staged_since_ns,
            ),
            self.upkeep.run,
        )

    async def close(self) -> None:
        """Write what is staged and let go of the files. Raises WriteFailed."""
        if self._closed:
            return
        try:
            await self.committer.flush_all()
        finally:
            self.release()

    def retain(self) -> None:
        """Copy what was closed lately to the history: brokers take it for free. Raises OSError."""
        if self.retention is not None and (closed := self.unretained()):
            self.retention.keep(closed)

    def unretained(self) -> list[WriteFile]:
        """Files that are closed and durable, and that the history does not have."""
        reached = self.committer.reached_position
        return [file for file in self.data[:-1] if not file.retained and file.last_position <= reached]

    def release(self) -> None:
        """Let go of the files as they are; nothing can be staged any more."""
        if self.retention is not None and not self._closed:
            self.retention.close()
        self._closed = True
        for file in self.data:
            self._close_handle(file)

    # ---- lent ----

    def lend(self, tail: Tail) -> bool:
        """Lend the end of the journal to C: until `take_back` nothing may be staged here. Returns False if it
        cannot be lent now, or with this backend.
        """
        settings, file = self.settings, self.current
        waits = settings.sync_transactional and settings.sync_non_transactional
        if not waits or settings.buffer_timeout_ns == 0 or self._closed or self._owed or self.short_of_space:
            return False
        if file.handle is None or self.upkeep.compacting:
            return False
        if not self.committer.lend(tail, is_empty=self._stage.record_count == 0):
            return False
        tail.begin(self._stage, self.ledger, file_id=file.file_id, previous=file.previous)
        fields, alignment_bytes = tail.fields, file.handle.alignment_bytes
        fields.alignment_bytes = alignment_bytes
        fields.whole_bytes = file.size_bytes // alignment_bytes * alignment_bytes
        fields.buffer_bytes, fields.spared_bytes = settings.buffer_size_bytes, settings.checksum_bytes
        fields.checksums = settings.checksums
        self.backend.lend(file.handle, tail)
        return True

    def take_back(self, tail: Tail) -> Position:
        """Take the end of the journal back and go on after the records that C published. Returns the position
        up to which these are durable.
        """
        try:
            return self._taken_back(tail)
        except BaseException:
            self.committer.break_off()  # what is staged next would overwrite what was published
            raise

    def _taken_back(self, tail: Tail) -> Position:
        fields, file = tail.fields, self.current
        reached = Position(self._position + int(fields.flushed_records))
        self._position = reached
        self._staged(STAGED, int(fields.records - fields.flushed_records))
        if fields.flushes:
            file.end, file.records_end, file.last_position = int(fields.end), int(fields.records_end), reached
        self.committer.take_back(file.file_id, reached)
        fields.records = 0
        if fields.error:
            assert file.handle is not None
            error = int(fields.error)
            lost = self.backend.lost(file.handle)
            self.committer.give_up(file.name, lost or OSError(error, os.strerror(error)))
        elif not tail.is_left:  # the log was asked for just that
            self._seal()
        return reached

    # ---- inside ----

    def _put(self, kind: int, record_id: int, tx_id: int, user_type: int, body: bytes) -> Position:
        self._begin_staging()
        if takes_room(kind, user_type):
            self._refuse_in_last_file()
        return self._append(kind, record_id, tx_id, user_type, body)

    def _append(self, kind: int, record_id: int, tx_id: int, user_type: int, body: bytes) -> Position:
        try:
            status = self._stage.put(self.ledger, kind, record_id, tx_id, user_type, body)
            if status == NO_ROOM:
                self._make_room(record_bytes(kind, len(body)), for_add=takes_room(kind, user_type))
                status = self._stage.put(self.ledger, kind, record_id, tx_id, user_type, body)
        except MemoryError:
            self._refuse_uncounted()
            raise
        if status != STAGED:
            name = RecordKind(kind).name
            raise RecordRefused(f"{name} of record {record_id}, transaction {tx_id}: {_REFUSALS[status]}")
        try:
            self._staged(status, 1)
            if self.settings.buffer_timeout_ns == 0 and not self._gathers:
                self._seal()
                self.committer.submit_full()
            return Position(self._position)
        except BaseException:
            self.committer.break_off()  # it is in the buffer, and told as refused
            raise

    def _begin_staging(self) -> None:
        self.committer.refuse_suspended()
        if self.committer.failure is not None or self._closed:
            raise ReadOnlyStore(f"{self.current.name}: the journal takes no more records{self._why()}")
        if self._owed:
            self._roll_back_owed()

    def _stage_some(self, batch: TextBatch | CopyBatch | UpdateBatch | DeleteBatch) -> int:
        """Stage what is left of a batch as far as it fits. Returns its status."""
        try:
            status = batch.stage(self._stage, self.ledger)
        except MemoryError:
            self._staged(STAGED, batch.staged_records)  # they are in the buffer, and written with the next
            self._refuse_uncounted()
            raise
        return self._staged(status, batch.staged_records)

    def _refuse_uncounted(self) -> None:
        """Accept nothing more where memory ran out while a record was counted: files say nothing then."""
        if self.ledger.failed:
            self.committer.break_off()

    def _staged(self, status: int, records: int) -> int:
        """So many records were staged. Returns `status`."""
        self._position += records
        if self._staged_since_ns is None and records:
            self._staged_since_ns = self.clock.monotonic_ns()
            self.committer.armed()
        return status

    def _why(self) -> str:
        return f" ({self.committer.failure})" if self.committer.failure is not None else ": it is closed"

    def _room(self, file: WriteFile) -> int:
        """Bytes of records that still fit, in whole blocks."""
        alignment = file.handle.alignment_bytes if file.handle is not None else self.backend.alignment_bytes
        whole = file.size_bytes // alignment * alignment
        return max(0, whole - append_position(file, alignment) - self.settings.checksum_bytes)

    def _empty_stage(self) -> Stage:
        # Each flush is filled up to whole blocks.
        used_bytes = self.settings.buffer_size_bytes + self.settings.checksum_bytes
        return self.committer.take_stage(round_up(used_bytes, self.backend.alignment_bytes))

    def _begin_stage(self) -> None:
        file = self.current
        self._stage.begin(
            slot=file.slot, rid=file.rid, file_offset=file.end, room_bytes=self._stage_room(file)
        )

    def _stage_room(self, file: WriteFile) -> int:
        return min(self._room(file), self.settings.buffer_size_bytes)

    def _seal(self) -> None:
        """Queue what is staged for writing, and begin an empty buffer behind it."""
        stage, file = self._stage, self.current
        if stage.record_count == 0:
            return
        following = self._empty_stage()  # there may be no memory for it, and until here nothing has changed
        try:
            if self.settings.checksums:
                stage.checksum(file.file_id, file.previous)
            file.records_end = stage.file_offset + stage.used_bytes
            assert file.handle is not None
            length = stage.seal(file.handle.alignment_bytes)
            file.end += length
            file.last_position = self._position
            self._staged_since_ns = None
            self._stage = following
            self._begin_stage()
            self.committer.push(Flush(file.handle, file.file_id, stage, length, self._position))
        except BaseException:
            # What is sealed and not pushed is never written. Whatever is staged behind it would count as
            # durable, behind a hole: what was answered would be gone, what was acknowledged would come again.
            self.committer.break_off()
            raise

    def _make_room(self, length: int, *, for_add: bool = False) -> None:
        if length > self.record_bytes_max:
            raise RecordTooLarge(length, self.record_bytes_max)
        self._seal()
        if length > self._room(self.current):
            self.switch(for_add=for_add)
        self.committer.submit_full()

    def switch(self, *, for_add: bool = False, above: int = 0) -> None:
        """Go on in another file, with an id above `above`: the one that is kept ready, else one made now.
        Records that add get a file only if another one remains, so that a full disk still takes records that
        remove. Raises NoSpace, with nothing changed.
        """
        if for_add:
            self._refuse_without_room()
        try:
            if for_add:
                self.pool.reserve(1 if self.ready_file is not None else 2)
            above = max(above, self.current.file_id)
            following = self.ready_file or self.pool.ready(above=above)
            if following.file_id <= above:
                following = self.pool.reinitialise(following, self.pool.new_id())
            last = self.short_of_space or not self.could_go_on()
            # What makes room one message at a time would not make as much as it takes in whole blocks.
            handle = self.backend.open(following.name, dense=last)
        except OSError as error:
            self.short_of_space |= error.errno in _SPACE_ERRORS
            raise self._failed(error) from error
        self.ready_file = None
        # Until another one is found to be there it is left to what makes room.
        self.short_of_space = last
        self._seal()
        following.handle = handle
        following.previous = self.current.file_id, self.current.records_end
        self._enter(following)
        self.bell.ring()

    def _failed(self, error: OSError) -> NoSpace | SystemFailure:
        """Return the error for a journal that has no other file to go on in."""
        if error.errno in _SPACE_ERRORS:
            return NoSpace(self.current.name, error.strerror or str(error))
        return SystemFailure.from_os(error, self.current.name, doing="go on in another file")

    def _while_waiting(self) -> None:
        self.reader.while_waiting()

    def could_go_on(self) -> bool:
        """Whether there is a file, or room to make one, behind the one that is kept ready."""
        return bool(self.pool.free) or self.backend.free_bytes() >= self.settings.file_size_bytes

    def refuse_last_file(self) -> None:
        """Raise NoSpace where going on in another file would leave none to what makes room."""
        if not self.could_go_on():
            raise NoSpace(self.current.name, "the last one is kept for what makes room")

    def _refuse_in_last_file(self) -> None:
        """Raise NoSpace for a record that adds if the current file is the last one there is: its rest is for
        records that remove.
        """
        if self.short_of_space and self.ready_file is None and not self.pool.free:
            self._refuse_without_room()
            try:
                self.pool.reserve(1)
            except OSError as error:
                raise self._failed(error) from error

    def _refuse_without_room(self) -> None:
        """Raise NoSpace where no file could be made and nothing says that one could be now."""
        if self.short_of_space:
            # Somebody may have made room meanwhile.
            self.bell.ring()
            if self.backend.free_bytes() < 2 * self.settings.file_size_bytes:
                raise NoSpace(self.current.name, "the last attempt to make one failed")

    def refuse_beyond_room(self, length: int) -> None:
        """Raise NoSpace if the disk is full and `length` bytes of records that belong together do not fit
        into the reserve: a part of them would use it up.
        """
        if not self.short_of_space or length <= self._room_held_back():
            return
        missing = length - self._room_held_back()
        file_bytes = self.settings.file_size_bytes - self.pool.first_record
        try:
            # Somebody may have made room meanwhile.
            self.pool.reserve(len(self.pool.free) + -(-missing // file_bytes))
        except OSError as error:
            if error.errno not in _SPACE_ERRORS:
                raise SystemFailure.from_os(error, self.current.name, doing="make room") from error
            left = self._room_held_back()
            reason = f"{length} bytes are needed at once, and {left} are left for what makes room"
            raise NoSpace(self.current.name, reason) from error

    def _room_held_back(self) -> int:
        files = [*self.pool.free, *([self.ready_file] if self.ready_file is not None else [])]
        return self._room(self.current) + sum(map(self._room, files))

    def _enter(self, file: WriteFile) -> None:
        if file.handle is None:
            file.handle = self.backend.open(file.name)
        file.slot = self.ledger.add_file()
        self.data.append(file)
        self._begin_stage()

    def _close_handle(self, file: WriteFile) -> None:
        if file.handle is not None:
            self.backend.close_file(file.handle)
            file.handle = None

    def release_handles(self) -> None:
        """Close the files that nothing is written to any more."""
        for file in self.data[:-1]:
            if file.last_position <= self.committer.reached_position:
                self._close_handle(file)

    def replace_files(self, ledger: Ledger, data: list[WriteFile]) -> None:
        """Replace the journal's files after compaction. All staged records must be written
        before (`drain`).
        """
        assert self._stage.record_count == 0
        assert data[-1] is self.current
        for file in self.data:
            if file not in data:
                self._close_handle(file)
        self.ledger, self.data = ledger, data
        if self.committer.reached_end[0] != self.current.file_id:
            # It got nothing yet, and what was reached is in a file whose id another may have now.
            self.committer.reached_end = self.current.file_id, JOURNAL_HEADER_BYTES
        # The file before it is gone, and another may have its id.
        self.current.previous = NOWHERE
        self._begin_stage()

    def forget_file(self, file: WriteFile) -> None:
        """One that nothing needed was emptied."""
        if self.committer.reached_end[0] == file.file_id:
            # All of it is durable, and nothing of what follows.
            following = self.data[self.data.index(file) + 1]
            self.committer.reached_end = following.file_id, JOURNAL_HEADER_BYTES
        self.data.remove(file)
        self.ledger.drop_file(file.slot)

    def drain(self) -> None:
        """Write all that is staged, holding the event loop up."""
        self._seal()
        self.committer.drain()
