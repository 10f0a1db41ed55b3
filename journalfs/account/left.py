"""What of a store is in no queue's lines, as rows of books: for commands that carry the live messages of a
store elsewhere as lines, rows or messages (`export`, `pipeline archive`, Spark's reader).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from journalfs.account.advice import ACKNOWLEDGED, PREPARED
from journalfs.account.books import Books, NotCarried, not_asked_for
from journalfs.account.entries import Account, Entry, Standing, Totals, exactly
from journalfs.account.filters import EVERYTHING
from journalfs.live.undecided import UNDECIDED

if TYPE_CHECKING:
    from journalfs.account.filters import Wanted

SEPARATOR = "::"


def wants(wanted: Wanted, name: str) -> bool:
    """Return whether a queue (`ADDRESS::QUEUE`) is wanted."""
    address, _, queue = name.partition(SEPARATOR)
    return wanted.wants_queue(address, queue)


def left_of(account: Account, wanted: Wanted = EVERYTHING, *, held: bool = False) -> Iterator[NotCarried]:
    """Yield what of the wanted queues no reader of their messages gets: what transactions have that are
    prepared or undecided; and all of the queues that are not wanted. `held`: messages that a prepared
    transaction acknowledged are carried.
    """
    by_queue: dict[str | None, list[Entry]] = defaultdict(list)
    for entry in account.entries:
        if entry.queue is None or wants(wanted, entry.queue):
            by_queue[entry.queue].append(entry)
    for name, totals in account.queues.items():
        if not wants(wanted, name):
            if totals.there:
                yield not_asked_for(name, totals.there, wanted.told_queues())
            continue
        yield from _in_transactions(name, totals, by_queue[name], held=held)
    rest = account.totals.there - sum(one.there for one in account.queues.values())
    if rest > 0:
        reasons = [one.reason for one in by_queue[None] if one.standing is Standing.UNDECIDED]
        reason = "; ".join(dict.fromkeys(reasons)) or "nothing says which queue they are of"
        yield NotCarried(None, Standing.UNDECIDED, reason, exactly(rest), UNDECIDED, asked=False)


def _in_transactions(
    name: str, totals: Totals, entries: Sequence[Entry], *, held: bool
) -> Iterator[NotCarried]:
    sent = 0
    for one in entries:
        count = one.messages.messages or 0
        if one.standing is Standing.PREPARED and one.kind == PREPARED:
            sent += count
        elif one.standing is not Standing.UNDECIDED:
            continue
        if count:
            reason = f"{one.reason}; {one.do}"
            yield NotCarried(name, one.standing, reason, exactly(count), one.kind, asked=False)
    taken = totals.prepared - sent
    if taken > 0 and not held:
        reasons = [
            f"{one.reason}; {one.do}"
            for one in entries
            if one.standing is Standing.PREPARED and one.kind != PREPARED
        ]
        reason = "; ".join(dict.fromkeys(reasons)) or "a prepared transaction acknowledged them"
        yield NotCarried(name, Standing.PREPARED, reason, exactly(taken), ACKNOWLEDGED, asked=False)


def books_of(
    account: Account,
    carried: Mapping[str, int],
    not_carried: Sequence[NotCarried],
    wanted: Wanted = EVERYTHING,
    *,
    made: str,
) -> Books:
    """Return balanced books. Damage of queues that are not wanted was asked to be left. Raises
    `BooksDoNotBalance`.
    """
    books = Books.of(account, carried, not_carried, made=made)
    if wanted.queues:
        rows = [
            msgspec.structs.replace(one, asked=True) if one.queue and not wants(wanted, one.queue) else one
            for one in books.not_carried
        ]
        whole = all(one.queue is not None and not wants(wanted, one.queue) for one in account.losses)
        books = msgspec.structs.replace(books, not_carried=rows, whole=whole)
    books.balance()
    return books
