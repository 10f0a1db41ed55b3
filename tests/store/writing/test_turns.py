"""Anycast queues of an address take turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from journalfs.store.write.store import WritingStore
from tests.store.conftest import LittleStore
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, lines_of

ADDRESS = "turns"
RED = b"color = 'red'"


@pytest.fixture
def writable(little_store: LittleStore) -> Writable:
    """Whose turn it is is the same on each backend."""
    (little_store.root / "journalfs.toml").write_text('journal-type = "NIO"\n')
    return Writable(little_store, "NIO")


async def bind(store: WritingStore, filters: Mapping[str, bytes]) -> None:
    await store.create_address(ADDRESS)
    for queue, text in filters.items():
        await store.create_queue(ADDRESS, queue)
        await store.set_attribute(ADDRESS, queue, "user.journalfs.routing-type", b"ANYCAST")
        await store.set_attribute(ADDRESS, queue, "user.journalfs.filter", text)


async def send(store: WritingStore, colors: Sequence[str]) -> None:
    lines = [
        json.dumps({"body": f"{n}", "properties": {"color": color}}) for n, color in enumerate(colors, 1)
    ]
    await publish_file(store, ADDRESS, None, "in.jsonl", "".join(f"{line}\n" for line in lines).encode())


async def say(store: WritingStore, content: bytes) -> None:
    await publish_file(store, ADDRESS, None, "in.txt", content)


def bodies(store: WritingStore, queue: str) -> list[str]:
    return [str(json.loads(line)["body"]) for line in lines_of(store, queue, ADDRESS)]


@pytest.mark.rule("S-68")
async def test_what_one_refuses_is_for_the_next(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"c": b"", "a": RED, "b": b""})
        await send(store, ["blue", "red"] * 6)
        assert bodies(store, "c") == ["1", "4", "6", "8", "10", "12"], "it was made first"
        assert bodies(store, "a") == ["2"]
        assert bodies(store, "b") == ["3", "5", "7", "9", "11"]


@pytest.mark.rule("S-68")
async def test_who_is_read_comes_first(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"a": b"", "b": b"", "c": b""})
        await say(store, b"1\n2\n")
        readers = [store.consumer((ADDRESS, queue)) for queue in "bc"]
        await say(store, b"3\n4\n5\n")
        await readers[0].close()
        await say(store, b"6\n7\n")
        await readers[1].close()
        await say(store, b"8\n9\n")
        await store.published()
        assert bodies(store, "a") == ["1", "8"]
        assert bodies(store, "b") == ["2", "4", "9"]
        assert bodies(store, "c") == ["3", "5", "6", "7"]


@pytest.mark.rule("S-68")
async def test_who_reads_a_selection_is_preferred_for_that(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"a": b"", "b": b""})
        reader = store.consumer((ADDRESS, "b"), [RED.decode()])
        await send(store, ["red", "red", "blue", "blue", "red"])
        assert bodies(store, "a") == ["3"]
        assert bodies(store, "b") == ["1", "2", "4", "5"]
        await reader.close()


@pytest.mark.rule("S-68")
async def test_turns_go_on_when_there_are_fewer_queues(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"a": b"", "b": b"", "c": b""})
        await say(store, b"1\n2\n")
        await store.delete_queue(ADDRESS, "c")
        await say(store, b"3\n4\n5\n")
        await store.published()
        assert bodies(store, "a") == ["1", "3", "5"]
        assert bodies(store, "b") == ["2", "4"]


@pytest.mark.rule("S-122")
async def test_what_takes_nothing_has_no_turn(writable: Writable) -> None:
    async with writable.open() as store:
        await bind(store, {"a": b"", "b": b"", "c": b""})
        await store.set_attribute(ADDRESS, "a", "user.journalfs.enabled", b"false")
        await store.set_attribute(ADDRESS, "c", "user.journalfs.purge-on-no-consumers", b"true")
        await say(store, b"1\n2\n")
        reader = store.consumer((ADDRESS, "c"))
        await say(store, b"3\n")
        await reader.close()
        await say(store, b"4\n")
        assert (bodies(store, "a"), bodies(store, "b")) == ([], ["1", "2", "4"])
