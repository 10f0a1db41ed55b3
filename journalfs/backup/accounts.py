"""What a backed up store had, kept in the description of its backup; and the books of what is restored of it.

The account is taken of the very files that are copied. A restored store is read back and compared with it, so
`restore` says what came back and what did not, and a message that is lost on the way is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from journalfs.account.books import NO_QUEUE, Books, NotCarried
from journalfs.account.entries import UNKNOWN, Account, Entry, Standing, Totals, exactly
from journalfs.account.taking import account_of
from journalfs.backup.kept_account import KeptAccount
from journalfs.backup.manifest import Manifest
from journalfs.damage import HOLE, Damage
from journalfs.records.files.kept_damage import note_hole
from journalfs.showing import shown
from journalfs.store import open_store

if TYPE_CHECKING:
    from journalfs.store.store import JournalStore

SEPARATOR: Final = "::"
HOLES_TOLD_MAX: Final = 3


class LostPiece(NamedTuple):
    """A place that is zeros in what was restored."""

    file: str
    offset: int


def taken_at(root: Path) -> KeptAccount:
    """Take the account of the store at `root`, or of the snapshot that it is. Raises what `open_store`
    raises.
    """
    store = open_store(root)
    try:
        return _kept(account_of(store), store)
    finally:
        store.close()


def _kept(account: Account, store: JournalStore) -> KeptAccount:
    numbers = {_name(queue.model.address, queue.name): int(queue.model.queue_id) for queue in store.queues()}
    return KeptAccount(
        {shown(name): totals for name, totals in account.queues.items() if totals != Totals()},
        account.totals,
        [
            msgspec.structs.replace(one, queue=one.queue and shown(one.queue), reason=shown(one.reason))
            for one in account.losses
        ],
        numbers,
    )


def _name(address: str, queue: str) -> str:
    return shown(f"{address}{SEPARATOR}{queue}")


def restored_books(
    manifest: Manifest, destination: Path, holes: Sequence[LostPiece]
) -> tuple[Books, Sequence[Entry]]:
    """Read a restored store, and return balanced books of it and what it lacks. What the backed up store
    lacked already, and nothing in the new one shows, is noted there as damage. Raises `BooksDoNotBalance`.
    """
    store = open_store(destination)
    try:
        account = account_of(store)
        new = _kept(account, store)
        renamed = _renamed(manifest.account, store)
    finally:
        store.close()
    had = manifest.account
    if had is None:  # made by a journalfs that took no account
        carried = {name: totals.there for name, totals in account.queues.items()}
        carried[NO_QUEUE] = account.totals.there - sum(carried.values())
        return Books.of(account, carried, made="NEW"), account.losses
    unseen = _unseen(had.losses, new.losses)
    for one in unseen:
        _note(destination, one, manifest.name)
    carried, rows = _carried(had, new, renamed, holes, beside=manifest.how == "beside")
    losses = [*new.losses, *unseen]
    books = Books.of(
        Account(manifest.source, losses, had.queues, had.totals), carried, rows, renamed=renamed, made="NEW"
    )
    books.balance()
    return books, losses


def _renamed(had: KeptAccount | None, store: JournalStore) -> dict[str, str]:
    """Return what queues are called whose bindings are lost, by the names that they had."""
    numbers = {} if had is None else {number: name for name, number in had.numbers.items()}
    lost = {int(one): _name(queue.address, queue.name) for one, queue in store.core.lost.queues.items()}
    return {numbers[one]: name for one, name in lost.items() if one in numbers and numbers[one] != name}


def _unseen(before: Sequence[Entry], after: Sequence[Entry]) -> list[Entry]:
    """Return what is missing for sure and only the backed up store knew: an index, or counters that a hole
    has taken.
    """
    known = {(one.kind, one.file, one.id) for one in after}
    return [
        one
        for one in before
        if one.standing is Standing.MISSING and one.certain and (one.kind, one.file, one.id) not in known
    ]


def _note(root: Path, one: Entry, backup: str) -> None:
    reason = f"{one.reason} (so it was when {backup} was made)"
    note_hole(root, Damage(one.file, one.offset or 0, one.bytes or 0, one.kind, reason))


def _carried(
    had: KeptAccount, new: KeptAccount, renamed: dict[str, str], holes: Sequence[LostPiece], *, beside: bool
) -> tuple[dict[str, int], list[NotCarried]]:
    """Return how many messages of each queue are in the new store as they were, and rows for all others."""
    carried: dict[str, int] = {}
    rows: list[NotCarried] = []
    for name in sorted({*had.queues, *({*new.queues} - {*renamed.values()}), NO_QUEUE}):
        one, other = _totals(had, name), _totals(new, renamed.get(name, name))
        if not holes and not beside:
            carried[name] = other.there
            continue
        found = [*_worse(name, one, other, _reason(holes))] if holes else []
        if beside and one.there != other.there:
            reason = "a broker sent or consumed messages of it while it was copied"
            found = [NotCarried(name, Standing.LIVE, reason, UNKNOWN, "changed-meanwhile", asked=True)]
        carried[name] = one.there - sum(row.messages.messages or 0 for row in found)
        rows += found
    return carried, rows


def _totals(account: KeptAccount, name: str) -> Totals:
    if name != NO_QUEUE:
        return account.queues.get(name, Totals())
    return Totals(undecided=account.totals.there - sum(one.there for one in account.queues.values()))


def _reason(holes: Sequence[LostPiece]) -> str:
    places = ", ".join(f"{one.file} at byte {one.offset}" for one in holes[:HOLES_TOLD_MAX])
    more = f" and {len(holes) - HOLES_TOLD_MAX} more places" if len(holes) > HOLES_TOLD_MAX else ""
    return f"the backup has lost {places}{more}"


def _worse(name: str, had: Totals, new: Totals, reason: str) -> Iterator[NotCarried]:
    """Yield what of a queue is not in the new store, or not as it was. More than there was are messages whose
    acknowledgements are lost: they are told, and are in no sum.
    """
    queue = None if name == NO_QUEUE else name
    gone = had.there - new.there
    for standing, count in (
        (Standing.DAMAGED, new.damaged - had.damaged),
        (Standing.UNDECIDED, new.undecided - had.undecided),
    ):
        left = min(count, had.there - max(gone, 0))
        if left > 0:
            yield NotCarried(queue, standing, reason, exactly(left), HOLE, asked=False)
    if gone > 0:
        yield NotCarried(queue, Standing.DAMAGED, reason, exactly(gone), HOLE, asked=False)
    elif gone < 0:
        back = f"{-gone} messages that were consumed are there again: {reason}"
        yield NotCarried(queue, "came-back", back, UNKNOWN, HOLE, asked=False)
