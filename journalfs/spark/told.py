"""What a store lacks, told once where a job is planned: the rows of a DataFrame cannot say what is missing.

Called by the reader of `format("journalfs")`, whose log Spark shows on the program's stderr, and by
`live_messages`. It never changes what is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Final

from journalfs.account.taking import account_of, entries_of
from journalfs.showing import shown
from journalfs.spark.place import database_of, is_elsewhere, place_of
from journalfs.store import open_store

if TYPE_CHECKING:
    from journalfs.account.entries import Account
    from journalfs.account.taking import OfCore

log = logging.getLogger("journalfs")

ENTRIES_TOLD_MAX: Final = 20


def tell_losses(store: OfCore) -> None:
    """Log what an open store lacks as one warning; nothing if it is whole."""
    if any(not one.is_harmless for one in entries_of(store.core)):
        log.warning("%s", shown("\n".join(_lines(account_of(store)))))


def tell_losses_at(path: str, *, bindings_whole: bool) -> None:
    """The same of a store that joins read: of one elsewhere only its bindings are looked at here."""
    if not is_elsewhere(path) and database_of(path) is None:
        with closing(open_store(place_of(path).store)) as store:
            tell_losses(store)
    elif not bindings_whole:
        log.warning("%s: the bindings are damaged or name no queue: queues may be called queue-17", path)


def _lines(account: Account) -> Iterable[str]:
    yield f"{account.source}: a job does not get all of this store: {account.totals.text()}"
    yield from islice(account.lines(), 1, None)
    for one in account.losses[:ENTRIES_TOLD_MAX]:
        place = one.file if one.offset is None else f"{one.file} at byte {one.offset}"
        yield f"{place}: {one.kind}: {one.reason}"
    if len(account.losses) > ENTRIES_TOLD_MAX:
        yield f"and {len(account.losses) - ENTRIES_TOLD_MAX} places more: journalfs check lists all"
