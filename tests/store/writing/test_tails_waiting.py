"""Tails that wait to become parts, in a store of many queues."""

from __future__ import annotations

import pytest

from journalfs.api import Part
from journalfs.limits import TAIL_WAIT_MS
from journalfs.store.write.store import WritingStore
from journalfs.views.queues import StoreQueue
from journalfs.views.tails import Tails
from tests.store.publishing import publish_file
from tests.store.writing.conftest import Writable, queue_of

QUEUES = 20


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Queues at whose tails somebody looked for whether they are due."""
    looked_at: list[str] = []
    tail = StoreQueue.tail

    def noted(queue: StoreQueue, *names: str) -> Part:
        looked_at.append(queue.name)
        return tail(queue, *names)

    monkeypatch.setattr(StoreQueue, "tail", noted)
    return looked_at


async def publish(store: WritingStore, queue: str) -> None:
    await publish_file(store, "work", queue, "in.txt", b"line\n")
    await store.published()


async def test_only_queues_in_which_something_changed_are_looked_at(
    writable: Writable, looked_at: list[str]
) -> None:
    async with writable.open(attended=False) as store:
        for number in range(QUEUES):
            await store.create_queue("work", f"work.{number}")
        await store.look()
        looked_at.clear()
        await store.look()
        assert looked_at == []
        await publish(store, "work.7")
        await store.look()
        await store.look()
        assert set(looked_at) == {"work.7"}
        assert queue_of(store, "work.7").tail().messages == 1
        writable.clock.advance(by_ms=TAIL_WAIT_MS)
        await store.look()
        assert queue_of(store, "work.7").tail().messages == 0
        assert [part.messages for part in queue_of(store, "work.7").parts()] == [1]
        await store.look()
        looked_at.clear()
        await store.look()
        assert looked_at == []


async def test_a_queue_that_goes_while_its_tail_waits(writable: Writable) -> None:
    async with writable.open(attended=False) as store:
        await publish(store, "work.a")
        tails, queue = Tails(store.core), queue_of(store, "work.a")
        assert list(tails.due({queue.content.queue_id: queue})) == []
        assert tails
        assert list(tails.due({})) == []
        assert not tails


async def test_a_journal_that_is_read_anew(writable: Writable, looked_at: list[str]) -> None:
    """What changed in it cannot be told by what was known."""
    async with writable.open(attended=False) as store:
        await publish(store, "work.a")
        await store.look()
        writable.clock.advance(by_ms=TAIL_WAIT_MS)
        for _ in range(2):
            await store.look()
        before = queue_of(store, "work.a").content.version
        looked_at.clear()
        store.core.journal_doubted = True
        await store.look()
        epoch, *same = queue_of(store, "work.a").content.version
        assert (epoch != before[0], tuple(same)) == (True, before[1:])
        assert "work.a" in looked_at
