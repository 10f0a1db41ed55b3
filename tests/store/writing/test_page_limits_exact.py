"""Limits on what an address may have in pages, while publishers are faster than anybody looks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from journalfs.errors import AddressFull
from journalfs.store.write.store import SyncMode, WritingStore
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of, queue_of

LIMIT = 12
AT = ("work", "work.a")


class Paged:
    """The little store, all of whose addresses page from the first message on."""

    def __init__(self, little: LittleStore) -> None:
        self.little = little

    @asynccontextmanager
    async def open(
        self, policy: str, *settings: str, sync: SyncMode = SyncMode.ALWAYS
    ) -> AsyncIterator[WritingStore]:
        lines = (
            'journal-type = "NIO"',
            '[address-settings."#"]',
            "max-size-messages = 0",
            f'page-full-policy = "{policy}"',
            *settings,
        )
        (self.little.root / "journalfs.toml").write_text("\n".join(lines) + "\n")
        async with Writable(self.little, "NIO").open(sync=sync) as store:
            yield store


@pytest.fixture
def paged(little_store: LittleStore) -> Paged:
    return Paged(little_store)


async def publish(store: WritingStore, writes: Sequence[int], queue: str | None = "work.a") -> int:
    """Write so many lines at a time; how many writes were refused."""
    refused = 0
    publisher = store.publisher("work", queue, "in")
    for lines in writes:
        try:
            await publisher.write(b"line\n" * lines)
        except AddressFull:
            refused += 1
    await publisher.finish()
    return refused


def count(store: WritingStore, queue: str = "work.a") -> int:
    return len(queue_of(store, queue))


@pytest.mark.rule("S-104")
@pytest.mark.parametrize("sync", [SyncMode.ALWAYS, SyncMode.CLOSE, SyncMode.NONE])
@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
async def test_one_publisher_is_held_to_the_message(paged: Paged, policy: str, sync: SyncMode) -> None:
    async with paged.open(policy, f"page-limit-messages = {LIMIT}", sync=sync) as store:
        refused = await publish(store, [1] * 100)
        assert count(store) == LIMIT
        assert (refused, store.admission.dropped["work"]) == ((88, 0) if policy == "FAIL" else (0, 88))


@pytest.mark.rule("S-104")
@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
async def test_many_publishers_are_held_to_the_message(paged: Paged, policy: str) -> None:
    async with paged.open(policy, f"page-limit-messages = {LIMIT}") as store, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(publish, store, [1] * 5)
        while nursery.child_tasks:
            await trio.lowlevel.checkpoint()
        assert count(store) == LIMIT
        if policy == "DROP":
            assert store.admission.dropped["work"] == 100 - LIMIT


@pytest.mark.rule("S-104")
async def test_a_write_is_taken_whole(paged: Paged) -> None:
    async with paged.open("FAIL", f"page-limit-messages = {LIMIT}") as store:
        assert await publish(store, [5] * 20) == 17
        assert count(store) == 15


@pytest.mark.rule("S-104")
async def test_the_queue_that_has_most_counts(paged: Paged) -> None:
    async with paged.open("FAIL", f"page-limit-messages = {LIMIT}") as store:
        assert await publish(store, [1] * 5, queue="work.b") == 0
        assert await publish(store, [1] * 20) == 8
        assert (count(store), count(store, "work.b")) == (LIMIT, 5)
        assert await publish(store, [1], queue="work.b") == 1


@pytest.mark.rule("S-104")
async def test_what_is_consumed_makes_room_for_as_much(paged: Paged) -> None:
    async with paged.open("FAIL", f"page-limit-messages = {LIMIT}") as store:
        await publish(store, [1] * LIMIT)
        ids = [json.loads(line)["id"] for line in lines_of(store, "work.a")]
        assert await store.acknowledge(AT, ids[:4]) == 4
        assert await publish(store, [1] * 20) == 16
        assert count(store) == LIMIT


@pytest.mark.rule("S-104")
async def test_what_is_moved_to_it_counts(paged: Paged) -> None:
    async with paged.open("FAIL", f"page-limit-messages = {LIMIT}") as store:
        await store.create_address("other")
        await store.create_queue("other", "other")
        await publish_file(store, "other", None, "in", b"line\n" * 5)
        await publish(store, [1] * 4)
        ids = [json.loads(line)["id"] for line in lines_of(store, "other", "other")]
        assert await store.move(("other", "other"), ids, AT) == 5
        assert await publish(store, [1] * 20) == 17
        assert count(store) == LIMIT


@pytest.mark.rule("S-104")
@pytest.mark.parametrize("publishers", [1, 10])
async def test_pages_that_were_begun_count(paged: Paged, publishers: int) -> None:
    """Two pages are allowed, so the third is the last one."""
    settings = ("page-size-bytes = 1000", "page-limit-bytes = 2500")
    async with paged.open("FAIL", *settings) as store, trio.open_nursery() as nursery:
        for _ in range(publishers):
            nursery.start_soon(publish, store, [1] * (200 // publishers))
        while nursery.child_tasks:
            await trio.lowlevel.checkpoint()
        address = store.address("work")
        assert address is not None
        assert address.status()["pages"] == 3
