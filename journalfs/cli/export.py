"""`journalfs export`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from journalfs.account.advice import MESSAGE
from journalfs.account.books import NO_QUEUE, Books, NotCarried, not_asked_for
from journalfs.account.entries import Entry, Standing, Totals, exactly
from journalfs.account.filters import Wanted
from journalfs.account.left import books_of
from journalfs.account.taking import account_of
from journalfs.caller_files import replacing
from journalfs.cli.books import end_with
from journalfs.cli.common import (
    GivenPath,
    Older,
    filter_options,
    json_option,
    name_in_warnings,
    say,
    store_argument,
)
from journalfs.config.older import KINDS
from journalfs.errors import EXIT_DAMAGED, OlderStore, WrongCall, failing
from journalfs.exchange.encoded_lines import write_encoded
from journalfs.exchange.exported import Exported, name_of
from journalfs.exchange.exporting import export_store, written_behind
from journalfs.exchange.journals import Told, journal_directory
from journalfs.exchange.targets import mounted_store
from journalfs.live.content import total_messages
from journalfs.showing import advancing
from journalfs.store import open_store

FORMATS = ("lines", "xml", "jsonl", "parquet")


@click.command(epilog="Example: journalfs export --format xml /var/lib/artemis/data orders.xml")
@store_argument
@click.argument("out", type=GivenPath(), required=False)
@click.option("--format", "file_format", type=click.Choice(FORMATS), default="jsonl", help="Kind of OUT.")
@click.option("--kind", type=click.Choice(KINDS), help="Kind of STORE, where it is not recognised.")
@click.option(
    "--derived", type=GivenPath(), metavar="DIR", help="Directory for the store derived from an older one."
)
@click.option("--directory", type=GivenPath(), metavar="DIR", help="lines: the journal, if not STORE's.")
@click.option("--extension", metavar="TEXT", help="lines: how the journal's files end. Default: amq or hq.")
@click.option("--prefix", metavar="TEXT", help="lines: how their names begin, where others lie beside them.")
@click.option("--overwrite", is_flag=True, help="OUT may be there, and is replaced.")
@filter_options
@json_option
def export(
    *,
    wanted: Wanted,
    store: Path,
    out: Path | None,
    file_format: str,
    kind: str | None,
    derived: Path | None,
    directory: Path | None,
    extension: str | None,
    prefix: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the messages of STORE, or of the store that is mounted there, into the file OUT.

    Without OUT, or with -, it is standard output. lines is every record of the message journal, as `artemis
    data encode` writes them; xml is what `artemis data exp` writes; jsonl is a message a line, as in the
    mount; parquet is a table, a message a row.

    Ends with the books on stderr: what STORE had is what is in OUT and what is not, by queue and by reason.
    --json gives them as one object, on stdout if OUT is a file. Ends with 5 if a message is not in OUT that
    no option left out: it is damaged, missing, or in a transaction that is prepared or undecided.
    """
    source = mounted_store(store) or store
    name_in_warnings()
    with _opened_out(out, overwrite=overwrite) as file:
        if file_format == "lines":
            if not wanted.is_all:
                raise WrongCall("--format lines has every record of the journal: no option chooses messages")
            place, names = source if directory is None else directory, (prefix, extension)
            lost = _write_lines(place, names, file, direct=directory is not None)
            books, losses = (None, []) if directory is not None else _books_of_lines(source)
        else:
            lost = 0
            exported = _write(source, Older(kind, derived), file_format, file, wanted)
            books, losses = exported.books("OUT"), exported.account.losses
    if books is not None:
        to_file = out is not None and str(out) != "-"
        end_with(books, losses, json_to=("stdout" if to_file else "stderr") if as_json else None)
    if lost:
        sys.exit(EXIT_DAMAGED)


def _write_lines(path: Path, names: tuple[str | None, str | None], file: BinaryIO, *, direct: bool) -> int:
    """Return how many places could not be read. `names`: how files of the journal begin and end."""
    prefix, extension = names
    try:
        journal = Path(os.path.realpath(path)) if direct else journal_directory(path)
    except OlderStore as older:
        journal = older.journal_dir
    if extension is None:
        extension = "hq" if any(journal.glob("*.hq")) else "amq"
    told = Told(_tell)
    write_encoded(journal, extension, file, told.lost, prefix=prefix)
    return told.lost_count


def _books_of_lines(path: Path) -> tuple[Books, Sequence[Entry]]:
    """Return the books of the journal's records, and what the store lacks. Messages in pages, and bodies of
    large messages, are no records of the journal.
    """
    store = open_store(path)
    try:
        account = account_of(store)
        carried: Counter[str] = Counter()
        rows: list[NotCarried] = []
        for queue in store.queues():
            name = name_of(queue)
            totals = account.queues.get(name, Totals())
            paged = total_messages(queue.content.page_runs())
            damaged = min(totals.damaged, totals.there - paged)
            if paged:
                rows.append(not_asked_for(name, paged, "--format lines: pages are no part of the journal"))
            if damaged:
                row = NotCarried(name, Standing.DAMAGED, "damaged", exactly(damaged), MESSAGE, asked=False)
                rows.append(row)
            carried[name] = totals.there - paged - damaged
        for name in account.queues.keys() - carried.keys():
            carried[name] = account.queues[name].there
        rest = account.totals.there - sum(one.there for one in account.queues.values())
        carried[NO_QUEUE] = max(rest, 0)
        return books_of(account, carried, rows, made="OUT"), account.losses
    finally:
        store.close()


def _write(path: Path, older: Older, file_format: str, file: BinaryIO, wanted: Wanted) -> Exported:
    """Write the messages, and return what became of each."""
    store = open_store(path, kind=older.kind, derived=older.derived)
    try:
        total = sum(queue.message_count for queue in store.queues())
        with advancing("exporting", total) as advance:
            return export_store(store, file_format, file, Told(_tell), advance, wanted=wanted)
    finally:
        store.close()


def _tell(text: str) -> None:
    say(f"journalfs: {text}", to_people=True)


@contextmanager
def _opened_out(out: Path | None, *, overwrite: bool) -> Iterator[BinaryIO]:
    """The file to write. One that failed half way is not left behind."""
    if out is None or str(out) == "-":
        with written_behind(sys.stdout.buffer) as behind:
            yield behind
        sys.stdout.flush()
        return
    if out.exists() and not overwrite:
        raise WrongCall(f"{out}: it is there already; --overwrite replaces it")
    unfinished = f".{out.name}.unfinished"
    with failing("write", out), replacing(out, unfinished) as file, written_behind(file) as behind:
        yield behind
