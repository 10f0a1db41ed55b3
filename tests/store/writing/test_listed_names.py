"""A name that was listed gives what it held when it was listed, less what was acknowledged since."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journalfs.errors import Gone
from journalfs.limits import PART_MESSAGES_MAX, TAIL_WAIT_MS
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from journalfs.views.views import QueueView, became
from tests.store.conftest import QUEUE_A, QUEUE_B
from tests.store.test_pages import small, write_page
from tests.store.writing.conftest import Writable, queue_of
from tests.store.writing.test_paging import PAGE_BYTES, publish


def listed(view: QueueView) -> list[str]:
    tails = [tail.name for tail in view.tails()]
    return [*(part.name for part in view.parts()), *tails]


def given(view: QueueView, name: str) -> list[Any]:
    """The bodies that are found by a name that was listed."""
    part = view.part(became(name))
    source = view.open_part(part) if part is not None else view.open_tail(name)
    try:
        return [json.loads(line)["body"] for line in bytes(source.read(0, source.size_bytes)).splitlines()]
    finally:
        source.close()


def everything(view: QueueView, names: list[str]) -> list[Any]:
    return [body for name in names for body in given(view, name)]


async def sealed(store: WritingStore, writable: Writable, queue: StoreQueue) -> None:
    await store.look()
    writable.clock.advance(by_ms=TAIL_WAIT_MS)
    await store.look()
    assert not queue.tail().messages


@pytest.mark.rule("S-180")
@pytest.mark.parametrize("selector", [None, "JMSPriority >= 0"])
async def test_a_tail_is_listed_as_the_part_that_it_becomes(writable: Writable, selector: str | None) -> None:
    async with writable.open(attended=False) as store:
        queue = queue_of(store, "work.a")
        view = queue if selector is None else queue.where(selector)
        await publish(store, "in.txt", b"one\ntwo\n", "work.a")
        names = listed(view)
        assert everything(view, names) == ["one", "two"]
        await publish(store, "in.txt", b"three\n", "work.a")
        assert listed(view) == names, "it has its name for as long as it is one"
        await sealed(store, writable, queue)
        await publish(store, "in.txt", b"four\n", "work.a")
        assert everything(view, names) == ["one", "two", "three"]
        assert everything(view, listed(view)) == ["one", "two", "three", "four"]
        first = queue.listing().message_id(0)
        await store.acknowledge(("work", "work.a"), [first])
        assert everything(view, names) == ["two", "three"]
        assert await store.acknowledge_part(("work", "work.a"), names[0]) == 2
        with pytest.raises(Gone):
            queue.part_runs(became(names[0]))
        assert everything(view, listed(view)) == ["four"]


@pytest.mark.rule("S-180")
async def test_every_page_is_listed_as_the_part_that_it_becomes(writable: Writable) -> None:
    """And it stays that, whichever pages before it are gone by then."""
    with (writable.root / "journalfs.toml").open("a") as settings:
        settings.write(f'[address-settings."work"]\npage-size-bytes = {PAGE_BYTES}\n')
    write_page(writable.little, 1, [small(2000, queues=(QUEUE_A, QUEUE_B))])
    async with writable.open(attended=False) as store:
        queue = queue_of(store, "work.a")
        for number in range(30):
            await publish(store, "in.txt", b"%04d%s\n" % (number, b"x" * 400))
        names, before = listed(queue), everything(queue, listed(queue))
        assert len(names) > 3
        assert len(before) == 31
        gone = everything(queue, names[:2])  # the first page, of which one message was there before
        for name in ("work.a", "work.b"):
            ids = [queue_of(store, name).listing().message_id(at) for at in range(len(gone))]
            await store.acknowledge(("work", name), ids)
        await sealed(store, writable, queue)
        await publish(store, "in.txt", b"later\n")
        assert sorted(everything(queue, names)) == sorted(set(before) - set(gone))
        assert sorted(everything(queue, listed(queue))) == sorted({*before, "later"} - set(gone))


@pytest.mark.rule("S-180")
async def test_what_is_no_part_yet_fits_into_one(writable: Writable) -> None:
    """Or a name of a tail would have to stand for two parts."""
    if writable.backend != "NIO":
        return
    async with writable.open(attended=False) as store:
        queue = queue_of(store, "work.a")
        await publish(store, "in.txt", b"first\n", "work.a")
        (name,) = listed(queue)
        await publish(store, "in.txt", b"line\n" * PART_MESSAGES_MAX, "work.a")
        await store.look()
        assert given(queue, name)[:2] == ["first", "line"]
        assert sum(len(given(queue, one)) for one in listed(queue)) == PART_MESSAGES_MAX + 1
        assert len(given(queue, name)) <= PART_MESSAGES_MAX


@pytest.mark.rule("S-180")
async def test_names_of_tails_outlast_the_store_being_closed(writable: Writable) -> None:
    async with writable.open(index=True) as store:
        await publish(store, "in.txt", b"one\n")
        names = {name: listed(queue_of(store, name)) for name in ("work.a", "work.b")}
        await store.acknowledge_part(("work", "work.a"), ".all.jsonl")
        await publish(store, "in.txt", b"two\n", "work.a")
        names["work.a"] = listed(queue_of(store, "work.a"))
    async with writable.open(index=True) as store:
        assert everything(queue_of(store, "work.a"), names["work.a"]) == ["two"]
        assert everything(queue_of(store, "work.b"), names["work.b"]) == ["one"]


@pytest.mark.rule("S-181")
async def test_no_two_queues_have_a_name_in_common(writable: Writable) -> None:
    async with writable.open(attended=False) as store:
        queues = [queue_of(store, name) for name in ("work.a", "work.b")]
        for text in (b"one\n", b"two\n"):
            await publish(store, "in.txt", text)
            for queue in queues:
                await sealed(store, writable, queue)
        await publish(store, "in.txt", b"three\n")
        first, second = (set(listed(queue)) for queue in queues)
        assert len(first) == len(second) == 3
        assert not first & second
