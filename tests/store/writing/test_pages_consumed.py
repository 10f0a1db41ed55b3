"""Many pages that are consumed at once: what that costs grows with the messages, and no faster."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import trio

import journalfs
from journalfs import door
from journalfs.broker.pages import page_cleanup
from journalfs.engine.page_file import PageFile
from journalfs.errors import SystemFailure
from journalfs.format.record_types import MessageType
from journalfs.ids import MessageId, PageNumber
from journalfs.store.write.store import WritingStore
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import Writable, bodies_of, ids_of, queue_of
from tests.store.writing.test_paging import pages_of, prepare_two, publish, side

A, B = ("work", "work.a"), ("work", "work.b")
PROGRAM = str(Path(journalfs.__file__).parent)
PER_PAGE = 20
FEW = 40
"""Pages; what is compared with it is twice as much."""
STEPS_FACTOR_MAX = 2.5
"""Twice the messages take twice the steps, and some more, since more of them wait for each other and the
store's own work goes on meanwhile. What grew with their square would take four times as many.
"""


class Steps:
    """Lines of this program that were run, in functions called within `counted`: not those of what it waits
    with, which takes more where the disk is slower.
    """

    def __init__(self) -> None:
        self.count = 0

    def _called(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename.startswith(PROGRAM) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        self.count += event == "line"
        return self._line

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)


class Listed:
    """Counts pages each time their folder is listed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages = 0
        listing = door.names_in

        def counted(held: int) -> list[str]:
            names = listing(held)
            self.pages += sum(name.endswith(".page") for name in names)
            return names

        monkeypatch.setattr(door, "names_in", counted)


def fill(little: LittleStore, first_page: int, pages: int) -> None:
    for path in (little.root / "paging").rglob("*.page"):
        path.unlink()
    for number in range(first_page, first_page + pages):
        first = 2_000 + number * PER_PAGE
        write_page(little, number, [small(first + n, queues=(QUEUE_A,)) for n in range(PER_PAGE)])


async def pages_are_gone(writable: Writable) -> None:
    """All but an empty one: the store itself may be at it."""
    with trio.fail_after(30):
        while page_sizes(writable.root) != [0]:
            await trio.lowlevel.checkpoint()


def page_sizes(root: Path) -> list[int]:
    """Some pages may go meanwhile."""
    found: list[int] = []
    for path in (root / "paging").rglob("*.page"):
        with suppress(FileNotFoundError):
            found.append(path.stat().st_size)
    return found


def page_numbers(root: Path) -> list[int]:
    """By their names: a page that is listed may be gone before it is read."""
    return sorted(int(path.stem) for path in (root / "paging").rglob("*.page"))


async def all_at_once(store: WritingStore) -> None:
    await store.acknowledge_part(A, ".all.jsonl")


async def page_by_page(store: WritingStore) -> None:
    ids = ids_of(store, "work.a")
    for begin in range(0, len(ids), PER_PAGE):
        await store.acknowledge(A, ids[begin : begin + PER_PAGE])


async def one_of_each_page_later(store: WritingStore) -> None:
    """So that each page has a position for each of its messages."""
    ids = ids_of(store, "work.a")
    await store.acknowledge(A, [one for n, one in enumerate(ids) if n % PER_PAGE])
    positions = [number for _, _, number in side(store, MessageType.ACKNOWLEDGE_CURSOR) if number >= 0]
    assert len(positions) == len(ids) - len(ids) // PER_PAGE
    await store.acknowledge(A, ids[::PER_PAGE])


@pytest.mark.parametrize("writable", ["NIO"], indirect=True)
@pytest.mark.parametrize("consume", [all_at_once, one_of_each_page_later])
async def test_twice_the_pages_take_twice_the_work(
    writable: Writable, consume: Callable[[WritingStore], Awaitable[None]]
) -> None:
    taken: list[int] = []
    for pages in (FEW, 2 * FEW):
        fill(writable.little, 1 + 1_000 * len(taken), pages)
        async with writable.open() as store:
            assert len(queue_of(store, "work.a")) == pages * PER_PAGE
            steps = Steps()
            with steps.counted():
                await consume(store)
                await pages_are_gone(writable)
            taken.append(steps.count)
            assert not len(queue_of(store, "work.a"))
            (page,) = pages_of(writable.root)
            assert page.entries == []
    assert taken[1] <= taken[0] * STEPS_FACTOR_MAX


