"""`journalfs explain`: what keeps the files of a journal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from journalfs.cli.common import index_option, json_option, opened, store_argument, write_json
from journalfs.errors import WrongCall
from journalfs.live.explaining import as_text

if TYPE_CHECKING:
    from journalfs.store.store import JournalStore


@click.command(epilog="Example: journalfs explain /var/lib/artemis/data activemq-data-7.amq")
@store_argument
@click.argument("file", required=False)
@json_option
@index_option
def explain(*, store: Path, file: str | None, as_json: bool, no_index: bool) -> None:
    """Say why each file of STORE's message journal, or FILE alone, stays on the disk.

    Live messages by queue with the age of the oldest, other live records, open transactions, deletes of what
    lies in earlier files; and whether compaction would free it. Nothing is changed.
    """
    with opened(store, index=not no_index) as found:
        facts = cast("JournalStore", found).explanations.facts()
        if file is not None:
            name = Path(file).name
            facts = [one for one in facts if one.file == name]
            if not facts:
                raise WrongCall(f"{store}: its message journal has no file {name!r}")
        if as_json:
            write_json(facts)
        else:
            sys.stdout.write("\n".join(map(as_text, facts)))
