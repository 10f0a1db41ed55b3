"""`journalfs diff`: what differs between two stores."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
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
from journalfs.exchange.targets import mounted_store
from journalfs.store import open_store

if TYPE_CHECKING:
    from journalfs.store.reading import ReadingStore
    from journalfs.store.store import JournalStore

EXIT_DIFFERING: Final = 1
EXIT_TROUBLE: Final = 2


@click.command(epilog="Example: journalfs diff /mnt/broker/.journalfs/snapshots/before /mnt/broker")
@click.argument("first", metavar="A", type=GivenPlace())
@click.argument("second", metavar="B", type=GivenPlace())
@json_option
def diff(*, first: str, second: str, as_json: bool) -> None:
    """Compare two stores message by message: stores of any kind and mounts, `.journalfs/snapshots/NAME` and
    `.journalfs/history/FROM..TO` below either, and backups (PLACE or PLACE@NAME), which are restored into a
    temporary directory meanwhile.

    `lost` are messages in A only, `added` in B only, `changed` with another content in the same queue,
    `moved` in another queue. Ends with 0 if all is equal, with 1 if not, and
    with 2 or more if they cannot be compared. Memory is what two open stores take.
    """
    counts: Counter[str] = Counter()
    try:
        with _compared(first) as one, _compared(second) as other:
            for found in differences(one, other):
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
            raise NoSuchName(f"{store.core.root}: it keeps no history: no `journal-retention-directory`")
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
