"""Drives a journal on a simulated disk with random or fixed work, and reads it back independently."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from journalfs.clock import FakeClock
from journalfs.engine.message_batch import TextBatch, TextFields
from journalfs.engine.stage import NO_ROOM, StagedRecord
from journalfs.engine.tail import UNLIMITED, Tail, TailWay
from journalfs.errors import JournalfsError
from journalfs.format.record_types import RecordKind
from journalfs.ids import Position, RecordId, TxId
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter
from tests.journal.model import Change, Model, Transaction
from tests.journal.simulated import SimulatedDisk
from tests.reference.journal import Replay, read_folder, replay

SMALL = WriteSettings(
    prefix="data", file_size_bytes=2048, buffer_size_bytes=700, compact_min_files=4, compact_percentage=60
)
ALIGNED = WriteSettings(
    prefix="data",
    file_size_bytes=8192,
    buffer_size_bytes=2048,
    compact_min_files=4,
    compact_percentage=60,
    checksums=True,
)
TEXTS = TextFields(
    address=b"\x01\0\0\0\0",
    properties=b"\0",
    every=[7],
    in_turn=[],
    user_id_node=bytes(8),
    body_bytes_max=400,
    record_bytes_max=600,
)
MESSAGE, REFERENCE, ACKNOWLEDGEMENT, COUNT = 45, 32, 33, 34


def settings_for(disk: SimulatedDisk) -> WriteSettings:
    return SMALL if disk.alignment_bytes == 1 else ALIGNED


def read_back(disk: SimulatedDisk) -> Replay:
    """What the reference reader makes of the disk."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in disk.contents().items():
            if "/" not in name:
                (Path(folder) / name).write_bytes(content)
        return replay(file.scan.records for file in read_folder(Path(folder)))


