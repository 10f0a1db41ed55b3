"""Appending to pages: where records go, what is durable when, and what a disk that fails leaves."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from journalfs.engine.page_file import PageStore
from journalfs.errors import SystemFailure, WriteFailed
from journalfs.ids import PageNumber
from journalfs.pages.folders import OwnPages
from journalfs.pages.writer import PageEnd, PageWriter

PAGE_BYTES = 100


class Pages:
    """A writer in a folder of its own."""

    def __init__(self, folder: Path, end: PageEnd | None = None) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.own = OwnPages()
        self.failures: list[OSError] = []
        self.writer = PageWriter(
            folder,
            end or PageEnd(PageNumber(1), 0, 0),
            pages=PageStore(datasync=True),
            own=self.own,
            failed=lambda _name, error: self.failures.append(error),
        )

    async def append(self, *records: bytes) -> None:
        piles = [self.writer.stage(record, PAGE_BYTES)[1] for record in records]
        for pile in piles:
            await self.writer.written(pile, sync=True)

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}

    def readable(self) -> dict[str, int]:
        """What the reading side takes of pages that are being written."""
        return {path.name: size for path, size in self.own.durable_bytes.items()}


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    return Pages(tmp_path / "folder")


async def test_a_page_takes_what_fits(pages: Pages) -> None:
    await pages.append(b"a" * 60, b"b" * 40, b"c")
    await pages.append(b"d" * 99, b"e")
    assert pages.content() == {
        "000000001.page": b"a" * 60 + b"b" * 40,
        "000000002.page": b"c" + b"d" * 99,
        "000000003.page": b"e",
    }
    assert pages.writer.end == PageEnd(PageNumber(3), 1, 1)
    assert pages.readable() == {"000000003.page": 1}


async def test_a_record_that_is_longer_than_a_page_has_one_of_its_own(pages: Pages) -> None:
    await pages.append(b"a", b"b" * 500, b"c")
    assert [len(content) for content in pages.content().values()] == [1, 500, 1]


async def test_going_on_in_a_page(pages: Pages) -> None:
    await pages.append(b"a" * 60)
    pages.writer.close()
    again = Pages(pages.folder, pages.writer.end)
    await again.append(b"b" * 40, b"c")
    assert pages.content() == {"000000001.page": b"a" * 60 + b"b" * 40, "000000002.page": b"c"}


async def test_those_who_wait_together_share_a_write(pages: Pages) -> None:
    order: list[int] = []

    async def append(number: int) -> None:
        await pages.append(b"%d" % number)
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(append, number)
    assert sorted(pages.content()["000000001.page"]) == sorted(b"01234567")
    assert sorted(order) == list(range(8))


async def test_an_empty_page_is_begun_once(pages: Pages) -> None:
    await pages.append(b"a")
    assert await pages.writer.begin_page() == 2
    assert await pages.writer.begin_page() == 2
    assert pages.content() == {"000000001.page": b"a", "000000002.page": b""}
    assert pages.readable() == {"000000002.page": 0}
    await pages.append(b"b")
    assert pages.content()["000000002.page"] == b"b"


async def test_cancelled_when_staged_it_is_written_all_the_same(pages: Pages) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await pages.append(b"a")
    assert pages.content() == {"000000001.page": b"a"}


@pytest.mark.rule("S-111")
async def test_what_is_written_already_is_synced_for_who_needs_it(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a long publication is written in pieces, and others share a piece."""
    synced: list[int] = []
    fdatasync = os.fdatasync

    def sync(descriptor: int) -> None:
        fdatasync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fdatasync", sync)
    _, pile = pages.writer.stage(b"a" * 60, PAGE_BYTES)
    await pages.writer.written(pile, sync=False)
    assert synced == []
    for _ in range(2):
        await pages.writer.written(pile, sync=True)
        assert synced == [60]


async def test_a_sync_that_fails_later_is_final_too(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    _, pile = pages.writer.stage(b"a", PAGE_BYTES)
    await pages.writer.written(pile, sync=False)

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(WriteFailed):
        await pages.writer.written(pile, sync=True)
    monkeypatch.undo()
    with pytest.raises(WriteFailed):
        await pages.writer.written(pile, sync=True)
    assert [error.errno for error in pages.failures] == [errno.EIO]


@contextmanager
def files_end_at(size_bytes: int) -> Iterator[None]:
    """No file of this process gets longer: writing fails as on a full disk, in the middle of a record."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_what_could_not_be_written_is_taken_back(pages: Pages) -> None:
    await pages.append(b"a" * 60)
    with files_end_at(80), pytest.raises(SystemFailure) as caught:
        await pages.append(b"b" * 30, b"c" * 50, b"d")
    assert caught.value.system_errno == errno.EFBIG
    assert pages.content() == {"000000001.page": b"a" * 60}
    assert not pages.failures
    await pages.append(b"e" * 40, b"f")
    assert pages.content() == {"000000001.page": b"a" * 60 + b"e" * 40, "000000002.page": b"f"}


async def test_the_name_of_a_first_page_is_durable_whatever_failed_before(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = iter([OSError(errno.EIO, "failed"), None, None])

    def sync(_folder: Path) -> None:
        if (outcome := next(outcomes)) is not None:
            raise outcome

    monkeypatch.setattr("journalfs.door.sync", sync)
    with pytest.raises(SystemFailure):
        await pages.append(b"a")
    assert pages.content() == {"000000001.page": b""}
    await pages.append(b"b")
    assert pages.content() == {"000000001.page": b"b"}
    assert len(list(outcomes)) <= 1, "the name was made durable behind the failure"


async def test_pages_that_were_begun_go_again(pages: Pages) -> None:
    await pages.append(b"a" * 60)
    with files_end_at(80), pytest.raises(SystemFailure):
        await pages.append(b"b" * 70, b"c" * 90)
    assert pages.content() == {"000000001.page": b"a" * 60}
    assert pages.readable() == {"000000001.page": 60}


async def test_a_sync_that_failed_is_final(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    await pages.append(b"a")

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(WriteFailed):
        await pages.append(b"b")
    monkeypatch.undo()
    with pytest.raises(WriteFailed):
        await pages.append(b"c")
    assert [error.errno for error in pages.failures] == [errno.EIO]
    assert pages.readable() == {"000000001.page": 1}


def page_removed(folder: Path) -> None:
    (folder / "000000001.page").unlink()


def page_cut(folder: Path) -> None:
    os.truncate(folder / "000000001.page", 1)


def folder_moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def folder_replaced(folder: Path) -> None:
    folder_moved(folder)
    shutil.copytree(folder.with_name("elsewhere"), folder)


@pytest.mark.protects("P-2")
@pytest.mark.parametrize("lose", [page_removed, page_cut, folder_moved, folder_replaced])
@pytest.mark.parametrize("record", [b"c", b"d" * 90], ids=["in it", "behind it"])
async def test_a_page_that_somebody_takes_away(
    pages: Pages, lose: Callable[[Path], None], record: bytes
) -> None:
    """What is written where nobody finds it is not said to be written."""
    await pages.append(b"a", b"b" * 19)
    assert pages.content() == {"000000001.page": b"a" + b"b" * 19}
    lose(pages.folder)
    with pytest.raises((WriteFailed, SystemFailure)):
        await pages.append(record)
    with pytest.raises((WriteFailed, SystemFailure)):
        await pages.append(b"more")
    assert len(pages.failures) == 1
