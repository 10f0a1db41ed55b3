"""What keeps the event loop is told."""

from __future__ import annotations

from time import perf_counter

import pytest
import trio

from journalfs.clock import FakeClock
from journalfs.live.events import EVENT_INTERVAL_MS, SLOW_S, Events, LoopLag
from journalfs_mount.kernel.loop_watch import LoopWatch


def lag() -> LoopLag:
    clock = FakeClock()
    return LoopLag(clock, Events(clock))


async def keep_busy() -> None:
    end = perf_counter() + 1.2 * SLOW_S
    while perf_counter() < end:
        pass
    await trio.lowlevel.checkpoint()


async def do_little() -> None:
    for _ in range(100):
        await trio.lowlevel.checkpoint()


@pytest.mark.rule("S-152")
def test_a_turn_that_lasts_is_an_event() -> None:
    told = lag()
    trio.run(keep_busy, instruments=[LoopWatch(told, lambda: "lookup orders/in.txt")])
    events = [event for event in told.events if event["event"] == "slow"]
    assert len(events) == 1
    assert events[0]["ms"] >= 1000 * SLOW_S  # type: ignore[operator]
    assert 0 < events[0]["busyMs"] <= events[0]["ms"]  # type: ignore[operator]
    assert "keep_busy" in str(events[0]["what"])
    assert told.status()["max"] >= 1000 * SLOW_S


def test_whoever_waits_for_requests_within_a_step_keeps_nobody() -> None:
    told = lag()
    watch = LoopWatch(told, lambda: "lookup orders/in.txt")
    watch.works(1.0)
    watch.waits(1.01)
    watch.waits(9.0)
    watch.works(9.0)
    watch.waits(9.06)
    assert [event["what"] for event in told.events] == ["lookup orders/in.txt"]


def test_short_turns_are_only_counted() -> None:
    told = lag()
    trio.run(do_little, instruments=[LoopWatch(told, str)])
    assert told.status()["p50"] == 0


def test_events_come_once_a_second_and_say_how_many_there_were() -> None:
    clock = FakeClock()
    told = LoopLag(clock, Events(clock))
    for _ in range(3):
        told.was_slow(0.06, 0.05, "read")
    clock.advance(by_ms=EVENT_INTERVAL_MS)
    told.was_slow(0.06, 0.05, "read")
    assert [event["more"] for event in told.events] == [0, 2]
    assert told.slow == 4


def test_percentiles_are_of_all_turns() -> None:
    told = lag()
    for n in range(1000):
        assert told.turn(0.02 if n % 50 == 0 else 0.0001) is False
    assert told.percentile_ms(99) == 20
    assert told.percentile_ms(95) == 0
    assert told.turn(SLOW_S)
