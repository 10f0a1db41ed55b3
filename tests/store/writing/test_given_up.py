"""Changes that are given up at some moment: each counts whole or not at all, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from journalfs.errors import AddressFull
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, bodies_of, ids_of, lines_of

LARGE = b"x" * 200_000
A = ("work", "work.a")
PAGES = '[address-settings."#"]\nmax-size-messages = 0\n'


@pytest.fixture
def writable(little_store: LittleStore) -> Writable:
    (little_store.root / "journalfs.toml").write_text('journal-type = "NIO"\n')
    return Writable(little_store, "NIO")


def configure(writable: Writable, settings: str) -> None:
    with (writable.root / "journalfs.toml").open("a") as file:
        file.write(settings)


async def given_up(
    work: Callable[[], Awaitable[object]], turns: int, meanwhile: Callable[[], object]
) -> None:
    """Do it, and give it up so many turns of the loop after it began."""
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            for _ in range(turns):
                meanwhile()
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await work()
        nursery.cancel_scope.cancel()


def bodies_left(root: Path) -> int:
    return len(list((root / "large-messages").iterdir()))


TURNS = *range(1, 12), 15, 20, 30, 60, 120
"""Of the loop, after which something is given up."""


@pytest.mark.parametrize("settings", ["", PAGES], ids=["journal", "pages"])
async def test_a_large_message_has_its_body(writable: Writable, settings: str, tmp_path: Path) -> None:
    """It takes long to write, so others come in between as soon as that can be."""
    configure(writable, settings)
    (tmp_path / "_in.bin").write_bytes(LARGE)
    async with writable.open(attended=False) as store:
        files = [(tmp_path / "_in.bin", "in.bin")]
        for turns in TURNS:
            await given_up(
                lambda: store.publish_files("work", "work.a", files),
                turns,
                lambda: writable.clock.advance(by_ms=2),
            )
            await publish_file(store, "work", "work.b", "in.txt", b"behind it\n")
            there = [json.loads(line) for line in lines_of(store, "work.a")]
            assert len(there) == bodies_left(writable.root), turns
            assert all(len(one["body_base64"]) > len(LARGE) for one in there), turns


async def test_pages_go_though_nobody_writes_to_them_again(writable: Writable, tmp_path: Path) -> None:
    """What was staged for them and came to nothing keeps the address from nothing."""
    configure(writable, PAGES)
    envelopes = b"".join(b'{"body": "line %d", "properties": {"n": %d}}\n' % (n, n) for n in range(1000))
    (tmp_path / "_in.jsonl").write_bytes(envelopes)
    files = [(tmp_path / "_in.jsonl", "in.jsonl")]
    async with writable.open() as store:
        for turns in TURNS:
            await publish_file(store, "work", "work.a", "in.txt", b"one\n")
            await given_up(
                lambda: store.publish_files("work", "work.a", files),
                turns,
                lambda: writable.clock.advance(by_ms=2),
            )
            await store.acknowledge_part(A, ".all.jsonl")
            assert bodies_of(store) == []
            assert not store.parts.paging.pages_now("work"), turns


async def test_the_limit_on_pages_counts_what_is_on_its_way_once(writable: Writable) -> None:
    configure(writable, PAGES + 'page-full-policy = "FAIL"\npage-limit-messages = 4\n')
    async with writable.open(attended=False) as store:
        paging = store.parts.paging
        publishers = [store.publisher("work", "work.a", "in") for _ in range(5)]
        async with trio.open_nursery() as nursery:
            for number, publisher in enumerate(publishers[:4], 1):
                nursery.start_soon(publisher.write, b"line\n")
                while paging.messages_unknown("work", 0) < number and len(bodies_of(store)) < number:
                    await trio.lowlevel.checkpoint()
            with pytest.raises(AddressFull):
                await publishers[4].write(b"one too many\n")
        assert bodies_of(store) == ["line"] * 4


async def test_a_message_that_is_sent_on_is_in_one_place(writable: Writable) -> None:
    configure(writable, '[address-settings."work"]\ndead-letter-address = "dead"\n')
    async with writable.open(attended=False) as store:
        await store.create_address("dead")
        await store.create_queue("dead", "dead")
        for turns in TURNS:
            await publish_file(store, "work", "work.a", "in.txt", b"%d\n" % turns)
            ids = ids_of(store)
            await given_up(lambda ids=ids: store.send_to_dead_letters(A, ids), turns, lambda: None)  # type: ignore[misc]
            await store.published()
            dead = bodies_of(store, "dead", "dead")
            there = bodies_of(store)
            assert sorted([*dead, *there]) == sorted(str(one) for one in TURNS if one <= turns)
        await store.acknowledge_part(A, ".all.jsonl")
        await store.acknowledge_part(("dead", "dead"), ".all.jsonl")
        await store.published()
        assert store.journals.messages.totals().live_records == 0
