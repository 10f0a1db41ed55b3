"""Last-value queues and rings when what was to leave them stays, and when something in them is damaged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from journalfs.ids import MessageId
from journalfs.store.write.store import WritingStore
from tests.store.conftest import START_MS
from tests.store.writing.conftest import Writable, bodies_of, ids_of, lines_of, on_disk, queue_of
from tests.store.writing.test_forwarding import configure, events, make_dead
from tests.store.writing.test_queue_kinds import A, B, become, send, valued

Leave = Callable[[WritingStore, list[MessageId]], Awaitable[int]]
WAIT_S_MAX = 60


async def move(store: WritingStore, messages: list[MessageId]) -> int:
    """To where messages have to be copied."""
    await become(store, B, ring_size=100)
    return await store.move(A, messages, B)


async def send_on(store: WritingStore, messages: list[MessageId]) -> int:
    return await store.send_to_dead_letters(A, messages)


LEAVE = [move, send_on]


def large(body: str, **more: Any) -> dict[str, Any]:
    """Its copy is written in a thread."""
    return {"body": body, "largeMessage": True, **more}


@asynccontextmanager
async def without_threads() -> AsyncIterator[None]:
    """Whatever needs a thread has to wait."""
    limiter = trio.to_thread.current_default_thread_limiter()
    taken = [object() for _ in range(int(limiter.total_tokens))]
    for one in taken:
        await limiter.acquire_on_behalf_of(one)
    try:
        yield
    finally:
        for one in taken:
            limiter.release_on_behalf_of(one)


@asynccontextmanager
async def given_up(store: WritingStore, leave: Leave, messages: list[MessageId]) -> AsyncIterator[None]:
    """Messages are about to leave `work.a` within this, and stay in the end."""
    queue = queue_of(store, "work.a").content.queue_id
    with trio.fail_after(WAIT_S_MAX):
        async with trio.open_nursery() as nursery, without_threads():
            nursery.start_soon(partial(leave, store, messages))
            while not all(store.removing.is_leaving(queue, one) for one in messages):
                await trio.lowlevel.checkpoint()
            yield
            nursery.cancel_scope.cancel()  # before there are threads again


async def prepare(store: WritingStore, **kind: object) -> None:
    await become(store, A, **kind)
    await make_dead(store, "dead")


@pytest.mark.rule("S-107")
@pytest.mark.parametrize("leave", LEAVE)
async def test_a_value_that_stays_is_nothing_beside_a_later_one(writable: Writable, leave: Leave) -> None:
    configure(writable)
    async with writable.open() as store:
        await prepare(store, last_value=True)
        await send(store, valued("old", "v") | {"largeMessage": True}, valued("other", "w"))
        async with given_up(store, leave, ids_of(store)[:1]):
            await send(store, valued("new", "v"))
            assert bodies_of(store) == ["old", "other", "new"]
        assert bodies_of(store) == ["other", "new"]
        await send(store, valued("newer", "v"))
        assert bodies_of(store) == ["other", "newer"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["other", "newer"]


@pytest.mark.rule("S-107")
@pytest.mark.parametrize("leave", LEAVE)
async def test_a_value_that_stays_is_replaced_later(writable: Writable, leave: Leave) -> None:
    configure(writable)
    async with writable.open() as store:
        await prepare(store, last_value=True)
        await send(store, valued("old", "v") | {"largeMessage": True})
        async with given_up(store, leave, ids_of(store)):
            pass
        assert bodies_of(store) == ["old"]
        await send(store, valued("new", "v"))
        assert bodies_of(store) == ["new"]


@pytest.mark.rule("S-107")
@pytest.mark.parametrize("leave", LEAVE)
async def test_a_ring_is_no_fuller_for_what_stays(writable: Writable, leave: Leave) -> None:
    configure(writable)
    async with writable.open() as store:
        await prepare(store, ring_size=3)
        await send(store, large("1"), {"body": "2"}, {"body": "3", "priority": 9})
        async with given_up(store, leave, ids_of(store)[:1]):
            await send(store, {"body": "4"}, {"body": "5"})
            assert bodies_of(store) == ["1", "2", "4", "5"]
        assert bodies_of(store) == ["2", "4", "5"], "the first to be delivered left"
        await send(store, {"body": "6"})
        assert bodies_of(store) == ["4", "5", "6"]
    assert [one["body"] for one in on_disk(writable, "work.a")] == ["4", "5", "6"]


@pytest.mark.rule("S-107")
async def test_what_becomes_due_while_it_is_moved_and_stays(writable: Writable) -> None:
    later = {"_AMQ_SCHED_DELIVERY": START_MS + 1000, "_AMQ_LVQ_NAME": "v"}
    async with writable.open() as store:
        await become(store, A, last_value=True)
        await send(store, large("later", properties=later), valued("1", "v"))
        async with given_up(store, move, ids_of(store)[:1]):
            writable.clock.advance(by_ms=1000)
            await store.follow_due()
            assert bodies_of(store) == ["later", "1"]
        assert bodies_of(store) == ["later"]
        await send(store, valued("2", "v"))
        assert bodies_of(store) == ["2"]


@pytest.mark.rule("S-107")
async def test_what_cannot_be_read_keeps_nothing_from_coming(writable: Writable) -> None:
    async with writable.open() as store:
        await send(store, large("broken", properties={"_AMQ_LVQ_NAME": "v"}), valued("1", "v"))
        (broken, _) = ids_of(store)
    (writable.root / "large-messages" / f"{broken}.msg").unlink()
    async with writable.open() as store:
        await become(store, A, last_value=True)
        for number in (2, 3):
            await send(store, valued(f"{number}", "v"))
        shown = [json.loads(line) for line in lines_of(store, "work.a")]
        assert [(one["id"] == broken, one.get("body")) for one in shown] == [(True, None), (False, "3")]
        (event,) = events(store, "not-replaced")
        assert str(event["message"]).startswith(f"work::work.a: {broken} cannot be read")
        assert await store.acknowledge(A, [broken]) == 1
        assert bodies_of(store) == ["3"]


@pytest.mark.rule("S-107")
async def test_what_cannot_be_read_takes_its_place_in_a_ring(writable: Writable) -> None:
    async with writable.open() as store:
        later = {"scheduledTime": START_MS + 1000}
        await send(store, large("broken"), {"body": "1"}, large("late", **later))
        broken, _, late = ids_of(store)
    for one in (broken, late):
        (writable.root / "large-messages" / f"{one}.msg").unlink()
    async with writable.open() as store:
        await become(store, A, ring_size=3)
        await store.follow_due()  # as it does when it begins
        await send(store, {"body": "2"})
        assert len(ids_of(store)) == 4
        writable.clock.advance(by_ms=1000)
        await store.follow_due()
        assert late not in ids_of(store), "there was no place for it"
        await send(store, {"body": "3"})
        assert bodies_of(store) == ["1", "2", "3"]
