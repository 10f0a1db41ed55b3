"""`journalfs convert`, `recover` and `repair`: a new store is made of another one, which stays as it is."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from journalfs import door
from journalfs.account.filters import EVERYTHING, Wanted
from journalfs.cli.common import (
    GivenPath,
    filter_options,
    force_option,
    json_option,
    say,
    store_argument,
    write_json,
)
from journalfs.config.database import database_named
from journalfs.config.layout import locate_store
from journalfs.config.older import AMQ, HORNETQ, KINDS
from journalfs.convert import Carrying, Mode, Report
from journalfs.errors import StoreBusy, WrongCall, failing
from journalfs.showing import advancing

_FORMAT = click.option(
    "--format",
    "store_format",
    type=click.Choice(["artemis", *KINDS]),
    help="Kind of STORE, if not the apparent one.",
)
_OUT = click.option(
    "--out", "destination", metavar="NEW", type=GivenPath(), required=True, help="The store to make."
)
_OUT_IF_ANY = click.option("--out", "destination", metavar="NEW", type=GivenPath(), help="The store to make.")


@click.command(epilog="Example: journalfs convert /var/lib/hornetq/data /var/lib/artemis/data")
@store_argument
@click.argument("destination", metavar="NEW", type=GivenPath())
@_FORMAT
@click.option(
    "--to",
    type=click.Choice(["artemis", HORNETQ, AMQ]),
    default="artemis",
    help="The kind of store to make: of today's broker, of HornetQ 2.4, or of ActiveMQ 5.",
)
@filter_options
@force_option
@json_option
def convert(
    *, wanted: Wanted, store: Path, destination: Path, store_format: str | None, to: str, as_json: bool
) -> None:
    """Make the store NEW, for a broker of today or an older one, of STORE, which may be of any kind.

    Order, priorities, schedules, delivery counts, duplicate ids and prepared transactions are kept. JMS
    queues and topics get the names that current clients have for them. Things without an equal
    are in the report, which is printed and kept as journalfs/made-from.json in NEW. After a kill the same
    call goes on.
    """
    _carry(
        "convert",
        store,
        destination,
        store_format,
        as_json,
        to=None if to == "artemis" else to,
        wanted=wanted,
    )


@click.command(epilog="Example: journalfs recover /var/lib/artemis/data --out /var/lib/artemis/recovered")
@store_argument
@_OUT
@_FORMAT
@filter_options
@force_option
@json_option
def recover(
    *, wanted: Wanted, store: Path, destination: Path, store_format: str | None, as_json: bool
) -> None:
    """Make the store NEW of all messages that are still on the disk of STORE: those that were acknowledged or
    rolled back, too, in the queues that they were in, as `artemis data recover` does.
    """
    _carry("recover", store, destination, store_format, as_json, wanted=wanted)


@click.command(epilog="Example: journalfs repair /var/lib/artemis/data --out /var/lib/artemis/repaired")
@store_argument
@_OUT_IF_ANY
@_FORMAT
@click.option("--keep-damaged", is_flag=True, help="Leave damaged messages in their queues.")
@click.option("--dry-run", is_flag=True, help="Print what it would end with, and make nothing.")
@click.option("--prove", is_flag=True, help="Read NEW a second time, by other code, and compare.")
@force_option
@json_option
def repair(
    *,
    store: Path,
    destination: Path | None,
    store_format: str | None,
    keep_damaged: bool,
    dry_run: bool,
    prove: bool,
    as_json: bool,
) -> None:
    """Make the store NEW of all that is intact of STORE, and list the rest. Ends with 5 if there is any.

    Messages that cannot be read whole are in the queue damaged of NEW, with what there is of them; those of a
    transaction whose end is lost in a queue undecided.ID. Queues whose bindings are lost get names from
    whatever else names them, or recovered.queue-ID. --dry-run needs no --out.
    """
    if dry_run:
        kind = None if store_format in (None, "artemis") else store_format
        nowhere = store / ".repaired" if destination is None else destination
        work = Carrying(store, nowhere, Mode.REPAIR, kind, keep_damaged=keep_damaged)
        _tell(work.preview(), as_json)
    elif destination is None:
        raise WrongCall("repair: --out NEW says where the new store goes; --dry-run makes none")
    else:
        _carry("repair", store, destination, store_format, as_json, keep_damaged=keep_damaged, proves=prove)


def _carry(
    mode: str,
    store: Path,
    destination: Path,
    store_format: str | None,
    as_json: bool,
    *,
    to: str | None = None,
    wanted: Wanted = EVERYTHING,
    keep_damaged: bool = False,
    proves: bool = False,
) -> None:
    kind = None if store_format in (None, "artemis") else store_format
    work = Carrying(store, destination, Mode(mode), kind, to, wanted=wanted, keep_damaged=keep_damaged)
    total = None
    with suppress(StoreBusy):  # told where it matters
        total = work.source_bytes() if sys.stderr.isatty() else None
    with advancing(f"{mode} {store}", total) as advance:
        report = _run(replace(work, advance=advance))
    if proves:
        _prove(destination, report)
    _tell(report, as_json)


def _run(work: Carrying) -> Report:
    """Make the store; beside a broker `recover` does so of a copy of the files, taken as `backup` does."""
    try:
        return work.run()
    except StoreBusy:
        if work.mode is not Mode.RECOVER:
            raise
    from journalfs.backup.copying import copy_beside  # noqa: PLC0415 - seldom needed

    new = Path(os.path.abspath(work.destination))
    copy = new.parent / f".{new.name}.copied"
    try:
        copy_beside(work.path, copy, work.advance)
        told = f"{work.path}, as it was beside what writes to it"
        return replace(work, path=copy, kind=None, source_name=told).run()
    finally:
        if door.exists(copy):
            door.remove_tree(copy)


def _prove(destination: Path, report: Report) -> None:
    """Read NEW by the second reader. Raises `MadeNotWhole`."""
    from journalfs.inspect.proof import prove  # noqa: PLC0415 - takes longer than the help text

    if database_named(destination) is not None:
        raise WrongCall("--prove reads files: a store in a database is proved by journalfs check --deep")
    with failing("read the new store", destination, found=True):
        prove(locate_store(destination), report.books)
    say("proved: a second reading finds what the books say", to_people=True)


def _tell(report: Report, as_json: bool) -> None:
    if as_json:
        write_json([report])
    else:
        for line in report.lines():
            say(line)
    sys.exit(report.exit_code)
