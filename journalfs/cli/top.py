"""`journalfs top`: queues, messages, dead letters and the disk on a terminal, as they change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from journalfs.cli.common import (
    GivenPath,
    config_option,
    json_option,
    leaving_readers,
    name_in_warnings,
    write_json,
    write_table,
)
from journalfs.errors import DependencyMissing, WrongCall

if TYPE_CHECKING:
    from journalfs.top.once import Printed

SORTS = ("messages", "in", "out", "oldest", "bytes", "name")


@click.command(epilog="Example: journalfs top /mnt --sort in")
@click.argument("store", metavar="STORE|MNT|URL", type=GivenPath())
@config_option
@click.option("--once", is_flag=True, help="Print a table of the queues, and end.")
@json_option
@click.option("--sort", type=click.Choice(SORTS), default="messages", help="What queues are sorted by.")
@click.option("--filter", "wanted", metavar="TEXT", default="", help="Only queues with this in their names.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), help="With --once or --json: so many queues."
)
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0, max=3600),
    default=1.0,
    help="With --once or --json: rates are of so long.",
)
@click.option("--write", is_flag=True, help="Open a store for writing that is not mounted.")
def top(
    *,
    store: Path,
    once: bool,
    as_json: bool,
    sort: str,
    wanted: str,
    limit: int | None,
    interval: float,
    write: bool,
) -> None:
    """Watch a store, a mount, a database, a backup or a snapshot on the terminal, beside a broker too.

    Queues with rates, dead letters, the disk, limits and refusals; Enter shows the messages of a queue. In a
    mount for writing messages can be sent back, moved, edited and removed: what that does is said before.
    Needs the extra top; --once and --json do not.
    """
    name_in_warnings()
    if once or as_json:
        from journalfs.top.once import COLUMNS, Printed  # noqa: PLC0415 - takes longer than the help text

        printed = Printed(store, sort=sort, wanted=wanted, limit=limit, interval_s=interval)
        _print(printed, COLUMNS, as_json=as_json)
        return
    # The screen is drawn on standard error.
    if not all(one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr)):
        raise WrongCall("journalfs top needs a terminal; --once prints a table, and --json lines")
    try:
        from journalfs.top.app import Top  # noqa: PLC0415 - an optional library
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        raise DependencyMissing(
            "journalfs top",
            package="textual",
            install="pip install 'journalfs[top]' (--once prints a table without it)",
        ) from None
    shown = Top(store, write=write, sort=sort, wanted=wanted)
    shown.run()
    if shown.failure is not None:
        raise shown.failure


def _print(printed: Printed, columns: Sequence[str], *, as_json: bool) -> None:
    with printed, leaving_readers():
        if as_json:
            write_json(printed.facts())
        else:
            write_table(columns, printed.rows())
