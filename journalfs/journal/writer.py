"""Appending to a journal: records are staged in order, and durable when `durable` says so.

Rules that keep a journal readable (docs/format/records.md) are checked when a record is staged: ids live
once, changes are to what is there, nothing is deleted that an open transaction changes. Ids of deleted
records must never be used again; whoever draws ids sees to that.
"""

from __future__ import annotations

import errno
import logging
from array import array
from collections.abc import Awaitable, Callable
from typing import Final, NewType

from journalfs.clock import Clock
from journalfs.engine.backend import Backend
from journalfs.engine.checksums import NOWHERE
from journalfs.engine.committer import Committer, Flush
from journalfs.engine.id_batch import DeleteBatch, UpdateBatch
from journalfs.engine.ledger import Ledger, LedgerTotals
from journalfs.engine.stage import ABSENT, EXISTS, HELD, NO_ROOM, STAGED, Stage, record_bytes
from journalfs.engine.text_batch import TOO_LONG, TextBatch
from journalfs.engine.waiting import Bell, checkpoint, together
from journalfs.errors import NoSpace, ReadOnlyStore, RecordRefused, RecordTooLarge, SystemFailure
from journalfs.format.record_types import RecordKind
from journalfs.ids import FileId, RecordId, TxId
from journalfs.journal.opening import Opened, append_position, open_files
from journalfs.journal.pool import FilePool, WriteFile
from journalfs.journal.retention import Retention
from journalfs.journal.upkeep import Upkeep
from journalfs.journal.write_settings import WriteSettings
from journalfs.limits import JOURNAL_HEADER_BYTES

log = logging.getLogger(__name__)

Position = NewType("Position", int)
"""How many records were staged, counted from when the journal was opened: later ones are greater."""

_REFUSALS: Final = {
    ABSENT: "there is no such record, or its transaction is not open",
    EXISTS: "the id is in use, or the transaction is prepared already",
    HELD: "an open transaction claims it, or the transaction is prepared",
}

