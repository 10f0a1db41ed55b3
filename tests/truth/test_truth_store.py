"""Every file store through the facade, field by field against the broker's own account."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from journalfs.store import open_store
from tests.frozen import FILE_STORES, ExpectedStores, PristineStores
from tests.reference.compare import compare_store
from tests.truth.from_store import account


@pytest.mark.rule("S-1", "S-2", "S-3", "S-24", "S-25", "S-26", "S-27", "S-28")
@pytest.mark.parametrize("name", FILE_STORES)
def test_store_tells_what_the_broker_told(
    name: str, stores: PristineStores, expected: ExpectedStores
) -> None:
    store = open_store(stores[name], index=False)
    try:
        actual = account(store)
    finally:
        store.close()
    assert compare_store(expected[name], actual) == []
    assert store.status()["damage"] == 0


@pytest.mark.rule("S-53")
@pytest.mark.parametrize("name", FILE_STORES)
def test_store_tells_the_same_from_its_index(
    name: str, store_copy: Callable[[str], Path], expected: ExpectedStores
) -> None:
    path = store_copy(name)
    open_store(path).close()
    store = open_store(path)
    try:
        assert store.status()["journalBytesScanned"] == 0
        actual = account(store)
    finally:
        store.close()
    assert compare_store(expected[name], actual) == []
