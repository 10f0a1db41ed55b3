"""A store whose configuration says that nothing is kept: it works, keeps nothing, and says so."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from journalfs.config.layout import locate_store
from journalfs.errors import StoreNotKept, SystemFailure
from journalfs.store import open_store
from journalfs.store.write.compacting import compact_store
from journalfs.store.write.opening import open_for_writing
from tests.store.conftest import QUEUE_A, LittleStore
from tests.store.writing.conftest import Writable, lines_of


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture
def unkept(little_store: LittleStore) -> Writable:
    little_store.journal.send(1000, QUEUE_A, "from when it was kept")
    (little_store.root / "journalfs.toml").write_text("persistence-enabled = false\n")
    return Writable(little_store, "NIO")


def contents(path: Path) -> dict[Path, bytes | None]:
    return {one: one.read_bytes() if one.is_file() else None for one in path.rglob("*")}


@pytest.mark.rule("S-95")
async def test_it_works_and_is_gone_when_it_is_closed(unkept: Writable, temporary: Path) -> None:
    before = contents(unkept.root)
    for _ in range(2):
        async with unkept.open(index=True) as store:
            assert not store.addresses(), "as its broker, it begins with nothing"
            await store.create_address("news")
            await store.create_queue("news", "all")
            await store.publisher("news", None, "in.txt").write(b"one\ntwo\n")
            assert [b'"body":"two"' in line for line in lines_of(store, "all", "news")] == [False, True]
            assert store.status()["persistent"] is False
            [said] = [event for event in store.core.events if event["event"] == "configuration"]
            [place] = temporary.iterdir()
            assert "journalfs.toml: persistence-enabled is false" in str(said["message"])
            assert str(place) in str(said["message"])
        assert list(temporary.iterdir()) == []
    assert contents(unkept.root) == before


@pytest.mark.rule("S-95")
def test_what_lies_in_files_can_be_read(unkept: Writable) -> None:
    store = open_store(unkept.root, clock=unkept.clock, index=False)
    assert store.status()["messages"] == 1
    assert store.status()["persistent"] is True
    store.close()


async def test_there_is_nothing_to_compact(unkept: Writable, temporary: Path) -> None:
    async with unkept.open() as store:
        with pytest.raises(StoreNotKept):
            await compact_store(store)
    assert list(temporary.iterdir()) == []


def test_without_room_for_temporary_files(unkept: Writable, temporary: Path) -> None:
    temporary.rmdir()
    with pytest.raises(SystemFailure):
        open_for_writing(unkept.root, clock=unkept.clock)


def test_where_there_never_were_files(tmp_path: Path) -> None:
    (tmp_path / "journalfs.toml").write_text("persistence-enabled = false\n")
    layout = locate_store(tmp_path)
    assert layout.not_kept_by == str(tmp_path / "journalfs.toml")
    store = open_store(tmp_path, index=False)
    assert not store.addresses()
    store.close()
