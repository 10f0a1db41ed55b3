"""Changes of any size: staged a piece at a time as one transaction, while the store serves others."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

from journalfs.change.journals import Journals
from journalfs.engine.waiting import REST
from journalfs.ids import TxId
from journalfs.limits import PIECE_NS, PIECE_RECORDS, PIECES_IN_FLIGHT_MAX
from journalfs.records.files.upkept import Position


class Paced:
    """Between two pieces others go on, what was staged before is written, and it is taken over as far as that
    can be done before the transaction ends. So neither what waits for the disk nor a turn of the loop grows
    with a change, and its end takes little time.
    """

    def __init__(self, journals: Journals, take_over: Callable[[], Awaitable[None]]) -> None:
        self._journals = journals
        self._take_over = take_over

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Stage a transaction within this, and end it with `commit`. Whatever is raised meanwhile,
        cancellation too, rolls it back.
        """
        transaction = Transaction(self._journals, self._take_over)
        try:
            yield transaction
        except BaseException:
            self._journals.messages.roll_back(transaction.tx)
            raise
        finally:
            # What its end left to do is done before others ask for it.
            self._journals.messages.bell.ring()

    def pauses(self) -> Pauses:
        """For what is staged piece by piece outside of any transaction."""
        return Pauses(self._journals, self._take_over)


class Pauses:
    def __init__(self, journals: Journals, take_over: Callable[[], Awaitable[None]]) -> None:
        self._journals = journals
        self._take_over = take_over
        self._records = 0
        self._since_ns = self._busy_since_ns = self._now_ns()
        self._staged: deque[Position] = deque()
        """Ends of the pieces that may still be on their way to the disk."""

    def _now_ns(self) -> int:
        return self._journals.messages.clock.monotonic_ns()

    async def after(self, records: int) -> None:
        """So many records were staged: let others go on if it is time. Raises WriteFailed."""
        self._records += records
        if self._records >= PIECE_RECORDS or self._now_ns() - self._since_ns >= PIECE_NS:
            await self.now()

    async def now(self) -> None:
        """Let others go on, until all but the last pieces are durable and there is a file to go on in. What
        others publish is written behind the pieces before it: while there are others, that is one.
        """
        writer = self._journals.messages
        self._staged.append(writer.position)
        busy_s = (self._now_ns() - self._busy_since_ns) / 1e9
        in_flight_max = 1 if await REST.get()(busy_s) else PIECES_IN_FLIGHT_MAX
        self._busy_since_ns = self._now_ns()  # the disk is busy with it, too
        while len(self._staged) > in_flight_max:
            await writer.durable(self._staged.popleft())
        await writer.upkeep.have_ready()
        await self._take_over()
        self._records, self._since_ns = 0, self._now_ns()


class Transaction(Pauses):
    def __init__(self, journals: Journals, take_over: Callable[[], Awaitable[None]]) -> None:
        super().__init__(journals, take_over)
        self.tx: TxId = journals.new_tx()

    @property
    def begun(self) -> bool:
        """Whether anything of it was staged."""
        return self._journals.messages.has_open(self.tx)

    def commit(self) -> Position:
        """All of it counts from here on, once it is durable. Something was staged."""
        return self._journals.messages.stage_commit(self.tx)

    def prepare(self, extra: bytes) -> Position:
        """The same once it is committed, whatever happens until then. `extra`: what it is known by."""
        return self._journals.messages.stage_prepare(self.tx, extra)


def pieces(ids: array[int], length: int = PIECE_RECORDS) -> Iterator[array[int]]:
    """Slices of at most so many."""
    for begin in range(0, len(ids), length):
        yield ids[begin : begin + length]
