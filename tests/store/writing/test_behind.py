"""What is published is taken over when somebody looks: nobody sees that it had not been."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
import trio

from journalfs.engine.scan import scan_journal
from journalfs.limits import CATCH_UP_BYTES_MIN
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore
from tests.store.appending import JournalAppender
from tests.store.conftest import QUEUE_A
from tests.store.writing.conftest import Writable, bodies_of, queue_of


async def published(store: WritingStore, *texts: str) -> None:
    publisher = store.publisher("work", "work.a", "in.txt")
    await publisher.write("".join(f"{text}\n" for text in texts).encode())


async def test_publishing_does_not_look_and_looking_shows_all(writable: Writable) -> None:
    # Without its own work, which looks from time to time.
    with closing(open_for_writing(writable.root, clock=writable.clock, index=False)) as store:
        queue = queue_of(store, "work.a")
        before = len(queue)
        scanned = store.core.loaded.bytes_scanned
        for number in range(5):
            await published(store, f"text {number}")
        assert store.core.behind
        assert store.core.loaded.bytes_scanned == scanned
        assert len(queue) == before + 5
        assert not store.core.behind
        assert bodies_of(store)[-5:] == [f"text {number}" for number in range(5)]


async def test_a_queue_that_was_asked_for_before_shows_what_came_since(writable: Writable) -> None:
    async with writable.open() as store:
        queue = queue_of(store, "work.a")
        where = queue.where("JMSPriority = 4")
        assert (len(queue), len(where)) == (0, 0)
        await published(store, "one", "two")
        assert queue.version > 0
        assert (len(where), queue.status()["messages"]) == (2, 2)


async def test_much_is_taken_over_while_the_disk_is_busy(writable: Writable) -> None:
    """Or the next look would take as long as all of it."""
    async with writable.open() as store:
        for _ in range(20):
            await published(store, "x" * CATCH_UP_BYTES_MIN, *("y" * 1000 for _ in range(200)))
        written = store.journals.messages.committer.counts.bytes_written
        assert store.core.loaded.bytes_scanned > written // 2


@pytest.mark.parametrize("kept_up", [True, False])
async def test_what_was_published_is_there_through_a_compaction(writable: Writable, kept_up: bool) -> None:
    async with writable.open() as store:
        for number in range(3):
            await published(store, f"before {number}")
        expected = [f"before {number}" for number in range(3)]
        if kept_up:
            assert bodies_of(store) == expected
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.journals.messages.upkeep.compact)
            for number in range(10):
                await published(store, f"while {number}")
                expected.append(f"while {number}")
                assert bodies_of(store) == expected
                await trio.lowlevel.checkpoint()
        assert bodies_of(store) == expected


async def test_free_files_are_not_searched_for_what_this_process_wrote(
    writable: Writable, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []

    def watched(file: Any, **how: Any) -> Any:
        stop = how.get("stop")
        ends.append((file.size_bytes if stop is None else stop) - how["start"])
        return scan_journal(file, **how)

    async with writable.open() as store:
        monkeypatch.setattr("journalfs.records.files.loader.scan_journal", watched)
        before = store.journals.messages.committer.counts.bytes_written
        for number in range(30):
            await published(store, *(f"{number} {text} " + "x" * 2000 for text in range(40)))
            assert len(queue_of(store, "work.a")) == (number + 1) * 40
        written = store.journals.messages.committer.counts.bytes_written - before
        assert len(store.core.loader.files) > 2
        # Files that are left behind are read to their ends.
        assert sum(ends) < written * 3 // 2


@pytest.mark.parametrize("texts", [[], ["one"]])
async def test_nothing_is_read_anew_that_is_not_durable_yet(writable: Writable, texts: list[str]) -> None:
    async with writable.open() as store:
        if texts:
            await published(store, *texts)
        end = store.journals.messages.durable_end()
        [file] = [file for file in store.journals.messages.data if file.file_id == end[0]]
        # As if it were on its way to the disk.
        JournalAppender(store.core.layout.journal_dir / file.name, *end).send(1 << 40, QUEUE_A, "later")
        store.core.journal_doubted = True
        await store.look()
        assert store.core.loader.state.counts().highest_id < 1 << 40
        assert bodies_of(store) == texts
