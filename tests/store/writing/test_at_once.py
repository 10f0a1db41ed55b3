"""Changes that meet: each is whole, and what one caller was told stays true."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from journalfs.errors import JournalfsError, NameTaken
from journalfs.ids import MessageId
from journalfs.records.files.loader import JournalLoader, PollResult
from journalfs.store.write.store import SyncMode
from tests.store.writing.conftest import Writable, lines_of


async def outcome(results: list[str], name: str, call: object) -> None:
    """Note whether a call did what it was asked for."""
    try:
        await call  # type: ignore[misc]
    except JournalfsError as error:
        results.append(f"{name}: {error.identifier}")
    else:
        results.append(f"{name}: done")


async def test_a_queue_is_not_deleted_under_what_is_on_its_way(writable: Writable) -> None:
    async with writable.open() as store:
        for turn in range(20):
            await store.create_queue("work", f"passing-{turn}")
            publisher = store.publisher("work", f"passing-{turn}", "in.txt" if turn % 2 else "in.bin")
            results: list[str] = []
            async with trio.open_nursery() as nursery:
                size = 200_000 if turn % 4 == 0 else 10
                nursery.start_soon(outcome, results, "publish", written(publisher, b"x" * size + b"\n"))
                nursery.start_soon(outcome, results, "delete", store.delete_queue("work", f"passing-{turn}"))
            if "publish: done" in results and "delete: done" in results:
                pytest.fail(f"turn {turn}: published to a queue that is gone")
        assert store.status()["orphanedReferences"] == 0


async def written(publisher: object, data: bytes) -> None:
    await publisher.write(data)  # type: ignore[attr-defined]
    await publisher.finish()  # type: ignore[attr-defined]


async def test_a_queue_is_not_deleted_under_what_moves_to_it(writable: Writable) -> None:
    async with writable.open() as store:
        for turn in range(10):
            await store.create_queue("work", f"passing-{turn}")
            publisher = store.publisher("work", "work.a", "in")
            await written(publisher, b"%d\n" % turn)
            message = MessageId(json.loads(lines_of(store, "work.a")[-1])["id"])
            results: list[str] = []
            async with trio.open_nursery() as nursery:
                move = store.move(("work", "work.a"), [message], ("work", f"passing-{turn}"))
                nursery.start_soon(outcome, results, "move", move)
                nursery.start_soon(outcome, results, "delete", store.delete_queue("work", f"passing-{turn}"))
            assert results.count("move: done") + results.count("delete: done") == 1, results
        assert store.status()["orphanedReferences"] == 0


async def test_names_of_queues_are_unique_though_many_are_made_at_once(writable: Writable) -> None:
    async with writable.open() as store:
        for name in ("one", "two", "three"):
            await store.create_address(name)
        results: list[str] = []
        async with trio.open_nursery() as nursery:
            for name in ("one", "two", "three"):
                nursery.start_soon(outcome, results, name, store.create_queue(name, "same"))
        taken = NameTaken.identifier
        assert sorted(result.split(": ")[1] for result in results) == ["done", taken, taken]


async def test_settings_of_several_queues_change_at_once(writable: Writable) -> None:
    async with writable.open() as store:
        results: list[str] = []
        async with trio.open_nursery() as nursery:
            for queue in ("work.a", "work.b"):
                change = store.set_attribute("work", queue, "user.journalfs.routing-type", b"ANYCAST")
                nursery.start_soon(outcome, results, queue, change)
        assert sorted(results) == ["work.a: done", "work.b: done"]


async def test_one_of_many_large_duplicates_is_published(writable: Writable) -> None:
    line = json.dumps(
        {"type": "text", "body": "y" * 150_000, "properties": {"_AMQ_DUPL_ID": "only-one"}}
    ).encode()
    async with writable.open() as store:
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                publisher = store.publisher("work", "work.a", "in.jsonl")
                nursery.start_soon(written, publisher, line + b"\n")
        assert len(lines_of(store, "work.a")) == 1
        assert len(list((writable.root / "large-messages").iterdir())) == 1


async def test_what_another_is_removing_is_gone_when_it_is_told(writable: Writable) -> None:
    async with writable.open() as store:
        await written(store.publisher("work", "work.a", "in"), b"z\n")
        message = MessageId(json.loads(lines_of(store, "work.a")[0])["id"])
        told: list[int] = []

        async def remove() -> None:
            told.append(await store.acknowledge(("work", "work.a"), [message]))
            assert not lines_of(store, "work.a")

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(remove)
        assert sorted(told) == [0, 0, 0, 0, 1]


async def test_many_writers_leave_the_reading_to_whoever_looks(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look in between, and from then on each of them took its turn at reading what all had written."""
    async with writable.open(sync=SyncMode.NONE) as store:
        advance, advances, looks, writing = JournalLoader.advance, 0, 0, 16

        def counted(loader: JournalLoader, *arguments: Any, **options: Any) -> PollResult:
            nonlocal advances
            advances += 1
            return advance(loader, *arguments, **options)

        async def write() -> None:
            nonlocal writing
            publisher = store.publisher("work", "work.a", "in")
            for number in range(50):
                await publisher.write(b"%d\n" % number)
            writing -= 1

        async def look() -> None:
            nonlocal looks
            while writing:
                for _ in range(20):
                    await trio.lowlevel.checkpoint()
                looks += 1
                await store.look()

        monkeypatch.setattr(JournalLoader, "advance", counted)
        async with trio.open_nursery() as nursery:
            for _ in range(16):
                nursery.start_soon(write)
            nursery.start_soon(look)
        assert advances - looks < 80
        assert len(lines_of(store, "work.a")) == 800
