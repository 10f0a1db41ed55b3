"""Limits on what an address may have in pages, in a store that a broker left while it paged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from journalfs.broker.limits.admission import Action
from journalfs.errors import AddressFull
from journalfs.ids import MessageId
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from tests.frozen import PristineStores
from tests.store.publishing import publish_file
from tests.store.writing.conftest import lines_of, queue_of
from tests.tools.crash_copy import copy_as_left

ADDRESS = "limit.drop"
PAGE_BYTES = 10 * 1024 * 1024


@pytest.fixture
def root(stores: PristineStores, tmp_path: Path) -> Path:
    return copy_as_left(stores["large-and-paged"] / "data", tmp_path / "data")


@asynccontextmanager
async def opened(root: Path, **settings: object) -> AsyncIterator[WritingStore]:
    lines = [f"{name.replace('_', '-')} = {json.dumps(value)}" for name, value in settings.items()]
    text = "\n".join(['journal-type = "NIO"', '[address-settings."#"]', *lines])
    (root / "journalfs.toml").write_text(text + "\n")
    store = open_for_writing(root, index=False)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.run)
            yield store
            nursery.cancel_scope.cancel()
    finally:
        store.close()


async def publish(store: WritingStore) -> None:
    await publish_file(store, ADDRESS, None, "in", b"new\n")


def paged(store: WritingStore) -> tuple[StoreQueue, int, int]:
    """The queue, how many messages it has in pages, and how many pages there are."""
    address, queue = store.address(ADDRESS), queue_of(store, ADDRESS, ADDRESS)
    assert address is not None
    messages, pages = queue.status()["pagedCount"], address.status()["pages"]
    assert isinstance(messages, int)
    assert isinstance(pages, int)
    assert messages > 1 < pages
    return queue, messages, pages


async def measured(root: Path) -> tuple[int, int]:
    async with opened(root) as store:
        _, messages, pages = paged(store)
        assert store.admission.decide(ADDRESS).action is Action.PAGE, (
            "it goes on paging until all is consumed"
        )
    return messages, pages


@pytest.mark.rule("S-104")
async def test_messages_in_pages_are_limited(root: Path) -> None:
    messages, _ = await measured(root)
    async with opened(root, page_limit_messages=messages, page_full_policy="FAIL") as store:
        with pytest.raises(AddressFull, match="page-limit-messages"):
            await publish(store)
        queue = queue_of(store, ADDRESS, ADDRESS)
        last = MessageId(json.loads(lines_of(store, ADDRESS, ADDRESS)[-1])["id"])
        assert await store.acknowledge((ADDRESS, ADDRESS), [last]) == 1
        assert queue.status()["pagedCount"] == messages - 1
        await publish(store)
    async with opened(root, page_limit_messages=messages - 1, page_full_policy="DROP") as store:
        before = len(queue_of(store, ADDRESS, ADDRESS))
        await publish(store)
        assert len(queue_of(store, ADDRESS, ADDRESS)) == before
        assert store.admission.dropped[ADDRESS] == 1


@pytest.mark.rule("S-104")
async def test_pages_are_limited(root: Path) -> None:
    """The limit in bytes is one in pages."""
    _, pages = await measured(root)
    async with opened(root, page_limit_bytes=pages * PAGE_BYTES, page_full_policy="FAIL") as store:
        await publish(store)
    async with opened(root, page_limit_bytes=pages * PAGE_BYTES - 1, page_full_policy="FAIL") as store:
        with pytest.raises(AddressFull, match="page-limit-bytes"):
            await publish(store)
        await store.set_attribute(ADDRESS, None, "user.journalfs.page-size-bytes", b"5M")
        await publish(store)


@pytest.mark.rule("S-104")
@pytest.mark.parametrize(
    "settings",
    [
        {"page_limit_messages": 1, "page_limit_bytes": 1},
        {"page_full_policy": "FAIL"},
        {"page_limit_messages": -1, "page_limit_bytes": -1, "page_full_policy": "FAIL"},
    ],
)
async def test_a_limit_needs_a_policy_and_a_policy_a_limit(root: Path, settings: dict[str, object]) -> None:
    async with opened(root, **settings) as store:
        await publish(store)


async def test_an_address_that_does_not_page_has_no_page_limits(root: Path) -> None:
    limits = {"page_limit_messages": 1, "page_limit_bytes": 1, "page_full_policy": "FAIL"}
    async with opened(root, address_full_policy="BLOCK", **limits) as store:
        paged(store)
        assert store.admission.decide(ADDRESS).action is Action.STORE
