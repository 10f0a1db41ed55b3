"""`journalfs backup` and `restore`: consistent, incremental copies of a store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from journalfs.account.books import NO_QUEUE, Books
from journalfs.account.entries import Account
from journalfs.backup import Backups
from journalfs.backup.accounts import LostPiece, restored_books
from journalfs.backup.backups import verify as problems_of
from journalfs.backup.keeping import Keep
from journalfs.cli import common
from journalfs.cli.books import end_with
from journalfs.cli.mounts import mount_of_store
from journalfs.config.layout import locate_store
from journalfs.errors import EXIT_DAMAGED
from journalfs.exchange.targets import mounted_store
from journalfs.showing import advancing
from journalfs.store.locks import lock_holder

_DEST = click.argument("dest", metavar="DEST", type=common.GivenPlace())
_NAME = click.option("--name", metavar="NAME", help="Which backup; the newest if none is named.")


class _MakesByDefault(click.Group):
    """`journalfs backup STORE DEST` makes one: what is no command is the store."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if named else ["make", *args])


@click.group(
    cls=_MakesByDefault,
    subcommand_metavar="STORE DEST | COMMAND",
    epilog="Example: journalfs backup /mnt/broker /backup/broker",
)
def backup() -> None:
    """Copy STORE, or the store that is mounted there, to DEST: a directory, or a URL of an object store.

    What an earlier backup at DEST holds is not copied again. Of a mount for writing a snapshot is copied,
    and publishing goes on. Of a store beside a running broker its files are copied as they are.
    """


@backup.command(epilog="Example: journalfs backup make /mnt/broker s3://backups/broker")
@common.store_argument
@_DEST
@common.json_option
def make(*, store: Path, dest: str, as_json: bool) -> None:
    """Make a backup of STORE at DEST; the same as without the word.

    A damaged store is copied as it is. Ends with the books, and with 5 if the store lacks something: so does
    what is restored of the backup.
    """
    common.name_in_warnings()
    with _backups(dest, "backup") as backups:
        made = backups.make(*_mounted(store))
    facts = {key: getattr(made, key) for key in ("name", "how", "files", "content_bytes", "new_bytes")}
    kept = made.account
    carried = {name: totals.there for name, totals in kept.queues.items()}
    carried[NO_QUEUE] = kept.totals.there - sum(carried.values())
    account = Account(str(store), kept.losses, kept.queues, kept.totals)
    books = Books.of(account, carried, made="the backup")
    if not as_json:
        common.say(made.line())
    end_with(books, kept.losses, json_to="stdout" if as_json else None, facts=facts)


@backup.command("list", epilog="Example: journalfs backup list /backup/broker")
@_DEST
@common.json_option
def list_(*, dest: str, as_json: bool) -> None:
    """List the backups at DEST, the oldest first."""
    with _backups(dest) as backups:
        found = [backups.manifest(name) for name in backups.names()]
    facts = [
        {"name": one.name, "source": one.source, "how": one.how, "files": len(one.files),
         "bytes": one.content_bytes, "messages": one.account and one.account.totals.there,
         "whole": one.account and not one.account.losses}
        for one in found
    ]  # fmt: skip
    _say(facts, as_json, lambda one: "\t".join(map(str, one.values())))


@backup.command(epilog="Example: journalfs backup verify /backup/broker")
@_DEST
@_NAME
@click.option("--all", "everything", is_flag=True, help="Every backup.")
@common.json_option
def verify(*, dest: str, name: str | None, everything: bool, as_json: bool) -> None:
    """Read a backup against its checksums, and list what it lacks. Ends with 5 if something of it cannot be
    restored, or the store lacked something when it was backed up.
    """
    with _backups(dest, "verify") as backups:
        names = backups.names() if everything else [name or backups.manifest().name]
        problems = list(problems_of(backups, names))
    _say(problems, as_json, lambda one: one.line())
    if problems:
        sys.exit(EXIT_DAMAGED)
    if not as_json:
        common.say(f"{', '.join(names)}: no damage")


def _count(option: str, what: str) -> Callable[[Any], Any]:
    return click.option(option, type=click.IntRange(min=0), default=0, metavar="N", help=what)


@backup.command(epilog="Example: journalfs backup prune --keep-daily 7 --keep-weekly 4 /backup/broker")
@_DEST
@_count("--keep", "So many of the newest stay.")
@_count("--keep-daily", "The newest of each of N days stays.")
@_count("--keep-weekly", "The newest of each of N weeks stays.")
@_count("--keep-monthly", "The newest of each of N months stays.")
@click.option("--dry-run", is_flag=True, help="Remove nothing; list what would go.")
@common.json_option
def prune(
    *,
    dest: str,
    keep: int,
    keep_daily: int,
    keep_weekly: int,
    keep_monthly: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove backups that no option keeps, and what only those had. No backup may be made meanwhile.

    A backup stays if one of the options keeps it. Only days, weeks and months that have a backup count; they
    are those of UTC, as in the names of backups.
    """
    with _backups(dest) as backups:
        gone = backups.prune(Keep(keep, keep_daily, keep_weekly, keep_monthly), dry_run=dry_run)
    _say(gone, as_json, lambda one: f"{one}: {'would be removed' if dry_run else 'removed'}")


@click.command(epilog="Example: journalfs restore /backup/broker /var/lib/artemis/restored")
@_DEST
@click.argument("destination", metavar="NEW", type=common.GivenPath())
@_NAME
@click.option("--damaged", is_flag=True, help="Leave a hole where a piece of the backup is lost.")
@common.json_option
def restore(*, dest: str, destination: Path, name: str | None, damaged: bool, as_json: bool) -> None:
    """Make the store NEW of a backup at DEST. Each piece is checked; NEW is whole, or not there.

    With --damaged a piece that is lost is a hole in NEW, which `journalfs check NEW` lists, and everything
    else is there. Ends with the books: what the store had when it was backed up is what is in NEW and what is
    not. Ends with 5 if something is not, or the store lacked it already.
    """
    common.name_in_warnings()
    with _backups(dest, "restore") as backups:
        done = backups.restore(destination, name, damaged=damaged)
    manifest = done.manifest
    pieces = [LostPiece(hole.file or "", hole.offset) for hole in done.holes]
    books, losses = restored_books(manifest, destination, pieces)
    facts = {"name": manifest.name, "destination": str(destination), "files": len(manifest.files),
             "holes": done.holes}  # fmt: skip
    if not as_json:
        common.say(f"{manifest.name} -> {destination}: {len(manifest.files)} files")
        for hole in done.holes:
            common.say(f"journalfs: a hole: {hole.line()}", to_people=True)
    end_with(books, losses, json_to="stdout" if as_json else None, facts=facts)


def _mounted(given: Path) -> tuple[Path, Path | None]:
    """Where the store is mounted that somebody gave, and its own path; or that path alone."""
    store = mounted_store(given)
    if store is not None:
        return given, store
    layout = locate_store(given, adopting=False)
    if lock_holder(layout.node_manager_lock_dir) is not None:
        mount = mount_of_store(layout.root)
        if mount is not None:
            return mount, layout.root
    return given, None


@contextmanager
def _backups(dest: str, doing: str | None = None) -> Iterator[Backups]:
    """With a bar for people, if `doing` says that it takes long."""
    with advancing(doing) as advance:
        yield Backups.at(dest, advance)


def _say(found: list[Any], as_json: bool, line: Callable[[Any], str]) -> None:
    if as_json:
        common.write_json(found)
    else:
        for one in found:
            common.say(line(one))