class Driver:
    """One journal at work. `model` knows what was staged; ids are never used twice."""

    def __init__(self, disk: SimulatedDisk, seed: int) -> None:
        self.disk = disk
        self.chance = random.Random(seed)
        self.model = Model()
        self.next_id = 0
        self.live: list[int] = []
        self.claimed: set[int] = set()
        self.open: list[int] = []
        self.durable = 0
        self.base = 0
        self.writer: JournalWriter | None = None
        self.tail = Tail()
        self.lent = 0
        """Flushes that were written while the end of the journal was lent."""

    def start(self) -> JournalWriter:
        self.writer = JournalWriter.open(self.disk, settings_for(self.disk), FakeClock())
        return self.writer

    @property
    def _writer(self) -> JournalWriter:
        assert self.writer is not None
        return self.writer

    def _id(self) -> int:
        self.next_id += 1
        return self.next_id

    def _body(self, record_id: int) -> bytes:
        self.next_id += 1
        return b"%d-%d:" % (record_id, self.next_id) + bytes(self.chance.randrange(120))

    def _noted(self, position: Position, change: Change, tx: int | None = None) -> None:
        if tx is None:
            self.model.plain.append((position, change))
        else:
            self.model.transactions[tx].changes.append(change)

    def step(self) -> None:
        """One random record, or a few that belong together."""
        works = [
            self.send,
            self.send,
            self.update,
            self.delete,
            self.delete,
            self.begin,
            self.extend,
            self.end,
        ]
        self.chance.choice(works)()

    def send(self) -> None:
        record, writer = self._id(), self._writer
        body, reference = self._body(record), self._body(record)
        self._noted(writer.stage_add(RecordId(record), MESSAGE, body), Change(record, body))
        self.live.append(record)
        self._noted(writer.stage_update(RecordId(record), REFERENCE, reference), Change(record, reference))

    def _free(self) -> int | None:
        free = [record for record in self.live if record not in self.claimed]
        return self.chance.choice(free) if free else None

    def update(self) -> None:
        record = self._free()
        if record is not None:
            body = self._body(record)
            self._noted(
                self._writer.stage_update(RecordId(record), ACKNOWLEDGEMENT, body), Change(record, body)
            )

    def delete(self) -> None:
        """Mostly the oldest, as consumers do: so files become free."""
        oldest = next((record for record in self.live if record not in self.claimed), None)
        record = oldest if self.chance.random() < 0.8 else self._free()
        if record is not None:
            self._noted(self._writer.stage_delete(RecordId(record)), Change(record, None))
            self.live.remove(record)

    def begin(self) -> None:
        tx, record = self._id(), self._id()
        body = self._body(record)
        position = self._writer.stage_add_in(TxId(tx), RecordId(record), MESSAGE, body)
        self.model.transactions[tx] = Transaction()
        self.open.append(tx)
        self._noted(position, Change(record, body), tx)

    def extend(self) -> None:
        open_ = [tx for tx in self.open if self.model.transactions[tx].prepared_at is None]
        if not open_:
            return
        tx, record = self.chance.choice(open_), self._free()
        if record is None or self.chance.random() < 0.4:
            record = self._id()
            body = self._body(record)
            self._noted(
                self._writer.stage_add_in(TxId(tx), RecordId(record), MESSAGE, body), Change(record, body), tx
            )
            return
        self.claimed.add(record)
        if self.chance.random() < 0.5:
            position = self._writer.stage_delete_in(TxId(tx), RecordId(record))
            self._noted(position, Change(record, None), tx)
            return
        body = self._body(record)
        position = self._writer.stage_update_in(TxId(tx), RecordId(record), ACKNOWLEDGEMENT, body)
        self._noted(position, Change(record, body), tx)

    def end(self) -> None:
        if not self.open:
            return
        tx = self.chance.choice(self.open)
        transaction = self.model.transactions[tx]
        fate = self.chance.random()
        if fate < 0.2 and transaction.prepared_at is None:
            transaction.prepared_at = self._writer.stage_prepare(TxId(tx), b"xid%d" % tx)
            return
        committed = fate < 0.8
        stage = self._writer.stage_commit if committed else self._writer.stage_rollback
        transaction.ended_at = stage(TxId(tx))
        transaction.committed = committed
        self.open.remove(tx)
        self.claimed -= {change.record_id for change in transaction.changes}
        for change in transaction.changes if committed else ():
            if change.body is None:
                self.live.remove(change.record_id)
            elif change.record_id not in self.live:
                self.live.append(change.record_id)

    def publish_lent(self) -> None:
        """Lines, a few writes to a flush, without the writer."""
        writer, tail, way = self._writer, self.tail, TailWay()
        writer.committer.counts.flush_ns = 1  # the writer's clock stands still
        lent = writer.lend(tail)
        writer.committer.counts.flush_ns = 0
        if not lent:
            return
        tail.fields.id_last, tail.fields.id_end, tail.fields.now_ms = self.next_id, 2**40, 0
        for room in (tail.fields, way.fields):
            room.room_bytes = room.room_messages = UNLIMITED
        way.open(TextBatch(TEXTS), turn=0, expires_ms=-1, each_bytes=0)
        began = writer.position
        for _ in range(self.chance.randrange(1, 4)):
            lines = b"x" * self.chance.randrange(60) + b"\n"
            if tail.stage_lines(way, lines * self.chance.choice((1, 1, 3))) == NO_ROOM:
                break
        assert tail.stage is not None
        self._note_lent(began, list(tail.stage.staged_records()))
        self.next_id = int(tail.fields.id_last)
        error = tail.flush()
        self.lent += not error and tail.fields.flushes
        tail.fields.slowest_ns = 0  # however long it took: what happens next depends on no clock
        writer.take_back(tail)
        writer.committer.counts.flush_ns = 0
        if self.disk.broke_off is not None:
            raise self.disk.broke_off
        if writer.committer.failure is not None:
            raise writer.committer.failure

    def _note_lent(self, began: int, staged: Sequence[StagedRecord]) -> None:
        for position, one in enumerate(staged, began + 1):
            if one.kind == RecordKind.COMMIT:
                self.model.transactions[one.tx_id].ended_at = position
                self.model.transactions[one.tx_id].committed = True
                continue
            if one.tx_id:
                self.model.transactions.setdefault(one.tx_id, Transaction())
            self._noted(Position(position), Change(one.record_id, one.body), one.tx_id or None)
            if one.record_id not in self.live:
                self.live.append(one.record_id)

    async def work(self, steps: int) -> None:
        """Random work with waits for durability, and upkeep as a running store does it."""
        for _ in range(steps):
            self.step()
            if self.chance.random() < 0.4:
                await self._writer.durable(self._writer.position)
                self.note_durable()
                if self.chance.random() < 0.5:
                    self.publish_lent()
                    self.note_durable()
            if self.chance.random() < 0.15:
                await self._writer.upkeep.tidy()

    def note_durable(self) -> None:
        self.durable = self._writer.committer.reached_position

    async def consume(self) -> None:
        """End every transaction, delete every record and go on in another file: all others can go."""
        while self.open:
            self.end()
        while self.live:
            self.delete()
        await self._writer.durable(self._writer.position)
        before = self._writer.current
        while self._writer.current is before:
            self.send()
        await self._writer.durable(self._writer.position)
        self.note_durable()
        await self._writer.upkeep.tidy()

    async def work_until_refused(self, steps: int) -> JournalfsError | OSError | None:
        """The same until the journal refuses; returns why."""
        try:
            await self.work(steps)
        except (JournalfsError, OSError) as error:
            return error
        finally:
            self.note_durable()
        return None
