"""The frozen stores themselves: complete, unpackable, and guarded against change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.frozen import PristineStores


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
