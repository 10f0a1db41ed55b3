"""`journalfs convert`, `recover` and `repair`: a new store is made of another one, which stays as it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from journalfs.account.filters import EVERYTHING, Wanted
from journalfs.cli.common import GivenPath, filter_options, json_option, say, store_argument, write_json
from journalfs.config.older import AMQ, HORNETQ, KINDS
from journalfs.convert import Carrying, Mode
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
@_OUT
@_FORMAT
@click.option("--keep-damaged", is_flag=True, help="Leave damaged messages in their queues.")
@json_option
def repair(
    *, store: Path, destination: Path, store_format: str | None, keep_damaged: bool, as_json: bool
) -> None:
    """Make the store NEW of all that is intact of STORE, and list the rest. Ends with 5 if there is any.

    Messages that cannot be read whole are in the queue damaged of NEW, with what there is of them; those of a
    transaction whose end is lost in a queue undecided.ID. Queues whose bindings are lost get names from
    whatever else names them, or recovered.queue-ID.
    """
    _carry("repair", store, destination, store_format, as_json, keep_damaged=keep_damaged)


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
) -> None:
    kind = None if store_format in (None, "artemis") else store_format
    work = Carrying(store, destination, Mode(mode), kind, to, wanted=wanted, keep_damaged=keep_damaged)
    total = work.source_bytes() if sys.stderr.isatty() else None
    with advancing(f"{mode} {store}", total) as advance:
        report = replace(work, advance=advance).run()
    if as_json:
        write_json([report])
    else:
        for line in report.lines():
            say(line)
    sys.exit(report.exit_code)
