"""The look at a source before anything is made of it: it is opened as every command opens it, so that
`convert`, `recover` and `repair` know of it what `check` knows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from journalfs.account.entries import Account
from journalfs.account.taking import account_of
from journalfs.clock import SystemClock
from journalfs.config.broker_config import BrokerConfig
from journalfs.config.layout import StoreLayout
from journalfs.convert.lost_names import NamedQueue, names_of_lost
from journalfs.errors import failing
from journalfs.store.opening import Opening
from journalfs.store.reading import ReadingStore
from journalfs.store.store import JournalStore


class Looked(msgspec.Struct, frozen=True):
    """What the source says of itself."""

    account: Account
    named: list[NamedQueue]
    """Queues that messages name and no binding, with the names that they get."""
    undecided: dict[int, str]
    """Transactions whose end is lost: names of their directories, by their ids."""
    folders: dict[str, str]
    """Addresses of page folders, by the names of these."""
    queue_names: dict[int, str]
    """`address::queue` by id, of lost queues too."""
    highest_id: int
    """No record, message or transaction of the source has a higher one."""


def look_at(layout: StoreLayout, *, kept_up: bool, destination: BrokerConfig | None = None) -> Looked:
    """Open the source, all of it, and close it again; nothing is written. `kept_up`: it is derived from what
    others may change; `destination` is the configuration of the new store's broker. Raises `SystemFailure`:
    what the system refuses ends the command here.
    """
    with unsaid(), failing("read the store", layout.root, found=True):
        opening = Opening(layout, SystemClock(), True, anew=True)
        opening.is_kept_up = kept_up
        store = opening.store(ReadingStore)
        try:
            return _looked(store, destination)
        finally:
            store.close()


@contextmanager
def unsaid() -> Iterator[None]:
    """Keep from the log what a store warns of while it is open: the report has it."""
    said = logging.getLogger("journalfs")

    def nothing(_: logging.LogRecord) -> bool:
        return False

    said.addFilter(nothing)
    try:
        yield
    finally:
        said.removeFilter(nothing)


def _looked(store: JournalStore, destination: BrokerConfig | None) -> Looked:
    core = store.core
    queues = {**core.bindings.queues, **core.lost.queues}
    return Looked(
        account=account_of(store),
        named=names_of_lost(store, destination),
        undecided={one.tx_id: f"transaction-{one.tx_id}" for one in core.undecided()},
        folders={os.fsdecode(paged.path.name): address for address, paged in core.pages.items()},
        queue_names={int(one): f"{of.address}::{of.name}" for one, of in queues.items()},
        highest_id=_highest_id(store),
    )


def _highest_id(store: JournalStore) -> int:
    core = store.core
    found = [core.loader.state.counts().highest_id, core.bindings.max_id, core.bindings.id_counter or 0]
    for paged in core.pages.values():
        found += (paged.summary(number).last_id for number in paged.numbers())
    return max(found)
