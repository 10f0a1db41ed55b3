"""What a store does again and again, as long as it is open for writing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from journalfs.clock import NS_PER_MS, Clock
from journalfs.limits import FOLLOW_INTERVAL_S


async def every_period(
    clock: Clock, period_ms: Callable[[], int], work: Callable[[], Awaitable[None]]
) -> None:
    """Do `work` each time so much has passed, until cancelled; 0 or less: never. The period may change."""
    while True:
        begun_ns = clock.monotonic_ns()
        while True:
            period_ns = period_ms() * NS_PER_MS
            left_ns = begun_ns + period_ns - clock.monotonic_ns()
            if period_ns > 0 and left_ns <= 0:
                break
            # Not all at once: the clock may be another than that of the event loop.
            await trio.sleep(min(left_ns / 1e9, FOLLOW_INTERVAL_S) if period_ns > 0 else FOLLOW_INTERVAL_S)
        await work()
