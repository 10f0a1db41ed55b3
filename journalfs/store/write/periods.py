"""What a store does again and again, as long as it is open for writing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from journalfs.clock import NS_PER_MS, Clock
from journalfs.limits import FOLLOW_INTERVAL_S


async def every_period(clock: Clock, period_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` each time so much has passed, until cancelled; 0 or less: never."""
    while period_ms > 0:
        due_ns = clock.monotonic_ns() + period_ms * NS_PER_MS
        while (left_ns := due_ns - clock.monotonic_ns()) > 0:
            # Not all at once: the clock may be another than that of the event loop.
            await trio.sleep(min(left_ns / 1e9, FOLLOW_INTERVAL_S))
        await work()
