"""A store whose configuration says that nothing is kept: it is read, and not written."""

from __future__ import annotations

from pathlib import Path

import pytest

from journalfs.config.layout import locate_store
from journalfs.errors import StoreNotKept
from journalfs.store import open_store
from journalfs.store.write.opening import open_for_writing
from tests.store.conftest import QUEUE_A, LittleStore


@pytest.mark.rule("S-95")
def test_what_lies_in_files_is_read_alone(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A, "from when it was kept")
    (little_store.root / "journalfs.toml").write_text("persistence-enabled = false\n")
    with pytest.raises(StoreNotKept):
        open_for_writing(little_store.root)
    store = open_store(little_store.root, index=False)
    assert store.status()["messages"] == 1
    store.close()


def test_where_there_never_were_files(tmp_path: Path) -> None:
    (tmp_path / "journalfs.toml").write_text("persistence-enabled = false\n")
    layout = locate_store(tmp_path)
    assert layout.not_kept_by == str(tmp_path / "journalfs.toml")
    store = open_store(tmp_path, index=False)
    assert not store.addresses()
    store.close()
