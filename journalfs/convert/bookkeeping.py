"""The books of `convert`, `recover` and `repair`: the account of the source against that of the new store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from journalfs.account.books import NO_QUEUE, Books, NotCarried, SetAside
from journalfs.account.entries import Account, Standing, Totals
from journalfs.convert.looking import Looked
from journalfs.convert.setting_aside import DAMAGED, UNDECIDED, is_damaged_message
from journalfs.errors import BooksDoNotBalance


def books_of(
    looked: Looked,
    made: Account,
    *,
    renamed: Mapping[str, str],
    set_aside: Sequence[SetAside],
    not_carried: Sequence[NotCarried],
    on_disk: Mapping[int, int],
    name: str,
) -> Books:
    """Return the books, which balance. `made` is the account of the new store, opened like any; `on_disk` is
    how many messages queues have where consumed ones count, by their ids. Raises `BooksDoNotBalance`.
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
