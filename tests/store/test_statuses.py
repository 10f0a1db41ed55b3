"""What a queue says of itself, and how much work that is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType

import pytest
import trio

from journalfs.live.memory import is_exempt
from journalfs.store.store import JournalStore
from tests.store.conftest import QUEUE_A, QUEUE_B, LittleStore


def status(store: JournalStore, queue: int) -> Mapping[str, object]:
    found = next(one for one in store.queues() if one.content.queue_id == queue)
    return found.status()


def engine_calls(work: Callable[[], object]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, called: object) -> None:
        nonlocal calls
        calls += event == "c_call" and getattr(called, "__name__", "").startswith("jfs_")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("messages", [1, 100])
def test_a_status_is_made_once_for_who_reads_it(little_store: LittleStore, messages: int) -> None:
    for number in range(messages):
        little_store.journal.send(1000 + number, QUEUE_A)
    store = little_store.open()
    assert 0 < engine_calls(lambda: status(store, QUEUE_A)) <= 20
    assert engine_calls(lambda: [status(store, QUEUE_A) for _ in range(3)]) <= 3
    store.close()


def test_a_status_is_made_anew_when_something_changed(little_store: LittleStore) -> None:
    store = little_store.open()
    before = status(store, QUEUE_A), status(store, QUEUE_B)
    little_store.journal.send(1000, QUEUE_A)
    store.look_now()
    assert (before[0]["messages"], status(store, QUEUE_A)["messages"]) == (0, 1)
    assert status(store, QUEUE_B) is before[1]
    store.close()


def test_a_status_is_made_anew_as_time_passes(little_store: LittleStore) -> None:
    little_store.journal.send(1000, QUEUE_A)
    little_store.journal.schedule(1000, QUEUE_A, little_store.clock.now_ms() + 150)
    store = little_store.open()
    assert status(store, QUEUE_A)["scheduledCount"] == 1
    little_store.clock.advance(by_ms=200)
    assert status(store, QUEUE_A)["scheduledCount"] == 0
    store.close()


async def test_totals_are_learned_before_somebody_asks(
    little_store: LittleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 100,000 queues that takes more than a turn of the loop."""
    little_store.journal.send(1000, QUEUE_A)
    looked_at: list[str] = []

    def noted(address: str) -> bool:
        looked_at.append(address)
        return is_exempt(address)

    monkeypatch.setattr("journalfs.live.memory.is_exempt", noted)
    store = little_store.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.measure)
        with trio.fail_after(10):
            while len(looked_at) < 2:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert (store.status()["messages"], len(looked_at)) == (1, 2)
    little_store.rebind("work.b", old_id=QUEUE_B, new_id=30)
    store.look_now()
    assert (store.status()["messages"], len(looked_at)) == (1, 3)
    store.close()
