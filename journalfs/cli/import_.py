"""`journalfs import`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click
import trio

from journalfs.account.filters import Wanted
from journalfs.cli.books import say_books
from journalfs.cli.common import (
    GivenPath,
    end_with,
    filter_options,
    force_option,
    json_option,
    name_in_warnings,
    say,
    store_argument,
)
from journalfs.cli.export import FORMATS
from journalfs.config.database import without_passwords
from journalfs.config.sizes import parse_size_bytes
from journalfs.errors import EXIT_DAMAGED, DecodeError, SystemFailure, WrongCall
from journalfs.exchange import importing
from journalfs.exchange.encoded_lines import read_encoded
from journalfs.showing import advancing

SUFFIXES = {".xml": "xml", ".parquet": "parquet", ".jsonl": "jsonl", ".json": "jsonl"}


@click.command("import", epilog="Example: journalfs import orders.xml /var/lib/artemis/data")
@click.argument("file", type=GivenPath())
@store_argument
@force_option
@click.option(
    "--format", "file_format", type=click.Choice(FORMATS), help="Kind of FILE, if its name is silent."
)
@click.option(
    "--prefix",
    metavar="NAME",
    default="activemq-data",
    show_default=True,
    help="lines: how journal files begin.",
)
@click.option(
    "--extension", metavar="NAME", default="amq", show_default=True, help="lines: how journal files end."
)
@click.option(
    "--file-size",
    metavar="BYTES",
    default="10485760",
    show_default=True,
    help="lines: bytes of a journal file.",
)
@filter_options
@json_option
def import_file(
    *,
    wanted: Wanted,
    file: Path,
    store: Path,
    file_format: str | None,
    prefix: str,
    extension: str,
    file_size: str,
    as_json: bool,
) -> None:
    """Put the messages of FILE into STORE, a closed store or the directory where one is mounted.

    FILE is what `journalfs export` or `artemis data exp` wrote; addresses and queues that it names are made.
    Encoded lines (--format lines) make a new journal instead: STORE is then its directory, which has none.

    Ends with the books: what FILE has is what is in STORE and what is not. Ends with 5 if a message is not
    there that no option left out: its line says `damage`, or its address drops it or remembers its duplicate
    id.
    """
    chosen = file_format or SUFFIXES.get(file.suffix)
    if chosen is None:
        raise WrongCall(f"{file}: its name does not say what it is; give --format")
    name_in_warnings()
    try:
        if chosen == "lines":
            if not wanted.is_all:
                raise WrongCall("--format lines has every record of a journal: no option chooses messages")
            _import_lines(file, store, prefix, extension, file_size)
        else:
            _import_messages(file, store, chosen, wanted, as_json=as_json)
    except OSError as error:
        raise SystemFailure.from_os(error, error.filename or file, doing="import") from error
    except DecodeError as error:
        raise WrongCall(f"{file}: {error.reason}") from error


def _import_lines(file: Path, directory: Path, prefix: str, extension: str, file_size: str) -> None:
    size = parse_size_bytes(file_size)
    with file.open("rb") as lines:
        problems = read_encoded(lines, directory, prefix=prefix, extension=extension, file_bytes=size)
    for problem in problems:
        say(f"journalfs: {file}: {problem}", to_people=True)
    say(f"{directory}: a journal made of {file}")
    if problems:
        say(f"{len(problems)} lines of {file} are not in it", to_people=True)
        sys.exit(EXIT_DAMAGED)


def _import_messages(file: Path, store: Path, chosen: str, wanted: Wanted, *, as_json: bool) -> None:
    with advancing("importing", file.stat().st_size) as advance:
        done = trio.run(partial(importing.import_file, file, store, chosen, advance, wanted=wanted))
    if not as_json:
        say(f"{without_passwords(str(store))}: {done.messages} messages in {done.queues} queues")
    facts = {"messages": done.messages, "queues": done.queues}
    books = done.books(str(file), wanted)
    say_books(books, json_to="stdout" if as_json else None, facts=facts)
    end_with(done.forget, books.exit_code)
