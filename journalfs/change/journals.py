"""The two journals of a store that is written: opened, recovered and closed together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from journalfs.bindings.model import BindingsState
from journalfs.clock import Clock
from journalfs.engine.backend import Backend
from journalfs.engine.checksums import CHECKSUM_USER_TYPE
from journalfs.engine.committer import Committer
from journalfs.engine.waiting import together
from journalfs.errors import JournalfsError, ReadOnlyStore, StoreAway, WriteFailed
from journalfs.format.record_types import BindingType
from journalfs.ids import Position, RecordId, TxId
from journalfs.records.files.kept_damage import KeptDamage
from journalfs.records.files.opening import LeftOff
from journalfs.records.files.retention import Retention
from journalfs.records.files.write_settings import WriteSettings
from journalfs.records.files.writer import JournalWriter

# The store's one counter: ids of messages, transactions, records, addresses and queues come from it.
#
# An id is never given twice, not after a crash either: a range is reserved in the bindings journal before any
# id of it is used (docs/format/bindings.md, "Ids").

RESERVED: Final = 2**31 - 1
"""Ids reserved at once, as brokers do: after a crash numbering goes on behind them."""

RESERVE_EARLY: Final = 2**24
"""Ids that are left when a new range is reserved: they last until its record is durable, however slow the
disk is.
"""

_VALUE_BYTES: Final = 8


class IdGenerator:
    """Draws ids. `counters` are the id counter records that the bindings journal holds."""

    def __init__(self, bindings: JournalWriter, *, last: int, counters: Iterable[int]) -> None:
        self._bindings = bindings
        self._last = max(last, 0)
        self._counters = [RecordId(counter) for counter in counters]
        self._reserved = self._last
        self.reserve()

    @property
    def last(self) -> int:
        """The id drawn last."""
        return self._last

    def draw(self) -> int:
        """The next id, above all before it; never 0, which brokers cannot tell from none."""
        self._last += 1
        if self._last >= self._reserved - RESERVE_EARLY:
            self.reserve()
        return self._last

    def draw_many(self, count: int) -> int:
        """Return the first of `count` consecutive ids. `count` must be below `RESERVE_EARLY`."""
        if self._last + count >= self._reserved - RESERVE_EARLY:
            self.reserve()
        first = self._last + 1
        self._last += count
        return first

    @property
    def end(self) -> int:
        """Ids up to here, and not that one, can be drawn before another range is reserved."""
        return self._reserved - RESERVE_EARLY

    def drawn(self, last: int) -> None:
        """Ids up to `last` were drawn elsewhere."""
        self._last = last

    def reserve(self) -> Position:
        """Stage a record that reserves a range. Ids may be used once it is durable."""
        self._last += 1
        self._reserved = self._last + RESERVED
        return self._write(self._last, self._reserved)

    def settle(self) -> Position:
        """Give back what was reserved and not used, as a clean stop does."""
        self._last += 1
        self._reserved = self._last
        return self._write(self._last, self._last)

    def forget_earlier(self) -> None:
        """Stage deletes of all records but the last one, which must be durable: a store without any would
        count from 0 again.
        """
        for counter in self._counters[:-1]:
            if self._bindings.is_live(counter):
                self._bindings.stage_delete(counter)
        del self._counters[:-1]

    def _write(self, record_id: int, value: int) -> Position:
        self._counters.append(RecordId(record_id))
        return self._bindings.stage_add(
            RecordId(record_id), BindingType.ID_COUNTER, value.to_bytes(_VALUE_BYTES)
        )


log = logging.getLogger(__name__)


class PastCommit:
    """Enter it once the record is staged by which a change counts. An error that says nothing of the journal,
    as where memory runs out, accepts nothing more: the caller is told of a failure and repeats the change,
    which counts already. Entering and leaving needs no memory.
    """

    __slots__ = ("_committer",)

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        # These two say themselves that the journal refuses who repeats it.
        if (
            kind is not None
            and issubclass(kind, Exception)
            and not issubclass(kind, (WriteFailed, StoreAway))
        ):
            self._committer.break_off()


@dataclass(slots=True)
class Journals:
    """`close` or `abandon` lets go of the files."""

    messages: JournalWriter
    bindings: JournalWriter
    backends: tuple[Backend, Backend]
    ids: IdGenerator
    past_commit: PastCommit = field(init=False)

    def __post_init__(self) -> None:
        self.past_commit = PastCommit(self.messages.committer)

    def new_tx(self) -> TxId:
        return TxId(self.ids.draw())

    def in_transaction(self, stage: Callable[[TxId], None], of: JournalWriter | None = None) -> Position:
        """Stage a transaction of the message journal, or another. If that fails, it is rolled back. Raises
        JournalfsError.
        """
        writer, tx = of or self.messages, self.new_tx()
        try:
            stage(tx)
            return writer.stage_commit(tx)
        except Exception:
            writer.roll_back(tx)
            raise

    @property
    def failure(self) -> Exception | None:
        """Why nothing can be written any more."""
        return self.messages.committer.failure or self.bindings.committer.failure

    def give_up(self, reason: str) -> None:
        """Accept nothing more. May be called in any thread."""
        for writer in (self.messages, self.bindings):
            writer.committer.give_up(reason, OSError(None, reason))

    def refuse_failed(self, store: str) -> None:
        """Raises `ReadOnlyStore`, which names the store, when nothing can be written any more, and
        `StoreAway` when nothing can at the moment.
        """
        for writer in (self.messages, self.bindings):
            writer.committer.refuse_suspended()
        if self.failure is not None:
            raise ReadOnlyStore(f"{store}: takes no more changes ({self.failure})")

    def status(self) -> Mapping[str, object]:
        """Return the counts of writes, and the reason if nothing can be written any more."""
        failure, writer = self.failure, self.messages
        return {
            "writeFailure": str(failure) if failure is not None else None,
            "journalType": str(writer.backend.kind),
            "recordsLive": writer.totals().live_records,
            "flushes": writer.committer.counts.flushes,
            "bytesWritten": writer.committer.counts.bytes_written,
            "compactions": writer.upkeep.compactions,
            "filesFreed": writer.upkeep.files_freed,
        }

    async def make_room(self) -> None:
        """See `Upkeep.make_room`: of the message journal."""
        await self.messages.upkeep.make_room()

    async def shed(self) -> int:
        """Delete the journal files that hold nothing and need not be there; how many. Raises OSError."""
        return await self.messages.upkeep.shed() + await self.bindings.upkeep.shed()

    async def run(self) -> None:
        """Both journals' own work, until cancelled."""
        await together(self.messages.run, self.bindings.run)

    def close(self) -> None:
        """Write what is staged, give back unused ids, and let go of the files. Raises WriteFailed."""
        try:
            if self.failure is None:
                self.messages.drain()
                self._occupy_current_file()
                self.ids.settle()
                self.bindings.drain()
                self.ids.forget_earlier()
                self.bindings.drain()
                self._retain()
        finally:
            self.abandon()

    def _occupy_current_file(self) -> None:
        """With a history, have a broker go on in the current file. One without data it takes for free, and
        writes on in the file before, which it then copies once more: all that is in it would be replayed
        twice.
        """
        writer = self.messages
        if writer.retention is None or len(writer.data) < 2:
            return
        try:
            if writer.retention.is_free_to_a_broker(writer.current):
                tx = self.new_tx()
                writer.stage_add_in(tx, RecordId(self.ids.draw()), CHECKSUM_USER_TYPE, b"")
                writer.roll_back(tx)
        except (OSError, JournalfsError) as error:
            log.error("a broker may write on in a file that the history has already: %s", error)
        writer.drain()

    def _retain(self) -> None:
        try:
            self.messages.retain()
        except OSError as error:
            log.error("the history lacks files that a broker may use again: mount once more first: %s", error)

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self.messages.release()
        self.bindings.release()
        for backend in self.backends:
            backend.close()


