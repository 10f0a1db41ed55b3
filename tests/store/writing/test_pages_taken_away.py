"""Pages that somebody takes away: while their store is open for writing, and before it is opened."""

from __future__ import annotations

import shutil
import struct

import pytest

from journalfs.store.write.store import WritingStore
from tests.store.appending import ADD
from tests.store.conftest import QUEUE_A, QUEUE_B
from tests.store.test_pages import CURSOR_ACK, small, write_page
from tests.store.writing.conftest import Writable, lines_of

BOTH = (QUEUE_A, QUEUE_B)


@pytest.fixture
def paging(writable: Writable) -> Writable:
    """Two messages in each of three pages."""
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."work"]\npage-size-bytes = 4096\n')
    for page in (1, 2, 3):
        write_page(writable.little, page, [small(1000 * page + n, queues=BOTH) for n in (1, 2)])
    return writable


def counts(store: WritingStore) -> tuple[int, int]:
    return len(lines_of(store, "work.a")), len(lines_of(store, "work.b"))


@pytest.mark.rule("S-284")
async def test_only_folders_that_are_written_are_looked_at(paging: Writable) -> None:
    async with paging.open(index=True) as store:
        assert counts(store) == (6, 6)
        shutil.copytree(paging.root / "paging/some-folder", paging.root / "paging/z-folder")
        await store.look()
        await store.publisher("work", "work.a", "in").write(b"published\n")
        assert counts(store) == (7, 6)
        assert not store.core.folder_addresses.wrong
    async with paging.open(index=True) as store:
        assert counts(store) == (7, 6)
        assert store.core.folder_addresses.wrong


@pytest.mark.rule("S-284")
async def test_a_folder_that_is_written_and_cannot_be_looked_at_is_told(paging: Writable) -> None:
    folder, aside = paging.root / "paging/some-folder", paging.root / "aside"
    async with paging.open(index=True) as store:
        await store.publisher("work", "work.a", "in").write(b"published\n")
        folder.rename(aside)
        folder.symlink_to(aside)
        await store.publisher("work", "work.a", "in").write(b"more\n")
        await store.look()
        assert "paging/some-folder" in {one.file for one in store.core.damage()}
        folder.unlink()
        aside.rename(folder)
        await store.look()
        assert not store.core.damage()
        assert counts(store) == (8, 6)


@pytest.mark.rule("S-44")
async def test_the_paging_directory_away_for_a_while(paging: Writable) -> None:
    async with paging.open(index=True) as store:
        await store.publisher("work", "work.a", "in").write(b"published\n")
        assert counts(store) == (7, 6)
        away = (paging.root / "paging").rename(paging.root / "away")
        await store.look()
        assert store.status()["storeGone"] is True
        assert counts(store) == (7, 6)
        away.rename(paging.root / "paging")
        await store.look()
        assert store.status()["storeGone"] is False
        assert counts(store) == (7, 6)
        await store.publisher("work", "work.a", "in").write(b"more\n")
        assert counts(store) == (8, 6)
    assert not store.core.damage()


@pytest.mark.rule("S-49")
@pytest.mark.parametrize("whole", [False, True], ids=["the last page", "the folder"])
@pytest.mark.parametrize("index", [True, False], ids=["known", "unknown"])
async def test_what_is_published_does_not_take_the_place_of_pages_that_are_gone(
    paging: Writable, index: bool, whole: bool
) -> None:
    """What the journal says to be consumed in them is not said of what comes."""
    journal = paging.little.journal
    consumed = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]
    for record_id, place in enumerate(consumed, 80):
        body = struct.pack(">qqi", QUEUE_A, *place)
        journal.append(journal.record(ADD, record_id=record_id, user_type=CURSOR_ACK, body=body))
    async with paging.open(index=True) as store:
        assert counts(store) == (1, 6)
    folder = paging.root / "paging/some-folder"
    (folder / "000000003.page").unlink()
    if whole:
        shutil.rmtree(folder)
        (paging.root / "paging/other").mkdir()
        (paging.root / "paging/other/address.txt").write_text("other\n")
        (paging.root / "paging/other/000000001.page").touch()
    async with paging.open(index=index) as store:
        before = counts(store)
        publisher = store.publisher("work", "work.a", "in")
        for number in range(40):
            await publisher.write(b"%d %s\n" % (number, b"x" * 1000))
        assert counts(store) == (before[0] + 40, before[1])
    async with paging.open(index=index) as store:
        assert counts(store) == (before[0] + 40, before[1])
