"""One unit of work of any size: all that it sends, acknowledges and moves is one transaction of the journal.
It is staged in pieces, between which other tasks run, and undone if it fails. Nothing may be staged in a
change after its commit.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Protocol

from journalfs.bodies.writing import BodyStore
from journalfs.change.duplicates import StagedIds
from journalfs.change.journals import Journals
from journalfs.engine.waiting import REST, offload, unbroken
from journalfs.errors import WriteFailed
from journalfs.format import record_bodies
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, Position, RecordId, TxId
from journalfs.limits import PIECE_NS, PIECE_RECORDS, PIECES_IN_FLIGHT_MAX


class Pauses:
    """Between two pieces others go on, what was staged before is written, and it is taken over as far as that
    can be done before the end. So neither what waits for the disk nor a turn of the loop grows with a change,
    and its end takes little time.
    """

    def __init__(self, journals: Journals, take_over: Callable[[], Awaitable[None]]) -> None:
        self._journals = journals
        self._take_over = take_over
        self._records = 0
        self._since_ns = self._busy_since_ns = self._now_ns()
        self._staged: deque[Position] = deque()
        """Ends of the pieces that may still be on their way to the disk."""
        self.is_long = False

    def _now_ns(self) -> int:
        return self._journals.messages.clock.monotonic_ns()

    async def after(self, records: int) -> None:
        """So many records were staged: let others go on if it is time. Raises WriteFailed."""
        self._records += records
        if self._records >= PIECE_RECORDS or self._now_ns() - self._since_ns >= PIECE_NS:
            await self._pause()

    async def _pause(self) -> None:
        """Let other tasks run, until all but the last pieces are durable and a file to go on in is ready.
        While other tasks publish, one unflushed piece is allowed, since their records wait behind it.
        """
        writer, self.is_long = self._journals.messages, True
        self._staged.append(writer.position)
        busy_s = (self._now_ns() - self._busy_since_ns) / 1e9
        in_flight_max = 1 if await REST.get()(busy_s) else PIECES_IN_FLIGHT_MAX
        self._busy_since_ns = self._now_ns()  # the disk is busy with it, too
        while len(self._staged) > in_flight_max:
            await writer.durable(self._staged.popleft())
        await writer.upkeep.have_ready()
        await self._take_over()
        self._records, self._since_ns = 0, self._now_ns()


class InPages(Protocol):
    """Messages of a change that lie in pages."""

    pairs: int
    """Of a message and a queue."""

    async def synced(self) -> None:
        """All of them are durable then."""


class Change(Pauses):
    """A transaction that is staged piece by piece. Removals of displaced messages are staged in the turn of
    the commit, since removals of two transactions must not mix.
    """

    def __init__(
        self,
        journals: Journals,
        take_over: Callable[[], Awaitable[None]],
        tx: TxId,
        *,
        is_decided: bool,
        replaced: Callable[[Position | None], None],
    ) -> None:
        super().__init__(journals, take_over)
        self._replaced = replaced
        self.tx = tx
        """0: a message by itself, which needs no transaction."""
        self.is_decided = is_decided
        """True if the change commits at its end. False: it is prepared, and a broker may take it over, so it
        may contain only what brokers know in a prepared transaction, and displaces no message.
        """
        self.entered = AsyncExitStack()
        """Locks and other context managers that are held until the change has ended."""
        self.bodies: set[MessageId] = set()
        """Messages of it whose bodies are in files of their own."""
        self.pages: list[InPages] = []
        self.remembered: dict[str, StagedIds] = {}
        """By address: duplicate ids that it brings."""
        self.undo: list[Callable[[], None]] = []
        """Calls that undo the change if it fails, run from the last to the first."""
        self.is_ended = False
        """True once the record is staged by which the change counts, or is prepared."""
        self._at_once: list[Callable[[TxId], None]] = []

    @property
    def begun(self) -> bool:
        """Whether anything of it was staged."""
        return bool(self._at_once) or (self.tx != 0 and self._journals.messages.has_open(self.tx))

    async def after(self, records: int) -> None:
        if self.tx:  # else it counts with what was staged, and is not given up any more
            await super().after(records)

    def at_once(self, stage: Callable[[TxId], None]) -> None:
        """Register records to be staged right before the commit. Does not wait."""
        self._at_once.append(stage)

    async def written(self) -> None:
        """Make the change's pages durable and stage the one record by which the journal counts them: a second
        one for the same number would be counted down twice. Raises JournalfsError.
        """
        for pages in self.pages:
            await pages.synced()
        pairs = sum(pages.pairs for pages in self.pages)
        if pairs and self.tx:
            record = RecordId(self._journals.ids.draw())
            body = record_bodies.page_transaction(self.tx, pairs)
            self._journals.messages.stage_add_in(self.tx, record, MessageType.PAGE_TRANSACTION, body)

    def commit(self) -> Position:
        """All of it counts from here on, once it is durable."""
        return self._ended(lambda: self._journals.messages.stage_commit(self.tx))

    def prepare(self, extra: bytes) -> Position:
        """Prepare the transaction: it survives a crash and waits for a decision. `extra` identifies it (its
        xid).
        """
        return self._ended(lambda: self._journals.messages.stage_prepare(self.tx, extra))

    def _ended(self, end: Callable[[], Position]) -> Position:
        for stage in self._at_once:
            stage(self.tx)
        position = end() if self.tx else self._journals.messages.position
        self.is_ended = True
        self._replaced(position)
        return position


class Changes:
    """`replaced` is told of the position of each that ended, and of None where one came to nothing."""

    def __init__(
        self,
        journals: Journals,
        bodies: BodyStore,
        take_over: Callable[[], Awaitable[None]],
        replaced: Callable[[Position | None], None],
    ) -> None:
        self._journals = journals
        self._bodies = bodies
        self._take_over = take_over
        self._replaced = replaced

    @asynccontextmanager
    async def one(self, *, is_decided: bool = True, alone: bool = False) -> AsyncIterator[Change]:
        """Run a change and commit it at the end of the block. An exception or cancellation within the block
        undoes it; once the change has ended, the journal takes nothing more (`Journals.past_commit`).
        `alone`: the change is a single message for a single queue, and needs no transaction.
        """
        tx = TxId(0) if alone else self._journals.new_tx()
        change = Change(self._journals, self._take_over, tx, is_decided=is_decided, replaced=self._replaced)
        async with change.entered:
            try:
                yield change
            except BaseException as error:
                if change.is_ended:
                    with self._journals.past_commit:
                        raise
                await self._undo(change, error)
                raise
            finally:
                if change.is_long:
                    # What its end left to do is done before others ask for it.
                    self._journals.messages.bell.ring()

    async def _undo(self, change: Change, error: BaseException) -> None:
        if change.tx:
            self._journals.messages.roll_back(change.tx)
        self._replaced(None)
        for undo in reversed(change.undo):
            undo()
        # After a failed write nobody knows what is on the disk: it may name the bodies.
        if change.bodies and not isinstance(error, WriteFailed):
            await unbroken(lambda: self._remove(change.bodies))

    async def _remove(self, bodies: set[MessageId]) -> None:
        """One that cannot be removed is nobody's, and is set aside when the store is opened again."""
        with suppress(OSError):
            await offload(lambda: self._bodies.remove(bodies))

    def pauses(self) -> Pauses:
        """Return pauses for records that are staged in pieces outside of any transaction."""
        return Pauses(self._journals, self._take_over)


def pieces(ids: array[int], length: int = PIECE_RECORDS) -> Iterator[array[int]]:
    """Slices of at most so many."""
    for begin in range(0, len(ids), length):
        yield ids[begin : begin + length]
