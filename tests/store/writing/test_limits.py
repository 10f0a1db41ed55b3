"""Limits of addresses: what becomes of what is published to a full one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from journalfs.errors import AddressFull
from journalfs.ids import MessageId
from journalfs.store.write.admission import Action
from journalfs.store.write.store import WritingStore
from tests.store.conftest import LittleStore
from tests.store.writing.conftest import Writable, lines_of

AT = ("work", "work.a")


class Limited:
    """The little store with settings of its own, opened for writing."""

    def __init__(self, little: LittleStore) -> None:
        self.little = little

    @asynccontextmanager
    async def open(self, *settings: str, core: str = "") -> AsyncIterator[WritingStore]:
        text = "\n".join(['journal-type = "NIO"', core, '[address-settings."#"]', *settings])
        (self.little.root / "journalfs.toml").write_text(text + "\n")
        async with Writable(self.little, "NIO").open() as store:
            yield store


@pytest.fixture
def limited(little_store: LittleStore) -> Limited:
    return Limited(little_store)


async def publish(store: WritingStore, *lines: str, queue: str | None = "work.a") -> None:
    publisher = store.publisher("work", queue, "in")
    await publisher.write("".join(f"{line}\n" for line in lines).encode())
    await publisher.finish()


def texts(store: WritingStore, queue: str = "work.a") -> list[str]:
    return [json.loads(line)["body"] for line in lines_of(store, queue)]


async def consume(store: WritingStore, count: int) -> None:
    ids = [MessageId(json.loads(line)["id"]) for line in lines_of(store, "work.a")[:count]]
    assert await store.acknowledge(AT, ids) == count


@asynccontextmanager
async def blocked(store: WritingStore, *works: Callable[[], Awaitable[None]]) -> AsyncIterator[trio.Nursery]:
    """Each of `works` is under way and waits for room, in this order."""
    before = store.admission.waiting
    async with trio.open_nursery() as nursery:
        for number, work in enumerate(works, before + 1):
            nursery.start_soon(work)
            while store.admission.waiting < number:
                await trio.lowlevel.checkpoint()
        yield nursery


async def test_dropped_messages_are_counted(limited: Limited) -> None:
    async with limited.open("max-size-messages = 2", 'address-full-policy = "DROP"') as store:
        await publish(store, "1", "2")
        await publish(store, "3", "4", "5")
        assert texts(store) == ["1", "2"]
        assert store.admission.dropped["work"] == 3
        await consume(store, 1)
        await publish(store, "6")
        assert texts(store) == ["2", "6"]


async def test_a_full_address_refuses(limited: Limited) -> None:
    async with limited.open("max-size-messages = 2", 'address-full-policy = "FAIL"') as store:
        await publish(store, "1", "2")
        with pytest.raises(AddressFull, match="max-size-messages") as refused:
            await publish(store, "3")
        assert refused.value.limit == "max-size-messages"
        assert texts(store) == ["1", "2"]
        await consume(store, 1)
        await publish(store, "4")
        assert texts(store) == ["2", "4"]


async def test_an_address_without_limits_takes_all(limited: Limited) -> None:
    async with limited.open('address-full-policy = "FAIL"') as store:
        await publish(store, *map(str, range(1000)))
        assert store.admission.decide("work").action is Action.STORE


async def test_who_waits_goes_on_when_messages_are_consumed(limited: Limited) -> None:
    async with limited.open("max-size-messages = 2", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1", "2")
        async with blocked(store, lambda: publish(store, "3")):
            assert texts(store) == ["1", "2"]
            await consume(store, 1)
        assert texts(store) == ["2", "3"]


async def test_who_came_first_goes_on_first_and_one_after_the_other(limited: Limited) -> None:
    async with limited.open("max-size-messages = 2", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1", "2")
        waiters = [lambda text=str(number): publish(store, text) for number in range(3, 8)]
        async with blocked(store, *waiters):
            for gone in range(1, 6):
                await consume(store, 1)
                while len(texts(store)) < 2:
                    await trio.lowlevel.checkpoint()
                assert texts(store) == [str(gone + 1), str(gone + 2)]


async def test_nothing_is_taken_of_who_gives_up(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1")
        scope = trio.CancelScope()

        async def give_up() -> None:
            with scope:
                await publish(store, "2")

        async with blocked(store, give_up, lambda: publish(store, "3")):
            scope.cancel()
            await consume(store, 1)
        assert texts(store) == ["3"]


async def test_settings_let_in_who_waits(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1", 'address-full-policy = "BLOCK"') as store:
        await publish(store, "1")
        async with blocked(store, lambda: publish(store, "2")):
            await store.set_attribute("work", None, "user.journalfs.max-size-messages", b"2")
        async with blocked(store, lambda: publish(store, "3")):
            await store.set_attribute("work", None, "user.journalfs.address-full-policy", b"DROP")
        assert texts(store) == ["1", "2"]
        assert store.admission.dropped["work"] == 1


async def test_an_address_that_pages_takes_all(limited: Limited) -> None:
    async with limited.open("max-size-messages = 1") as store:
        await publish(store, "1")
        assert store.admission.decide("work").action is Action.PAGE
        await publish(store, "2")
        assert texts(store) == ["1", "2"]
