"""One unit of work: whatever it sends, takes and moves is one transaction of the journal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager

from journalfs.change.long_changes import Paced, Transaction
from journalfs.change.paging import PageTransaction, Paging
from journalfs.change.removing import Removing
from journalfs.errors import JournalfsError
from journalfs.ids import TxId
from journalfs.records.files.upkept import Position


class Change:
    """Staged a piece at a time, but for messages that others leave a queue for: what leaves is known of one
    transaction at a time, so these are staged in the turn in which it is committed.
    """

    def __init__(
        self,
        transaction: Transaction,
        paging: Paging,
        removing: Removing,
        written: ExitStack,
        *,
        is_decided: bool,
    ) -> None:
        self.is_decided = is_decided
        """Whether it ends with what is staged. Otherwise it is prepared, and a broker may have to take it up:
        it has only what brokers know in such a one, and lets go of nothing in its queues for what comes.
        """
        self.transaction = transaction
        self._paging = paging
        self._removing = removing
        self._written = written
        self._pages: list[PageTransaction] = []
        self._at_once: list[Callable[[TxId], None]] = []

    @property
    def tx(self) -> TxId:
        return self.transaction.tx

    @property
    def begun(self) -> bool:
        return bool(self._at_once) or self.transaction.begun

    def pages(self, address: str, pages_of: Iterable[str]) -> PageTransaction:
        """For what is sent to an address and goes to the pages of others, or its own."""
        pages = self._written.enter_context(self._paging.transaction(address, self.tx, pages_of))
        self._pages.append(pages)
        return pages

    def at_once(self, stage: Callable[[TxId], None]) -> None:
        """Have this staged right before the end. It does not wait."""
        self._at_once.append(stage)

    async def written(self) -> None:
        """What went to pages is durable then, and belongs to the transaction. Raises JournalfsError."""
        await self._paging.stage_pages(self.tx, self._pages)

    def commit(self) -> Position:
        return self._ended(self.transaction.commit)

    def prepare(self, extra: bytes) -> Position:
        """From here on it waits for whoever decides, and survives a crash."""
        return self._ended(lambda: self.transaction.prepare(extra))

    def _ended(self, end: Callable[[], Position]) -> Position:
        try:
            for stage in self._at_once:
                stage(self.tx)
            position = end()
        except JournalfsError:
            self._removing.nothing_replaced()
            raise
        self._removing.replaced(position)
        return position


class Changes:
    def __init__(self, paced: Paced, paging: Paging, removing: Removing) -> None:
        self._paced = paced
        self._paging = paging
        self._removing = removing

    @asynccontextmanager
    async def one(self, *, is_decided: bool = True) -> AsyncIterator[Change]:
        """Stage a change within this, and end it. Whatever is raised meanwhile, cancellation too, rolls it
        back.
        """
        with ExitStack() as written:
            async with self._paced.transaction() as transaction:
                yield Change(transaction, self._paging, self._removing, written, is_decided=is_decided)
