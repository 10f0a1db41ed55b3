"""Two subscriptions of an address that pages, of which one is far behind: that is its own business."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from journalfs.broker.consume.delivering import Consumer
from journalfs.format.record_types import MessageType
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.store.conftest import QUEUE_A, QUEUE_B
from tests.store.writing.conftest import Writable, bodies_of
from tests.store.writing.test_forwarding import configure
from tests.store.writing.test_pages_consumed import Steps
from tests.store.writing.test_paging import pages_of, publish, side

FAST, SLOW = ("work", "work.a"), ("work", "work.b")
PAGE_BYTES = 4096
PER_ROUND = 40
"""Messages: some three pages."""
ROUNDS = 20
WAIT_S_MAX = 60


@pytest.fixture
def paging(writable: Writable) -> Writable:
    """All that is published goes into pages."""
    configure(writable, f'[address-settings."work"]\npage-size-bytes = {PAGE_BYTES}\nmax-size-messages = 0\n')
    return writable


def texts(first: int, count: int = PER_ROUND) -> list[str]:
    return [f"{number:06d} {'x' * 150}" for number in range(first, first + count)]


async def send(store: WritingStore, messages: list[str]) -> None:
    await publish(store, "in.txt", "".join(f"{text}\n" for text in messages).encode())


async def consume(consumer: Consumer, count: int) -> list[str]:
    bodies: list[str] = []
    for _ in range(count):
        delivery = consumer.take()
        assert delivery is not None
        bodies.append(json.loads(bytes(delivery.line.read(0, delivery.line.size_bytes)))["body"])
        await delivery.acknowledge()
    return bodies


def bytes_read(store: WritingStore) -> int:
    return store.core.pages["work"].bytes_scanned


@asynccontextmanager
async def still(writable: Writable) -> AsyncIterator[WritingStore]:
    """The store, which looks at nothing by itself: so what is counted is what consuming takes."""
    store = open_for_writing(writable.root, clock=writable.clock, index=False)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.journals.run)
            yield store
            nursery.cancel_scope.cancel()
    finally:
        store.close()


async def pages_become(store: WritingStore, most: int) -> None:
    with trio.fail_after(WAIT_S_MAX):
        while len(list((store.core.root / "paging").rglob("*.page"))) > most:
            await store.look()
            await store.paged.look()


@pytest.mark.rule("S-110", "S-112")
@pytest.mark.parametrize("writable", ["NIO"], indirect=True)
async def test_the_fast_one_goes_on_at_its_speed_while_pages_stay_for_the_slow_one(paging: Writable) -> None:
    async with still(paging) as store:
        read: list[int] = []
        steps: list[int] = []
        fast = store.consumer(FAST)
        for turn in range(ROUNDS):
            sent, counter, before = texts(turn * PER_ROUND), Steps(), bytes_read(store) if turn else 0
            await send(store, sent)
            with counter.counted():
                assert await consume(fast, PER_ROUND) == sent
            read.append(bytes_read(store) - before)
            steps.append(counter.count)
        pages = pages_of(paging.root)
        assert pages[0].number == 1
        assert len(pages) > 2 * ROUNDS, "all are there for the slow one"
        early, late = slice(2, ROUNDS // 2), slice(ROUNDS // 2, ROUNDS)
        assert sum(read[late]) <= 1.5 * sum(read[early]), "no page is read again and again"
        assert sum(steps[late]) <= 2 * sum(steps[early]), "it takes no more work than at the beginning"
        assert store.core.loader.state.counts().messages == 0, "nothing of it is in the journal"

        slow = store.consumer(SLOW)
        half = ROUNDS // 2 * PER_ROUND
        before = bytes_read(store)
        assert await consume(slow, half) == texts(0, half)
        size_bytes = sum(file.stat().st_size for file in (paging.root / "paging").rglob("*.page"))
        assert bytes_read(store) - before <= 2 * size_bytes, "it reads each page once, or twice"
        await pages_become(store, len(pages) * 3 // 4)
        gone = len(pages) - len(pages_of(paging.root))
        assert gone > 0, "those that both are done with"
        # Both go on side by side, at different places.
        await send(store, texts(ROUNDS * PER_ROUND))
        assert await consume(fast, PER_ROUND) == texts(ROUNDS * PER_ROUND)
        assert await consume(slow, half) == texts(half, half)
        assert bodies_of(store, "work.a") == []
        assert bodies_of(store, "work.b") == texts(ROUNDS * PER_ROUND)
        assert await consume(slow, PER_ROUND) == texts(ROUNDS * PER_ROUND)
        await pages_become(store, 1)
        await fast.close()
        await slow.close()
    (page,) = pages_of(paging.root)
    assert page.entries == []


@pytest.mark.parametrize("writable", ["NIO"], indirect=True)
async def test_pages_of_a_slow_one_outlive_a_mount(paging: Writable) -> None:
    """And those that only the fast one has consumed are known to be so."""
    async with paging.open(index=True) as store:
        await send(store, texts(0, 100))
        fast = store.consumer(FAST)
        assert await consume(fast, 60) == texts(0, 60)
        await fast.close()
        complete = {queue for queue, _, _ in side(store, MessageType.PAGE_COMPLETE)}
        assert complete == {QUEUE_A}
        assert QUEUE_B not in {queue for queue, _, _ in side(store, MessageType.ACKNOWLEDGE_CURSOR)}
    async with paging.open(index=True) as store:
        assert bodies_of(store, "work.a") == texts(60, 40)
        assert bodies_of(store, "work.b") == texts(0, 100)
