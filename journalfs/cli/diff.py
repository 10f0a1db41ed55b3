"""`journalfs diff`: what differs between two stores."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from journalfs.cli.common import GivenPath, json_option, name_in_warnings, write_json
from journalfs.errors import EXIT_WRONG_CALL, JournalfsError, NoSuchName

if TYPE_CHECKING:
    from journalfs.store.store import JournalStore

EXIT_DIFFERING: Final = 1
EXIT_TROUBLE: Final = 2


@click.command(epilog="Example: journalfs diff /mnt/broker/.journalfs/snapshots/before /mnt/broker")
@click.argument("first", metavar="A", type=GivenPath())
@click.argument("second", metavar="B", type=GivenPath())
@json_option
def diff(*, first: Path, second: Path, as_json: bool) -> None:
    """Compare two stores message by message: stores of any kind, mounts, snapshots, backups.

    `lost` are messages in A only, `added` in B only, `changed` with another content in the same queue,
    `moved` in another queue. Ends with 0 if all is equal, with 1 if not, and
    with 2 or more if they cannot be compared. Memory does not grow with the stores.
    """
    from journalfs.exchange.comparing import differences  # noqa: PLC0415 - takes longer than the help text

    counts: Counter[str] = Counter()
    try:
        with _compared(first) as one, _compared(second) as other:
            for found in differences(one, other):
                counts[found.what] += 1
                if as_json:
                    write_json([found.json()])
                else:
                    click.echo(found.text())
    except JournalfsError as error:
        if error.exit_code == EXIT_WRONG_CALL:
            error.code = EXIT_TROUBLE  # type: ignore[attr-defined]
        raise
    if not as_json:
        summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        click.echo(summary or "no difference", err=True)
    sys.exit(EXIT_DIFFERING if counts else 0)


@contextmanager
def _compared(path: Path) -> Iterator[JournalStore]:
    """A store, what is mounted at a path, or a snapshot of either."""
    from journalfs.exchange.targets import mounted_store  # noqa: PLC0415 - as above
    from journalfs.store import open_store  # noqa: PLC0415

    name_in_warnings()
    root, name = path, None
    if path.parent.name == "snapshots" and path.parent.parent.name in (".journalfs", "journalfs"):
        root, name = path.parent.parent.parent, path.name
    store = open_store(mounted_store(root) or root, index=False)
    try:
        yield store if name is None else _snapshot(store, name)
    finally:
        store.close()


def _snapshot(store: JournalStore, name: str) -> JournalStore:
    import trio  # noqa: PLC0415 - as above

    found = store.snapshots.named(name)
    if found is None:
        raise NoSuchName(f"{store.core.root}: there is no snapshot {name}")
    return trio.run(found.opened)
