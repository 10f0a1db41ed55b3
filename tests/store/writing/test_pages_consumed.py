"""Many pages that are consumed at once: what that costs grows with the messages, and no faster."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from journalfs.format.record_types import MessageType
from journalfs.store.write.store import WritingStore
from tests.store.conftest import QUEUE_A, LittleStore
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import Writable, queue_of
from tests.store.writing.test_paging import ids_of, pages_of, side

A = ("work", "work.a")
PER_PAGE = 20
FEW = 40
"""Pages; what is compared with it is twice as much."""
STEPS_FACTOR_MAX = 2.2
"""Twice the messages take twice the steps, and some more since more of them wait for each other."""


class Steps:
    """Lines of this program that were run, in functions called within `counted`."""

    def __init__(self) -> None:
        self.count = 0

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        self.count += event == "line"
        return self._line

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._line)
        try:
            yield
        finally:
            sys.settrace(before)


def fill(little: LittleStore, first_page: int, pages: int) -> None:
    for path in (little.root / "paging").rglob("*.page"):
        path.unlink()
    for number in range(first_page, first_page + pages):
        first = 2_000 + number * PER_PAGE
        write_page(little, number, [small(first + n, queues=(QUEUE_A,)) for n in range(PER_PAGE)])


async def all_at_once(store: WritingStore) -> None:
    await store.acknowledge_part(A, ".all.jsonl")


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
            taken.append(steps.count)
            assert not len(queue_of(store, "work.a"))
            (page,) = pages_of(writable.root)
            assert page.entries == []
    assert taken[1] <= taken[0] * STEPS_FACTOR_MAX
