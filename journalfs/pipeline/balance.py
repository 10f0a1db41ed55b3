"""The books of what an archive takes from a store on this machine. Called by `journalfs pipeline archive`,
before Spark starts and after the run. It never counts what was written: the archive says that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from journalfs.account.advice import MESSAGE
from journalfs.account.books import NOT_ASKED_FOR, Books, NotCarried, not_asked_for
from journalfs.account.entries import UNKNOWN, Account, Standing, Totals, exactly
from journalfs.account.filters import Wanted
from journalfs.account.left import SEPARATOR, books_of, left_of
from journalfs.account.taking import account_of
from journalfs.pipeline.mark import mark_of
from journalfs.spark.place import Place, is_elsewhere, place_of
from journalfs.store import open_store

if TYPE_CHECKING:
    from journalfs.store.store import JournalStore

MADE: Final = "the archive"
ESCAPED: Final = r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]"""
"""What takes three characters in the name of a folder of an archive."""
NAME_BYTES_MAX: Final = 200
"""No name on a disk is longer than 255 bytes; this one has `address=` before it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows an archive has of the live messages of one queue."""

    whole: int = 0
    damaged: int = 0
    """Rows with a `damage`: what could be read of a message."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of a store, and what that has, before anything is written."""

    account: Account
    wanted: Wanted
    given: str
    """The options and the path that choose queues, as the caller gave them."""
    refused: Mapping[str, int]
    """Messages that the selector does not accept, by `ADDRESS::QUEUE`."""
    mark: str
    """Of the store as it was then (`mark_of`)."""
    beside_broker: bool
    """A broker may change the store before Spark reads it."""

    def books(self, rows: Mapping[str, Rows]) -> Books:
        """Return balanced books. `rows` are by `queue` as the archive has it. Raises
        `BooksDoNotBalance`.
        """
        left = [self._told(one) for one in left_of(self.account, self.wanted)]
        where = f"--where {self.wanted.where}"
        left += [not_asked_for(name, count, where) for name, count in self.refused.items() if count]
        names = {in_archive(name.partition(SEPARATOR)[2]): name for name in self.account.queues}
        carried: dict[str, int] = {}
        for queue, found in rows.items():
            name = names.get(queue, queue)
            carried[name] = found.whole
            if found.damaged:
                reason = "they cannot be read whole: their rows have `damage`"
                one = NotCarried(name, Standing.DAMAGED, reason, exactly(found.damaged), MESSAGE, asked=False)
                left.append(one)
        if self.beside_broker:
            reason = "the broker sent or consumed messages of it meanwhile"
            left += [
                NotCarried(name, Standing.LIVE, reason, UNKNOWN, "changed-meanwhile", asked=True)
                for name in sorted(carried.keys() | self.account.queues.keys())
                if self._unexplained(name, carried, left)
            ]
        return books_of(self.account, carried, left, self.wanted, made=MADE)

    def _told(self, row: NotCarried) -> NotCarried:
        return msgspec.structs.replace(row, reason=self.given) if row.standing == NOT_ASKED_FOR else row

    def _unexplained(self, name: str, carried: Mapping[str, int], left: Sequence[NotCarried]) -> int:
        told = sum(one.messages.messages or 0 for one in left if one.queue == name)
        return self.account.queues.get(name, Totals()).there - carried.get(name, 0) - told


def asked_of(path: str, queues: Sequence[str], where: str) -> Asked | None:
    """Return what a store on this machine has of what is asked for; None where only Hadoop reads it, and for
    a range of its history.
    """
    if is_elsewhere(path):
        return None
    place = place_of(path, reads_history=True)
    if place.history is not None:
        return None
    with closing(open_store(place.store)) as store:
        account = account_of(store)
        names = _meant(account, place, queues)
        wanted = Wanted.of(names, where or None, None, None, 0)
        given = f"--queues {','.join(queues)}" if queues else f"the path is {path}"
        refused = _refused(store, wanted)
        return Asked(account, wanted, given, refused, mark_of(store), store.core.live_broker)


def _meant(account: Account, place: Place, queues: Sequence[str]) -> list[str]:
    """Return the full names of the queues that a path and `--queues` mean; none: all."""
    if place.address is None and not queues:
        return []
    found = []
    for name in account.queues:
        address, _, queue = name.partition(SEPARATOR)
        inside = place.address in (None, address) and place.queue in (None, queue)
        if inside and (not queues or {name, address, queue} & set(queues)):
            found.append(name)
    return found or [place.address or "", *queues]


def _refused(store: JournalStore, wanted: Wanted) -> dict[str, int]:
    """Return how many messages of each wanted queue the selector does not accept."""
    if wanted.selector is None:
        return {}
    return {
        f"{queue.model.address}{SEPARATOR}{queue.name}": queue.content.count()
        - sum(len(wanted.chosen(queue.content, run)) for run in queue.content.live())
        for queue in store.queues()
        if wanted.wants_queue(queue.model.address, queue.name)
    }


def in_archive(queue: str) -> str:
    """Return what the column `queue` of an archive is for a name: as `archive._in_a_path` makes it, of a name
    in which Spark has replaced halves of characters.
    """
    name = queue.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    encoded = name.encode()
    if len(encoded) + 2 * len(re.findall(ESCAPED, name)) <= NAME_BYTES_MAX:
        return name
    return f"{name[:40]}~{hashlib.md5(encoded, usedforsecurity=False).hexdigest()}"
