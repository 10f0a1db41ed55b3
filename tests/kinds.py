"""The kinds of stores that the suite of behaviours runs on: in files, and in databases.

A fixture that is parametrized by `KINDS` and called `store_kind` is all that a test needs. What runs on a
database is `long`, but for SQLite in the modules of `QUICK`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tables.servers import Server

FILES, SQLITE, POSTGRESQL = KINDS = ("files", "sqlite", "postgresql")
QUICK = ("tests/writing/test_removing.py", "tests/writing/test_consuming_tools.py")

_numbers = itertools.count()


def mark_long(items: Iterable[pytest.Item]) -> None:
    """To be called before items are chosen by their marks."""
    for item in items:
        kind = getattr(item, "callspec", None) and item.callspec.params.get("store_kind")  # type: ignore[attr-defined]
        quick = kind == SQLITE and item.nodeid.startswith(QUICK)
        if kind in (SQLITE, POSTGRESQL) and not quick:
            item.add_marker(pytest.mark.long)


def new_database(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    """The URL of a database that is empty, or not there."""
    name = f"behaviour{next(_numbers)}"
    if kind == SQLITE:
        return f"sqlite:///{folder}/{name}.db"
    server: Server = request.getfixturevalue("postgres")
    return server.make(name)
