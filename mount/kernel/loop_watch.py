"""Watches the turns of the event loop: while one request does something, all others wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from time import perf_counter, thread_time
from typing import Final, Protocol

import trio

MARKED_S: Final = 0.005
"""How old the processor's time at the beginning of a turn may be: asking for it each time would cost more
than all else here.
"""


_TRIO: Final = os.path.dirname(trio.__file__)
_OF_THE_LOOP: Final = ("?", "_wait", "_session_loop")


class Lag(Protocol):
    """Keeps how long turns took."""

    def turn(self, took_s: float) -> bool: ...

    def was_slow(self, took_s: float, busy_s: float, what: str) -> None: ...


class LoopWatch(trio.abc.Instrument):
    """Measures turns of the event loop: each step of a task is a turn. A task that waits for requests within
    a step must call `waits` before and `works` after.
    """

    def __init__(self, lag: Lag, latest: Callable[[], str]) -> None:
        """`latest` says which request came last."""
        self._lag = lag
        self._latest = latest
        self._began = 0.0
        """When the current turn began; 0: no task runs."""
        self._marked = self._busy = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.works(perf_counter())

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._began:
            self._over(perf_counter(), task)

    def works(self, now: float) -> None:
        self._began = now
        if now - self._marked > MARKED_S:
            self._marked, self._busy = now, thread_time()

    def waits(self, now: float) -> None:
        if self._began:
            self._over(now, None)

    def _over(self, now: float, task: trio.lowlevel.Task | None) -> None:
        took_s, self._began = now - self._began, 0.0
        if self._lag.turn(took_s):
            what = self._latest() if task is None else _place(task) or self._latest()
            self._lag.was_slow(took_s, min(thread_time() - self._busy, took_s), what)


def _place(task: trio.lowlevel.Task) -> str:
    """Return the place in the code where a task waits now: it did its work near there."""
    return " > ".join([name for name in _waiting(task.coro) if not name.startswith(_OF_THE_LOOP)][-4:])


def _waiting(coroutine: object) -> Iterator[str]:
    """The functions that wait for each other, outermost first, without trio's own."""
    while coroutine is not None:
        code = getattr(coroutine, "cr_code", None)
        if code is None or _TRIO not in code.co_filename:
            yield getattr(coroutine, "__qualname__", "?")
        coroutine = getattr(coroutine, "cr_await", None)