@pytest.mark.parametrize("writable", ["NIO"], indirect=True)
async def test_one_page_after_the_other_takes_no_more(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time a page is deleted the folder is listed, which takes longer the more pages there are: here
    that of any page, to be seen where there are few.
    """
    monkeypatch.setattr(page_cleanup, "DELETED_SHARE", 5)
    taken: list[int] = []
    for pages in (FEW, 4 * FEW):
        fill(writable.little, 1 + 1_000 * len(taken), pages)
        async with writable.open(attended=False) as store:
            listed = Listed(monkeypatch)
            await page_by_page(store)
            assert page_sizes(writable.root) == [0]
            taken.append(listed.pages)
    assert taken[1] <= taken[0] * 8, "16 times as many where each is listed for each"


@pytest.mark.rule("S-112")
async def test_few_finished_pages_go_once_nobody_finishes_more(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cleanup, "DELETED_SHARE", 4)
    fill(writable.little, 1, 12)
    async with writable.open(attended=False) as store:
        await store.paged.look()
        ids = ids_of(store, "work.a")
        await store.acknowledge(A, ids[:PER_PAGE])
        assert len(page_sizes(writable.root)) == 12
        await store.acknowledge(A, ids[PER_PAGE : 3 * PER_PAGE])
        assert len(page_sizes(writable.root)) == 9, "a quarter of all"
        await store.acknowledge(A, ids[3 * PER_PAGE : 4 * PER_PAGE])
        assert len(page_sizes(writable.root)) == 9
        assert store.parts.paging.page_count("work") == 8
        await store.paged.look()
        assert len(page_sizes(writable.root)) == 9, "one more was finished since the look before"
        await store.paged.look()
        assert len(page_sizes(writable.root)) == 8
        assert ids_of(store, "work.a") == ids[4 * PER_PAGE :]


@pytest.mark.rule("S-112")
async def test_a_page_consumed_while_it_is_appended_to_goes_when_it_is_not(writable: Writable) -> None:
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."work"]\npage-size-bytes = 4096\n')
    write_page(writable.little, 1, [small(2000)])
    write_page(writable.little, 2, [small(3000)])
    async with writable.open(attended=False) as store:
        await store.acknowledge(A, [MessageId(3000)])
        await store.paged.look()
        assert [page.number for page in pages_of(writable.root)] == [1, 2]
        await publish(store, "in.txt", b"%s\n" % (b"x" * 4000))
        for _ in range(3):
            await store.paged.look()
        assert [page.number for page in pages_of(writable.root)] == [1, 3]


@pytest.mark.rule("S-111")
@pytest.mark.parametrize("fails", [False, True], ids=["written", "refused"])
async def test_a_page_stays_until_the_next_one_is_written(
    writable: Writable, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """If it cannot be, what comes then goes to the page before: so that must not be done with."""
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write('[address-settings."work"]\npage-size-bytes = 4096\n')
    write_page(writable.little, 1, [small(2000)])
    write_page(writable.little, 2, [small(3000 + n) for n in range(PER_PAGE)])
    append, reached, goes_on = PageFile.append, trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def late(page: PageFile, data: bytes | bytearray) -> None:
        if page.path.name == "000000003.page" and not goes_on.is_set():
            trio.from_thread.run_sync(reached.set, trio_token=token)
            assert goes_on.wait(30)
            if fails:
                raise OSError(errno.ENOSPC, "No space left on device")
        append(page, data)

    monkeypatch.setattr(PageFile, "append", late)
    async with writable.open() as store:

        async def send() -> None:
            with pytest.raises(SystemFailure) if fails else nullcontext():
                await publish(store, "in.txt", b"%s\n" % (b"x" * 4000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await reached.wait()
            await store.acknowledge(A, [MessageId(3000 + n) for n in range(PER_PAGE)])
            await store.paged.look()
            assert side(store, MessageType.PAGE_COMPLETE) == []
            goes_on.set()
        assert not store.read_only
        if not fails:
            with trio.fail_after(30):
                while page_numbers(writable.root) != [1, 3]:
                    await trio.lowlevel.checkpoint()
        await publish(store, "in.txt", b"later\n")
        expected = ["paged 2000", *([] if fails else ["x" * 4000]), "later"]
        assert bodies_of(store, "work.a") == expected
    async with writable.open() as store:
        assert bodies_of(store, "work.a") == expected


@pytest.mark.rule("S-112")
async def test_a_page_that_is_consumed_whole_takes_one_record(writable: Writable) -> None:
    """Here by one of two queues: so the pages stay, and what the journal says of them."""
    both = (QUEUE_A, QUEUE_B)
    for number in range(1, 4):
        first = 2_000 + number * PER_PAGE
        write_page(writable.little, number, [small(first + n, queues=both) for n in range(PER_PAGE)])
    async with writable.open() as store:
        ids = ids_of(store, "work.a")
        await store.acknowledge(A, [ids[PER_PAGE]])
        before = store.journals.messages.position
        await store.acknowledge_part(A, ".all.jsonl")
        assert not len(queue_of(store, "work.a"))
        assert len(queue_of(store, "work.b")) == 3 * PER_PAGE
        assert sorted(side(store, MessageType.PAGE_COMPLETE)) == [
            (QUEUE_A, 1, PER_PAGE),
            (QUEUE_A, 2, PER_PAGE),
        ]
        assert sorted(side(store, MessageType.ACKNOWLEDGE_CURSOR)) == [
            (QUEUE_A, 3, number) for number in range(PER_PAGE)
        ], "it is appended to"
        written = store.journals.messages.position - before
        assert written < (PER_PAGE + 10) * 80, "nothing was written for each message of the others"
        await store.acknowledge_part(B, ".all.jsonl")
        await pages_are_gone(writable)
        with trio.fail_after(30):
            while side(store, MessageType.PAGE_COMPLETE):
                await store.published()
                await trio.lowlevel.checkpoint()
        assert sorted(side(store, MessageType.ACKNOWLEDGE_CURSOR)) == [(QUEUE_A, 4, -1), (QUEUE_B, 4, -1)]
    assert [page.number for page in pages_of(writable.root)] == [4]


@pytest.mark.rule("S-112")
async def test_a_page_of_which_more_may_come_to_count_is_not_complete(writable: Writable) -> None:
    """A prepared transaction consumed a message of the first page, and another sent one to the second."""
    write_page(writable.little, 1, [small(2000), small(2001)])
    write_page(writable.little, 2, [small(3000), small(3001, tx_id=70)])
    write_page(writable.little, 3, [small(4000)])
    prepare_two(writable.little, consumes_in=QUEUE_A, sends=1)
    async with writable.open() as store:
        assert ids_of(store, "work.a") == [2001, 3000, 4000]
        await store.acknowledge_part(A, ".all.jsonl")
        assert side(store, MessageType.PAGE_COMPLETE) == []
        expected = [(QUEUE_A, 1, 1), (QUEUE_A, 2, 0), (QUEUE_A, 3, 0)]
        assert sorted(side(store, MessageType.ACKNOWLEDGE_CURSOR)) == expected


async def test_what_nobody_consumed_is_not_read_again(writable: Writable) -> None:
    """A store is opened with an index, and looks which of its pages are consumed."""
    fill(writable.little, 1, FEW)
    async with writable.open(index=True) as store:
        assert len(queue_of(store, "work.a")) == FEW * PER_PAGE
        await store.acknowledge(A, ids_of(store, "work.a")[:3])
    async with writable.open(index=True) as store:
        await store.paged.look()
        (paged,) = store.core.pages.values()
        page_bytes = paged.files[PageNumber(1)].stamp.size_bytes
        assert paged.bytes_scanned <= 2 * page_bytes, "those that something was consumed of, and the last"
        assert len(queue_of(store, "work.a")) == FEW * PER_PAGE - 3


async def test_what_another_reader_has_of_a_page_stays(writable: Writable) -> None:
    for number in (1, 2):
        write_page(writable.little, number, [small(2_000 + 10 * number + n) for n in range(3)])
    async with writable.open() as store:
        consumer = store.consumer(A)
        delivery = await consumer.next()
        assert delivery is not None
        await store.acknowledge_part(A, ".all.jsonl")
        assert side(store, MessageType.PAGE_COMPLETE) == []
        await delivery.give_back(failed=False)
        assert ids_of(store, "work.a") == [2010]
        await consumer.close()
