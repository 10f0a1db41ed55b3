"""Waiting for those parts of the store that do not know how the program waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

_Result = TypeVar("_Result")


async def offload(work: Callable[[], _Result]) -> _Result:
    """Run `work` in a thread, so that the event loop goes on. Not given up when cancelled: it runs to its
    end.
    """
    return await trio.to_thread.run_sync(work)


async def together(*works: Callable[[], Awaitable[None]]) -> None:
    """Run all of them side by side until all have ended; the failure of one ends the others."""
    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(work)


async def unbroken(work: Callable[[], Awaitable[_Result]]) -> _Result:
    """Run `work` to its end even if cancelled meanwhile: for what must not be left half done."""
    with trio.CancelScope(shield=True):
        result = await work()
    return result  # noqa: RET504 - a scope may swallow, as types see it


async def checkpoint() -> None:
    """Let others go on."""
    await trio.lowlevel.checkpoint()


Turn = trio.Lock
"""One at a time, in order of arrival: `async with turn`."""


class Bell:
    """Something to do for one task: `ring` any number of times, `rung` returns once."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        self._event.set()

    async def rung(self) -> None:
        await self._event.wait()
        self._event = trio.Event()
