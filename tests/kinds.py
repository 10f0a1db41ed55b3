"""The kinds of stores that the suite of behaviours runs on: in files, and in databases.

A fixture that is parametrized by `KINDS` and called `store_kind` is all that a test needs. What runs on a
database is `long`, but for SQLite in the modules of `QUICK`.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.tables.servers import Server

FILES, SQLITE, POSTGRESQL = KINDS = ("files", "sqlite", "postgresql")
QUICK = ("tests/writing/test_removing.py", "tests/writing/test_consuming_tools.py")

OF_FILES = (
    # Staged names lie beside the derived store, and go with it.
    "test_staged_names_outlive_the_mount_and_what_they_are_in",
    # The lease of who was killed lasts for as long as it would have.
    "test_a_mount_that_is_killed_gives_back",
)
"""What a store in a database does not do; docs/use/database.md says so."""

_numbers = itertools.count()


def mark_long(items: list[pytest.Item]) -> None:
    """To be called before items are chosen by their marks."""
    items[:] = [one for one in items if _kind(one) == FILES or not one.name.startswith(OF_FILES)]
    for item in items:
        quick = _kind(item) == SQLITE and item.nodeid.startswith(QUICK)
        if _kind(item) in (SQLITE, POSTGRESQL) and not quick:
            item.add_marker(pytest.mark.long)


def _kind(item: pytest.Item) -> str | None:
    call = getattr(item, "callspec", None)
    return None if call is None else call.params.get("store_kind")


def new_database(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    """The URL of a database that is empty, or not there."""
    name = f"behaviour{next(_numbers)}"
    if kind == SQLITE:
        return f"sqlite:///{folder}/{name}.db"
    server: Server = request.getfixturevalue("postgres")
    return server.make(name)
