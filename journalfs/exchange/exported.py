"""What became of the messages of a store that is exported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from journalfs.account.advice import MESSAGE
from journalfs.account.books import Books, NotCarried, not_asked_for
from journalfs.account.entries import UNKNOWN, Account, Standing, Totals, exactly
from journalfs.account.filters import Wanted
from journalfs.account.left import books_of, left_of
from journalfs.views.queues import StoreQueue


def name_of(queue: StoreQueue) -> str:
    """Return `ADDRESS::QUEUE`."""
    return f"{queue.model.address}::{queue.name}"


@dataclass(slots=True)
class Exported:
    """What became of a store's messages: counts by `ADDRESS::QUEUE`."""

    account: Account
    wanted: Wanted
    carried: Counter[str] = field(default_factory=Counter)
    not_carried: list[NotCarried] = field(default_factory=list)
    held: bool = False
    """Messages that a prepared transaction acknowledged are in the file."""
    beside_broker: bool = False
    """A broker may change the store while it is read: account and messages may be of two moments."""

    def left(self, queue: str, reason: str, standing: str = Standing.DAMAGED, kind: str = MESSAGE) -> None:
        """Count a message of a queue that is not in the file."""
        self.not_carried.append(NotCarried(queue, standing, reason, exactly(1), kind, asked=False))

    def not_wanted(self, queue: str, count: int) -> None:
        if count:
            self.not_carried.append(not_asked_for(queue, count, self.wanted.told()))

    def books(self, made: str) -> Books:
        """Return balanced books. Raises `BooksDoNotBalance`."""
        rows = [*self.not_carried, *left_of(self.account, self.wanted, held=self.held)]
        if self.beside_broker:
            reason = "the broker sent or consumed messages of it while it was read"
            rows += [
                NotCarried(queue, Standing.LIVE, reason, UNKNOWN, "changed-meanwhile", asked=True)
                for queue in sorted(self.carried.keys() | self.account.queues.keys())
                if self._unexplained(queue, rows)
            ]
        return books_of(self.account, self.carried, rows, self.wanted, made=made)

    def _unexplained(self, queue: str, rows: Sequence[NotCarried]) -> int:
        """Return how many messages of a queue are neither carried nor in a row."""
        told = sum(one.messages.messages or 0 for one in rows if one.queue == queue)
        return self.account.queues.get(queue, Totals()).there - self.carried[queue] - told