_SPACE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_ADDS: Final = frozenset({RecordKind.ADD, RecordKind.ADD_TX, RecordKind.EVENT})


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
        self.ready_file: WriteFile | None = None
        self.short_of_space = False
        """No further file could be made: what is left is for what makes room."""
        self.before_emptying: Callable[[], Awaitable[None]] = checkpoint
        """Awaited before files are emptied whose records nothing needs, or that live on in other files: for
        whoever reads the journal beside its writer."""
        self.retention: Retention | None = None
        self.bell = Bell()
        self.committer = Committer(backend, clock, seal=self._seal)
        self.pool.on_doubt = self.committer.give_up
        self.upkeep = Upkeep(self)
        self.record_bytes_max = settings.record_bytes_max(backend.alignment_bytes)
        self._position = 0
        self._staged_since_ns: int | None = None
        self._stage: Stage = self._empty_stage()
        self._closed = False

    @classmethod
    def open(
        cls,
        backend: Backend,
        settings: WriteSettings,
        clock: Clock,
        *,
        retention: Callable[[WriteSettings], Retention] | None = None,
    ) -> JournalWriter:
        """Recover and read the journal, roll back what was left unfinished, and get ready to append.
        `retention` opens its history.

        Raises OSError and UnknownVersion. Nothing else may have the journal open for writing.
        """
        settings = settings.aligned(backend.alignment_bytes)
        writer = cls(backend, settings, clock, open_files(backend, settings))
        writer._begin()
        if retention is not None:
            writer.retention = retention(settings)
            writer.retention.begin(writer.data[:-1])
        return writer

    def _begin(self) -> None:
        pool = self.pool
        while len(self.data) + len(pool.free) < max(self.settings.min_files, 2):
            pool.free.append(pool.create(pool.new_id()))
        current = self.data[-1] if self.data else None
        if current is None or current.version != 2 or self._room(current) <= 0:
            self._enter(pool.ready(above=current.file_id if current else 0))
        else:
            current.handle = self.backend.open(current.name)
            current.end = append_position(current, self.backend.alignment_bytes)
            self._begin_stage()
        # Nothing of this process is on its way yet.
        self.committer.reached_end = self.current.name, self.current.end
        self.ready_file = pool.ready(above=self.current.file_id)
        for transaction in self.ledger.transactions():
            if not transaction.prepared or transaction.broken:
                self._put(RecordKind.ROLLBACK, 0, transaction.tx_id, 0, b"")
        self.bell.ring()

    # ---- what there is ----

    @property
    def current(self) -> WriteFile:
        return self.data[-1]

    @property
    def position(self) -> Position:
        """Behind everything staged so far."""
        return Position(self._position)

    def durable_end(self) -> tuple[FileId, int]:
        """The place up to which everything is durable: file and offset."""
        name, end = self.committer.reached_end
        for file in reversed(self.data):
            if file.name == name:
                return file.file_id, end
        # Compaction replaced that file; the current one got nothing yet.
        return self.current.file_id, JOURNAL_HEADER_BYTES

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

    def stage_texts(self, batch: TextBatch) -> Position | None:
        """Stage all of a batch. None, with nothing staged, if one of its texts may be too long for a record,
        or where each record is to be a write of its own.
        """
        if self.settings.buffer_timeout_ns == 0:
            return None
        self._require_open()
        status = self._staged(batch.stage(self._stage, self.ledger), batch.staged_records)
        while status == NO_ROOM:
            kind = RecordKind.ADD if batch.next_is_message else RecordKind.UPDATE
            self._make_room(kind, batch.needed_bytes)
            status = self._staged(batch.stage(self._stage, self.ledger), batch.staged_records)
        if status == TOO_LONG:
            return None
        if status != STAGED:
            raise RecordRefused(f"texts of transaction {batch.tx_id}: {_REFUSALS[status]}")
        return Position(self._position)

    def stage_updates_in(self, tx: TxId, record_ids: array[int], user_type: int, body: bytes) -> Position:
        """The same update of each of many records, as part of a transaction."""
        if self.settings.buffer_timeout_ns == 0:
            for record_id in record_ids:
                self.stage_update_in(tx, RecordId(record_id), user_type, body)
            return Position(self._position)
        self._require_open()
        batch = UpdateBatch(record_ids, tx_id=tx, user_type=user_type, body=body)
        length = record_bytes(RecordKind.UPDATE_TX, len(body))
        status = self._staged(batch.stage(self._stage, self.ledger), batch.staged_records)
        while status == NO_ROOM:
            self._make_room(RecordKind.UPDATE_TX, length)
            status = self._staged(batch.stage(self._stage, self.ledger), batch.staged_records)
        if status != STAGED:
            raise RecordRefused(f"updates of transaction {tx}: {_REFUSALS[status]}")
        return Position(self._position)

    def stage_deletes(self, record_ids: array[int]) -> bytes:
        """Delete those of many records that are there and free of open transactions: for each 1 or 0."""
        if self.settings.buffer_timeout_ns == 0:
            return bytes(map(self._delete_if_free, record_ids))
        self._require_open()
        batch = DeleteBatch(record_ids)
        length = record_bytes(RecordKind.DELETE, 0)
        while self._staged(batch.stage(self._stage, self.ledger), batch.staged_records) == NO_ROOM:
            self._make_room(RecordKind.DELETE, length)
        return batch.staged()

    def _delete_if_free(self, record_id: int) -> bool:
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

    # ---- durability ----

    async def durable(self, position: Position) -> None:
        """Return when a crash cannot lose anything up to `position`; one flush serves all who wait.

        If cancelled before the call, the records stay staged and are written within the buffer timeout. Once
        waiting, cancellation is delivered when the outcome of the flush is known. Raises WriteFailed.
        """
        await self.committer.reached(position)

    async def durable_if_set(self, position: Position, *, transactional: bool) -> None:
        """`durable`, if `journal-sync-transactional` or `journal-sync-non-transactional` asks for it."""
        settings = self.settings
        if settings.sync_transactional if transactional else settings.sync_non_transactional:
            await self.committer.reached(position)

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

    def release(self) -> None:
        """Let go of the files as they are; nothing can be staged any more."""
        if self.retention is not None and not self._closed:
            self.retention.close()
        self._closed = True
        for file in self.data:
            self._close_handle(file)

    # ---- inside ----

    def _put(self, kind: int, record_id: int, tx_id: int, user_type: int, body: bytes) -> Position:
        self._require_open()
        status = self._stage.put(self.ledger, kind, record_id, tx_id, user_type, body)
        if status == NO_ROOM:
            self._make_room(kind, record_bytes(kind, len(body)))
            status = self._stage.put(self.ledger, kind, record_id, tx_id, user_type, body)
        if status != STAGED:
            name = RecordKind(kind).name
            raise RecordRefused(f"{name} of record {record_id}, transaction {tx_id}: {_REFUSALS[status]}")
        self._staged(status, 1)
        if self.settings.buffer_timeout_ns == 0:
            self._seal()
            self.committer.submit_full()
        return Position(self._position)

    def _require_open(self) -> None:
        if self.committer.failure is not None or self._closed:
            raise ReadOnlyStore(f"{self.current.name}: the journal takes no more records{self._why()}")

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
        alignment = self.backend.alignment_bytes
        whole = file.size_bytes // alignment * alignment
        return max(0, whole - append_position(file, alignment) - self.settings.checksum_bytes)

    def _empty_stage(self) -> Stage:
        return self.committer.take_stage(self.settings.buffer_size_bytes + self.settings.checksum_bytes)

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
        if self.settings.checksums:
            stage.checksum(file.file_id, file.previous)
        file.records_end = stage.file_offset + stage.used_bytes
        length = stage.seal(self.backend.alignment_bytes)
        assert file.handle is not None
        file.end += length
        file.last_position = self._position
        self._staged_since_ns = None
        self._stage = self._empty_stage()
        self._begin_stage()
        self.committer.push(Flush(file.handle, stage, length, self._position))

    def _make_room(self, kind: int, length: int) -> None:
        if length > self.record_bytes_max:
            raise RecordTooLarge(length, self.record_bytes_max)
        self._seal()
        if length > self._room(self.current):
            self.switch(for_add=kind in _ADDS)
        self.committer.submit_full()

    def switch(self, *, for_add: bool = False, above: int = 0) -> None:
        """Go on in another file, whose id is above `above`. The kept-ready one is taken, else one is made
        here and now. What adds takes a file only if another one is left then: a disk without room still takes
        what makes room. Raises NoSpace, with nothing changed.
        """
        if for_add and self.short_of_space:
            # Somebody may have made room meanwhile.
            self.bell.ring()
            raise NoSpace(self.current.name, "the last attempt to make one failed")
        try:
            if for_add:
                self.pool.reserve(1 if self.ready_file is not None else 2)
            above = max(above, self.current.file_id)
            following = self.ready_file or self.pool.ready(above=above)
            if following.file_id <= above:
                following = self.pool.reinitialise(following, self.pool.new_id())
            handle = self.backend.open(following.name)
        except OSError as error:
            if error.errno in _SPACE_ERRORS:
                self.short_of_space = True
                raise NoSpace(self.current.name, error.strerror or str(error)) from error
            raise SystemFailure.from_os(error, self.current.name, doing="go on in another file") from error
        self.ready_file = None
        self._seal()
        following.handle = handle
        following.previous = self.current.file_id, self.current.records_end
        self._enter(following)
        self.bell.ring()

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
        """After compaction: the same journal in other files. All staged is written (`drain`)."""
        assert self._stage.record_count == 0
        assert data[-1] is self.current
        for file in self.data:
            if file not in data:
                self._close_handle(file)
        self.ledger, self.data = ledger, data
        # The file before it is gone, and another may have its id.
        self.current.previous = NOWHERE
        self._begin_stage()

    def drain(self) -> None:
        """Write all that is staged, holding the event loop up."""
        self._seal()
        self.committer.drain()
