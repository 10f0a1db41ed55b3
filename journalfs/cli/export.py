"""`journalfs export`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from journalfs.caller_files import replacing
from journalfs.cli.common import GivenPath, Older, name_in_warnings, say, store_argument
from journalfs.config.older import KINDS
from journalfs.errors import EXIT_DAMAGED, OlderStore, WrongCall, failing
from journalfs.exchange.encoded_lines import write_encoded
from journalfs.exchange.exporting import export_store, written_behind
from journalfs.exchange.journals import Told, journal_directory
from journalfs.exchange.targets import mounted_store
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
@click.option("--overwrite", is_flag=True, help="OUT may be there, and is replaced.")
def export(
    *,
    store: Path,
    out: Path | None,
    file_format: str,
    kind: str | None,
    derived: Path | None,
    directory: Path | None,
    extension: str | None,
    overwrite: bool,
) -> None:
    """Write the messages of STORE, or of the store that is mounted there, into the file OUT.

    Without OUT, or with -, it is standard output. lines is every record of the message journal, as `artemis
    data encode` writes them; xml is what `artemis data exp` writes; jsonl is a message a line, as in the
    mount; parquet is a table, a message a row. Unreadable messages are named, and the command ends with 5.
    """
    source = mounted_store(store) or store
    name_in_warnings()
    with _opened_out(out, overwrite=overwrite) as file:
        if file_format == "lines":
            lost = _write_lines(
                source if directory is None else directory, extension, file, direct=directory is not None
            )
        else:
            lost = _write(source, Older(kind, derived), file_format, file)
    if lost:
        sys.exit(EXIT_DAMAGED)


def _write_lines(path: Path, extension: str | None, file: BinaryIO, *, direct: bool) -> int:
    """How many places could not be read."""
    try:
        journal = Path(os.path.realpath(path)) if direct else journal_directory(path)
    except OlderStore as older:
        journal = older.journal_dir
    if extension is None:
        extension = "hq" if any(journal.glob("*.hq")) else "amq"
    told = Told(_tell)
    write_encoded(journal, extension, file, told.lost)
    return told.lost_count


def _write(path: Path, older: Older, file_format: str, file: BinaryIO) -> int:
    """How many messages are not whole in the file."""
    store = open_store(path, kind=older.kind, derived=older.derived)
    try:
        total = sum(queue.message_count for queue in store.queues())
        with advancing("exporting", total) as advance:
            told = Told(_tell)
            export_store(store, file_format, file, told, advance)
        return told.lost_count
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
