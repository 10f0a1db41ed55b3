"""A real broker's JDBC store, read from its tables."""

from __future__ import annotations

from pathlib import Path

from journalfs.store.opening import open_store
from tests.frozen import load_expected
from tests.reference.compare import compare_store
from tests.truth.from_store import account


def test_tables_tell_what_the_broker_told(jdbc_store: Path) -> None:
    store = open_store(jdbc_store)
    try:
        actual, status = account(store), store.status()
    finally:
        store.close()
    assert compare_store(load_expected("jdbc"), actual) == []
    assert status["damage"] == 0
