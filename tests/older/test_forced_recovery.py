"""An AMQ Message Store whose `kr-store/state` was deleted: by the broker's page that has it recovered from
its data logs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from journalfs.store import open_store
from tests.older.activemq5 import lines_by_queue

StoreCopy = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _derived_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNALFS_DERIVED", str(tmp_path / "derived"))


@pytest.mark.rule("S-347")
def test_nothing_is_missing_afterwards(store_copy: StoreCopy) -> None:
    """A subscription that was removed is in the data logs still, and comes back with its messages."""
    store = store_copy("amq-5.4-clean") / "localhost"
    with closing(open_store(store, index=False)) as opened:
        before = {queue: ids(lines) for queue, lines in lines_by_queue(opened).items() if lines}
    shutil.rmtree(store / "kr-store" / "state")
    with closing(open_store(store, index=False)) as opened:
        after = {queue: ids(lines) for queue, lines in lines_by_queue(opened).items() if lines}
        derived = opened.core.derived
    assert {queue: after[queue] for queue in before} == before
    assert after.keys() - before.keys() == {"carol.gone"}
    assert derived is not None
    assert ("read-from", "the data logs were replayed: the reference store (kr-store) was not closed") in (
        derived.notes
    )


def ids(lines: list[dict[str, Any]]) -> set[object]:
    return {line["properties"]["__HDR_MESSAGE_ID"] for line in lines}
