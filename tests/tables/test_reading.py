"""A real broker's JDBC store, read from its tables."""

from __future__ import annotations

from pathlib import Path

from journalfs.store import open_store
from tests.exchange.test_printing import comparable, printed, theirs
from tests.frozen import load_expected
from tests.reference.compare import compare_store
from tests.truth.from_store import account


def test_tables_are_printed_as_the_broker_prints_them(jdbc_store: Path) -> None:
    """But for a count behind the end of its message, and for the word that a binding replaces another."""
    wanted, found = theirs("jdbc.print.txt.zst"), comparable(printed(jdbc_store))
    [late] = (one for one in wanted if one.startswith("recordID=1681;userRecordType=34;"))
    wanted.remove(late)
    changed = next(at for at, one in enumerate(wanted) if "userRecordType=21;isUpdate=true" in one)
    wanted[changed] = wanted[changed].replace("isUpdate=true", "isUpdate=false")
    assert found == wanted


def test_tables_tell_what_the_broker_told(jdbc_store_anywhere: Path) -> None:
    store = open_store(jdbc_store_anywhere)
    try:
        actual, status = account(store), store.status()
    finally:
        store.close()
    assert compare_store(load_expected("jdbc"), actual) == []
    assert status["damage"] == 0
