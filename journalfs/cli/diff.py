"""`journalfs diff`: what differs between two stores."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import trio

from journalfs.backup import Backups
from journalfs.cli.common import GivenPlace, json_option, name_in_warnings, say, write_json
from journalfs.config.database import kept_text
from journalfs.config.layout import locate_store
from journalfs.errors import EXIT_WRONG_CALL, JournalfsError, NoSuchName
from journalfs.exchange.comparing import differences
from journalfs.exchange.renaming import MADE_FROM, Renaming, made_from
from journalfs.exchange.targets import mounted_store
from journalfs.store import open_store
from journalfs.store.history import KEEP_HISTORY

if TYPE_CHECKING:
    from journalfs.store.reading import ReadingStore
    from journalfs.store.store import JournalStore

EXIT_DIFFERING: Final = 1
EXIT_TROUBLE: Final = 2


@click.command(epilog="Example: journalfs diff /mnt/broker/.journalfs/snapshots/before /mnt/broker")
@click.argument("first", metavar="A", type=GivenPlace())
@click.argument("second", metavar="B", type=GivenPlace())
@click.option(
    "--renamed",
    "renamed",
    metavar="OLD=NEW",
    multiple=True,
    help="What A calls OLD is NEW in B: ADDRESS::QUEUE, or ADDRESS for all of its queues.",
)
@json_option
def diff(*, first: str, second: str, renamed: tuple[str, ...], as_json: bool) -> None:
    """Compare two stores message by message: stores of any kind and mounts, `.journalfs/snapshots/NAME` and
    `.journalfs/history/FROM..TO` below either, and backups (PLACE or PLACE@NAME), which are restored into a
    temporary directory meanwhile.

    `lost` are messages in A only, `added` in B only, `changed` with another content in the same queue,
    `moved` in another queue. Where one of them was converted, names of queues are those that its
    journalfs/made-from.json says, and ids are not compared. Ends with 0 if all is equal, with 1 if not, and
    with 2 or more if they cannot be compared. Memory is what two open stores take.
    """
    counts: Counter[str] = Counter()
    try:
        with _compared(first) as one, _compared(second) as other:
            names = _names(renamed, one, other)
            for found in differences(one, other, names):
                counts[found.what] += 1
                if as_json:
                    write_json([found.json()])
                else:
                    say(found.text())
    except JournalfsError as error:
        if error.exit_code == EXIT_WRONG_CALL:
            error.code = EXIT_TROUBLE  # type: ignore[attr-defined]
        raise
    if not as_json:
        summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        say(summary or "no difference", to_people=True)
    sys.exit(EXIT_DIFFERING if counts else 0)


def _names(given: Sequence[str], first: JournalStore, second: JournalStore) -> Renaming | None:
    """Return the names that the caller gave, or else those that a conversion noted in either store."""
    if given:
        return Renaming.of_options(given)
    for store, other, is_second in ((second, first, True), (first, second, False)):
        root = Path(store.core.shown)
        noted = made_from(root)
        if noted is None:
            continue
        of_other = {f"{one.model.address}::{one.name}" for one in other.queues()}
        if of_other.isdisjoint(noted.queues):
            continue  # the store was converted, but not from this one
        say(f"names of queues are those of {root / MADE_FROM}", to_people=True)
        return noted if is_second else noted.reversed()
    return None


@contextmanager
def _compared(given: str) -> Iterator[JournalStore]:
    """A store, or what is mounted at a path; a snapshot or a range of the history of either; or a backup."""
    name_in_warnings()
    with _restored(given) as restored:
        path = Path(kept_text(given)) if restored is None else restored
        root, what, name = path, path.parent.name, path.name
        if what in ("snapshots", "history") and path.parent.parent.name in (".journalfs", "journalfs"):
            root = path.parent.parent.parent
        place = mounted_store(root) or root
        with suppress(JournalfsError):  # what is wrong with it is told by whoever opens it
            locate_store(place, adopting=False).enter()
        store = open_store(place, index=False)
        try:
            yield store if root is path else _moment(store, what, name)
        finally:
            store.close()


def _moment(store: ReadingStore, what: str, name: str) -> JournalStore:
    if what == "history":
        if not store.history:
            raise NoSuchName(f"{store.core.root}: it keeps no history; {KEEP_HISTORY}")
        return trio.run(store.history.named(name).opened)
    found = store.snapshots.named(name)
    if found is None:
        raise NoSuchName(f"{store.core.root}: there is no snapshot {name}")
    return trio.run(found.opened)


@contextmanager
def _restored(given: str) -> Iterator[Path | None]:
    """A backup as a store among temporary files, where `PLACE@NAME` or `PLACE` names one: its newest."""
    backups, name = Backups.found(given), None
    if backups is None or not backups.names():
        place, at, last = given.rpartition("@")
        if at and "/" not in last:
            backups, name = Backups.found(place), last
    if backups is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="journalfs-") as folder:
        store = Path(os.path.realpath(folder)) / "store"
        backups.restore(store, name)
        yield store