def open_journals(
    backends: tuple[Backend, Backend],
    settings: tuple[WriteSettings, WriteSettings],
    clock: Clock,
    *,
    read_bindings: Callable[[], BindingsState],
    other_ids: Iterable[int],
    retention: Callable[[WriteSettings], Retention] | None = None,
    some_lost: bool = False,
    kept: tuple[KeptDamage, KeptDamage] | tuple[None, None] = (None, None),
    left_off: LeftOff | None = None,
) -> Journals:
    """Recover both journals and open them for writing, message journal first in each pair.

    `read_bindings` reads the bindings journal once it is recovered; `other_ids` are ids in use beside the
    journals; `retention` opens the history of the message journal; `some_lost`: a file of that journal is
    missing; `kept` preserves unreadable bytes of files that are used again; `left_off` describes files of the
    message journal that need not be read. The caller must settle transactions without an end once it has read
    the messages. Raises OSError, UnknownVersion and WriteFailed.
    """
    bindings = JournalWriter.open(backends[1], settings[1], clock, kept=kept[1])
    bindings.drain()
    messages = JournalWriter.open(
        backends[0],
        settings[0],
        clock,
        retention=retention,
        some_lost=some_lost,
        ends_unfinished=False,
        kept=kept[0],
        left_off=left_off,
    )
    messages.drain()
    state = read_bindings()
    last = max(
        *(
            value
            for totals in (messages.totals(), bindings.totals())
            for value in (totals.id_max, totals.tx_id_max)
        ),
        state.id_counter or 0,
        state.max_id,
        *other_ids,
    )
    ids = IdGenerator(bindings, last=last, counters=state.record_ids.get((BindingType.ID_COUNTER, None), ()))
    bindings.drain()
    ids.forget_earlier()
    # Both journals are read next, which must not see half a record.
    bindings.drain()
    return Journals(messages, bindings, backends, ids)
