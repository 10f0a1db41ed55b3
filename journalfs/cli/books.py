"""The end of commands that make something of a store: its books, and the exit code that they give."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from journalfs.cli.common import say, write_json

if TYPE_CHECKING:
    from journalfs.account.books import Books
    from journalfs.account.entries import Entry

_KEYS = ("file", "offset", "bytes", "kind", "reason")
"""What `check` prints of an entry."""


def say_losses(losses: Iterable[Entry]) -> None:
    """Print what a store lacks on stderr, in the rows of `journalfs check`."""
    for entry in losses:
        row = entry.json()
        say("\t".join("-" if row[key] is None else str(row[key]) for key in _KEYS), to_people=True)


def end_with(
    books: Books,
    losses: Iterable[Entry] = (),
    *,
    json_to: str | None = None,
    facts: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Print books as `say_books` does, and end the command with their exit code."""
    say_books(books, losses, json_to=json_to, facts=facts)
    sys.stdout.flush()
    if books.exit_code:
        sys.exit(books.exit_code)


def say_books(
    books: Books,
    losses: Iterable[Entry] = (),
    *,
    json_to: str | None = None,
    facts: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Print books, and what the source lacks. The table for people is on stderr. `json_to`: `stdout`, or
    `stderr` where data is on stdout; one object then has `facts` and the books.
    """
    say_losses(losses)
    if json_to is not None:
        write_json([{**facts, "books": books.as_json()}], err=json_to == "stderr")
    else:
        for line in books.lines():
            say(line, to_people=True)
