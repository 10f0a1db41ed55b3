"""A store that is opened for one change, and closed again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import trio

from journalfs.errors import JournalfsError, StoreBusy
from journalfs.store.write.opening import open_for_writing
from journalfs.store.write.store import WritingStore

T = TypeVar("T")


def open_alone(path: Path) -> WritingStore:
    """Open a store for something that needs it for itself. Raises what `open_for_writing` raises."""
    try:
        return open_for_writing(path)
    except StoreBusy as busy:
        raise StoreBusy(busy.path, busy.holder, "stop that first: only one at a time may change it") from None


def change(path: Path, action: Callable[[WritingStore], Awaitable[T]]) -> T:
    """Do something to a store that nobody else writes, while its own work goes on. Raises `StoreBusy`, and
    what `action` raises.
    """

    async def opened() -> T:
        store = open_alone(path)
        return await change_in(store, action, store.run)

    return trio.run(opened)


async def change_in(
    store: WritingStore, action: Callable[[WritingStore], Awaitable[T]], work: Callable[[], Awaitable[None]]
) -> T:
    """Do something to an open store while `work` goes on, its own or that of its journals alone; then close
    it. Raises what `action` raises.
    """
    ended: list[T | JournalfsError | OSError] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            try:
                ended.append(await action(store))
            except (JournalfsError, OSError) as error:
                ended.append(error)  # raised outside, where it is itself and no part of a group
            nursery.cancel_scope.cancel()
    finally:
        store.close()
    (result,) = ended
    if isinstance(result, JournalfsError | OSError):
        raise result
    return result
