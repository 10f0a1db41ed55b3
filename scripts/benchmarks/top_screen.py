"""Measures `journalfs top` without a terminal: the first screen, a page down, what a look costs, and memory.

    python -m scripts.benchmarks.top_screen many STORE    a store of many queues
    python -m scripts.benchmarks.top_screen long STORE    a store with one long queue

Each line has the time by the clock, the processor time of the process, and the memory that it has by then.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from textual.pilot import Pilot

from journalfs.top.app import Top
from journalfs.top.messages import MessagesScreen
from journalfs.top.table import Rows

SIZE: Final = (120, 40)
PAGES: Final = 20
WAIT_S: Final = 0.002


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(WAIT_S)


async def timed(what: str, act: Callable[[], Awaitable[None]], times: int = 1) -> None:
    clock, processor = [], []
    for _ in range(times):
        began, used = time.perf_counter(), time.process_time()
        await act()
        clock.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    spread = f" ({min(clock):.3f}-{max(clock):.3f})" if times > 1 else ""
    load = os.getloadavg()[0]
    print(
        f"{what}: {statistics.median(clock):.3f} s{spread}, processor {statistics.median(processor):.3f} s, "
        f"n={times}, {mib} MiB at most, load {load:.0f}",
        flush=True,
    )


async def measure(kind: str, store: Path) -> None:
    app = Top(store)
    manager = app.run_test(size=SIZE)
    pilots: list[Pilot[None]] = []

    async def first() -> None:
        pilots.append(await manager.__aenter__())
        await until(pilots[0], lambda: len(app.list) > 0)

    await timed("first screen, with opening the store", first)
    (pilot,) = pilots
    screen = app.screen

    async def page_down() -> None:
        rows = app.screen.query_one("#messages" if kind == "long" else "#queue-rows", Rows)
        before = rows.cursor
        await pilot.press("pagedown")
        begin, end = rows.seen()
        assert rows.cursor > before
        if isinstance(app.screen, MessagesScreen):
            await until(
                pilot, lambda: isinstance(app.screen, MessagesScreen) and app.screen.pages.has(begin, end)
            )
        else:
            await until(pilot, lambda: all("…" not in app.list.row(at) for at in range(begin, end)))

    async def look() -> None:
        await asyncio.to_thread(app.looking.look)
        await asyncio.to_thread(app.list.show)

    if kind == "long":

        async def opened() -> None:
            await pilot.press("enter")
            await until(pilot, lambda: app.screen is not screen and isinstance(app.screen, MessagesScreen))
            shown = app.screen
            assert isinstance(shown, MessagesScreen)
            await until(pilot, lambda: shown.pages.at(0) is not None)

        async def last() -> None:
            await pilot.press("end")
            shown = app.screen
            assert isinstance(shown, MessagesScreen)
            await until(pilot, lambda: shown.pages.at(shown.pages.count - 1) is not None)

        await timed("messages of the queue", opened)
        await timed("the last message", last)
        await pilot.press("home")
    await timed("a page down", page_down, PAGES)
    await timed("a look at all queues, and sorting", look, 5)
    await manager.__aexit__(None, None, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["many", "long"])
    parser.add_argument("store", type=Path)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.kind, arguments.store))


if __name__ == "__main__":
    main()
