"""The books of `convert`, `recover` and `repair`: the account of the source against that of the new store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from journalfs.account.books import NO_QUEUE, Books, NotCarried, SetAside
from journalfs.account.entries import Account, Entry, Standing, Totals
from journalfs.convert.looking import Looked
from journalfs.convert.setting_aside import DAMAGED, UNDECIDED, is_damaged_message
from journalfs.errors import BooksDoNotBalance, MadeNotWhole

_DROPPED: Final = frozenset(
    {"lost-binding", "missing-message", "undecided-transaction", "incomplete-transaction"}
)
"""Kinds of entries of which a broker that starts keeps nothing."""


def books_of(
    looked: Looked,
    made: Account,
    *,
    renamed: Mapping[str, str],
    set_aside: Sequence[SetAside],
    not_carried: Sequence[NotCarried],
    on_disk: Mapping[int, int],
    name: str,
    has_bodies: bool = True,
) -> Books:
    """Return the books, which balance. `made` is the account of the new store, opened like any; `on_disk` is
    how many messages queues have where consumed ones count, by their ids. `has_bodies` off: large bodies
    come beside the new store later, so that their messages count as damaged. Raises `BooksDoNotBalance`.
    """
    account = looked.account
    here = {new: old for old, new in renamed.items()}
    aside = [replace(one, queue=here.get(one.queue or "", one.queue)) for one in set_aside]
    left = [replace(one, queue=here.get(one.queue or "", one.queue)) for one in not_carried]
    carried = Counter({here.get(queue, queue): totals.there for queue, totals in made.queues.items()})
    expected: Counter[str] = Counter()
    for one in aside:
        expected[here.get(one.into, one.into)] += one.messages
    for queue, messages in expected.items():
        if carried[queue] != messages:
            raise BooksDoNotBalance(queue, messages, carried[queue], name)
        del carried[queue]
    if has_bodies:
        _refuse_more_damage(account, made, aside, here)
    consumed = {
        looked.queue_names[queue]: total - account.queues.get(looked.queue_names[queue], Totals()).there
        for queue, total in on_disk.items()
        if queue in looked.queue_names
    }
    books = Books.of(
        account,
        carried,
        left,
        renamed=renamed,
        set_aside=aside,
        consumed={queue: count for queue, count in consumed.items() if count},
        made=name,
    )
    books.balance()
    return books


def _refuse_more_damage(
    account: Account, made: Account, aside: Sequence[SetAside], here: Mapping[str, str]
) -> None:
    """Raise `BooksDoNotBalance` where more messages of a queue are damaged in the new store than in the
    source: a body that did not come along leaves the counts as they were.
    """
    damaged: Counter[str] = Counter()
    for queue, totals in made.queues.items():
        damaged[here.get(queue, queue)] += totals.damaged
    for one in aside:
        if one.standing == Standing.DAMAGED and one.queue is not None:
            damaged[one.queue] += one.messages
    for queue, messages in damaged.items():
        had = account.queues.get(queue, Totals()).damaged
        if messages > had:
            raise BooksDoNotBalance(f"{queue}, damaged", had, messages, "NEW")


def refuse_damaged(made: Account, name: str) -> None:
    """Raise `MadeNotWhole` where a new store, as it is handed over, has anything that a broker drops or
    complains of. Messages that are known to be damaged may be there, and what is only possible.
    """
    for one in drops_of(made):
        raise MadeNotWhole(name, one.file, one.reason)


def drops_of(made: Account) -> Iterator[Entry]:
    """Yield what of a store a broker drops, or complains of. What its journal counts in pages is no such
    thing: a broker counts anew when it starts.
    """
    return (one for one in made.losses if one.kind in _DROPPED)


def predicted(looked: Looked, *, renamed: Mapping[str, str], keep_damaged: bool) -> Books:
    """Return the books that a repair of the source would end with, from its account alone."""
    account = looked.account
    aside: list[SetAside] = []
    for entry in account.entries:
        count = entry.messages.messages or 0
        if entry.standing is Standing.UNDECIDED and entry.transaction is not None and count:
            name = f"{UNDECIDED}{entry.transaction.rpartition('-')[2]}"
            aside.append(SetAside(entry.queue, f"{name}::{name}", entry.standing, count, entry.reason))
        elif is_damaged_message(entry) and not keep_damaged:
            into = f"{DAMAGED}::{DAMAGED}"
            aside.append(SetAside(entry.queue, into, entry.standing, count, entry.reason))
    moved: Counter[str] = Counter()
    for one in aside:
        moved[one.queue or NO_QUEUE] += one.messages
    carried = {queue: totals.there - moved[queue] for queue, totals in account.queues.items()}
    books = Books.of(account, carried, renamed=renamed, set_aside=aside)
    books.balance()
    return books
