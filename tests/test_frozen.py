"""The frozen stores themselves: complete, unpackable, and guarded against change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frozen import FILE_STORES, OLDER_STORES, ExpectedStores, PristineStores


@pytest.mark.parametrize("name", FILE_STORES)
def test_file_store_has_journals_and_account(
    name: str, stores: PristineStores, expected: ExpectedStores
) -> None:
    assert (stores[name] / "broker.xml").is_file()
    assert list((stores[name] / "data/journal").glob("*.amq"))
    assert list((stores[name] / "data/bindings").glob("*.bindings"))
    assert expected[name]["store"] == name
    assert expected[name]["queues"]


@pytest.mark.parametrize("name", OLDER_STORES)
def test_older_store_unpacks(name: str, stores: PristineStores) -> None:
    assert any(path.is_file() for path in stores[name].rglob("*"))


def test_unknown_name_is_a_key_error(stores: PristineStores, expected: ExpectedStores) -> None:
    with pytest.raises(KeyError):
        stores["no-such-store"]
    with pytest.raises(KeyError):
        expected["jdbc"]


def test_change_of_a_pristine_store_is_noticed(tmp_path: Path) -> None:
    own = PristineStores(tmp_path / "own")
    journal = own["aio"] / "data/journal"
    (journal / "made.amq").write_bytes(b"x")
    changed = next(journal.glob("activemq-data-*.amq"))
    changed.write_bytes(changed.read_bytes()[:-1])
    index = own["aio"] / "data/journalfs"
    index.mkdir()
    (index / "index").write_bytes(b"ours")
    assert sorted(Path(name).name for name in own.changed_files()) == sorted(["made.amq", changed.name])


def test_copies_are_independent(store_copy: Callable[[str], Path], stores: PristineStores) -> None:
    first, second = store_copy("aio"), store_copy("aio")
    (first / "broker.xml").unlink()
    assert (second / "broker.xml").exists()
    assert (stores["aio"] / "broker.xml").exists()
