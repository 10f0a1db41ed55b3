"""The kinds of stores that the suite of behaviours runs on: in files, by each backend, and in databases.

A fixture that is parametrized by `KINDS` and called `store_kind` is all that a test needs. What runs on a
database is `long`, but for SQLite in the modules of `QUICK`. Of a test for each of `BACKENDS` one is quick.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tables.servers import Server

FILES, SQLITE, POSTGRESQL = KINDS = ("files", "sqlite", "postgresql")
QUICK = (
    "tests/writing/test_removing.py",
    "tests/writing/test_consuming_tools.py::test_each_message_is_worked_on_once",
    "tests/writing/test_consuming_tools.py::test_a_reader_that_is_killed",
)

BACKENDS = ("NIO", "ASYNCIO", "MAPPED")

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
    _mark_long_but_one_backend(items)


def _mark_long_but_one_backend(items: Iterable[pytest.Item]) -> None:
    """Which one that is goes by the name, so that each has its share. Tests that have chosen keep to it."""
    alike: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        backends = [str(one) for one in _parameters(item).values() if one in BACKENDS]
        if backends:
            # Behind the name of the test: a folder may be called like one.
            test, _, case = item.nodeid.partition("[")
            alike.setdefault(f"{test}[{case.replace(backends[0], '')}", {})[backends[0]] = item
    for name, found in alike.items():
        if len(found) == len(BACKENDS) and not any(one.get_closest_marker("long") for one in found.values()):
            quick = BACKENDS[zlib.crc32(name.encode()) % len(BACKENDS)]
            for backend in found.keys() - {quick}:
                found[backend].add_marker(pytest.mark.long)


def _parameters(item: pytest.Item) -> dict[str, object]:
    call = getattr(item, "callspec", None)
    return call.params if call else {}


def _kind(item: pytest.Item) -> object:
    return _parameters(item).get("store_kind")


def new_database(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    """The URL of a database that is empty, or not there."""
    name = f"behaviour{next(_numbers)}"
    if kind == SQLITE:
        return f"sqlite:///{folder}/{name}.db"
    server: Server = request.getfixturevalue("postgres")
    return server.make(name)
